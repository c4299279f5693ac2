"""
A gateway as a plugin sees it that runs in a process of its own (`plugins.isolation: host`, 0.22).

Rule 1: only what Hermes offers to plugins: `inject_message`, hooks, `hermes_state`, its files in
the home. Rule 2: what cannot be known from there is said so, never assumed: it is told as not seen,
or done by the courier. Rule 3: whether a session is busy is what hooks tell; where they are wrong,
Hermes queues a turn behind what goes on: nothing is interrupted, and nothing merged. Rule 4: who
may talk is Hermes's to say, and it asks whenever a turn begins: taken are those whom it has let in.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from wakebus.adapters.channel import Channel
from wakebus.adapters.errors import BadChannel
from wakebus.adapters.settings.hermes_config import HermesConfig
from wakebus.plugin.hermes.host_api.adapter_limits import (
    TextLimit,
    as_configured,
    misdirection,
)
from wakebus.plugin.hermes.host_api.loaded_functions import PAUSED
from wakebus.plugin.hermes.host_api.profile_part import profile_of_key
from wakebus.plugin.hermes.host_api.protocol import (
    CannotBegin,
    StoredSession,
    Unreachable,
    platform_name,
)
from wakebus.plugin.hermes.isolated.isolation import SETTING
from wakebus.plugin.hermes.isolated.process import IsolatedProcess
from wakebus.plugin.hermes.isolated.stored_sessions import StoredSessions, source_of
from wakebus.plugin.hermes.isolated.told_by_hooks import RunningTurn

REFUSED: Final = "Hermes refused the turn (inject_message); its log says why"
NO_POST: Final = f"a plugin in a process of its own ({SETTING}) posts nothing itself"
UNSEEN: Final = f"its delivery cannot be seen from a process of its own ({SETTING})"
NO_STOP: Final = f"a plugin in a process of its own ({SETTING}) ends no turn"
# A turn of which no hook tells the end is over when the gateway counts none for so long.
UNTOLD_S: Final = 30.0
_SERVING: Final = frozenset({"running", "degraded"})  # gateway/run_startup.py:1447, 1658
_STARTING: Final = frozenset({"", "starting", "connecting"})


class IsolatedGateway:
    """See protocol.GatewayApi. `inject`: Hermes's `ctx.inject_message`, over the pipe."""

    unseen = UNSEEN

    def __init__(
        self,
        process: IsolatedProcess,
        inject: Callable[..., Any],
        sessions: StoredSessions | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._process, self._profile, self._inject = process, process.profile, inject
        self._told, self._config = process.told, HermesConfig(process.home)
        self._sessions = sessions or StoredSessions(process.home)
        self._environ = environ or {}
        self._keys: dict[str, str] = {}  # of turns that run, by their ids
        self._sessions.newest_first()  # loads Hermes's module, which no hook is to wait for

    # --- who is where ---------------------------------------------------------------------

    def platforms(self) -> tuple[str, ...]:
        """Return the names of this profile's platforms, as the gateway has written them down."""
        return tuple(self._process.platforms())

    def all_platforms(self) -> tuple[str, ...]:
        """Return the names of the platforms of all of the gateway's profiles."""
        return self._process.all_platforms()

    def has_sessions(self) -> bool:
        """Sessions are on disk, whatever the gateway does."""
        return True

    def sessions(self) -> list[StoredSession]:
        """Return the stored sessions of this profile, newest first."""
        kept = [StoredSession(one.key, one.source) for one in self._sessions.newest_first()]
        return [one for one in kept if not self.profile_of(one.key)]

    def session_of(self, session_id: str) -> StoredSession | None:
        """Return the stored session whose history has this id now."""
        found = self._sessions.by_id(session_id) if session_id else None
        return StoredSession(found.key, found.source) if found else None

    def key_of(self, source: Any) -> str:
        """Return the key of the session in which Hermes has this person, or ""."""
        who = _person(source)
        return next((one.key for one in self.sessions() if _person(one.source) == who), "")

    def is_ours(self, source: Any) -> bool:
        """Return whether what is said there is for this profile."""
        return str(getattr(source, "profile", None) or self._profile) == self._profile

    def profile_of(self, key: str) -> str:
        """Return the other profile of the same gateway that a session key is of, or ""."""
        found = profile_of_key(key) if self._process.among_others else ""
        return "" if found == self._profile else found

    def may_talk(self, source: Any) -> bool | None:
        """Return whether a session is this person's; whether they may now only Hermes knows."""
        return True if getattr(source, "user_id", None) and self.key_of(source) else None

    def source_of(self, fields: Mapping[str, Any]) -> Any:
        """Return the source that a hook tells of as a mapping."""
        return source_of(fields)

    def home(self, platform: str) -> tuple[str, str] | None:
        """Return chat and thread of the home channel in config.yaml."""
        try:
            found = self._config(platform.lower())
        except BadChannel:
            return None
        return (found.chat, found.thread) if found else None

    def owner_source(self, channel: Channel, chat_type: str) -> Any:
        """Nobody has no right to a turn there (0.22 asks for it): somebody has to have written."""
        return None

    def chat_type(self, channel: Channel) -> str:
        """Only an adapter can be asked."""
        return ""

    def commander(self, words: str) -> Any:
        """Return the source of who has just given our slash command with these words, or None."""
        key = self._told.take_command(words)
        found = next((one for one in self.sessions() if one.key == key), None) if key else None
        return found.source if found else None

    # --- what goes on ---------------------------------------------------------------------

    def away(self) -> str:
        """Return why the gateway takes no turns now, as it has written down, or ""."""
        said = str(self._process.state().get("gateway_state") or "")
        if said in _SERVING:
            return ""
        return "the gateway is starting" if said in _STARTING else "the gateway is stopping"

    def paused(self) -> str:
        """Return why no new turn is to begin: `hermes pause` leaves a file (agent/estop.py)."""
        return PAUSED if self._process.is_paused else ""

    def platform_away(self, platform: str, source: Any = None) -> str:
        """Return why nothing reaches the platform now, or ""."""
        if self._process.platforms().get(platform.lower()) == "connected":
            return ""
        return f"{platform} is not connected to the gateway now"

    def busy(self, source: Any, key: str) -> str:
        """Return what goes on in the session, as hooks tell, or ""."""
        return "a turn runs there" if self.in_turn(key) else ""

    def in_turn(self, key: str) -> bool:
        """Return whether a turn runs in the session, as hooks tell."""
        running = {id: one for id, one in self._told.running().items() if not self._untold(one)}
        known = {id: self._keys.get(id) for id in running}  # asked once
        self._keys = {id: self._key(running[id]) if of is None else of for id, of in known.items()}
        return key in self._keys.values()

    def _key(self, turn: RunningTurn) -> str:
        found = self._sessions.by_id(turn.session_id)
        return found.key if found else ""

    def _untold(self, turn: RunningTurn) -> bool:
        """Whether a turn is surely over, though no hook has said so."""
        old = time.monotonic() - turn.since > UNTOLD_S
        return old and self._process.state().get("active_agents") == 0

    def joined(self, key: str) -> bool:
        """Hermes tells no hook of a message into a turn that runs; its history tells at the end."""
        return False

    def shows_turns(self, source: Any) -> bool:
        """Hooks tell of every turn that begins."""
        return True

    def can_withhold(self, platform: str) -> bool:
        """No: a hook could only change the answer, and the history would keep what it says."""
        return False

    # --- what is done ---------------------------------------------------------------------

    def withhold(self, withheld: Callable[[str], bool]) -> None:
        """Not asked for: see can_withhold."""

    def begin(
        self,
        text: str,
        source: Any,
        key: str,
        look: Callable[[], str],
        handed: Callable[[Any], None],
    ) -> str:
        """Let Hermes queue the text in the session. What comes between looking and that, it is
        queued behind. Raises Unreachable, CannotBegin, what `look` raises."""
        if why := look():
            return why
        try:
            if self._inject(text, session_key=key) is True:
                return ""
        except Exception as exc:  # the pipe is gone, and soon so are we; or it is another Hermes
            raise CannotBegin(f"inject_message: {type(exc).__name__}: {exc}"[:300]) from exc
        raise CannotBegin(REFUSED)

    def withdraw(self, text: str, source: Any) -> bool:
        """What waits in Hermes's queue stays there."""
        return False

    def interrupt(self, key: str, over: Callable[[], bool]) -> bool:
        """No plugin ends a turn from its own process; it goes on."""
        raise Unreachable(NO_STOP)

    def listen(self, source: Any, told: Callable[[Any, Any], None]) -> bool:
        """Whether an answer was delivered is not told to plugins."""
        return False

    def misdirection(self, channel: Channel, source: Any, *, answer: bool = False) -> str:
        """Return why a text that Hermes sends for the channel would land elsewhere; or ""."""
        if not answer:
            return NO_POST
        platform = channel.platform.lower()
        extra = self._config.setting("platforms", platform, "extra")
        adapter = as_configured(platform, extra, self._environ)
        return misdirection(adapter, channel, seen=source is not None, answer=True)

    def text_limit(self, channel: Channel, source: Any) -> TextLimit | None:
        """Nothing is sent here."""
        return None

    def send(
        self, channel: Channel, text: str, source: Any, timeout: float, heard: list[str]
    ) -> Any:
        """Nothing is sent here: `misdirection` says so before. Raises Unreachable."""
        raise Unreachable(NO_POST)


def _person(source: Any) -> tuple[str, ...]:
    """Return who a source is, and where: platform, chat, thread, user."""
    parts = (getattr(source, name, None) for name in ("chat_id", "thread_id", "user_id"))
    named = ("" if part is None else str(part) for part in parts)
    return platform_name(getattr(source, "platform", None)), *named
