"""
The platform `telegram`: a bot that writes to people, groups, topics and channels.

Rule 1: pure. Rule 2: an error is told by the words of its description, then by its code: 400 is
anything from a wrong chat to markup that cannot be read. Rule 3: what is about a thread or a chat
is final: without its topic a text would stand in front of everybody. Rule 4: there is no key: what
may have been accepted is not sent again (hermes-agent #5153: three copies).
Source: core.telegram.org/bots/api (sendMessage, sendDocument, getMe, making-requests,
responseparameters), bots/faq (limits); python-telegram-bot 22.8, telegram/constants.py;
tdlib/telegram-bot-api, Client.cpp (words).
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from wakebus.adapters import markdown
from wakebus.adapters.base import Capabilities, Limit, Outgoing, Request, Response, Sent, Target
from wakebus.adapters.errors import BadSetting, Moved
from wakebus.adapters.kit import chat_ids, error_codes, error_words, requests, responses, urls
from wakebus.adapters.kit.chat_ids import Shapes
from wakebus.adapters.kit.error_codes import Meaning
from wakebus.adapters.sanitize import line

# Supergroups and channels begin with -100, basic groups with another digit; Hermes takes names
# of 4 to 32 characters (telegram_ids.py).
IDS: Final[Shapes] = {
    "user": re.compile(r"([1-9]\d{0,18})", re.ASCII),
    "group": re.compile(r"(-[1-9]\d{0,18})", re.ASCII),
    "name": re.compile(r"(@[A-Za-z]\w{3,31})", re.ASCII),
}
ID_HELP: Final = "write the numeric id (a supergroup's begins with -100) or @name of a public chat"
# Hermes writes chat:topic; a topic is the id of the message that opened it.
CHAT_AND_TOPIC: Final = re.compile(r"(-?\d+|@\w+):(\d+)", re.ASCII)
THREAD: Final = re.compile(r"[1-9]\d{0,9}", re.ASCII)
# The General topic arrives as 1, and 1 is refused: "message thread not found".
GENERAL_TOPIC: Final = "1"
_SUPERGROUP: Final = re.compile(r"-100\d{1,16}")
_TOKEN: Final = re.compile(r"\d{1,20}:[\w-]{1,128}", re.ASCII)

# Of one message; all marks behind them are dropped without a word (TelegramBots #854,
# tdlib/telegram-bot-api #820).
MAX_ENTITIES: Final = 100

# FAQ, "My bot is hitting limits": one a second to a chat, 20 a minute to a group, 30 a second.
LIMITS: Final = (
    Limit(1, 1.0),
    Limit(20, 60.0, kinds=frozenset({"group", "name"})),
    Limit(30, 1.0, "app"),
)

_CHECK: Final = "check TELEGRAM_BOT_TOKEN"
_BLOCKED: Final = "the bot was blocked, removed or never let in by this chat"
_RIGHTS: Final = "give the bot the right to write there"

# Searched in this order in the description, in lower case.
DESCRIPTIONS: Final[Mapping[str, Meaning]] = {
    # The other way is the same text without markup. Never after a timeout or a 429.
    "can't parse entities": Meaning("closed"),
    "message thread not found": Meaning(
        advice="this topic is gone; the text does not go to the whole group instead"
    ),
    "topic_closed": Meaning(advice="reopen the topic"),
    "topic_deleted": Meaning(advice="this topic is gone"),
    "chat not found": Meaning(
        advice="is the id right? a person has to write to the bot first, a group has to add it"
    ),
    "upgraded to a supergroup": Meaning(advice="use the supergroup's id, -100…"),
    "not enough rights": Meaning(advice=_RIGHTS),
    "have no rights": Meaning(advice=_RIGHTS),
    "need administrator rights": Meaning(advice=_RIGHTS),
    "chat_write_forbidden": Meaning(advice=_RIGHTS),
    "peer_id_invalid": Meaning(advice="is the id right, and a chat of this bot?"),
    "bots can't send messages to bots": Meaning(advice="write the id of a person or group"),
    "message is too long": Meaning(advice="send less, or a file"),
    "file is too big": Meaning(advice="send a link; a bot may send 50 MB"),
}
CODES: Final[Mapping[int, Meaning]] = {
    401: Meaning(advice=_CHECK),
    # The token is a part of the path: a wrong one is a page that is not there.
    404: Meaning(advice=f"{_CHECK} and TELEGRAM_API_BASE"),
    403: Meaning(advice=_BLOCKED),
    413: Meaning(advice="send a link; a bot may send 50 MB"),
    429: Meaning("throttled"),
}


class Telegram:
    """HTML where a text has marks, and the plain text if Telegram cannot read that."""

    # 4096 "after entities parsing"; counted here with the tags, in UTF-16: never too little.
    capabilities: ClassVar = Capabilities(
        max_text=4096,
        unit="utf16",
        threads=True,
        limits=LIMITS,
        max_file=50_000_000,  # sendDocument: "up to 50 MB"
        settings=("TELEGRAM_BOT_TOKEN", "TELEGRAM_API_BASE"),
        needs=(("TELEGRAM_BOT_TOKEN",),),
    )
    check_way: ClassVar = ""

    def __init__(self, env: Mapping[str, str]) -> None:
        token = urls.setting(env, "TELEGRAM_BOT_TOKEN")
        urls.require(token, "TELEGRAM_BOT_TOKEN")
        if not _TOKEN.fullmatch(token):
            raise BadSetting("TELEGRAM_BOT_TOKEN: no bot token; write 123456:ABC-DEF…")
        self._url = (
            urls.base_url(env, "TELEGRAM_API_BASE", "https://api.telegram.org") + f"/bot{token}"
        )

    def parse_target(self, chat_id: str, thread: str | None) -> Target:
        """Return the chat; its kind is user, group (channels too) or name."""
        chat_id, thread = chat_ids.split_thread("telegram", chat_id, thread, CHAT_AND_TOPIC, THREAD)
        kind = chat_ids.kind_of("telegram", chat_id, IDS, ID_HELP)
        return Target("telegram", chat_id, thread, kind)

    def ways(self, target: Target, outgoing: Outgoing) -> Sequence[str]:
        """Return html before plain, for all parts of a message with marks; else plain."""
        return (
            ("html", "plain") if markdown.has_marks(outgoing.whole or outgoing.text) else ("plain",)
        )

    def measure(self, text: str) -> int:
        """Return the UTF-16 units of the HTML, or its entities' share; the other way fits then."""
        limit = self.capabilities.max_text
        bare = requests.utf16_length(text)
        return bare if bare > limit else max(bare, html_size(markdown.telegram_html(text), limit))

    def build_request(self, target: Target, outgoing: Outgoing) -> Request:
        """Return a sendMessage of this way, or a sendDocument without a caption."""
        fields = destination_fields(target, outgoing)
        if outgoing.file:
            form = {
                name: value if isinstance(value, str) else requests.compact_json(value)
                for name, value in fields.items()
            }
            file = {"document": outgoing.file}
            return requests.post_form(f"{self._url}/sendDocument", form, file)
        body = fields | {"link_preview_options": {"is_disabled": True}}
        if (outgoing.way or self.ways(target, outgoing)[0]) == "html":
            body |= {"text": markdown.telegram_html(outgoing.text), "parse_mode": "HTML"}
        else:
            body |= {"text": readable_text(outgoing.text, self.capabilities.max_text)}
        return requests.post_json(f"{self._url}/sendMessage", body)

    def parse_response(self, response: Response) -> Sent:
        """Return the message's id, or raise what the error means."""
        found = read_result(response).get("message_id")
        if type(found) is not int:
            raise responses.unexpected(response)
        return Sent(str(found))

    def check_request(self, token: str) -> Request | None:
        """Return getMe."""
        return Request(f"{self._url}/getMe", method="GET")

    def parse_check(self, response: Response) -> str:
        """Return the bot's name."""
        name = responses.text_field(read_result(response), "username", response)
        return f"@{line(name, 64)}"


def html_size(markup: str, limit: int) -> int:
    """Return the UTF-16 units of HTML; what has more than MAX_ENTITIES is over the limit."""
    share = -(-limit * markdown.telegram_entities(markup) // MAX_ENTITIES)
    return max(requests.utf16_length(markup), share)


def destination_fields(target: Target, outgoing: Outgoing) -> dict[str, Any]:
    """Return chat, topic and the message that is answered, which may be gone."""
    chat = target.chat_id if target.kind == "name" else int(target.chat_id)
    found: dict[str, Any] = {"chat_id": chat}
    if target.thread not in (None, GENERAL_TOPIC):
        found["message_thread_id"] = int(str(target.thread))
    if (reply := outgoing.reply_to) and THREAD.fullmatch(reply):
        found["reply_parameters"] = {"message_id": int(reply), "allow_sending_without_reply": True}
    return found


def readable_text(text: str, limit: int) -> str:
    """
    Return `text` for people to read without markup, in at most `limit` UTF-16 units.

    Quotes and names can take more here than in HTML, by which the text was cut: then it goes out as
    it was written, which fits.
    """
    shown = markdown.telegram_plain(text)
    return shown if requests.utf16_length(shown) <= limit else markdown.telegram_as_written(text)


def read_result(response: Response) -> dict[str, Any]:
    """Return `result` of an answer with ok true, or raise what its error means."""
    found = responses.json_answer(response)
    if found.get("ok") is True and responses.succeeded(response):
        result = found.get("result")
        return result if isinstance(result, dict) else {}
    code, parameters = found.get("error_code"), found.get("parameters")
    if found.get("ok") is not False or type(code) is not int:
        raise responses.unexpected(response)
    said = parameters if isinstance(parameters, dict) else {}
    text = str(found.get("description") or "")
    moved = said.get("migrate_to_chat_id")
    if type(moved) is int and _SUPERGROUP.fullmatch(str(moved)):
        raise Moved(responses.reason(code, text), str(moved))
    meaning = _meaning(code, text)
    wait = responses.seconds_of(said.get("retry_after"))
    wait = responses.retry_after(response, "retry-after") if wait is None else wait
    wait = error_words.wait_in(text) if wait is None else wait
    raise error_codes.error_for(meaning, responses.reason(code, text, meaning.advice), wait)


def _meaning(code: int, text: str) -> Meaning:
    lowered = text.lower()
    known = CODES.get(code, Meaning("uncertain") if code >= 500 else Meaning())
    if known.kind != "rejected":  # words of a 429 or a 502 say nothing about the text
        return known
    if error_words.says_too_fast(text):  # FLOOD_WAIT_7 in a 400
        return error_codes.THROTTLED
    return next((found for words, found in DESCRIPTIONS.items() if words in lowered), known)
