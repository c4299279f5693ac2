"""
The environment of what rules start: the message's fields, and little else.

Rule 1: pure; `environ` is an argument. Rule 2: no credential passes unless a rule names it.
Rule 3: bytes, so that neither the locale nor a lone surrogate can stop a start.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from wakebus.broker.protocol.message import Message

# One string of the environment may have 128 KiB on Linux (MAX_ARG_STRLEN), else E2BIG.
MAX_VALUE: Final = 96 << 10
PASSED: Final = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "TERM",
    "TMPDIR",
    "TZ",
    "XDG_RUNTIME_DIR",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "DBUS_SESSION_BUS_ADDRESS",
    "HERMES_HOME",
    "HERMES_BUS_ROOT",
)

ChildEnvironment = dict[bytes, bytes]


def base_environment(environ: Mapping[str, str], extra: Iterable[str] = ()) -> ChildEnvironment:
    """Return the variables that are always passed, `LC_*`, and those that `extra` names."""
    wanted = {*PASSED, *extra, *(name for name in environ if name.startswith("LC_"))}
    passed = {name: environ[name] for name in sorted(wanted) if name in environ}
    return {_bytes(name): _bytes(value) for name, value in passed.items()}


def message_fields(message: Message) -> dict[str, str]:
    """Return the message's fields by the names that scripts and commands know them by."""
    return {
        "FROM": message.sender,
        "TYPE": message.type,
        "TEXT": message.text,
        "CHANNEL": message.channel,
        "TS": str(int(message.ts)),
        "ID": message.id,
    }


def encode_values(values: Mapping[str, str]) -> ChildEnvironment:
    """Return `values` as an environment: no NUL, at most 96 KiB each, cut between characters."""
    return {name.encode(): cut(value.replace("\0", "")) for name, value in values.items()}


def cut(value: str, limit: int = MAX_VALUE) -> bytes:
    """Return the UTF-8 of `value`, at most `limit` bytes, never with half a character."""
    data = value.encode(errors="replace")
    return data if len(data) <= limit else data[:limit].decode(errors="ignore").encode()


def _bytes(value: str) -> bytes:
    # os.environ holds bytes that are no UTF-8 as surrogates; this gives the same bytes back.
    return value.encode(errors="surrogateescape")
