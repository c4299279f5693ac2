"""
The platform `telegram`: a bot that writes to people, groups, topics and channels.

Source: core.telegram.org/bots/api (sendMessage, sendDocument, getMe), bots/faq (limits). There is
no key: what may have been accepted is not sent again (hermes-agent #5153: three copies).
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from wakebus.adapters import markdown as marks
from wakebus.adapters.base import Capabilities, Limit, Outgoing, Request, Response, Sent, Target
from wakebus.adapters.errors import BadSetting
from wakebus.adapters.kit import chat_ids as ids
from wakebus.adapters.kit import requests as bodies
from wakebus.adapters.kit import responses as answers
from wakebus.adapters.kit import urls
from wakebus.adapters.platforms import telegram_facts as facts
from wakebus.adapters.sanitize import line

# FAQ, "My bot is hitting limits": one a second to a chat, 20 a minute to a group, 30 a second.
_GROUPS: Final = frozenset({"group", "name"})
_LIMITS: Final = (Limit(1, 1.0), Limit(20, 60.0, kinds=_GROUPS), Limit(30, 1.0, "app"))


class Telegram:
    """HTML where a text has marks, and the plain text if Telegram cannot read that."""

    # 4096 "after entities parsing"; counted here with the tags, in UTF-16: never too little.
    capabilities: ClassVar = Capabilities(
        *(4096, "utf16", True),
        limits=_LIMITS,
        max_file=50_000_000,  # sendDocument: "up to 50 MB"
        settings=("TELEGRAM_BOT_TOKEN", "TELEGRAM_API_BASE"),
        needs=(("TELEGRAM_BOT_TOKEN",),),
    )
    check_way: ClassVar = ""

    def __init__(self, env: Mapping[str, str]) -> None:
        token = urls.setting(env, "TELEGRAM_BOT_TOKEN")
        urls.needed(token, "TELEGRAM_BOT_TOKEN")
        if not facts.TOKEN.fullmatch(token):
            raise BadSetting("TELEGRAM_BOT_TOKEN: no bot token; write 123456:ABC-DEF…")
        self._url = urls.base(env, "TELEGRAM_API_BASE", "https://api.telegram.org") + f"/bot{token}"

    def parse_target(self, chat_id: str, thread: str | None) -> Target:
        """Return the chat; its kind is user, group (channels too) or name."""
        chat_id, thread = ids.with_thread("telegram", chat_id, thread, facts.TOPIC, facts.THREAD)
        kind = ids.kind_of("telegram", chat_id, facts.IDS, facts.RIGHT)
        return Target("telegram", chat_id, thread, kind)

    def ways(self, target: Target, outgoing: Outgoing) -> Sequence[str]:
        """Return html before plain, for all parts of a message with marks; else plain."""
        return ("html", "plain") if marks.has_marks(outgoing.whole or outgoing.text) else ("plain",)

    def measure(self, text: str) -> int:
        """Return the UTF-16 units of the HTML; the other way keeps to the limit by itself."""
        limit = self.capabilities.max_text
        return marks.size(text, marks.telegram_html, limit, bodies.utf16)

    def build_request(self, target: Target, outgoing: Outgoing) -> Request:
        """Return a sendMessage of this way, or a sendDocument without a caption."""
        where = facts.where(target, outgoing)
        if outgoing.file:
            fields = {k: v if isinstance(v, str) else bodies.compact(v) for k, v in where.items()}
            file = {"document": outgoing.file}
            return bodies.multipart(f"{self._url}/sendDocument", fields, file)
        body = where | {"link_preview_options": {"is_disabled": True}}
        if (outgoing.way or self.ways(target, outgoing)[0]) == "html":
            body |= {"text": marks.telegram_html(outgoing.text), "parse_mode": "HTML"}
        else:
            body |= {"text": facts.plain(outgoing.text, self.capabilities.max_text)}
        return bodies.post(f"{self._url}/sendMessage", body)

    def parse_response(self, response: Response) -> Sent:
        """Return the message's id, or raise what the error means."""
        found = facts.read(response).get("message_id")
        if type(found) is not int:
            raise answers.stranger(response)
        return Sent(str(found))

    def check_request(self, token: str) -> Request | None:
        """Return getMe."""
        return Request(f"{self._url}/getMe", method="GET")

    def parse_check(self, response: Response) -> str:
        """Return the bot's name."""
        name = answers.text_of(facts.read(response), "username", response)
        return f"@{line(name, 64)}"
