"""
A request on its way, as its caller and the IO thread share it.
"""

import threading
from collections.abc import Callable
from typing import Any

from wakebus.broker.errors import WakebusError, from_wire


class PendingRequest:
    """
    A request on its way. `fleeting`: not written again after a reconnect.

    `notify` is called once, in the IO thread: with an answer, an error, or, when the client has
    closed, neither. `written`: the socket has taken it at least once.
    """

    __slots__ = (
        "_done",
        "_waiters",
        "answer",
        "error",
        "fleeting",
        "frame",
        "notify",
        "sequence",
        "written",
    )

    def __init__(
        self,
        sequence: int,
        frame: bytes,
        notify: "Callable[[PendingRequest], object] | None" = None,
        fleeting: bool = False,
    ) -> None:
        self.sequence, self.frame = sequence, frame
        self.notify, self.fleeting = notify, fleeting
        self.written = False
        self.answer: dict[str, Any] | None = None
        self.error: WakebusError | None = None
        self._done = False
        # Bare locks: an event has one inside that a forked child may find taken for ever.
        self._waiters: list[threading.Lock] = []

    def wait(self, timeout: float) -> bool:
        """Return whether the answer came within `timeout` seconds."""
        waiter = threading.Lock()
        waiter.acquire()
        self._waiters.append(waiter)
        # Asked after that: whoever finishes later lets it go.
        return self._done or waiter.acquire(timeout=max(0.0, min(timeout, threading.TIMEOUT_MAX)))

    def settle(self, verb: str, payload: dict[str, Any]) -> None:
        """Take the answer (IO thread)."""
        if verb == "ok":
            self.answer = payload
        else:
            self.error = from_wire(payload)
        self.finish()

    def finish(self) -> None:
        """Wake who waits; without an answer the connection has closed."""
        self._wake()
        if self.notify is not None:
            self.notify(self)

    def abandon(self, error: WakebusError) -> None:
        """In the child of a fork: give up what the parent waits for; takes no lock."""
        self.error = error
        self._wake()

    def _wake(self) -> None:
        self._done = True
        while self._waiters:
            self._waiters.pop().release()
