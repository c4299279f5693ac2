"""ntfy's rules: JSON to the server's root, 4096 bytes, no key."""

import re

from fakes.chats.rules import Answer, Call, Rules, reply

_TOPIC = re.compile(r"^/[-_A-Za-z0-9]{1,64}$")
_LIMIT = 4096  # bytes; what is over becomes attachment.txt, and the answer is 200


class Ntfy(Rules):
    """A server with topics."""

    name = "ntfy"
    token = "tk_hush0hush0hush0hush0hush0hush0"

    def settings(self, url: str) -> dict[str, str]:
        """Return a server and a token."""
        return {"NTFY_SERVER": url, "NTFY_SERVER_URL": url, "NTFY_TOKEN": self.token}

    def route(self, call: Call) -> str:
        """Return send or check."""
        if call.path in ("/v1/account", "/v1/health"):
            return "check"
        return "send" if call.path == "/" or _TOPIC.match(call.path) else ""

    def chat(self, call: Call) -> str:
        """Return the topic."""
        return call.path[1:] or str(call.body.get("topic", ""))

    def text(self, call: Call) -> str:
        """Return the message, or that it became a file."""
        if call.path != "/":
            return call.data.decode(errors="replace")
        text = str(call.body.get("message", ""))
        return text if len(text.encode()) <= _LIMIT else "attachment.txt"

    def throttled(self, call: Call, hint: float | None) -> Answer:
        """Return 42901; ntfy says no wait."""
        return self._error(42901, "limit reached: too many requests, please be nice")

    def unauthorized(self, call: Call) -> Answer:
        """Return 40101."""
        return self._error(40101, "unauthorized")

    def permanent(self, call: Call) -> Answer:
        """Return 40301."""
        return self._error(40301, "forbidden")

    def error_in_200(self, call: Call) -> Answer:
        """Return what only a proxy could make of it."""
        return reply({"code": 40301, "http": 403, "error": "forbidden"})

    def failed(self, call: Call) -> Answer:
        """Return 50001."""
        return self._error(50001, "internal server error")

    def success(self, call: Call, id_: str) -> Answer:
        """Return the message."""
        return reply({"id": id_, "time": 1764288000, "event": "message", "topic": self.chat(call)})

    def message_id(self, number: int) -> str:
        """Return an id."""
        return f"ntfy{number:08}"

    def other(self, call: Call, route: str) -> Answer:
        """Return who we are."""
        known = "account" in call.path
        return reply({"username": "bus", "role": "user"} if known else {"healthy": True})

    def _error(self, code: int, text: str) -> Answer:
        return reply({"code": code, "http": code // 100, "error": text}, code // 100)
