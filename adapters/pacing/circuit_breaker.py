"""
The circuit breaker: whether a platform, or one of its chats, is worth a request now.

Rule 1: pure; `now` is an argument: seconds of a clock that only goes forward. Rule 2: it opens
after FAILURE_THRESHOLD requests in a row without an answer, for 5 s; then one probe goes out, and
each that fails doubles the time, up to 60 s. Any answer, also a refusal, is the end of it
(admission.py). Rule 3: a platform's circuit opens only where at least two chats got no answer: one
chat that hangs has a circuit of its own, and holds no other. Rule 4: a chat that did answer last
may probe a little before those that did not, so that dead chats do not keep a living one waiting.
"""

from typing import Final, Literal

CircuitState = Literal["closed", "open", "probing"]

FAILURE_THRESHOLD: Final = 5  # as hystrix, resilience4j and Envoy (consecutive_5xx)
FIRST_S: Final = 5.0
LONGEST_S: Final = 60.0
PROBE_S: Final = 60.0  # then a probe that is not heard of is taken for lost; https.py ends after 30
ASK_S: Final = 5.0  # while a probe is under way
AHEAD: Final = 0.2  # of the time that it is open
MAX_SILENT: Final = 16  # chats without an answer that are remembered


class CircuitBreaker:
    """One of a platform, and one of each of its chats. `min_chats`: chats without an answer."""

    def __init__(self, *, min_chats: int = 1, threshold: int = FAILURE_THRESHOLD) -> None:
        self._min_chats, self._threshold = min_chats, threshold
        self._failures = 0
        self._silent: dict[str, None] = {}
        self._open_s = 0.0  # 0: closed
        self._probe: tuple[str, float] | None = None
        self.until = 0.0
        self.why = ""

    def state(self, now: float) -> CircuitState:
        """Return its word."""
        if not self._open_s:
            return "closed"
        return "probing" if self._probing(now) else "open"

    def wait(self, key: str, chat: str, now: float) -> float:
        """Return the seconds after which `key` may ask again; 0.0: it may go out."""
        if not self._open_s or (self._probe and self._probe[0] == key):
            return 0.0
        ahead = 0.0 if chat in self._silent else AHEAD * self._open_s
        if (rest := self.until - ahead - now) > 0:
            return rest
        return ASK_S if self._probing(now) else 0.0

    def admit(self, key: str, now: float) -> None:
        """What `wait` let through goes out: while it is open, it is the probe."""
        if self._open_s and not self._probing(now):
            self._probe = (key, now)

    def release(self, key: str) -> None:
        """What was let through did not go out; another may probe."""
        if self._probe and self._probe[0] == key:
            self._probe = None

    def record_failure(self, key: str, chat: str, now: float) -> None:
        """There was no answer, or only that the platform is down."""
        self._failures += 1
        if len(self._silent) < MAX_SILENT:
            self._silent[chat] = None
        if not self._open_s:
            if self._failures >= self._threshold and len(self._silent) >= self._min_chats:
                self._open(FIRST_S, now)
        elif self._probe and self._probe[0] == key:
            self._open(min(2 * self._open_s, LONGEST_S), now)

    def _open(self, seconds: float, now: float) -> None:
        self._open_s, self.until, self._probe = seconds, now + seconds, None

    def _probing(self, now: float) -> bool:
        return self._probe is not None and now < self._probe[1] + PROBE_S
