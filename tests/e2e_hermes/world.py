"""
A world of its own: folder, model server, platform, broker, and Hermes with wakebus enabled.

Everything in it is a `fakes.desk.Desk`: `notify`, `sent`, `handled`, `traced`, `client`, `rules`.
Channels: dm1, dm2, dm3 (direct), grp1 (group), town (open), home (the home channel).
People: u1, u2, u3.
"""

import signal
from collections.abc import Callable
from typing import Any, TypeVar

import yaml

from e2e_hermes.gateway import Gateway
from e2e_hermes.mattermost import BOT, Mattermost, Post
from e2e_hermes.model import MODEL, Model
from e2e_hermes.pane import Pane
from e2e_hermes.script import Request, flat
from fakes.broker import until
from fakes.desk import Desk, Done
from wakebus.broker import WakebusError

CHANNELS = {"dm1": "D", "dm2": "D", "dm3": "D", "grp1": "G", "town": "O", "home": "O"}
PEOPLE = "u1,u2,u3"
TOKEN = "mmtoken-abcdef-0123456789"  # Hermes refuses shorter ones as placeholders
GATEWAY = "hermes-bus-gateway"
SEEN = ("profile_build_offered", "busy_input_prompt", "tool_progress_prompt")  # agent/onboarding.py
# A turn takes 0.3 s on a quiet machine.
ANSWER_S = 60.0
SWALLOWED_S = 25.0
# A thread of Hermes's own (`tokio-rt-worker`, says the kernel: nemo_relay, which we never load, is
# the only library with such) may die of SIGSEGV when a one-shot of 0.22 ends, behind the answer.
AT_EXIT = -signal.SIGSEGV

T = TypeVar("T")


class World(Desk):
    """`grant`: allow_gateway_injection. `home`: whether there is a home channel. Close it."""

    def __init__(self, *, grant: bool = True, home: bool = True, **settings: object) -> None:
        super().__init__(**settings)
        self.model = Model()
        self.mattermost = Mattermost(CHANNELS)
        self.gateway = Gateway(self)
        self.panes: list[Pane] = []
        self.grant, self.home = grant, home
        self.config: dict[str, Any] = {}
        self._names = 0
        self.env.update(self._hermes_env())
        self.configure()

    def _hermes_env(self) -> dict[str, str]:
        return {
            "HOME": str(self.root),
            "NO_PROXY": "*",
            "MATTERMOST_URL": self.mattermost.url,
            "MATTERMOST_TOKEN": TOKEN,
            "MATTERMOST_ALLOWED_USERS": PEOPLE,
            "MATTERMOST_REQUIRE_MENTION": "false",
        }

    def configure(self, **more: Any) -> None:
        """Write config.yaml; `more` replaces whole top-level sections."""
        mattermost: dict[str, Any] = {
            "enabled": True,
            "token": TOKEN,
            "extra": {"url": self.mattermost.url},
        }
        if self.home:
            home = {"platform": "mattermost", "chat_id": "home", "name": "Home"}
            mattermost["home_channel"] = home
        grant = {"allow_gateway_injection": self.grant}
        self.config = {
            "model": {
                "provider": "custom",
                "default": MODEL,
                "base_url": f"{self.model.url}/v1",
                "api_key": "sk-fake",
                "context_length": 200_000,
            },
            "plugins": {"enabled": ["wakebus"], "entries": {"wakebus": grant}},
            "platforms": {"mattermost": mattermost},
            "onboarding": {"profile_build": "off", "seen": dict.fromkeys(SEEN, True)},
            # Else the first turn runs pip (edge-tts): network, 7 s, other versions than pinned.
            "security": {"allow_lazy_installs": False},
            # Else 0.22 waits minutes for a model that is ill (agent/turn_recovery_autorecover.py).
            "agent": {"auto_recovery_cycles": 0},
            # Else 0.22 asks about telemetry at the first interactive start.
            "telemetry": {"shared_metrics": {"enabled": False, "send": False, "offer_version": 2}},
            **more,
        }
        (self.root / "config.yaml").write_text(yaml.safe_dump(self.config))

    def start_all(self) -> "World":
        """Start the broker and the gateway; wait until people are heard."""
        self.start()
        self.gateway.start()
        return self

    def new(self, word: str) -> str:
        """Return a name that is used once."""
        self._names += 1
        return f"{word}{self._names}"

    # --- people ---------------------------------------------------------------------------

    def say(self, channel: str, user: str, text: str, root: str = "") -> Post:
        """A person writes."""
        return self.mattermost.say(channel, user, text, root)

    def ask(self, channel: str, user: str, text: str, root: str = "") -> Post:
        """A person writes; return the bot's first post after it that repeats the text."""
        number = len(self.mattermost.posts)

        def answered(seconds: float) -> Post:
            return self.answered(channel, flat(text), seconds, after=number)

        return self.say_until(answered, channel, user, text, root)

    def begin(self, channel: str, user: str, text: str) -> Request:
        """A person writes; return the model's request of the turn on the text."""
        number = len(self.requests(text))

        def begun(seconds: float) -> Request:
            self.wait(lambda: self.requests(text)[number:], f"a turn on {text!r}", seconds)
            return self.requests(text)[number]

        return self.say_until(begun, channel, user, text)

    def say_until(
        self, heard: Callable[[float], T], channel: str, user: str, text: str, root: str = ""
    ) -> T:
        """
        A person writes; return what `heard(seconds)` finds to have come of it.

        What comes just while Hermes begins or ends a turn may interrupt nothing (both generations
        look for a turn's agent each 50 ms: 0.22's gateway/run_turn.py:3281) and never be answered
        (0.19.0), without the bus, too: where the bot says no more than that it heard, the person
        writes again.
        """
        before = len(self.answers(channel))
        self.say(channel, user, text, root)
        try:
            return heard(SWALLOWED_S)
        except AssertionError:
            if len(self.answers(channel)) > before:
                self.say(channel, user, text, root)
        return heard(ANSWER_S)

    def answers(self, channel: str) -> list[str]:
        """Return what the bot has written in a channel."""
        return [post.text for post in self.mattermost.answers(channel)]

    def replied(self, channel: str, before: int) -> None:
        """Wait until the bot has written anything after its first `before` posts in a channel."""
        self.wait(lambda: len(self.answers(channel)) > before, f"a word in {channel}")

    def answered(
        self, channel: str, text: str, timeout: float = ANSWER_S, *, after: int = 0
    ) -> Post:
        """Wait until the bot has written `text` in a channel; return the first such post."""

        def found() -> list[Post]:
            later = self.mattermost.posts[after:]
            mine = [p for p in later if p.channel == channel and p.user == BOT]
            return [post for post in mine if text in post.text]

        self.wait(found, f"{text!r} in {channel}", timeout)
        return found()[0]

    # --- the model ------------------------------------------------------------------------

    def requests(self, text: str = "") -> list[Request]:
        """Return the model's requests that begin a turn, with `text` in the last user message."""
        return self.model.turns(text)

    def asked(self, text: str, timeout: float = ANSWER_S) -> Request:
        """Wait until a turn on `text` has reached the model; return its request."""
        self.wait(lambda: self.requests(text), f"a turn on {text!r}", timeout)
        return self.requests(text)[0]

    # --- the bus --------------------------------------------------------------------------

    def wait_registered(self, name: str = GATEWAY, timeout: float = 60.0) -> None:
        """Wait until an endpoint is live."""
        self.wait(lambda: name in self.live(), f"{name} registered", timeout)

    def wait_gone(self, name: str = GATEWAY, timeout: float = 60.0) -> None:
        """Wait until an endpoint has no holder."""
        self.wait(lambda: name not in self.live(), f"{name} gone", timeout)

    def live(self) -> set[str]:
        """Return the endpoints that have a holder now; none without a broker."""
        try:
            with self.client() as bus:
                return {row["name"] for row in bus.list() if row["state"] == "live"}
        except (WakebusError, FileNotFoundError):
            return set()

    # --- commands of Hermes ---------------------------------------------------------------

    def hermes(self, *words: str, timeout: float = 120.0) -> Done:
        """Run a command of Hermes to its end."""
        return self.run("hermes", *words, timeout=timeout)

    def chat(self, text: str) -> str:
        """Run a one-shot `hermes chat`; return what it printed."""
        done = self.hermes("chat", "-Q", "-q", text)
        assert done.status in (0, AT_EXIT), done
        return done.out

    def cli(self, *words: str) -> Pane:
        """Start an interactive `hermes` and wait for its prompt."""
        self.panes.append(Pane(self, *words))
        return self.panes[-1].ready()

    # --- waiting and telling --------------------------------------------------------------

    def wait(self, condition: Any, what: str, timeout: float = ANSWER_S) -> None:
        """Wait for a condition; a failure tells what was waited for, and the story."""
        try:
            until(condition, timeout)
        except AssertionError:
            raise AssertionError(f"not within {timeout:.0f} s: {what}\n{self.story()}") from None

    def story(self) -> str:
        """Return what happened here: posts, the model's requests, the ends of the logs."""
        posts = [f"{p.channel} {p.user}: {p.text[:200]!r}" for p in self.mattermost.posts]
        requests = [
            f"{r.kind} {len(r.messages)} messages, last {r.last[-160:]!r}"
            f" -> {'aborted' if r.aborted else r.answer[-80:]!r}"
            for r in self.model.requests
        ]
        output, log = self.gateway.output[-1500:], self.gateway.log[-5000:]
        parts = {"posts": posts, "model": requests, "output": [output], "log": [log]}
        return "\n".join(f"--- {k}\n" + "\n".join(v[-30:]) for k, v in parts.items())

    def close(self) -> None:
        """End everything that was started here, remove the folder."""
        for pane in self.panes:
            pane.close()
        if self.gateway.alive:
            self.gateway.kill()
        self.model.close()
        self.mattermost.close()
        super().close()
        if self.gateway.process is not None:
            self.gateway.process.wait(30)
