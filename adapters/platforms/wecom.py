"""
The platform `wecom` (WeCom, 企业微信): an app to people and its groups, or a group's robot.

Source: developer.work.weixin.qq.com/document/path/ 90236, 90248, 91770, 91039, 90227.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar
from urllib.parse import urlencode

from wakebus.adapters.base import Outgoing, Request, Response, Sent, Target, Token
from wakebus.adapters.errors import BadSetting
from wakebus.adapters.kit import chat_ids as ids
from wakebus.adapters.kit import requests as bodies
from wakebus.adapters.kit import responses as answers
from wakebus.adapters.kit import urls
from wakebus.adapters.platforms import wecom_facts as facts


class WeCom:
    """People, groups that the app created, everybody, or a robot's group; no threads, no keys."""

    capabilities: ClassVar = facts.CARD
    check_way: ClassVar = "app"

    def __init__(self, env: Mapping[str, str]) -> None:
        self._app = urls.pair(env, *facts.CORP)
        self._agent = urls.setting(env, facts.AGENT)
        if self._agent and not (self._agent.isascii() and self._agent.isdigit()):
            raise BadSetting(f"{facts.AGENT}: an app's AgentId is a number")
        self._api = urls.base(env, "WECOM_API_BASE", "https://qyapi.weixin.qq.com") + "/cgi-bin"
        self._webhook = urls.webhook(env, facts.WEBHOOK)

    def parse_target(self, chat_id: str, thread: str | None) -> Target:
        """Return the chat; its kind is user, chat, all or webhook."""
        kind = ids.kind_of("wecom", chat_id, facts.IDS, facts.RIGHT)
        ids.no_thread("wecom", chat_id, thread)
        return Target("wecom", chat_id, kind=kind)

    def ways(self, target: Target, outgoing: Outgoing) -> Sequence[str]:
        """Return the one way to this chat, `app` or `webhook`."""
        if target.kind == "webhook":
            urls.needed(self._webhook, facts.WEBHOOK)
            return ("webhook",)
        missing = () if self._app else facts.CORP
        if target.kind != "chat" and not self._agent:
            missing = (*missing, facts.AGENT)
        urls.needed(not missing, ", ".join(missing))
        return ("app",)

    def measure(self, text: str) -> int:
        """Return the bytes of the content that carries this text."""
        return facts.measure(text)

    def build_request(self, target: Target, outgoing: Outgoing) -> Request:
        """Return the request of this chat's way."""
        way = outgoing.way or self.ways(target, outgoing)[0]
        body = facts.content(outgoing.text, outgoing.whole)
        if way == "webhook":
            return bodies.post(self._webhook, body)
        to, path = ids.bare(target.chat_id, facts.IDS[target.kind]), "message/send"
        more: dict[str, Any] = {"touser": to, "agentid": int(self._agent or 0)}
        if target.kind == "chat":
            path, more = "appchat/send", {"chatid": to}
        return bodies.post(self._url(path, access_token=outgoing.token), more | body)

    def parse_response(self, response: Response) -> Sent:
        """Return the message's id ("" in a group), or raise what the code means."""
        found = facts.read(response).get("msgid")
        return Sent(found if isinstance(found, str) else "")

    def token_request(self, way: str) -> Request | None:
        """Return the request for the app's access token; a robot's URL carries its own."""
        if way == "webhook" or self._app is None:
            return None
        query = dict(zip(("corpid", "corpsecret"), self._app, strict=True))
        return Request(self._url("gettoken", **query), method="GET")

    def parse_token(self, response: Response) -> Token:
        """Return the token for the seconds that its answer says."""
        with answers.of_a_token():
            found = facts.read(response, facts.TOKEN_CODES)
            return answers.token(found.get("access_token"), found.get("expires_in"))

    def check_request(self, token: str) -> Request | None:
        """Return the request for the app's name, which also shows a wrong AgentId or address."""
        query = {"access_token": token, "agentid": self._agent}
        return Request(self._url("agent/get", **query), method="GET") if self._agent else None

    def parse_check(self, response: Response) -> str:
        """Return the app's name."""
        return f"app {facts.app_name(response)}"

    def _url(self, path: str, **query: str) -> str:
        return f"{self._api}/{path}?{urlencode(query)}"
