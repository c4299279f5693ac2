"""Weixin's rules (iLink): `ret` in a 200; a client_id of which nobody knows that it helps."""

from fakes.chats.rules import Answer, Call, Rules, reply


class Weixin(Rules):
    """A bot that answers who has written."""

    name = "weixin"

    def settings(self, url: str) -> dict[str, str]:
        """Return a bot that is logged in."""
        return {"WEIXIN_TOKEN": self.token, "WEIXIN_ACCOUNT_ID": "acc1", "WEIXIN_BASE_URL": url}

    def route(self, call: Call) -> str:
        """Return send."""
        return "send" if call.path == "/ilink/bot/sendmessage" else ""

    def chat(self, call: Call) -> str:
        """Return the user."""
        return str(call.body["msg"]["to_user_id"])

    def text(self, call: Call) -> str:
        """Return the text item."""
        return str(call.body["msg"]["item_list"][0]["text_item"]["text"])

    def too_long(self, call: Call) -> Answer | None:
        """Return ret -2 over 16,384 bytes."""
        over = len(self.text(call).encode()) > 16_384
        return self._ret(-2, "invalid argument") if over else None

    def throttled(self, call: Call, hint: float | None) -> Answer:
        """Return ret -2, in words that differ."""
        return self._ret(-2, "rate limited")

    def unauthorized(self, call: Call) -> Answer:
        """Return -14: log in again."""
        return self._ret(-14, "session timeout")

    def permanent(self, call: Call) -> Answer:
        """Return that this user has never written."""
        return self._ret(-2, "prepare failed")

    def success(self, call: Call, id_: str) -> Answer:
        """Return the new message's id."""
        return reply({"message_id": id_})

    def _ret(self, ret: int, errmsg: str) -> Answer:
        return reply({"ret": ret, "errcode": ret, "errmsg": errmsg})
