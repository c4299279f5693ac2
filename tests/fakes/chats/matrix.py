"""Matrix's rules: a txnId in the path makes one event, whatever the body of the second says."""

import re
from urllib.parse import unquote

from fakes.chats.rules import Answer, Call, Rules, reply, whole

_SEND = re.compile(r"/rooms/([^/]+)/send/m\.room\.message/([^/]+)$")
_LIMIT = 65_000  # bytes of the content: an event has 65,536 with its signatures


class Matrix(Rules):
    """An account on a homeserver."""

    name = "matrix"
    key_s = 86_400.0

    def settings(self, url: str) -> dict[str, str]:
        """Return an account."""
        return {
            "MATRIX_HOMESERVER": url,
            "MATRIX_ACCESS_TOKEN": self.token,
            "MATRIX_USER_ID": "@bus:localhost",
        }

    def route(self, call: Call) -> str:
        """Return send, upload, check or lookup."""
        if not call.path.startswith("/_matrix/"):
            return ""
        if _SEND.search(call.path):
            return "send"
        if call.path.endswith("/upload"):
            return "upload"
        return "check" if call.path.endswith("/whoami") else "lookup"

    def chat(self, call: Call) -> str:
        """Return the room."""
        found = _SEND.search(call.path)
        return unquote(found[1]) if found else self.route(call)

    def text(self, call: Call) -> str:
        """Return the body."""
        return str(call.body.get("body", ""))

    def key(self, call: Call) -> str:
        """Return the txnId."""
        found = _SEND.search(call.path)
        return unquote(found[2]) if found else ""

    def too_long(self, call: Call) -> Answer | None:
        """Return a 413 over an event's size."""
        return self._error("M_TOO_LARGE", 413) if len(call.data) > _LIMIT else None

    def throttled(self, call: Call, hint: float | None) -> Answer:
        """Return a 429; the wait in milliseconds and, rounded up, in a header."""
        if hint is None:
            return self._error("M_LIMIT_EXCEEDED", 429)
        body = {"errcode": "M_LIMIT_EXCEEDED", "error": "Too Many Requests"}
        return reply(body | {"retry_after_ms": int(hint * 1000)}, 429, retry_after=whole(hint))

    def unauthorized(self, call: Call) -> Answer:
        """Return a 401."""
        return self._error("M_UNKNOWN_TOKEN", 401)

    def permanent(self, call: Call) -> Answer:
        """Return that we are not in the room."""
        return self._error("M_FORBIDDEN", 403)

    def error_in_200(self, call: Call) -> Answer:
        """Return what only a proxy could make of it."""
        return self._error("M_FORBIDDEN", 200)

    def failed(self, call: Call) -> Answer:
        """Return a 500 of its own."""
        return self._error("M_UNKNOWN", 500)

    def success(self, call: Call, id_: str) -> Answer:
        """Return the event."""
        return reply({"event_id": id_})

    def message_id(self, number: int) -> str:
        """Return an event's id."""
        return f"$event{number}"

    def other(self, call: Call, route: str) -> Answer:
        """Return rooms by alias and person, and that no room is encrypted."""
        if route == "upload":
            return reply({"content_uri": "mxc://localhost/file1"})
        if route == "check":
            return reply({"user_id": "@bus:localhost", "device_id": "D"})
        if "/directory/room/" in call.path:
            return reply({"room_id": "!aliased:localhost", "servers": ["localhost"]})
        if call.path.endswith("/m.direct"):
            return reply({"@ann:localhost": ["!direct:localhost"]})
        return self._error("M_NOT_FOUND", 404)

    def _error(self, code: str, status: int) -> Answer:
        return reply({"errcode": code, "error": f"error {code}"}, status)
