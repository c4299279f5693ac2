"""Slack's rules: `ok` false in a 200, a throttle in a header only, no key."""

import re

from fakes.chats.rules import Answer, Call, Rules, reply, whole

_METHOD = re.compile(r"^(?:/api)?/((?:chat|conversations|auth|files)\.\w+)$")
_ROUTES = {
    "chat.postMessage": "send",
    "files.completeUploadExternal": "send",  # it is what shows the file
    "auth.test": "check",
    "conversations.open": "lookup",
}
_LIMIT = 4040  # over it Slack cuts into messages of 4000 by itself (wayland, measured)


class Slack(Rules):
    """An app (`send`) and an incoming webhook (`webhook`)."""

    name = "slack"
    token = "xoxb-1-2-hush"

    def settings(self, url: str) -> dict[str, str]:
        """Return an app and a webhook."""
        return {
            "SLACK_BOT_TOKEN": self.token,
            "SLACK_API_BASE": url,
            "SLACK_WEBHOOK_URL": f"{url}/services/T1/B1/hush-hook",
        }

    def route(self, call: Call) -> str:
        """Return send, webhook, lookup, upload, show or check."""
        if call.path.startswith("/services/"):
            return "webhook"
        if call.path.startswith("/slack-upload"):
            return "upload"
        found = _METHOD.match(call.path)
        return _ROUTES.get(found[1], "upload") if found else ""

    def credential(self, call: Call) -> str:
        """Return the token; the URL that takes a file's bytes is one of its own."""
        return self.token if call.path.startswith("/slack-upload") else call.bearer

    def chat(self, call: Call) -> str:
        """Return the channel."""
        found = call.body.get("channel") or call.body.get("channel_id")
        return str(found or self.route(call))

    def text(self, call: Call) -> str:
        """Return the text without Slack's escapes; of a file its id."""
        if files := call.body.get("files"):
            return str(files[0]["id"])
        text = str(call.body.get("text", ""))
        return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")

    def too_long(self, call: Call) -> Answer | None:
        """Return msg_too_long where Slack would cut by itself."""
        over = len(str(call.body.get("text", ""))) > _LIMIT
        return self._error("msg_too_long") if over else None

    def throttled(self, call: Call, hint: float | None) -> Answer:
        """Return a 429 with Retry-After, or an error in a 200 without."""
        if hint is None:
            return self._error("ratelimited")
        return self._error("ratelimited", 429, retry_after=whole(hint))

    def unauthorized(self, call: Call) -> Answer:
        """Return invalid_auth, in a 200."""
        return self._error("invalid_auth")

    def permanent(self, call: Call) -> Answer:
        """Return channel_not_found, in a 200; a webhook's in plain words."""
        if self.route(call) == "webhook":
            return Answer(410, b"channel_is_archived", {"content-type": "text/html"})
        return self._error("channel_not_found")

    def success(self, call: Call, id_: str) -> Answer:
        """Return the ts; a webhook says `ok`."""
        if self.route(call) == "webhook":
            return Answer(200, b"ok", {"content-type": "text/html"})
        if "files" in call.body:
            return reply({"ok": True, "files": call.body["files"]})
        return reply({"ok": True, "channel": self.chat(call), "ts": id_})

    def message_id(self, number: int) -> str:
        """Return a ts."""
        return f"1764288000.{number:06}"

    def other(self, call: Call, route: str) -> Answer:
        """Return a person's direct chat, who we are, or the steps of an upload."""
        if route == "lookup":
            return reply({"ok": True, "channel": {"id": f"D{call.body.get('users', '')[1:]}"}})
        if route == "check":
            return reply({"ok": True, "user": "bus", "team": "T1", "user_id": "U1"})
        host = f"http://{call.headers.get('host', '')}"
        if call.path.endswith("getUploadURLExternal"):
            return reply({"ok": True, "upload_url": f"{host}/slack-upload/1", "file_id": "F1"})
        return Answer(200, b"OK - 5", {"content-type": "text/plain"})

    def _error(self, code: str, status: int = 200, **headers: str) -> Answer:
        return reply({"ok": False, "error": code}, status, **headers)
