"""
What Discord says and wants to hear: ids, codes, answers of the API, of webhooks, of Cloudflare.

Rule 1: pure. Rule 2: a 429 is a throttle whatever its code; the code decides all else. Rule 3: a
page is not Discord's answer, except that a page with a 429 is Cloudflare's ban of this address.
Source: docs.discord.com/developers, resources/message (create-message), topics/rate-limits,
topics/opcodes-and-status-codes; discord.py 2.7.1, http.py, utils.py; forums answer 50008
(appwrite/grafana-oncall #26, measured).
"""

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

from wakebus.adapters.base import File, Limit, Outgoing, Response
from wakebus.adapters.errors import BadSetting, Throttled
from wakebus.adapters.kit import requests as bodies
from wakebus.adapters.kit import responses as answers
from wakebus.adapters.kit.chat_ids import Shapes
from wakebus.adapters.kit.error_codes import Meaning
from wakebus.adapters.sanitize import line

# A snowflake; a thread, a post of a forum and a direct chat are channels too.
IDS: Final[Shapes] = {
    "channel": re.compile(r"([1-9]\d{0,19})", re.ASCII),
    "user": re.compile(r"user:([1-9]\d{0,19})", re.ASCII),
    "webhook": re.compile(r"(webhook)"),
}
RIGHT: Final = "write the channel's id (a number), user:ID (person) or webhook; no #name"
# Hermes writes channel:thread; the thread's id alone leads there as well.
BOTH: Final = re.compile(r"([1-9]\d{0,19}):([1-9]\d{0,19})", re.ASCII)
THREAD: Final = IDS["channel"]
# 50/s is the only published limit; 5 in 5 s to a channel and 30 a minute by a webhook are what
# libraries and users measure (javacord, "ratelimits"); the answers' own hints come before them.
LIMITS: Final = (
    *(Limit(5, 5.0), Limit(30, 60.0, kinds=frozenset({"webhook"}))),
    Limit(50, 1.0, "app"),
)
# "Checked for uniqueness in the past few minutes": two of them are certain.
NONCE_S: Final = 120.0
NONCE: Final = 25
# Nobody is mentioned, whatever stands in the text; and links get no previews (SUPPRESS_EMBEDS).
QUIET: Final[dict[str, Any]] = {"allowed_mentions": {"parse": []}, "flags": 4}
# Discord demands "DiscordBot ($url, $version)" and shuts others out.
AGENT: Final = "DiscordBot (wakebus, 1)"

# Too many 401, 403 and 429 (10,000 in 10 minutes) and Cloudflare bans this address.
_BANNED_S: Final = 600.0
_HOOK: Final = "the webhook is gone; set another DISCORD_WEBHOOK_URL"
_FORUM: Final = (
    "no texts go there: of a forum name a post, of a category a channel (discord:CHANNEL?thread=ID)"
)
_PERSON: Final = "this person takes no direct messages of the bot; do they share a server?"
_CLOSED: Final = "open the thread again, or write to another one"
_GUARD: Final = "the server's AutoMod or Discord's own filter refused the text"

CODES: Final[Mapping[int, Meaning]] = {
    10003: Meaning(
        advice="is it a channel's or thread's id, not a server's, and is the bot there?"
    ),
    # Discord knows the nonce, and the message that it made was deleted.
    10008: Meaning(advice="it was sent before and deleted since, or the file's message is gone"),
    10013: Meaning(advice="is it a person's id?"),
    **dict.fromkeys((10015, 50027), Meaning(advice=_HOOK)),
    **dict.fromkeys((20016, 20028, 20029, 31002, 40003, 40062), Meaning("throttled")),
    40005: Meaning(advice="send a link; a file may have 10 MiB"),
    **dict.fromkeys((40058, 50008, 50024), Meaning(advice=_FORUM)),
    220001: Meaning(advice="the webhook's channel is a forum: name a post, ?thread=ID"),
    50001: Meaning(advice="let the bot see this channel"),
    50013: Meaning(
        advice="give the bot the permissions Send Messages and, for files, Attach Files"
    ),
    **dict.fromkeys((50007, 50278), Meaning(advice=_PERSON)),
    **dict.fromkeys((50083, 160005), Meaning(advice=_CLOSED)),
    **dict.fromkeys((200000, 240000, 20009), Meaning(advice=_GUARD)),
    20026: Meaning(advice="Discord has put this bot in quarantine; see its Developer Portal"),
    # 40333, "internal network error": Cloudflare stands before Discord and took nothing.
    **dict.fromkeys((130000, 40333), Meaning("unavailable")),
}
# Code 0 says what the status says; no code of Discord's own is a status.
_ZERO: Final[Mapping[int, Meaning]] = {
    401: Meaning(advice="check DISCORD_BOT_TOKEN"),
    404: Meaning(advice="check DISCORD_API_BASE"),
}


def token(value: str) -> str:
    """Return the bot's token ("" for none) without a `Bot ` before it, or raise BadSetting."""
    bare = value.removeprefix("Bot ").strip()
    if bare and not re.fullmatch(r"[\w.=+/-]{1,200}", bare, re.ASCII):
        raise BadSetting("DISCORD_BOT_TOKEN: no bot token; copy it from the Developer Portal")
    return bare


def read(response: Response) -> dict[str, Any]:
    """Return a 2xx answer's object, or raise what its code means."""
    try:
        found = answers.answer(response)
    except Throttled as exc:
        wait = exc.retry_after or _BANNED_S
        raise Throttled(exc.text, retry_after=wait, scope="app") from exc
    code = found.get("code")
    if response.status == 429:
        raise _throttled(found, response)
    if answers.fine(response) and code is None:
        return found
    if type(code) is not int:
        raise answers.stranger(response)
    words = _words(found).removeprefix(f"{response.status}: ")
    raise answers.refusal({**CODES, **_ZERO}, code or response.status, words, response)


def id_of(response: Response) -> str:
    """Return the id of the message or chat in an answer, or raise what it says instead."""
    found = read(response).get("id")
    if not isinstance(found, str) or not THREAD.fullmatch(found):
        raise answers.stranger(response)
    return found


def who(response: Response) -> str:
    """Return the bot's name and id."""
    found = read(response)
    name, id = (answers.text_of(found, name, response) for name in ("username", "id"))
    return line(f"{name} (id {id})", 100)


def keyed(outgoing: Outgoing) -> dict[str, Any]:
    """Return what makes one message of a resend, and names the message that is answered."""
    found: dict[str, Any] = {
        "nonce": bodies.uuid_of(outgoing.key, NONCE),
        "enforce_nonce": True,
    }
    if (reply := outgoing.reply_to) and THREAD.fullmatch(reply):
        found["message_reference"] = {"message_id": reply, "fail_if_not_exists": False}
    return found


def shown(file: File) -> dict[str, Any]:
    """Return what a message says of the file in its form."""
    return {"attachments": [{"id": 0, "filename": file.name}]}


def hook(url: str, thread: str | None) -> str:
    """Return a webhook's URL that answers with the message, in a thread if it is to be."""
    base, _, query = url.partition("?")
    asked = dict(parse_qsl(query)) | {"wait": "true"} | ({"thread_id": thread} if thread else {})
    return f"{base}?{urlencode(asked)}"


def _words(found: Mapping[str, Any]) -> str:
    """Return what Discord says, with the fields of an Invalid Form Body."""
    said, wrong = str(found.get("message") or ""), found.get("errors")
    try:
        return f"{said} {bodies.compact(wrong)}" if wrong else said
    except RecursionError:  # it was just deep enough to be read
        return said


def _throttled(found: Mapping[str, Any], response: Response) -> Throttled:
    scope = answers.header(response, "x-ratelimit-scope")
    if (wait := answers.wait_of(found.get("retry_after"))) is None:
        wait = answers.seconds(response, "retry-after")
    everywhere = found.get("global") is True or scope == "global"
    text = answers.reason(found.get("code") or 429, found.get("message"))
    return Throttled(text, retry_after=wait, scope="app" if everywhere else "chat")
