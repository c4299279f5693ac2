"""
The kinds of chat ids, told by their shapes, which stand as data in platforms/.

Rule 1: pure. Rule 2: a kind is the platform's own word; an id goes out without its prefix.
Rule 3: what has no known shape is refused here and not by the platform, whose errors mislead
(hermes-agent #9980: `ou_` sent as a chat; dingtalk-openclaw-connector #431: `group:` as a user).
"""

import re
from collections.abc import Mapping
from typing import Final

from wakebus.adapters.errors import BadTarget

Shapes = Mapping[str, re.Pattern[str]]

# Of a platform whose chats are names of ours; the URL stands in a setting that is called after it.
NAME_SHAPES: Final[Shapes] = {"name": re.compile(r"([A-Za-z0-9][A-Za-z0-9_-]{0,63})")}
NAME_RULE: Final = "a name of 1 to 64 of A-Z a-z 0-9 _ -, whose URL is in"


def kind_of(platform: str, chat_id: str, shapes: Shapes, help: str) -> str:
    """Return the kind of `chat_id`, or raise BadTarget that shows it and `help`."""
    for kind, shape in shapes.items():
        if shape.fullmatch(chat_id):
            return kind
    raise BadTarget(f"{platform} chat {chat_id[:80]!r}: {help}")


def without_prefix(chat_id: str, shape: re.Pattern[str]) -> str:
    """Return the id without the prefix that says its kind."""
    found = shape.fullmatch(chat_id)
    return found[1] if found else chat_id


def setting_of(prefix: str, name: str, suffix: str = "") -> str:
    """Return the setting that is called after a name: my-ci → WEBHOOK_MY_CI_URL."""
    return f"{prefix}{name.upper().replace('-', '_')}{suffix}"


def settings_like(env: Mapping[str, str], prefix: str, suffix: str = "") -> list[str]:
    """Return the settings of this kind that have a value, sorted."""
    kind = re.compile(f"{prefix}[A-Z0-9_]+{suffix}")
    return sorted(name for name in env if kind.fullmatch(name) and env[name].strip())


def refuse_thread(platform: str, chat_id: str, thread: str | None) -> None:
    """Raise BadTarget for a thread where there is none."""
    if thread is not None:
        raise BadTarget(f"{platform} chat {chat_id[:80]!r}: no threads there; leave ?thread= out")


def split_thread(
    platform: str, chat_id: str, thread: str | None, both: re.Pattern[str], shape: re.Pattern[str]
) -> tuple[str, str | None]:
    """
    Return chat and thread; `both`, a shape with two groups, is Hermes's `chat:thread`.

    Raises BadTarget for two threads, and for one that has not its shape.
    """
    if found := both.fullmatch(chat_id):
        if thread not in (None, found[2]):
            raise BadTarget(f"{platform} chat {chat_id[:80]!r}: two threads; leave ?thread= out")
        chat_id, thread = found[1], found[2]
    if thread is not None and not shape.fullmatch(thread):
        raise BadTarget(f"{platform} chat {chat_id[:80]!r}: {thread[:80]!r} is no thread's id")
    return chat_id, thread
