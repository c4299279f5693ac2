"""Mattermost's rules: a pending_post_id makes one post for 30 seconds."""

import re

from fakes.chats.rules import Answer, Call, Rules, reply, unescaped, whole

_LIMIT = 16_383  # runes
_NAME = re.compile(r"/(?:users/username|channels/name)/([^/]+)$")


def id_of(word: str) -> str:
    """Return the 26 characters that stand for a name."""
    return (word.lower().replace("-", "") + "x" * 26)[:26]


class Mattermost(Rules):
    """A bot's account."""

    name = "mattermost"
    key_s = 30.0

    def settings(self, url: str) -> dict[str, str]:
        """Return a bot's account."""
        return {"MATTERMOST_URL": url, "MATTERMOST_TOKEN": self.token}

    def route(self, call: Call) -> str:
        """Return send, upload or lookup."""
        if not call.path.startswith("/api/v4/"):
            return ""
        if call.path == "/api/v4/posts" and call.method == "POST":
            return "send"
        return "upload" if call.path == "/api/v4/files" else "lookup"

    def chat(self, call: Call) -> str:
        """Return the channel."""
        return str(call.body.get("channel_id") or self.route(call))

    def text(self, call: Call) -> str:
        """Return the message; of a file its id."""
        found = str(call.body.get("message") or (call.body.get("file_ids") or [""])[0])
        return unescaped(found)

    def key(self, call: Call) -> str:
        """Return the pending_post_id."""
        return str(call.body.get("pending_post_id", ""))

    def too_long(self, call: Call) -> Answer | None:
        """Return a 400 over 16,383 runes."""
        over = len(str(call.body.get("message", ""))) > _LIMIT
        return self._error("model.post.is_valid.message_length.app_error", 400) if over else None

    def throttled(self, call: Call, hint: float | None) -> Answer:
        """Return a 429 in plain words; the wait in a header."""
        headers = {} if hint is None else {"x-ratelimit-reset": whole(hint)}
        return Answer(429, b"limit exceeded", {"content-type": "text/plain", **headers})

    def unauthorized(self, call: Call) -> Answer:
        """Return a 401."""
        return self._error("api.context.session_expired.app_error", 401)

    def permanent(self, call: Call) -> Answer:
        """Return that the bot may not."""
        return self._error("api.context.permissions.app_error", 403)

    def error_in_200(self, call: Call) -> Answer:
        """Return what only a proxy could make of it."""
        return self._error("api.context.permissions.app_error", 200)

    def failed(self, call: Call) -> Answer:
        """Return a 500 of its own."""
        return self._error("app.post.save.app_error", 500)

    def success(self, call: Call, id_: str) -> Answer:
        """Return the post."""
        return reply({"id": id_, "channel_id": self.chat(call)}, 201)

    def message_id(self, number: int) -> str:
        """Return a post's id."""
        return id_of(f"post{number}")

    def other(self, call: Call, route: str) -> Answer:
        """Return users, channels, posts by name and id; a file's id."""
        if route == "upload":
            return reply({"file_infos": [{"id": id_of("file1")}], "client_ids": []}, 201)
        if call.path.endswith("/users/me"):
            return reply({"id": id_of("me"), "username": "bus"})
        if call.path.endswith("/channels/direct"):
            return reply({"id": id_of("direct"), "type": "D"}, 201)
        if found := _NAME.search(call.path):
            return reply({"id": id_of(found[1]), "username": found[1], "name": found[1]})
        if "/posts/" in call.path:
            post = {"id": call.path.split("/")[-1], "root_id": "", "channel_id": "a1" * 13}
            return reply(post)
        return self._error("api.context.404.app_error", 404)

    def _error(self, id_: str, status: int) -> Answer:
        return reply({"id": id_, "message": id_, "status_code": status}, status)
