"""
A stand-in for a Mattermost server, as far as Hermes's adapter uses one (REST v4, WebSocket).

Source: plugins/platforms/mattermost/adapter.py of hermes-agent 0.19.0. It remembers posts and
edits; faults come on demand: errors and silence for the next posts, a lost WebSocket, a refused
connection.
"""

import itertools
import json
import re
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from e2e_hermes.server import Handler, Server
from e2e_hermes.ws import WebSocket

BOT = "hermesbot"
HANG = 0
HANG_S = 120.0


@dataclass
class Post:
    """What stands in a channel. `edits`: earlier texts. `at`: monotonic seconds."""

    id: str
    channel: str
    user: str
    text: str
    root: str
    at: float
    edits: list[str] = field(default_factory=list)

    @property
    def json(self) -> dict[str, Any]:
        """As the API gives it."""
        return {
            "id": self.id,
            "channel_id": self.channel,
            "user_id": self.user,
            "message": self.text,
            "root_id": self.root,
            "type": "",
        }


class _Handler(Handler):
    app: "Mattermost"

    def do_GET(self) -> None:
        path = self.path.removeprefix("/api/v4/")
        if path == "websocket":
            return self.app.serve(WebSocket(self.connection, dict(self.headers)))
        if path == "users/me":
            return self.answer(200, {"id": BOT, "username": "hermes"})
        room, _, id = path.partition("/")
        if room == "channels" and id in self.app.channels:
            value = {"id": id, "name": id, "display_name": id, "type": self.app.channels[id]}
            return self.answer(200, value)
        if room == "posts" and (post := self.app.find(id)):
            return self.answer(200, post.json)
        return self.answer(404, {"message": f"{path} does not exist"})

    def do_POST(self) -> None:
        body = self.body()
        if self.path.endswith("/typing"):
            self.app.typing.append(str(body.get("channel_id")))
            return self.answer(200, {"status": "OK"})
        if self.path != "/api/v4/posts":
            return self.answer(404, {"message": f"{self.path} does not exist"})
        return self._post(body)

    def _post(self, body: dict[str, Any]) -> None:
        fault = self.app.fault(body)
        if fault == HANG:
            end = time.monotonic() + HANG_S
            while time.monotonic() < end and not self.gone() and not self.app.freed.is_set():
                self.app.freed.wait(0.02)
            return None
        if fault == 429:
            return self.answer(429, {"message": "slow down"}, Retry_After="1")
        if fault:
            return self.answer(fault, {"message": "the server is ill"})
        if body.get("channel_id") not in self.app.channels:
            return self.answer(404, {"message": "no such channel"})
        self.app.bearers.add(self.headers.get("Authorization", "").removeprefix("Bearer "))
        post = self.app.put(
            str(body["channel_id"]), BOT, str(body["message"]), str(body.get("root_id") or "")
        )
        return self.answer(201, post.json)

    def do_PUT(self) -> None:
        body = self.body()
        match = re.fullmatch(r"/api/v4/posts/(\w+)/patch", self.path)
        post = self.app.find(match[1]) if match else None
        if not post:
            return self.answer(404, {"message": f"{self.path} does not exist"})
        post.edits.append(post.text)
        post.text = str(body.get("message", ""))
        return self.answer(200, post.json)


class Mattermost(Server):
    """
    `channels`: id → `D` (direct), `G` (group) or `O` (open). `posts`: all, in order.

    `bearers`: the tokens of who posted.
    """

    handler = _Handler

    def __init__(self, channels: dict[str, str]) -> None:
        self.channels = dict(channels)
        self.posts: list[Post] = []
        self.refused: list[dict[str, Any]] = []
        self.typing: deque[str] = deque(maxlen=1000)
        self.connections = 0
        self.bearers: set[str] = set()
        self.freed = threading.Event()
        self._faults: deque[int] = deque()
        self._sockets: list[WebSocket] = []
        self._count = itertools.count(1)
        super().__init__()

    # --- what a test says -----------------------------------------------------------------

    def say(self, channel: str, user: str, text: str, root: str = "") -> Post:
        """A person writes; needs a connected bot, and says so. `root`: the thread's first post."""
        assert self._sockets, "no bot is connected: wait for it (gateway.ready())"
        post = self.put(channel, user, text, root)
        data = {
            "post": json.dumps(post.json),
            "channel_type": self.channels[channel],
            "sender_name": f"@{user}",
        }
        event = {"event": "posted", "data": data, "broadcast": {"channel_id": channel}, "seq": 1}
        for connection in list(self._sockets):
            connection.send(event)
        return post

    def fail_posts(self, count: int, status: int = 500) -> None:
        """Answer the bot's next posts with this status (429 with a hint of 1 s)."""
        self._faults.extend([status] * count)

    def hang_posts(self, count: int) -> None:
        """Say nothing to the next posts until `free()`; then they end without an answer."""
        self.freed.clear()
        self._faults.extend([HANG] * count)

    def free(self) -> None:
        """End what hangs."""
        self.freed.set()

    def heal(self) -> None:
        """Forget the planned faults."""
        self._faults.clear()
        self.free()

    def drop_websocket(self) -> None:
        """End the bot's WebSocket; the adapter connects again after about 2 s."""
        for connection in list(self._sockets):
            connection.drop()

    def refuse(self) -> None:
        """Refuse connections, and end those that are; `accept()` ends it."""
        super().refuse()
        self.drop_websocket()

    def close(self) -> None:
        """End for good."""
        self.free()
        self.drop_websocket()
        super().close()

    # --- what a test asks -----------------------------------------------------------------

    @property
    def connected(self) -> bool:
        """Whether a bot listens."""
        return bool(self._sockets)

    def answers(self, channel: str) -> list[Post]:
        """Return what the bot has written in a channel, in order."""
        return [post for post in self.posts if post.channel == channel and post.user == BOT]

    # --- what the handler does ------------------------------------------------------------

    def serve(self, connection: WebSocket) -> None:
        """Hold a bot's WebSocket until it ends; it counts once it has shown its token."""
        challenge = connection.read()
        if not challenge or challenge.get("action") != "authentication_challenge":
            return
        with self.changed:
            self._sockets.append(connection)
            self.connections += 1
        try:
            while connection.read() is not None:
                pass
        except OSError:
            pass  # dropped
        finally:
            with self.changed:
                self._sockets.remove(connection)

    def put(self, channel: str, user: str, text: str, root: str) -> Post:
        """Keep a post."""
        with self.changed:
            post = Post(f"post{next(self._count):022}", channel, user, text, root, time.monotonic())
            self.posts.append(post)
        return post

    def find(self, id: str) -> Post | None:
        """Return a post by its id."""
        return next((post for post in list(self.posts) if post.id == id), None)

    def fault(self, body: dict[str, Any]) -> int | None:
        """Return what is planned for this post: a status, HANG, or None."""
        with self.changed:
            if not self._faults:
                return None
            self.refused.append(body)
            return self._faults.popleft()
