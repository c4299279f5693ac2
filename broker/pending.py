"""
A request on its way, as its caller and the IO thread share it.
"""

import threading
from collections.abc import Callable
from typing import Any, Final

from wakebus.broker.errors import WakebusError, from_wire

CLOSED: Final = "this client is closed"

_making: Final = threading.RLock()  # a signal handler may wait too


class Pending:
    """
    A request on its way. `fleeting`: not written again after a reconnect.

    `notify` is called once, in the IO thread: with an answer, an error, or, when the client has
    closed, neither. `written`: the socket has taken it at least once.
    """

    __slots__ = (
        "_done",
        "_event",
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
        notify: "Callable[[Pending], object] | None" = None,
        fleeting: bool = False,
    ) -> None:
        self.sequence, self.frame = sequence, frame
        self.notify, self.fleeting = notify, fleeting
        self.written = False
        self.answer: dict[str, Any] | None = None
        self.error: WakebusError | None = None
        self._done = False
        # An event costs more than all the rest: made for who waits.
        self._event: threading.Event | None = None

    def wait(self, timeout: float | None) -> bool:
        """Return whether the answer came within `timeout` seconds."""
        with _making:
            event = self._event = self._event or threading.Event()
        # Asked after the event was made: whoever finishes later sets it.
        return self._done or event.wait(timeout)

    def settle(self, verb: str, payload: dict[str, Any]) -> None:
        """Take the answer (IO thread)."""
        if verb == "ok":
            self.answer = payload
        else:
            self.error = from_wire(payload)
        self.finish()

    def finish(self) -> None:
        """Wake who waits; without an answer the transport has closed."""
        self._done = True
        if self._event is not None:
            self._event.set()
        if self.notify is not None:
            self.notify(self)
