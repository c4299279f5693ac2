"""Telegram's rules: the token in the path, no key, errors in 4xx with `ok` false."""

import html
import re
from typing import Any

from fakes.chats.rules import Answer, Call, Rules, reply, whole

_TAG = re.compile(r"</?(b|strong|i|em|u|s|del|code|pre|a|blockquote|tg-spoiler)(\s[^<>]*)?>")
_LIMIT = 4096  # code points after the entities are parsed (FerroxLabs/wayland #934, measured)


class Telegram(Rules):
    """A bot."""

    name = "telegram"
    token = "123456789:AAHush-hush_hush-hush_hush-hush-hus"

    def settings(self, url: str) -> dict[str, str]:
        """Return a bot."""
        return {
            "TELEGRAM_BOT_TOKEN": self.token,
            "TELEGRAM_API_BASE": url,
        }

    def route(self, call: Call) -> str:
        """Return send or check."""
        if not call.path.startswith("/bot"):
            return ""
        return "check" if call.path.endswith("/getMe") else "send"

    def chat(self, call: Call) -> str:
        """Return the chat's id or @name."""
        return str(call.body.get("chat_id", ""))

    def text(self, call: Call) -> str:
        """Return the text after the entities are parsed; of a document its bytes."""
        if "document" in call.fields:
            return call.fields["document"].decode(errors="replace")
        text = str(call.body.get("text", ""))
        if call.body.get("parse_mode") != "HTML":
            return text
        return html.unescape(_TAG.sub("", text))

    def credential(self, call: Call) -> str:
        """Return the token in the path."""
        return call.path.removeprefix("/bot").split("/")[0]

    def too_long(self, call: Call) -> Answer | None:
        """Return a 400 for what is too long, and for markup that is none."""
        marked = call.body.get("parse_mode") == "HTML"
        if marked and "<" in _TAG.sub("", str(call.body.get("text", ""))):
            return self._error(400, "Bad Request: can't parse entities: unsupported start tag")
        if len(self.text(call)) > _LIMIT and "document" not in call.fields:
            return self._error(400, "Bad Request: message is too long")
        return None

    def throttled(self, call: Call, hint: float | None) -> Answer:
        """Return a 429; whole seconds in `parameters`."""
        wait = {} if hint is None else {"parameters": {"retry_after": int(whole(hint))}}
        text = f"Too Many Requests: retry after {whole(hint)}"
        return self._error(429, text if wait else "Too Many Requests", **wait)

    def unauthorized(self, call: Call) -> Answer:
        """Return a 401."""
        return self._error(401, "Unauthorized")

    def permanent(self, call: Call) -> Answer:
        """Return that there is no such chat."""
        return self._error(400, "Bad Request: chat not found")

    def error_in_200(self, call: Call) -> Answer:
        """Return what only a proxy could make of it."""
        return reply({"ok": False, "error_code": 400, "description": "Bad Request: no"})

    def failed(self, call: Call) -> Answer:
        """Return a 500 of its own."""
        return self._error(500, "Internal Server Error")

    def success(self, call: Call, id_: str) -> Answer:
        """Return the message."""
        chat = {"id": self.chat(call)}
        return reply({"ok": True, "result": {"message_id": int(id_), "chat": chat}})

    def other(self, call: Call, route: str) -> Answer:
        """Return who the bot is."""
        return reply({"ok": True, "result": {"id": 1, "is_bot": True, "username": "busbot"}})

    def _error(self, status: int, text: str, **more: Any) -> Answer:
        body = {"ok": False, "error_code": status, "description": text, **more}
        return reply(body, status)
