"""
The platform `weixin` (personal WeChat, 微信): a bot that was logged in by QR code, over iLink.

Source: npm @tencent-weixin/openclaw-weixin 2.4.9; hermes-agent gateway/platforms/weixin.py.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from wakebus.adapters import markdown as marks
from wakebus.adapters.base import Outgoing, Request, Response, Sent, Target
from wakebus.adapters.errors import BadSetting
from wakebus.adapters.kit import chat_ids as ids
from wakebus.adapters.kit import requests as bodies
from wakebus.adapters.kit import urls
from wakebus.adapters.platforms import weixin_facts as facts


class Weixin:
    """
    People who wrote to the bot; no threads, no keys.

    Its two ways are with the context token of the chat's last message, as long as that is good, and
    without one.
    """

    capabilities: ClassVar = facts.CARD

    def __init__(self, env: Mapping[str, str]) -> None:
        self._token = urls.credential(env, facts.TOKEN)
        if not self._token:
            raise BadSetting(f"{facts.TOKEN}: not set in $HERMES_HOME/.env; log in to Weixin first")
        base = urls.base(env, "WEIXIN_BASE_URL", "https://ilinkai.weixin.qq.com")
        self._url = f"{base}/ilink/bot/sendmessage"
        self._contexts = facts.contexts(urls.setting(env, facts.CONTEXTS))

    def parse_target(self, chat_id: str, thread: str | None) -> Target:
        """Return the chat; its kind is user, room, id or filehelper."""
        kind = ids.kind_of("weixin", chat_id, facts.IDS, facts.RIGHT)
        ids.no_thread("weixin", chat_id, thread)
        return Target("weixin", chat_id, kind=kind)

    def ways(self, target: Target, outgoing: Outgoing) -> Sequence[str]:
        """Return `context`, where the chat has a context token, and `plain`."""
        return ("context",) * (target.chat_id in self._contexts) + ("plain",)

    def measure(self, text: str) -> int:
        """Return the bytes of the text as it is shown, or as it came if that is longer."""
        return marks.size(text, marks.plain, self.capabilities.max_text, bodies.utf8)

    def build_request(self, target: Target, outgoing: Outgoing) -> Request:
        """Return the request of this way; Weixin shows Markdown as it stands, so none goes out."""
        way = outgoing.way or self.ways(target, outgoing)[0]
        context = self._contexts.get(target.chat_id, "") if way == "context" else ""
        key, text = bodies.uuid_of(outgoing.key, 64), outgoing.text
        if marks.has_marks(outgoing.whole or text):  # else a `\` at a line's end is just that
            text = marks.plain(text)
        body = facts.body(target.chat_id, text, key, context)
        return bodies.post(self._url, body, **facts.headers(self._token, key))

    def parse_response(self, response: Response) -> Sent:
        """Return the message's id where iLink gives one, or raise what the answer means."""
        return Sent(facts.message_id(facts.read(response)))
