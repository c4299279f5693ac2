"""Discord's rules: a nonce makes one message for some minutes, a webhook knows none."""

import re

from fakes.chats.rules import Answer, Call, Rules, reply, unescaped, whole

_PATH = re.compile(r"^(?:/api)?(?:/v10)?(/channels/(\d+)/messages|/webhooks/\d+/\S+|/users/@me.*)$")
_LIMIT = 2000  # UTF-16 units, the strictest reading of "characters"


class Discord(Rules):
    """A bot (`send`) and a webhook (`webhook`)."""

    name = "discord"
    key_s = 120.0
    token = "MTIz.hush.hush-hush"

    def settings(self, url: str) -> dict[str, str]:
        """Return a bot and a webhook."""
        return {
            "DISCORD_BOT_TOKEN": self.token,
            "DISCORD_API_BASE": url,
            "DISCORD_WEBHOOK_URL": f"{url}/api/webhooks/1/hush-hook",
        }

    def route(self, call: Call) -> str:
        """Return send, webhook, lookup or check."""
        found = _PATH.match(call.path)
        if not found:
            return ""
        if "/webhooks/" in found[1]:
            return "webhook"
        if found[2]:
            return "send"
        return "lookup" if call.method == "POST" else "check"

    def chat(self, call: Call) -> str:
        """Return the channel."""
        found = _PATH.match(call.path)
        return (found and found[2]) or self.route(call)

    def text(self, call: Call) -> str:
        """Return the content; of a file its bytes."""
        file = call.fields.get("files[0]")
        if file is not None:
            return file.decode(errors="replace")
        return unescaped(str(call.body.get("content", "")))

    def key(self, call: Call) -> str:
        """Return the nonce, where it is enforced."""
        held = call.body.get("enforce_nonce") is True and self.route(call) == "send"
        return str(call.body.get("nonce", "")) if held else ""

    def too_long(self, call: Call) -> Answer | None:
        """Return 50035 over 2000, or for a nonce over 25."""
        size = len(str(call.body.get("content", "")).encode("utf-16-le")) // 2
        over = size > _LIMIT or len(str(call.body.get("nonce", ""))) > 25
        return reply({"code": 50035, "message": "Invalid Form Body"}, 400) if over else None

    def throttled(self, call: Call, hint: float | None) -> Answer:
        """Return a 429; the wait is a float."""
        wait = {} if hint is None else {"retry_after": hint}
        body = {"message": "You are being rate limited.", "global": False, **wait}
        headers = {} if hint is None else {"retry_after": whole(hint)}
        return reply(body, 429, **headers)

    def unauthorized(self, call: Call) -> Answer:
        """Return a 401."""
        return reply({"message": "401: Unauthorized", "code": 0}, 401)

    def permanent(self, call: Call) -> Answer:
        """Return that there is no such channel or webhook."""
        code = 10015 if self.route(call) == "webhook" else 10003
        return reply({"message": "Unknown Channel", "code": code}, 404)

    def error_in_200(self, call: Call) -> Answer:
        """Return what only a proxy could make of it."""
        return reply({"message": "Unknown Channel", "code": 10003})

    def failed(self, call: Call) -> Answer:
        """Return a 500 of its own."""
        return reply({"message": "500: Internal Server Error", "code": 0}, 500)

    def success(self, call: Call, id_: str) -> Answer:
        """Return the message; a webhook's only where it is waited for."""
        if self.route(call) == "webhook" and call.query.get("wait") != "true":
            return Answer(204, b"")
        return reply({"id": id_, "channel_id": self.chat(call)})

    def message_id(self, number: int) -> str:
        """Return a snowflake."""
        return str(1300000000000000000 + number)

    def other(self, call: Call, route: str) -> Answer:
        """Return a person's direct chat, or who the bot is."""
        if route == "lookup":
            return reply({"id": str(call.body.get("recipient_id", "")) + "9", "type": 1})
        return reply({"id": "1", "username": "bus", "bot": True})
