"""
Feishu and DingTalk on loopback: a real HTTP server that keeps their rules and misbehaves by name.

It checks tokens, limits and ids, makes one message of one uuid, and remembers every request, with
what it did. What it does next is planned per route (`token`, `send`, `webhook`, `session`), for one
chat or all; without a plan it is `ok`. In a step's name `_lost` means that nothing was accepted.
"""

import json
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from fakes import platform_words as words
from fakes.platform_words import ACCEPTING, Answer, Message, Seen, Step

__all__ = ["Message", "Platform", "Seen", "Step"]


class Platform:
    """`url`: the base for *_API_BASE and webhooks. Close it."""

    def __init__(self, hint: float | None = 0.05) -> None:
        self.hint = hint
        self.seen: list[Seen] = []
        self.messages: list[Message] = []
        self.generation = 1
        self._changed = threading.Condition()
        self._plans: dict[tuple[str, str], deque[Step]] = {}
        self._uuids: dict[str, str] = {}
        self._free = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.platform = self
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    # --- what a test says -----------------------------------------------------------------

    def plan(self, route: str, *steps: Step, chat: str = "") -> None:
        """Do these steps, in order, at this route's next requests (to this chat)."""
        with self._changed:
            self._plans.setdefault((route, chat), deque()).extend(steps)

    def release(self) -> None:
        """Drop the connections that hang, now and from now on."""
        self._free.set()

    def close(self) -> None:
        """Stop; every connection ends."""
        self.release()
        self._server.shutdown()
        self._thread.join(10)
        self._server.end()

    # --- what a test asks -----------------------------------------------------------------

    def requests(self, route: str = "send") -> list[Seen]:
        """Return the requests at a route until now."""
        with self._changed:
            return [seen for seen in self.seen if seen.route == route]

    def texts(self, chat: str | None = None) -> list[str]:
        """Return what stands in a chat, or in all, in order."""
        with self._changed:
            return [m.text for m in self.messages if chat in (None, m.chat)]

    def wait(self, until: Callable[["Platform"], bool], timeout: float = 20.0) -> None:
        """Return when `until` says so of this platform."""
        deadline = time.monotonic() + timeout
        with self._changed:
            while not until(self):
                left = deadline - time.monotonic()
                assert left > 0, f"not seen within {timeout} s; seen: {self.seen}"
                self._changed.wait(left)

    def wait_for(self, count: int, route: str = "send", timeout: float = 20.0) -> None:
        """Return when `count` requests have come at a route."""
        self.wait(lambda p: sum(s.route == route for s in p.seen) >= count, timeout)

    # --- what the handler does ------------------------------------------------------------

    def take(self, path: str, headers: dict[str, str], body: dict[str, Any]) -> tuple[str, Answer]:
        """Decide about one request, remember it, return the step and the answer."""
        route, chat = words.route(path), words.chat(path, body)
        with self._changed:
            step = self._next(route, chat)
            if step == "token_expired_once":
                self.generation += 1
            seen = Seen(route, path, chat, body, headers, step, False)
            answer = self._token(seen) if route == "token" else self._judge(seen)
            accepted = route != "token" and answer is None and step in ACCEPTING
            id_ = self._accept(seen) if accepted else ""
            id_ = id_ if route == "send" else ""  # webhooks tell none
            self.seen.append(Seen(route, path, chat, body, headers, step, accepted))
            self._changed.notify_all()
        return step, answer or words.success(path, id_)

    def refused(self, path: str, headers: dict[str, str]) -> bool:
        """Whether the connection is to end before the body is read."""
        route = words.route(path)
        with self._changed:
            if (self._plans.get((route, "")) or [""])[0] != "close_before_read":
                return False
            self._plans[route, ""].popleft()
            self.seen.append(Seen(route, path, "", {}, headers, "close_before_read", False))
            self._changed.notify_all()
            return True

    def held(self) -> None:
        """Return when hanging ends."""
        self._free.wait(60)

    def _next(self, route: str, chat: str) -> Step:
        plan = self._plans.get((route, chat)) or self._plans.get((route, ""))
        return plan.popleft() if plan else "ok"

    def _token(self, seen: Seen) -> Answer | None:
        if seen.step not in ("ok", "slow"):
            return words.misdeed(seen, self.hint)
        token = f"t-{self.generation}"
        if "wrong" in seen.body.values():
            return words.error(seen.path, 10014, "invalidClientIdOrSecret", 400)
        if words.is_feishu(seen.path):
            return words.reply(
                {"code": 0, "msg": "ok", "tenant_access_token": token, "expire": 7200}
            )
        return words.reply({"accessToken": token, "expireIn": 7200})

    def _judge(self, seen: Seen) -> Answer | None:
        if seen.route == "send" and seen.token != f"t-{self.generation}":
            return words.error(seen.path, 99991663, "InvalidAuthentication", 400)
        return words.misdeed(seen, self.hint) or words.limits(seen)

    def _accept(self, seen: Seen) -> str:
        uuid = seen.uuid
        if uuid and uuid in self._uuids:
            return self._uuids[uuid]
        id_ = f"om_{len(self.messages) + 1}"
        if uuid:
            self._uuids[uuid] = id_
        self.messages.append(Message(seen.chat, words.text(seen.body), uuid, id_))
        return id_


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 256
    platform: Platform

    def __init__(self, *args: Any) -> None:
        self._open: set[socket.socket] = set()
        super().__init__(*args)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away (it was killed) is what tests do."""

    def end(self) -> None:
        """Close the listening socket, and wake the threads that read from a client."""
        for connection in list(self._open):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it is gone
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def do_POST(self) -> None:
        """Answer, or misbehave."""
        platform = self.server.platform
        headers = {name.lower(): value for name, value in self.headers.items()}
        if platform.refused(self.path, headers):
            return self._reset()
        body = json.loads(self.rfile.read(int(headers.get("content-length", "0"))))
        step, answer = platform.take(self.path, headers, body)
        if step.startswith("hang"):
            platform.held()
        if step.startswith(("hang", "reset")):
            return self._reset()
        if step == "error_500":
            answer.status = 500
        return self._answer(step, answer)

    def _answer(self, step: str, answer: Answer) -> None:
        self.send_response(answer.status)
        headers = {"content-type": "application/json", **answer.headers}
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(answer.body)))
        self.end_headers()
        if step == "half":
            self.wfile.write(answer.body[: len(answer.body) // 2])
            self.close_connection = True
        elif step == "slow":
            for place in range(0, len(answer.body), 16):
                self.wfile.write(answer.body[place : place + 16])
                time.sleep(0.01)
        else:
            self.wfile.write(answer.body)

    def _reset(self) -> None:
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        for end in (self.wfile, self.rfile, self.connection):
            end.close()
