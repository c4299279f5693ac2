"""
The platform `matrix`: an account that writes to rooms, threads and people, unencrypted.

Source: spec.matrix.org, client-server API v1.11 and later; Synapse's sample configuration for what
servers limit by default.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Final
from urllib.parse import quote, urlencode

from wakebus.adapters import base
from wakebus.adapters.base import Capabilities, File, Outgoing, Request, Response, Sent, Target
from wakebus.adapters.kit import chat_ids as ids
from wakebus.adapters.kit import requests as bodies
from wakebus.adapters.kit import urls
from wakebus.adapters.platforms import matrix_facts as facts

_ACCOUNT: Final = ("MATRIX_HOMESERVER", "MATRIX_ACCESS_TOKEN")
_UNENCRYPTED: Final = "MATRIX_ALLOW_UNENCRYPTED"
_PACE: Final = base.Limit(10, 50.0, "app", refills=True)
_CLIENT: Final = "/_matrix/client/v3"


class Matrix:
    """The transaction's id is the key. Synapse keeps it for a day, restarts included."""

    # An event has at most 65,536 bytes with signatures and hashes. 10 messages at once, then one
    # in 5 s, is Synapse's rc_message for a user; max_upload_size is 50M.
    capabilities: ClassVar = Capabilities(
        *(60_000, "bytes", True, 43_200.0, (_PACE,), 50 << 20),
        settings=(*_ACCOUNT, _UNENCRYPTED),
        needs=(_ACCOUNT,),
    )
    check_way: ClassVar = ""

    def __init__(self, env: Mapping[str, str]) -> None:
        pair = urls.pair(env, *_ACCOUNT)
        urls.needed(pair, " and ".join(_ACCOUNT))
        self._server = urls.base(env, "MATRIX_HOMESERVER", "https://matrix.example.com")
        self._headers = {"Authorization": f"Bearer {urls.credential(env, _ACCOUNT[1])}"}
        self._open = urls.setting(env, _UNENCRYPTED).lower() in ("1", "true", "yes")

    def parse_target(self, chat_id: str, thread: str | None) -> Target:
        """Return the chat; its kind is room, alias or user. `!room:server:$event` is a thread."""
        kind = ids.kind_of("matrix", chat_id, facts.IDS, facts.RIGHT)
        return facts.target(chat_id, thread, kind)

    def lookup(self, target: Target) -> Request | None:
        """Return the question that leads from a name to a room, then whether it is encrypted."""
        path = facts.question(target)
        if path is None or (target.kind == "room" and self._open):
            return None
        return Request(self._server + _CLIENT + path, headers=self._headers, method="GET")

    def parse_lookup(self, target: Target, response: Response) -> Target:
        """Return the chat one step nearer."""
        return facts.step(target, response)

    def measure(self, text: str) -> int:
        """Return the bytes of the event that carries this text in both of its forms."""
        return facts.size(text, self.capabilities.max_text)

    def upload(self, target: Target, outgoing: Outgoing) -> Request | None:
        """Return the request that brings the file to the server; the body is the file."""
        file = outgoing.file
        if file is None or file.ref:
            return None
        url = f"{self._server}/_matrix/media/v3/upload?{urlencode({'filename': file.name})}"
        return Request(url, file.data, self._headers | {"Content-Type": file.media_type})

    def parse_upload(self, file: File, response: Response) -> File:
        """Return the file with its mxc:// address."""
        return facts.uploaded(file, response)

    def build_request(self, target: Target, outgoing: Outgoing) -> Request:
        """Return the request for an event; the key is in its path."""
        file = outgoing.file
        event: dict[str, Any] = facts.content(outgoing.text, outgoing.whole)
        event = (facts.of_file(file) if file else event) | facts.related(target, outgoing)
        room, key = (
            quote(target.chat_id, safe=""),
            quote(bodies.uuid_of(outgoing.key, 100), safe=""),
        )
        url = f"{self._server}{_CLIENT}/rooms/{room}/send/m.room.message/{key}"
        made = bodies.post(url, event, **self._headers)
        return Request(url, made.body, made.headers, "PUT")

    def parse_response(self, response: Response) -> Sent:
        """Return the event's id, or raise what the errcode means."""
        return Sent(facts.text_of(response, "event_id", facts.EVENT))

    def check_request(self, token: str) -> Request | None:
        """Return the request for whose token it is."""
        url = f"{self._server}{_CLIENT}/account/whoami"
        return Request(url, headers=self._headers, method="GET")

    def parse_check(self, response: Response) -> str:
        """Return the user's id."""
        return facts.text_of(response, "user_id", facts.IDS["user"])
