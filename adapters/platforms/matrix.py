"""
The platform `matrix`: an account that writes to rooms, threads and people, unencrypted.

Rule 1: pure. Rule 2: a room's id is opaque: since room version 12 it names no server. Rule 3: a
name leads to its room in steps, each of which is a Target whose kind says what is asked next.
Rule 4: a room is written to only when it is known not to be encrypted: a plain event there would
lie open for ever. Rule 5: rooms are found, never made: making one cannot be repeated safely.
Source: spec.matrix.org, client-server API v1.11 and later (room directory, m.direct, rooms, errors,
size limits); Synapse's sample configuration for what servers limit by default.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final
from urllib.parse import quote, urlencode

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
from wakebus.adapters.errors import BadTarget, Rejected
from wakebus.adapters.kit import chat_ids, requests, responses, urls
from wakebus.adapters.kit.chat_ids import Shapes
from wakebus.adapters.kit.error_codes import Meaning

_SERVER: Final = r"(?:[A-Za-z0-9.-]{1,230}|\[[0-9A-Fa-f:.]{2,45}\])(?::\d{1,5})?"
_ROOM: Final = rf"![!-9;->@-~]{{1,200}}(?::{_SERVER})?"
_ROOM_ID: Final = re.compile(_ROOM)
# `$event` behind a room is how Hermes writes a thread.
IDS: Final[Shapes] = {
    "room": re.compile(rf"({_ROOM})(?::(\$[!->@-~]{{1,254}}))?"),
    "alias": re.compile(rf"(#[^\s:?]{{1,200}}:{_SERVER})"),
    "user": re.compile(rf"(@[!-9;->@-~]{{1,200}}:{_SERVER})"),
}
ID_HELP: Final = "write !room, #alias:server or @user:server"
EVENT_ID: Final = re.compile(r"\$[!->@-~]{1,254}")
_MXC: Final = re.compile(r"mxc://[!-~]{1,500}")

_TOKEN: Final = "check MATRIX_ACCESS_TOKEN: log in again, and write the new one down"
_INVITE: Final = "invite the bot into the room, and let it join"
_ENCRYPTED: Final = (
    "the room is encrypted, and this would go there unencrypted; take another room, leave it to an"
    " agent that encrypts, or set MATRIX_ALLOW_UNENCRYPTED=1"
)
CODES: Final[Mapping[str, Meaning]] = {
    # One bucket for all that this user sends (Synapse's rc_message).
    "M_LIMIT_EXCEEDED": Meaning("throttled", scope="app"),
    **dict.fromkeys(("M_UNKNOWN_TOKEN", "M_MISSING_TOKEN"), Meaning(advice=_TOKEN)),
    **dict.fromkeys(
        ("M_USER_DEACTIVATED", "M_USER_LOCKED", "M_USER_SUSPENDED"),
        Meaning(advice="the server's administrator has to free this account"),
    ),
    "M_FORBIDDEN": Meaning(advice=_INVITE),
    "M_NOT_FOUND": Meaning(advice="is the name right?"),
    "M_UNRECOGNIZED": Meaning(advice="check MATRIX_HOMESERVER: the server's base URL"),
    "M_TOO_LARGE": Meaning(advice="the server takes less than Matrix allows"),
    "M_RESOURCE_LIMIT_EXCEEDED": Meaning(advice="ask the server's administrator"),
    "M_CONSENT_NOT_GIVEN": Meaning(advice="accept the server's terms with this account"),
}

ENVELOPE: Final = 900  # bytes around body and formatted_body: names, two event ids of 255
_MEDIA: Final = frozenset({"image", "audio", "video"})
_ACCOUNT: Final = ("MATRIX_HOMESERVER", "MATRIX_ACCESS_TOKEN")
_UNENCRYPTED: Final = "MATRIX_ALLOW_UNENCRYPTED"
_CLIENT: Final = "/_matrix/client/v3"


class Matrix:
    """The transaction's id is the key. Synapse keeps it for a day, restarts included."""

    # An event has at most 65,536 bytes with signatures and hashes. 10 messages at once, then one
    # in 5 s, is Synapse's rc_message for a user; max_upload_size is 50M.
    capabilities: ClassVar = Capabilities(
        max_text=60_000,
        unit="bytes",
        threads=True,
        idempotent_s=43_200.0,
        limits=(Limit(10, 50.0, "app", refills=True),),
        max_file=50 << 20,
        settings=(*_ACCOUNT, _UNENCRYPTED),
        needs=(_ACCOUNT,),
    )
    check_way: ClassVar = ""

    def __init__(self, env: Mapping[str, str]) -> None:
        pair = urls.pair(env, *_ACCOUNT)
        urls.require(pair, " and ".join(_ACCOUNT))
        self._server = urls.base_url(env, "MATRIX_HOMESERVER", "https://matrix.example.com")
        self._headers = {"Authorization": f"Bearer {urls.credential(env, _ACCOUNT[1])}"}
        self._open = urls.setting(env, _UNENCRYPTED).lower() in ("1", "true", "yes")

    def parse_target(self, chat_id: str, thread: str | None) -> Target:
        """Return the chat; its kind is room, alias or user. `!room:server:$event` is a thread."""
        kind = chat_ids.kind_of("matrix", chat_id, IDS, ID_HELP)
        return target_of(chat_id, thread, kind)

    def lookup(self, target: Target) -> Request | None:
        """Return the question that leads from a name to a room, then whether it is encrypted."""
        path = lookup_path(target)
        if path is None or (target.kind == "room" and self._open):
            return None
        return Request(self._server + _CLIENT + path, headers=self._headers, method="GET")

    def parse_lookup(self, target: Target, response: Response) -> Target:
        """Return the chat one step nearer."""
        return next_target(target, response)

    def measure(self, text: str) -> int:
        """Return the bytes of the event that carries this text in both of its forms."""
        return event_size(text, self.capabilities.max_text)

    def upload(self, target: Target, outgoing: Outgoing) -> Request | None:
        """Return the request that brings the file to the server; the body is the file."""
        file = outgoing.file
        if file is None or file.ref:
            return None
        url = f"{self._server}/_matrix/media/v3/upload?{urlencode({'filename': file.name})}"
        return Request(url, file.data, self._headers | {"Content-Type": file.media_type})

    def parse_upload(self, file: File, response: Response) -> File:
        """Return the file with its mxc:// address."""
        return replace(file, ref=read_field(response, "content_uri", _MXC))

    def build_request(self, target: Target, outgoing: Outgoing) -> Request:
        """Return the request for an event; the key is in its path."""
        file = outgoing.file
        event: dict[str, Any] = text_event(outgoing.text, outgoing.whole)
        event = (file_event(file) if file else event) | relation(target, outgoing)
        room = quote(target.chat_id, safe="")
        key = quote(requests.fit_key(outgoing.key, 100), safe="")
        url = f"{self._server}{_CLIENT}/rooms/{room}/send/m.room.message/{key}"
        made = requests.post_json(url, event, **self._headers)
        return Request(url, made.body, made.headers, "PUT")

    def parse_response(self, response: Response) -> Sent:
        """Return the event's id, or raise what the errcode means."""
        return Sent(read_field(response, "event_id", EVENT_ID))

    def check_request(self, token: str) -> Request | None:
        """Return the request for whose token it is."""
        url = f"{self._server}{_CLIENT}/account/whoami"
        return Request(url, headers=self._headers, method="GET")

    def parse_check(self, response: Response) -> str:
        """Return the user's id."""
        return read_field(response, "user_id", IDS["user"])


def read_answer(response: Response) -> dict[str, Any]:
    """Return the object of a request that was taken, or raise what the errcode means."""
    found = responses.json_answer(response)
    code = found.get("errcode")
    if isinstance(code, str) and code:
        wait = responses.seconds_of(found.get("retry_after_ms"), 0.001)
        wait = responses.retry_after(response, "retry-after") if wait is None else wait
        raise responses.refusal(CODES, code, found.get("error"), response, wait)
    if responses.succeeded(response):
        return found
    raise responses.unexpected(response)


def read_field(response: Response, name: str, shape: re.Pattern[str]) -> str:
    """Return a field of a success, or raise what the answer means."""
    return responses.text_field(read_answer(response), name, response, shape)


def target_of(chat_id: str, thread: str | None, kind: str) -> Target:
    """Return the chat; raise BadTarget for a thread that is no event's id, or for two of them."""
    room, own = chat_id, thread
    if kind == "room" and (found := IDS["room"].fullmatch(chat_id)) and found[2]:
        room, own = found[1], found[2]
        if thread not in (None, own):
            raise BadTarget(f"matrix chat {chat_id!r}: it names the thread {own!r} itself")
    if own is not None and not EVENT_ID.fullmatch(own):
        raise BadTarget(f"matrix chat {chat_id!r}: thread {own[:80]!r} is no event's id ($…)")
    return Target("matrix", room, own, kind)


def lookup_path(target: Target) -> str | None:
    """Return the path that is asked next about this chat, None when it is a room to write to."""
    first, _, _ = target.chat_id.partition(" ")
    return {
        "alias": f"/directory/room/{quote(first, safe='')}",
        "user": "/account/whoami",
        "pair": f"/user/{quote(first, safe='')}/account_data/m.direct",
        "direct": "/joined_rooms",
        "room": f"/rooms/{quote(first, safe='')}/state/m.room.encryption/",
    }.get(target.kind)


def next_target(target: Target, response: Response) -> Target:
    """Return the chat one step nearer, or raise what the answer means."""
    if target.kind == "alias":
        return replace(target, kind="room", chat_id=read_field(response, "room_id", _ROOM_ID))
    if target.kind == "user":
        me = read_field(response, "user_id", IDS["user"])
        return replace(target, kind="pair", chat_id=f"{me} {target.chat_id}")
    if target.kind == "pair":
        return replace(target, kind="direct", chat_id=_direct_rooms(target, response))
    if target.kind == "direct":
        return replace(target, kind="room", chat_id=_newest_joined(target, response))
    return _if_unencrypted(target, response)


def _direct_rooms(target: Target, response: Response) -> str:
    """Return the rooms that the bot's account marks as direct chats with this user, by spaces."""
    user = target.chat_id.partition(" ")[2]
    found = {} if _is_missing(response) else read_answer(response)
    rooms = found.get(user)
    good = [room for room in rooms if _is_room(room)] if isinstance(rooms, list) else []
    if not good:
        raise Rejected(
            f"there is no direct chat with {user}; open one with the bot from there, or write !room"
        )
    return " ".join(good[-20:])


def _newest_joined(target: Target, response: Response) -> str:
    """Return the newest of these rooms that the bot is in: people leave rooms and open others."""
    rooms = read_answer(response).get("joined_rooms")
    if not isinstance(rooms, list):
        raise responses.unexpected(response)
    for room in reversed(target.chat_id.split(" ")):
        if room in rooms:
            return room
    raise Rejected("the bot has left its direct chat with this user; open another one from there")


def _if_unencrypted(target: Target, response: Response) -> Target:
    if _is_missing(response):
        return replace(target, kind="open")
    read_answer(response)
    raise Rejected(_ENCRYPTED)


def _is_missing(response: Response) -> bool:
    """Whether the server says itself that there is no such thing."""
    return (
        response.status == 404 and responses.json_answer(response).get("errcode") == "M_NOT_FOUND"
    )


def _is_room(room: object) -> bool:
    return isinstance(room, str) and _ROOM_ID.fullmatch(room) is not None


def text_event(text: str, whole: str) -> dict[str, Any]:
    """Return a text's event; it mentions nobody. Its format is that of the whole message."""
    shown: dict[str, Any] = {"msgtype": "m.text", "body": text, "m.mentions": {}}
    if markdown.has_marks(whole or text):
        html = {"format": "org.matrix.custom.html", "formatted_body": markdown.matrix_html(text)}
        return shown | html
    return shown


def file_event(file: File) -> dict[str, Any]:
    """Return the event that shows an uploaded file."""
    kind = file.media_type.partition("/")[0]
    return {
        "msgtype": f"m.{kind if kind in _MEDIA else 'file'}",
        "body": file.name,
        "filename": file.name,
        "url": file.ref,
        "info": {"mimetype": file.media_type, "size": len(file.data)},
        "m.mentions": {},
    }


def relation(target: Target, outgoing: Outgoing) -> dict[str, Any]:
    """
    Return what an event answers, and its thread.

    Clients without threads show what is in a thread as a reply to what opened it, or to what it
    answers.
    """
    root, reply = target.thread, outgoing.reply_to
    reply = reply if reply and EVENT_ID.fullmatch(reply) else None
    answered = {"m.in_reply_to": {"event_id": reply or root}}
    if root is None:
        return {"m.relates_to": answered} if reply else {}
    thread = {"rel_type": "m.thread", "event_id": root, "is_falling_back": reply is None}
    return {"m.relates_to": thread | answered}


def event_size(text: str, limit: int) -> int:
    """
    Return the bytes of an event with this text as body and as HTML, which both count.

    A text that is over the limit twice as it stands is not rendered, which takes 100 times as long.
    It measures more than any markup would make of a shorter one.
    """
    bare = ENVELOPE + 2 * requests.json_size(text)
    if bare > limit:
        return 20 * bare
    return max(
        bare, ENVELOPE + requests.json_size(text) + requests.json_size(markdown.matrix_html(text))
    )
