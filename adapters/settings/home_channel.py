"""
What a bare platform means: its home channel, where Hermes writes it down.

Rule 1: pure: files arrive parsed. Rule 2: the order is Hermes's own (gateway/config.py and
gateway/run.py of 0.19.0): the variable; the same name at the top of config.yaml, which Hermes takes
as a variable; `platforms.NAME.home_channel`, then `gateway.platforms.NAME.home_channel` of
config.yaml; gateway.json, its file of old. The first that is there counts. Rule 3: what stands
there and is no chat is an error that names file and key, where Hermes passes over it. Rule 4: an
explicit chat never falls back to the home channel (hermes-agent #8616: an answer went to another
chat than the one that asked).
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, Protocol, runtime_checkable

from wakebus.adapters.channel import Channel, check_text, split_thread
from wakebus.adapters.errors import BadChannel

# cron/scheduler.py of Hermes 0.19.0; the others are PLATFORM_HOME_CHANNEL.
_NAMES: Final = {"matrix": "MATRIX_HOME_ROOM", "email": "EMAIL_HOME_ADDRESS"}
# What Hermes takes where the variable is not set (its cron/scheduler.py, and ntfy's adapter).
_ELSE: Final = {"qqbot": "QQ_HOME_CHANNEL", "ntfy": "NTFY_TOPIC"}
_SCALAR: Final = (str, int, float)

CONFIG: Final = "config.yaml"
OLD: Final = "gateway.json"


class Home(NamedTuple):
    """A chat as it is written, its thread ("" for none), and the variable or key that says it."""

    chat: str
    thread: str
    where: str


@runtime_checkable
class HasHomes(Protocol):
    """An environment that also knows Hermes's configuration (settings.Values)."""

    def home(self, platform: str) -> Home | None:
        """Return what the configuration says. Raises BadChannel, naming file and line or key."""
        ...


def home_variable(platform: str) -> str:
    """Return the name of the environment variable with this platform's home channel."""
    made = re.sub(r"[^A-Z0-9]", "_", platform.upper()) + "_HOME_CHANNEL"
    return _NAMES.get(platform, made)


def find_home(platform: str, env: Mapping[str, str]) -> Home | None:
    """Return the home of a platform: a variable's, else the configuration's, None without."""
    names = (home_variable(platform), _ELSE.get(platform, ""))
    for name in names:
        if value := env.get(name, "").strip():
            return Home(value, env.get(f"{name}_THREAD_ID", "").strip(), name)
    return env.home(platform) if isinstance(env, HasHomes) else None


def resolve(channel: Channel, env: Mapping[str, str]) -> Channel:
    """
    Return `channel` with a chat id: its own, else that of the platform's home.

    A home is `chat` or `platform:chat`, with or without `?thread=ID`. Raises BadChannel naming the
    variable, or file and key.
    """
    if channel.chat_id is not None:
        return channel
    found = find_home(channel.platform, env)
    if found is None:
        raise BadChannel(_no_home(channel))
    check_text(found.chat, found.where)
    chat_id, thread = split_thread(found.chat.removeprefix(f"{channel.platform}:"), found.where)
    if not chat_id:
        raise BadChannel(f"{found.where} names no chat")
    if found.thread:
        check_text(found.thread, f"the thread of {found.where}")
    own = thread or found.thread or None
    return channel._replace(chat_id=chat_id, thread=channel.thread or own)


def configured_home(platform: str, config: Any, old: Any) -> Home | None:
    """Return what `config` (config.yaml) or `old` (gateway.json) says. Raises BadChannel."""
    name = home_variable(platform)
    top = _value(config, name)
    if not isinstance(top, bool) and (chat := _text(top)):
        thread = _value(config, f"{name}_THREAD_ID")
        return Home(chat, _text(thread), f"{name} in {CONFIG}")
    for file, key, block in _blocks(platform, config, old):
        if isinstance(block, Mapping) and "home_channel" in block:
            where = f"{key}.{platform}.home_channel in {file}"
            return None if block["home_channel"] is None else _home(block["home_channel"], where)
    return None


def configured_platforms(config: Any, old: Any) -> set[str]:
    """Return the names of the platforms that `config` (config.yaml) or `old` speaks of."""
    nested = _value(_value(config, "gateway"), "platforms")
    blocks = (_value(config, "platforms"), nested, _value(old, "platforms"))
    return {str(name) for block in blocks if isinstance(block, Mapping) for name in block}


def _no_home(channel: Channel) -> str:
    platform, name = channel.platform, home_variable(channel.platform)
    return (
        f"channel {channel.token!r} names no chat, and {name} is not set;"
        f" write {platform}:CHAT, or set {name} in $HERMES_HOME/.env"
        f" (or platforms.{platform}.home_channel in {CONFIG}), which the courier reads"
    )


def _blocks(platform: str, config: Any, old: Any) -> Iterator[tuple[str, str, Any]]:
    yield CONFIG, "platforms", _value(_value(config, "platforms"), platform)
    nested = _value(_value(config, "gateway"), "platforms")
    yield CONFIG, "gateway.platforms", _value(nested, platform)
    yield OLD, "platforms", _value(_value(old, "platforms"), platform)


def _home(found: Any, where: str) -> Home:
    chat = _text(_value(found, "chat_id"))
    if not chat:
        raise BadChannel(f"{where} names no chat; write {{chat_id: CHAT}} below it")
    return Home(chat, _text(_value(found, "thread_id")), where)


def _value(block: Any, key: str) -> Any:
    return block.get(key) if isinstance(block, Mapping) else None


def _text(value: Any) -> str:
    """Return a YAML scalar as text: ids of chats are numbers as often as not."""
    try:
        return str(value).strip() if isinstance(value, _SCALAR) else ""
    except ValueError:  # a number of more than 4300 digits, which YAML reads as 0x…
        return ""
