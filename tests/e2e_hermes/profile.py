"""
Profiles of a world's Hermes, each with a home, a bot and a chat server of its own.

The servers have the same chats: what goes to the wrong one is seen. `Profiles` is one process for
all where this Hermes serves several (0.20 and later), else one for each.
"""

import importlib.util
from pathlib import Path
from typing import Any

import yaml

from e2e_hermes.gateway import Gateway
from e2e_hermes.mattermost import BOT, Mattermost, Post
from e2e_hermes.world import CHANNELS, PEOPLE, World

ONE_PROCESS = importlib.util.find_spec("gateway.run_profile_reconcile") is not None


class Profile:
    """`endpoint`: its gateway's name; `plugin`: whether wakebus is enabled there."""

    def __init__(self, world: World, name: str, *, plugin: bool = True, grant: bool = True) -> None:
        self.name, self._world = name, world
        self.mattermost = Mattermost(CHANNELS) if name != "default" else world.mattermost
        self.token = f"{name}-abcdef-0123456789"
        self.home = world.root if name == "default" else world.root / "profiles" / name
        self.endpoint = "hermes-bus-gateway" if name == "default" else f"{name}-gateway"
        self.plugin, self.grant = plugin, grant
        self.home.mkdir(parents=True, exist_ok=True)
        self.configure()

    def configure(self, **more: Any) -> None:
        """Write config.yaml and .env; `more` replaces whole top-level sections."""
        grant = {"allow_gateway_injection": self.grant}
        home = {"platform": "mattermost", "chat_id": "home", "name": "Home"}
        config = {
            **self._world.config,
            "plugins": {
                "enabled": ["wakebus"] if self.plugin else [],
                "entries": {"wakebus": grant},
            },
            "platforms": {"mattermost": {"enabled": True, "home_channel": home}},
            **more,
        }
        (self.home / "config.yaml").write_text(yaml.safe_dump(config))
        env = {
            "MATTERMOST_URL": self.mattermost.url,
            "MATTERMOST_TOKEN": self.token,
            "MATTERMOST_ALLOWED_USERS": PEOPLE,
            "MATTERMOST_REQUIRE_MENTION": "false",
        }
        file = self.home / ".env"
        file.write_text("".join(f"{name}={value}\n" for name, value in env.items()))
        file.chmod(0o600)

    def rules(self, text: str) -> None:
        """Write its rules."""
        path = self.home / "bus-rules.yaml"
        path.write_text(text)
        path.chmod(0o600)

    def key(self, chat: str, user: str = "") -> str:
        """Return the key of a session there, as this Hermes makes it."""
        space = self.name if ONE_PROCESS and self.name != "default" else "main"
        kind = {"D": "dm", "G": "group", "O": "channel"}[CHANNELS[chat]]
        return f"agent:{space}:mattermost:{kind}:{chat}" + (f":{user}" if user else "")

    def say(self, channel: str, user: str, text: str) -> None:
        """A person writes to its bot."""
        self.mattermost.say(channel, user, text)

    def posts(self, text: str = "") -> list[Post]:
        """Return what its bot has written, with `text` in it."""
        return [p for p in self.mattermost.posts if p.user == BOT and text in p.text]

    def posted(self, text: str, timeout: float = 60.0) -> Post:
        """Wait until its bot has written `text`; return the first such post."""
        what = f"{text!r} by the bot of {self.name}"
        self._world.wait(lambda: self.posts(text), what, timeout)
        return self.posts(text)[0]


class Profiles:
    """The gateways of a world whose Hermes has these profiles; `default` is the first."""

    def __init__(self, world: World, *profiles: Profile) -> None:
        self.world, self.all = world, profiles
        for name in [name for name in world.env if name.startswith("MATTERMOST_")]:
            del world.env[name]  # each has its own in its .env
        heads = profiles[:1] if ONE_PROCESS else [one for one in profiles if one.plugin]
        self.gateways = [self._gateway(one) for one in heads]
        world.gateway = self.gateways[0]

    def _gateway(self, profile: Profile) -> Gateway:
        heard = self.all if ONE_PROCESS else [profile]
        home = None if profile.name == "default" else profile.home
        return Gateway(self.world, home, lambda: all(one.mattermost.connected for one in heard))

    def start(self) -> "Profiles":
        """Start them, and wait until all listen, and are on the bus."""
        for gateway in self.gateways:
            gateway.launch()
        for gateway in self.gateways:
            gateway.ready()
        for one in self.all:
            if one.plugin:
                self.world.wait_registered(one.endpoint)
        return self

    def restart(self) -> "Profiles":
        """Stop all, then start all."""
        for gateway in self.gateways:
            gateway.stop()
        return self.start()

    def close(self) -> None:
        """End what is not the world's own."""
        for gateway in self.gateways:
            if gateway.alive:
                gateway.kill()
        for one in self.all[1:]:
            one.mattermost.close()

    @property
    def log(self) -> str:
        """What all have logged."""
        logs = [
            one.home / "logs" / name for one in self.all for name in ("gateway.log", "agent.log")
        ]
        return "".join(_read(path) for path in logs)


def _read(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""
