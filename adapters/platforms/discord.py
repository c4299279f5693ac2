"""
The platform `discord`: a bot that writes to channels, threads and people, or a channel's webhook.

Rule 1: pure. Rule 2: a 429 is a throttle whatever its code; the code decides all else. Rule 3: a
page is not Discord's answer, except that a page with a 429 is Cloudflare's ban of this address.
Source: docs.discord.com/developers, resources/message (create-message), resources/user (create-dm),
resources/webhook (execute-webhook), reference (uploading files, user agent), topics/rate-limits,
topics/opcodes-and-status-codes; discord.py 2.7.1, http.py, utils.py; forums answer 50008
(appwrite/grafana-oncall #26, measured).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final
from urllib.parse import parse_qsl, urlencode

from wakebus.adapters import markdown
from wakebus.adapters.base import (
    Capabilities,
    File,
    Limit,
    Outgoing,
    Request,
    Response,
    Sent,
    Target,
)
from wakebus.adapters.errors import BadSetting, BadTarget, Throttled
from wakebus.adapters.kit import chat_ids, requests, responses, urls
from wakebus.adapters.kit.chat_ids import Shapes
from wakebus.adapters.kit.error_codes import Meaning
from wakebus.adapters.kit.error_words import says_too_fast
from wakebus.adapters.sanitize import line

# A snowflake; a thread, a post of a forum and a direct chat are channels too.
IDS: Final[Shapes] = {
    "channel": re.compile(r"([1-9]\d{0,19})", re.ASCII),
    "user": re.compile(r"user:([1-9]\d{0,19})", re.ASCII),
    "webhook": re.compile(r"(webhook)"),
}
ID_HELP: Final = "write the channel's id (a number), user:ID (person) or webhook; no #name"
# Hermes writes channel:thread; the thread's id alone leads there as well.
CHANNEL_AND_THREAD: Final = re.compile(r"([1-9]\d{0,19}):([1-9]\d{0,19})", re.ASCII)
THREAD: Final = IDS["channel"]

# 50/s is the only published limit; 5 in 5 s to a channel and 30 a minute by a webhook are what
# libraries and users measure (javacord, "ratelimits"); the answers' own hints come before them.
LIMITS: Final = (
    Limit(5, 5.0),
    Limit(30, 60.0, kinds=frozenset({"webhook"})),
    Limit(50, 1.0, "app"),
)
# "Checked for uniqueness in the past few minutes": two of them are certain.
NONCE_S: Final = 120.0
MAX_NONCE: Final = 25  # characters
# Nobody is mentioned, whatever stands in the text; and links get no previews (SUPPRESS_EMBEDS).
QUIET: Final[dict[str, Any]] = {"allowed_mentions": {"parse": []}, "flags": 4}
# Discord demands "DiscordBot ($url, $version)" and shuts others out.
USER_AGENT: Final = "DiscordBot (wakebus, 1)"
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


class Discord:
    """A nonce makes one message of a bot's resends for some minutes; a webhook has none."""

    # "Up to 2000 characters", and nobody says which: UTF-16 is never too little.
    capabilities: ClassVar = Capabilities(
        max_text=2000,
        unit="utf16",
        threads=True,
        idempotent_s=NONCE_S,
        limits=LIMITS,
        max_file=10 << 20,  # discord.py, DEFAULT_FILE_SIZE_LIMIT_BYTES; boosted servers take more
        settings=("DISCORD_BOT_TOKEN", "DISCORD_WEBHOOK_URL", "DISCORD_API_BASE"),
        needs=(("DISCORD_BOT_TOKEN",), ("DISCORD_WEBHOOK_URL",)),
    )
    check_way: ClassVar = ""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._token = bot_token(urls.setting(env, "DISCORD_BOT_TOKEN"))
        self._webhook = urls.webhook_url(env, "DISCORD_WEBHOOK_URL")
        self._api = urls.base_url(env, "DISCORD_API_BASE", "https://discord.com/api/v10")

    def parse_target(self, chat_id: str, thread: str | None) -> Target:
        """Return the chat; its kind is channel, user or webhook."""
        chat_id, thread = chat_ids.split_thread(
            "discord", chat_id, thread, CHANNEL_AND_THREAD, THREAD
        )
        kind = chat_ids.kind_of("discord", chat_id, IDS, ID_HELP)
        if kind == "user" and thread is not None:
            raise BadTarget(f"discord chat {chat_id[:80]!r}: a direct chat has no threads")
        return Target("discord", chat_id, thread, kind)

    def ways(self, target: Target, outgoing: Outgoing) -> Sequence[str]:
        """Return the one way to this chat, or raise BadSetting that names what it needs."""
        hook = target.kind == "webhook"
        urls.require(self._webhook or not hook, "DISCORD_WEBHOOK_URL")
        urls.require(self._token or hook, "DISCORD_BOT_TOKEN")
        return ("webhook" if hook else "bot",)

    def key_time(self, target: Target, way: str) -> float:
        """Return 120, and 0 for a webhook, which enforces no nonce."""
        return 0.0 if target.kind == "webhook" else NONCE_S

    def measure(self, text: str) -> int:
        """Return the UTF-16 units of the content."""
        return markdown.size(
            text, markdown.discord, self.capabilities.max_text, requests.utf16_length
        )

    def lookup(self, target: Target) -> Request | None:
        """Return the request for a person's direct chat."""
        if target.kind != "user":
            return None
        urls.require(self._token, "DISCORD_BOT_TOKEN")
        person = {"recipient_id": chat_ids.without_prefix(target.chat_id, IDS["user"])}
        return requests.post_json(f"{self._api}/users/@me/channels", person, **self._headers())

    def parse_lookup(self, target: Target, response: Response) -> Target:
        """Return the direct chat, a channel."""
        return replace(target, chat_id=read_id(response), kind="channel")

    def build_request(self, target: Target, outgoing: Outgoing) -> Request:
        """Return the message, with its file as a form; a thread is a channel of its own."""
        self.ways(target, outgoing)
        channel = target.thread or chat_ids.without_prefix(target.chat_id, IDS[target.kind])
        url, headers = f"{self._api}/channels/{channel}/messages", self._headers()
        body = QUIET | key_and_reference(outgoing)
        if target.kind == "webhook":
            url, body = webhook_with_thread(self._webhook, target.thread), dict(QUIET)
            headers = {"User-Agent": USER_AGENT}
        if file := outgoing.file:
            form = {"payload_json": requests.compact_json(body | attachment_fields(file))}
            return requests.post_form(url, form, {"files[0]": file}, **headers)
        return requests.post_json(
            url, {"content": markdown.discord(outgoing.text)} | body, **headers
        )

    def parse_response(self, response: Response) -> Sent:
        """Return the message's id, or raise what the code means."""
        return Sent(read_id(response))

    def check_request(self, token: str) -> Request | None:
        """Return the request that asks who the bot is; None where there is a webhook only."""
        url = f"{self._api}/users/@me"
        return Request(url, headers=self._headers(), method="GET") if self._token else None

    def parse_check(self, response: Response) -> str:
        """Return the bot's name and id."""
        found = read_answer(response)
        name, id = (responses.text_field(found, name, response) for name in ("username", "id"))
        return line(f"{name} (id {id})", 100)

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bot {self._token}", "User-Agent": USER_AGENT}


def bot_token(value: str) -> str:
    """Return the bot's token ("" for none) without a `Bot ` before it, or raise BadSetting."""
    bare = value.removeprefix("Bot ").strip()
    if bare and not re.fullmatch(r"[\w.=+/-]{1,200}", bare, re.ASCII):
        raise BadSetting("DISCORD_BOT_TOKEN: no bot token; copy it from the Developer Portal")
    return bare


def read_answer(response: Response) -> dict[str, Any]:
    """Return a 2xx answer's object, or raise what its code means."""
    try:
        found = responses.json_answer(response)
    except Throttled as exc:
        wait = exc.retry_after or _BANNED_S
        raise Throttled(exc.text, retry_after=wait, scope="app") from exc
    code = found.get("code")
    fast = not responses.succeeded(response) and says_too_fast(found.get("message"))
    if response.status == 429 or (fast and code not in CODES):
        raise _throttle(found, response)
    if responses.succeeded(response) and code is None:
        return found
    if type(code) is not int:
        raise responses.unexpected(response)
    words = _error_text(found).removeprefix(f"{response.status}: ")
    raise responses.refusal({**CODES, **_ZERO}, code or response.status, words, response)


def read_id(response: Response) -> str:
    """Return the id of the message or chat in an answer, or raise what it says instead."""
    return responses.text_field(read_answer(response), "id", response, THREAD)


def key_and_reference(outgoing: Outgoing) -> dict[str, Any]:
    """Return what makes one message of a resend, and names the message that is answered."""
    found: dict[str, Any] = {
        "nonce": requests.fit_key(outgoing.key, MAX_NONCE),
        "enforce_nonce": True,
    }
    if (reply := outgoing.reply_to) and THREAD.fullmatch(reply):
        found["message_reference"] = {"message_id": reply, "fail_if_not_exists": False}
    return found


def attachment_fields(file: File) -> dict[str, Any]:
    """Return what a message says of the file in its form."""
    return {"attachments": [{"id": 0, "filename": file.name}]}


def webhook_with_thread(url: str, thread: str | None) -> str:
    """Return a webhook's URL that answers with the message, in a thread if it is to be."""
    base, _, query = url.partition("?")
    asked = dict(parse_qsl(query)) | {"wait": "true"} | ({"thread_id": thread} if thread else {})
    return f"{base}?{urlencode(asked)}"


def _error_text(found: Mapping[str, Any]) -> str:
    """Return what Discord says, with the fields of an Invalid Form Body."""
    said, wrong = str(found.get("message") or ""), found.get("errors")
    try:
        return f"{said} {requests.compact_json(wrong)}" if wrong else said
    except RecursionError:  # it was just deep enough to be read
        return said


def _throttle(found: Mapping[str, Any], response: Response) -> Throttled:
    scope = responses.header(response, "x-ratelimit-scope")
    if (wait := responses.seconds_of(found.get("retry_after"))) is None:
        wait = responses.retry_after(response, "retry-after")
    everywhere = found.get("global") is True or scope == "global"
    text = responses.reason(found.get("code") or 429, found.get("message"))
    return Throttled(text, retry_after=wait, scope="app" if everywhere else "chat")
