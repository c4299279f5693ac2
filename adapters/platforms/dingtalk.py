"""
The platform `dingtalk`: a robot by OpenAPI, by a message's session webhook, or a custom robot.

Source: open.dingtalk.com, the-robot-sends-a-group-message, one-on-one-chat-messages-in-batches,
robot-message-type, custom-robot-access. None of them has a key: nothing is sent twice in doubt.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from wakebus.adapters.base import Outgoing, Request, Response, Sent, Target, Token
from wakebus.adapters.errors import Rejected
from wakebus.adapters.kit import chat_ids as ids
from wakebus.adapters.kit import requests as bodies
from wakebus.adapters.kit import responses as answers
from wakebus.adapters.kit import urls
from wakebus.adapters.platforms import dingtalk_facts as facts

_SESSION: Final = "/robot/sendBySession"
_API: Final = "DINGTALK_CLIENT_ID and DINGTALK_CLIENT_SECRET"


class DingTalk:
    """Groups, people, and the chat of a session webhook; no threads and no keys."""

    capabilities: ClassVar = facts.CARD

    def __init__(self, env: Mapping[str, str]) -> None:
        self._app = urls.pair(env, "DINGTALK_CLIENT_ID", "DINGTALK_CLIENT_SECRET")
        self._robot = urls.setting(env, "DINGTALK_ROBOT_CODE") or (self._app or ("",))[0]
        self._api = urls.base(env, "DINGTALK_API_BASE", "https://api.dingtalk.com")
        self._sessions = urls.base(env, "DINGTALK_WEBHOOK_BASE", "https://oapi.dingtalk.com")
        self._webhook = urls.webhook(env, "DINGTALK_WEBHOOK_URL")
        self._secret = urls.setting(env, "DINGTALK_WEBHOOK_SECRET")

    def parse_target(self, chat_id: str, thread: str | None) -> Target:
        """Return the chat; its kind is group, user or webhook."""
        kind = ids.kind_of("dingtalk", chat_id, facts.IDS, facts.RIGHT)
        ids.no_thread("dingtalk", chat_id, thread)
        return Target("dingtalk", chat_id, kind=kind)

    def ways(self, target: Target, outgoing: Outgoing) -> Sequence[str]:
        """Return the ways to this chat: `session` before `openapi`, or `webhook`."""
        if target.kind == "webhook":
            urls.needed(self._webhook, "DINGTALK_WEBHOOK_URL")
            return ("webhook",)
        session = self.session_fault(outgoing.webhook) if outgoing.webhook else "none came"
        urls.needed(self._app or not session, f"{_API} (session webhook: {session})")
        return ("session",) * (not session) + ("openapi",) * (self._app is not None)

    def session_fault(self, url: str) -> str:
        """Return why a message's session webhook is not used, "" where it is."""
        fits = urls.on_base(url, self._sessions, _SESSION)
        return "" if fits else f"not {_SESSION} on the host of DINGTALK_WEBHOOK_BASE"

    def measure(self, text: str) -> int:
        """Return the bytes of the msgParam that carries this text, as JSON in JSON."""
        return facts.measure(text)

    def build_request(self, target: Target, outgoing: Outgoing) -> Request:
        """Return the request of this way; without an `at` block it mentions nobody."""
        way = outgoing.way or self.ways(target, outgoing)[0]
        content = facts.titled(outgoing.text)
        if way == "openapi":
            return self._openapi(target, bodies.compact(content), outgoing.token)
        url = outgoing.webhook or ""
        if way == "webhook":
            url = facts.signed(self._webhook, self._secret, outgoing.at)
        elif fault := self.session_fault(url):
            raise Rejected(f"session webhook: {fault}")
        return bodies.post(url, {"msgtype": "markdown", "markdown": content})

    def parse_response(self, response: Response) -> Sent:
        """Return the task's id ("" of a webhook), or raise what the answer means."""
        found = facts.read(response)
        if found.get("errcode") == 0 and found.get("errmsg") == "ok":  # OpenAPI has neither
            return Sent()
        if isinstance(key := found.get("processQueryKey"), str) and key:
            return Sent(key)
        raise answers.stranger(response)

    def token_request(self, way: str) -> Request | None:
        """Return the request for an access token; webhooks carry their own."""
        if way in ("session", "webhook") or self._app is None:
            return None
        body = dict(zip(("appKey", "appSecret"), self._app, strict=True))
        return bodies.post(f"{self._api}/v1.0/oauth2/accessToken", body)

    def parse_token(self, response: Response) -> Token:
        """Return the token for the seconds that its answer says."""
        with answers.of_a_token():
            found = facts.read(response)
            return answers.token(found.get("accessToken"), found.get("expireIn"))

    def _openapi(self, target: Target, content: str, token: str) -> Request:
        to = ids.bare(target.chat_id, facts.IDS[target.kind])
        name, chat = "groupMessages/send", dict[str, Any](openConversationId=to)
        if target.kind == "user":
            name, chat = "oToMessages/batchSend", {"userIds": [to]}
        body = {"robotCode": self._robot, "msgKey": "sampleMarkdown", "msgParam": content}
        url = f"{self._api}/v1.0/robot/{name}"
        return bodies.post(url, chat | body, x_acs_dingtalk_access_token=token)
