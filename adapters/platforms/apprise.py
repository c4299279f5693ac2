"""
The platform `apprise`: whatever Apprise reaches and we do not (mail, Pushover, Teams, …).

A chat is a name, its URL stands in the settings; transports/apprise_call.py performs it, if the
extra is installed.

Rule 1: pure. Rule 2: Apprise says yes or no. A no does not tell how far it came, so that it is a
doubt. Rule 3: where an adapter of ours reads the platform's own answer, Apprise is not used: it
takes the errors of WeCom, Feishu and DingTalk, which stand in a 200, for success (apprise 2.2.0).
Source: github.com/caronc/apprise.
"""

from collections.abc import Iterable, Mapping
from typing import ClassVar, Final

from wakebus.adapters import markdown
from wakebus.adapters.base import Capabilities, Outgoing, Request, Response, Sent, Target
from wakebus.adapters.errors import BadSetting, Rejected, Uncertain
from wakebus.adapters.kit import chat_ids, urls
from wakebus.adapters.kit.responses import json_object
from wakebus.adapters.sanitize import line

ID_HELP: Final = f"{chat_ids.NAME_RULE} APPRISE_URL_<NAME>"
PREFIX: Final = "APPRISE_URL_"
URL_HEADER: Final = "Secret-URL"

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


class Apprise:
    """Services by their names in the settings; no threads, no keys, no ids."""

    # Apprise's own default limit (plugins/base.py, body_maxlen); a service's smaller one is kept by
    # apprise_call.py.
    capabilities: ClassVar = Capabilities(
        max_text=32_768, settings=("APPRISE_URL_<NAME>",), needs=(("APPRISE_URL_<NAME>",),)
    )

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = {name: env[name] for name in env if name.startswith(PREFIX)}

    def parse_target(self, chat_id: str, thread: str | None) -> Target:
        """Return the service."""
        kind = chat_ids.kind_of("apprise", chat_id, chat_ids.NAME_SHAPES, ID_HELP)
        chat_ids.refuse_thread("apprise", chat_id, thread)
        return Target("apprise", chat_id, kind=kind)

    def host(self, target: Target) -> str:
        """Return the service: each is another one, and the host in its URL may be a token."""
        return str(target)

    def measure(self, text: str) -> int:
        """Return the characters of the text as it goes out: names in it call nobody."""
        return len(markdown.quiet(text))

    def build_request(self, target: Target, outgoing: Outgoing) -> Request:
        """Return the request to notify this service; raise BadSetting that names the variable."""
        name = setting_of(target.chat_id)
        url = urls.setting(self._env, name)
        urls.require(url, name, chat_ids.settings_like(self._env, PREFIX))
        if problem := own_adapter_hint([url.partition(":")[0].lower()]):
            raise BadSetting(f"{name}: {problem}")
        body, headers = markdown.quiet(outgoing.text).encode(), {URL_HEADER: url}
        return Request(f"apprise:{target.chat_id}", body, headers, "NOTIFY")

    def parse_response(self, response: Response) -> Sent:
        """Return Sent, without an id, or raise what the answer means."""
        check_answer(response)
        return Sent()


def setting_of(name: str) -> str:
    """Return the setting of a name: ops-mail → APPRISE_URL_OPS_MAIL."""
    return chat_ids.setting_of(PREFIX, name)


def own_adapter_hint(schemes: Iterable[str]) -> str:
    """Return what to say of a service that has an adapter of ours, "" for any other."""
    found = next((_OURS[one] for one in schemes if one in _OURS), "")
    return f"Apprise is not asked for this service; use {found}:CHAT, which tells" if found else ""


def check_answer(response: Response) -> None:
    """Return where Apprise says yes; raise what anything else means."""
    found = json_object(response)
    if response.status == 400 and isinstance(found.get("error"), str):
        raise Rejected(line(found["error"]))
    if response.status == 200 and found.get("sent") is False:
        raise Uncertain("Apprise says that it failed, and not how far it came")
    if response.status != 200 or found.get("sent") is not True:
        raise Uncertain(f"status {response.status}, and no word of Apprise's")
