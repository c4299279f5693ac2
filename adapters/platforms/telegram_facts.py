"""
What Telegram's Bot API says and wants to hear: ids, topics, answers, errors.

Rule 1: pure. Rule 2: an error is told by the words of its description, then by its code: 400 is
anything from a wrong chat to markup that cannot be read. Rule 3: what is about a thread or a chat
is final: without its topic a text would stand in front of everybody.
Source: core.telegram.org/bots/api (making-requests, sendmessage, responseparameters), bots/faq;
python-telegram-bot 22.8, telegram/constants.py; tdlib/telegram-bot-api, Client.cpp (words).
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from wakebus.adapters import markdown as marks
from wakebus.adapters.base import Outgoing, Response, Target
from wakebus.adapters.errors import Moved
from wakebus.adapters.kit import error_codes as codes
from wakebus.adapters.kit import requests as bodies
from wakebus.adapters.kit import responses as answers
from wakebus.adapters.kit.chat_ids import Shapes
from wakebus.adapters.kit.error_codes import Meaning

# Supergroups and channels begin with -100, basic groups with another digit; Hermes takes names
# of 4 to 32 characters (telegram_ids.py).
IDS: Final[Shapes] = {
    "user": re.compile(r"([1-9]\d{0,18})", re.ASCII),
    "group": re.compile(r"(-[1-9]\d{0,18})", re.ASCII),
    "name": re.compile(r"(@[A-Za-z]\w{3,31})", re.ASCII),
}
_SUPERGROUP: Final = re.compile(r"-100\d{1,16}")
RIGHT: Final = "write the numeric id (a supergroup's begins with -100) or @name of a public chat"
# Hermes writes chat:topic; a topic is the id of the message that opened it.
TOPIC: Final = re.compile(r"(-?\d+|@\w+):(\d+)", re.ASCII)
THREAD: Final = re.compile(r"[1-9]\d{0,9}", re.ASCII)
# The General topic arrives as 1, and 1 is refused: "message thread not found".
GENERAL: Final = "1"
TOKEN: Final = re.compile(r"\d{1,20}:[\w-]{1,128}", re.ASCII)

_TOKEN: Final = "check TELEGRAM_BOT_TOKEN"
_BLOCKED: Final = "the bot was blocked, removed or never let in by this chat"
_RIGHTS: Final = "give the bot the right to write there"

# Searched in this order in the description, in lower case.
WORDS: Final[Mapping[str, Meaning]] = {
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
    401: Meaning(advice=_TOKEN),
    # The token is a part of the path: a wrong one is a page that is not there.
    404: Meaning(advice=f"{_TOKEN} and TELEGRAM_API_BASE"),
    403: Meaning(advice=_BLOCKED),
    413: Meaning(advice="send a link; a bot may send 50 MB"),
    429: Meaning("throttled"),
}


def where(target: Target, outgoing: Outgoing) -> dict[str, Any]:
    """Return chat, topic and the message that is answered, which may be gone."""
    chat = target.chat_id if target.kind == "name" else int(target.chat_id)
    found: dict[str, Any] = {"chat_id": chat}
    if target.thread not in (None, GENERAL):
        found["message_thread_id"] = int(str(target.thread))
    if (reply := outgoing.reply_to) and THREAD.fullmatch(reply):
        found["reply_parameters"] = {"message_id": int(reply), "allow_sending_without_reply": True}
    return found


def plain(text: str, limit: int) -> str:
    """
    Return `text` for people to read without markup, in at most `limit` UTF-16 units.

    Quotes and names can take more here than in HTML, by which the text was cut: then it goes out as
    it was written, which fits.
    """
    shown = marks.telegram_plain(text)
    return shown if bodies.utf16(shown) <= limit else marks.telegram_as_written(text)


def read(response: Response) -> dict[str, Any]:
    """Return `result` of an answer with ok true, or raise what its error means."""
    found = answers.answer(response)
    if found.get("ok") is True and answers.fine(response):
        result = found.get("result")
        return result if isinstance(result, dict) else {}
    code, parameters = found.get("error_code"), found.get("parameters")
    if found.get("ok") is not False or type(code) is not int:
        raise answers.stranger(response)
    said = parameters if isinstance(parameters, dict) else {}
    text = str(found.get("description") or "")
    moved = said.get("migrate_to_chat_id")
    if type(moved) is int and _SUPERGROUP.fullmatch(str(moved)):
        raise Moved(answers.reason(code, text), str(moved))
    meaning = _meaning(code, text)
    wait = answers.wait_of(said.get("retry_after"))
    wait = answers.seconds(response, "retry-after") if wait is None else wait
    raise codes.error(meaning, answers.reason(code, text, meaning.advice), wait)


def _meaning(code: int, text: str) -> Meaning:
    lowered = text.lower()
    known = CODES.get(code, Meaning("uncertain") if code >= 500 else Meaning())
    if known.kind != "rejected":  # words of a 429 or a 502 say nothing about the text
        return known
    return next((found for words, found in WORDS.items() if words in lowered), known)
