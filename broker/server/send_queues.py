"""
What peers have not taken yet: a queue for each connection whose pipe is full (PROTOCOL.md 3).

Rule 1: nobody waits: what did not go out is tried again by a timer, seldom where nothing moves,
because ROUTER tells only that some peer can be written to. Rule 2: nothing overtakes what waits on
the same connection. Rule 3: a queue is bounded, and a connection that leaves more unread is given
up: it is closed, so that its client connects and asks again.
"""

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

import zmq

log = logging.getLogger("wakebus.router")

# Of one connection, beyond its pipe: what 100,000 sends without a look at a receipt take.
MAX_FRAMES: Final = 100_000
MAX_BYTES: Final = 16 << 20
PAUSE_S: Final = 0.001
MAX_PAUSE_S: Final = 0.25  # four looks a second at a peer that is frozen


class _Queue:
    """Frames in order. `given_up`: only the first is kept, to see when the connection has gone."""

    __slots__ = ("bytes", "frames", "given_up", "pause")

    def __init__(self) -> None:
        self.frames: deque[bytes] = deque()
        self.bytes, self.pause = 0, PAUSE_S
        self.given_up = False

    @property
    def over(self) -> bool:
        """Whether more waits than may."""
        return len(self.frames) > MAX_FRAMES or self.bytes > MAX_BYTES


class SendQueues:
    """
    Sends, and keeps what a peer does not take.

    `send(connection, frame)`: raises zmq.Again where the pipe is full, ZMQError where nobody is
    there. `later(seconds, act)`: a timer. `has_room(connection)`: called when nothing waits there
    any more. `close(connection)`: ends it.
    """

    def __init__(
        self,
        send: Callable[[bytes, bytes], None],
        later: Callable[[float, Callable[[], None]], object],
        has_room: Callable[[bytes], None],
        close: Callable[[bytes], None],
    ) -> None:
        self._send, self._later, self._has_room, self._close = send, later, has_room, close
        self._queues: dict[bytes, _Queue] = {}

    def __len__(self) -> int:
        return len(self._queues)

    def offer_frame(self, conn: bytes, frame: bytes) -> bool:
        """
        Send a frame that can wait elsewhere; return whether it was taken.

        Not while others wait there: `has_room` is called when they have gone.
        """
        return conn not in self._queues and self.push_frame(conn, frame)

    def push_frame(self, conn: bytes, frame: bytes) -> bool:
        """Send a frame after all that waits there; return whether anybody is there."""
        queue = self._queues.get(conn)
        if queue is None:
            try:
                self._send(conn, frame)
                return True
            except zmq.Again:
                queue = self._queues[conn] = _Queue()
                self._later(queue.pause, partial(self._flush, conn))
            except zmq.ZMQError:
                return False
        if queue.given_up:
            return False
        queue.frames.append(frame)
        queue.bytes += len(frame)
        if queue.over:
            self._give_up(conn, queue)
        return True

    def _flush(self, conn: bytes) -> None:
        queue = self._queues[conn]
        moved = False
        try:
            while queue.frames:
                self._send(conn, queue.frames[0])
                queue.bytes -= len(queue.frames.popleft())
                moved = True
        except zmq.Again:
            queue.pause = PAUSE_S if moved else min(2 * queue.pause, MAX_PAUSE_S)
            self._later(queue.pause, partial(self._flush, conn))
        except zmq.ZMQError:
            del self._queues[conn]
        else:
            del self._queues[conn]
            self._has_room(conn)

    def _give_up(self, conn: bytes, queue: _Queue) -> None:
        log.warning(
            "a client leaves %d answers (%d KiB) unread: its connection is closed",
            len(queue.frames),
            queue.bytes >> 10,
        )
        queue.given_up = True
        first = queue.frames[0]
        queue.frames, queue.bytes = deque([first]), len(first)
        self._close(conn)
