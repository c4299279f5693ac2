"""
The platform `feishu` (Feishu and Lark): an app that posts to chats and people, or a custom bot.

Source: open.feishu.cn, im-v1/message/create and reply, frequency-control, add-custom-bot.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from wakebus.adapters import markdown as marks
from wakebus.adapters.base import File, Outgoing, Request, Response, Sent, Target, Token
from wakebus.adapters.errors import BadSetting, BadTarget
from wakebus.adapters.kit import chat_ids as ids
from wakebus.adapters.kit import requests as bodies
from wakebus.adapters.kit import responses as answers
from wakebus.adapters.kit import urls
from wakebus.adapters.platforms import feishu_facts as facts

_HOSTS: Final = {"feishu": "https://open.feishu.cn", "lark": "https://open.larksuite.com"}


class Feishu:
    """An app's uuid makes one message within an hour; a custom bot has no such thing."""

    capabilities: ClassVar = facts.CARD

    def __init__(self, env: Mapping[str, str]) -> None:
        if (domain := urls.setting(env, "FEISHU_DOMAIN").lower() or "feishu") not in _HOSTS:
            raise BadSetting("FEISHU_DOMAIN: write feishu or lark")
        self._app = urls.pair(env, "FEISHU_APP_ID", "FEISHU_APP_SECRET")
        self._api = urls.base(env, "FEISHU_API_BASE", _HOSTS[domain]) + "/open-apis"
        self._webhook = urls.webhook(env, "FEISHU_WEBHOOK_URL")
        self._secret = urls.setting(env, "FEISHU_WEBHOOK_SECRET")

    def parse_target(self, chat_id: str, thread: str | None) -> Target:
        """Return the chat; its kind is Feishu's receive_id_type, or webhook."""
        kind = ids.kind_of("feishu", chat_id, facts.IDS, facts.RIGHT)
        if thread is not None and (kind == "webhook" or not facts.MESSAGE.fullmatch(thread)):
            raise BadTarget(
                f"feishu chat {chat_id!r}: thread {thread[:80]!r} is no message's id (om_…)"
            )
        return Target("feishu", chat_id, thread, kind)

    def ways(self, target: Target, outgoing: Outgoing) -> Sequence[str]:
        """Return the one way of this whole message: `post` renders Markdown, `text` does not."""
        if target.kind == "webhook":
            urls.needed(self._webhook, "FEISHU_WEBHOOK_URL")
            return ("webhook",)
        urls.needed(self._app, "FEISHU_APP_ID and FEISHU_APP_SECRET")
        marked = marks.has_marks(outgoing.whole or outgoing.text)
        return ("post",) if marked else ("text",)

    def key_time(self, target: Target, way: str) -> float:
        """Return 3600, and 0 for a custom bot, whose requests carry no key."""
        return 0.0 if target.kind == "webhook" else self.capabilities.idempotent_s

    def measure(self, text: str) -> int:
        """Return the bytes of the largest request that carries this text."""
        return facts.measure(text)

    def build_request(self, target: Target, outgoing: Outgoing) -> Request:
        """Return the request of this way; a thread is a reply to the message that opened it."""
        way = outgoing.way or self.ways(target, outgoing)[0]
        if way == "webhook":
            return bodies.post(self._webhook, facts.for_a_bot(outgoing, self._secret))
        body = facts.message(way, outgoing)
        to = f"?receive_id_type={target.kind}"
        more: dict[str, Any] = {"receive_id": ids.bare(target.chat_id, facts.IDS[target.kind])}
        if opener := target.thread or facts.answered(outgoing):
            to, more = f"/{opener}/reply", {"reply_in_thread": True} if target.thread else {}
        url = f"{self._api}/im/v1/messages{to}"
        return bodies.post(url, body | more, Authorization=f"Bearer {outgoing.token}")

    def upload(self, target: Target, outgoing: Outgoing) -> Request | None:
        """Return the request that brings the file to Feishu; a custom bot takes none."""
        if target.kind == "webhook" or outgoing.file is None or outgoing.file.ref:
            return None
        return facts.upload(self._api, outgoing.file, outgoing.token)

    def parse_upload(self, file: File, response: Response) -> File:
        """Return the file with its key."""
        return facts.uploaded(file, response)

    def parse_response(self, response: Response) -> Sent:
        """Return the message's id ("" of a custom bot), or raise what the code means."""
        data = facts.read(response).get("data")
        found = data.get("message_id") if isinstance(data, dict) else None
        return Sent(found if isinstance(found, str) else "")

    def token_request(self, way: str) -> Request | None:
        """Return the request for a tenant_access_token; a custom bot needs none."""
        if way == "webhook" or self._app is None:
            return None
        body = dict(zip(("app_id", "app_secret"), self._app, strict=True))
        return bodies.post(f"{self._api}/auth/v3/tenant_access_token/internal", body)

    def parse_token(self, response: Response) -> Token:
        """Return the token for the seconds that its answer says."""
        with answers.of_a_token():
            found = facts.read(response)
            return answers.token(found.get("tenant_access_token"), found.get("expire"))
