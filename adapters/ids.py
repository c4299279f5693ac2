"""
The kinds of chat ids of Feishu and DingTalk, told by their shapes, as data.

Rule 1: pure. Rule 2: a kind is the platform's own word; an id goes out without its prefix.
Rule 3: what has no known shape is refused here and not by the platform, whose errors mislead
(hermes-agent #9980: `ou_` sent as a chat; dingtalk-openclaw-connector #431: `group:` as a user).
"""

import re
from collections.abc import Mapping
from typing import Final

from wakebus.adapters.errors import BadTarget

Shapes = Mapping[str, re.Pattern[str]]

# Feishu's receive_id_type. Hermes writes feishu_user_id:
FEISHU: Final[Shapes] = {
    "chat_id": re.compile(r"(oc_[\w-]{1,80})", re.ASCII),
    "open_id": re.compile(r"(ou_[\w-]{1,80})", re.ASCII),
    "union_id": re.compile(r"(on_[\w-]{1,80})", re.ASCII),
    "email": re.compile(r"([\w.%+-]{1,64}@[\w.-]{1,190})", re.ASCII),
    "user_id": re.compile(r"(?:feishu_)?user_id:([\w.@-]{1,64})", re.ASCII),
    "webhook": re.compile(r"(webhook)"),
}
FEISHU_RIGHT: Final = "write oc_… (chat), ou_… or on_… (person), an email, user_id:… or webhook"
FEISHU_MESSAGE: Final = re.compile(r"om_[\w-]{1,80}", re.ASCII)

# A conversation's id is base64 behind `cid`. All else is a person's staff id, which the
# organisation may choose; `$:LWCP_v1:$…` (a sender's id in messages) is none.
DINGTALK: Final[Shapes] = {
    "webhook": re.compile(r"(webhook)"),
    "group": re.compile(r"(?:group:)?(cid[A-Za-z0-9+/=_-]{1,125})"),
    "user": re.compile(r"(?:user:|(?!group:|cid))(\w[\w.@+-]{0,63})"),
}
DINGTALK_RIGHT: Final = (
    "write cid… or group:cid… (group), user:STAFF_ID (person) or webhook;"
    " $:LWCP_v1:$… is no staff id"
)


def kind_of(platform: str, chat_id: str, shapes: Shapes, right: str) -> str:
    """Return the kind of `chat_id`, or raise BadTarget that shows it and says what is right."""
    for kind, shape in shapes.items():
        if shape.fullmatch(chat_id):
            return kind
    raise BadTarget(f"{platform} chat {chat_id[:80]!r}: {right}")


def bare(chat_id: str, shape: re.Pattern[str]) -> str:
    """Return the id without the prefix that says its kind."""
    found = shape.fullmatch(chat_id)
    return found[1] if found else chat_id
