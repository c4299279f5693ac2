"""
What apprise_call.py is asked and answers, and which services Apprise is not to be asked for.

Rule 1: pure. Rule 2: Apprise says yes or no. A no does not tell how far it came, so that it is a
doubt. Rule 3: where an adapter of ours reads the platform's own answer, Apprise is not used: it
takes the errors of WeCom, Feishu and DingTalk, which stand in a 200, for success (apprise 2.2.0).
Source: github.com/caronc/apprise.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from wakebus.adapters.base import Capabilities, Response
from wakebus.adapters.errors import Rejected, Uncertain
from wakebus.adapters.kit import chat_ids as ids
from wakebus.adapters.kit.responses import json_object
from wakebus.adapters.sanitize import line

RIGHT: Final = f"{ids.NAMED} APPRISE_URL_<NAME>"
PREFIX: Final = "APPRISE_URL_"
URL_HEADER: Final = "Secret-URL"

# Apprise's own default limit (plugins/base.py, body_maxlen); a service's smaller one is kept by
# apprise_call.py.
CARD: Final = Capabilities(
    32_768, settings=("APPRISE_URL_<NAME>",), needs=(("APPRISE_URL_<NAME>",),)
)

_OURS: Final[Mapping[str, str]] = {
    "wecombot": "wecom",
    "feishu": "feishu",
    "lark": "feishu",
    "dingtalk": "dingtalk",
    "tgram": "telegram",
    "slack": "slack",
    "discord": "discord",
    **dict.fromkeys(("mmost", "mmosts"), "mattermost"),
    **dict.fromkeys(("matrix", "matrixs"), "matrix"),
    **dict.fromkeys(("ntfy", "ntfys"), "ntfy"),
}


def variable(name: str) -> str:
    """Return the setting of a name: ops-mail → APPRISE_URL_OPS_MAIL."""
    return ids.variable(PREFIX, name)


def ours(schemes: Iterable[str]) -> str:
    """Return what to say of a service that has an adapter of ours, "" for any other."""
    found = next((_OURS[one] for one in schemes if one in _OURS), "")
    return f"Apprise is not asked for this service; use {found}:CHAT, which tells" if found else ""


def read(response: Response) -> None:
    """Return where Apprise says yes; raise what anything else means."""
    found = json_object(response)
    if response.status == 400 and isinstance(found.get("error"), str):
        raise Rejected(line(found["error"]))
    if response.status == 200 and found.get("sent") is False:
        raise Uncertain("Apprise says that it failed, and not how far it came")
    if response.status != 200 or found.get("sent") is not True:
        raise Uncertain(f"status {response.status}, and no word of Apprise's")
