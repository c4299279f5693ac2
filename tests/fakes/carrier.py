"""The sending shell as the courier uses it, over the real transport, with waits that are noted."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from wakebus.adapters.base import ChannelResult, File, Outgoing, Progress, Request, Response
from wakebus.adapters.channel import parse
from wakebus.adapters.delivery.adapter_calls import GuardedAdapter
from wakebus.adapters.delivery.context import DeliveryContext, MemoryRecord
from wakebus.adapters.delivery.deliver import deliver, result_of
from wakebus.adapters.errors import DeliveryError
from wakebus.adapters.transports.https import Https

# Shared: reading the certificates costs more than most tests.
LONG, SHORT = Https(), Https(read_s=1.0)


class Carrier:
    """Call it with a channel and a text. `waits`: the seconds that were waited for platforms."""

    def __init__(self, env: Mapping[str, str], *, impatient: int = 0) -> None:
        """Of the requests that carry a text, the first `impatient` wait for an answer 1 s."""
        self.env = env
        self.waits: list[float] = []
        self.time = 1_764_288_000.5
        self._impatient = impatient
        self.meanwhile: Callable[[], None] = lambda: None  # what happens during a wait
        performers = {"https": self._perform, "http": self._perform}
        self.context = DeliveryContext(performers, now=lambda: self.time, sleep=self._sleep)

    def __call__(
        self,
        channel: str,
        text: str = "hi",
        key: str = "k1",
        *,
        webhook: str | None = None,
        progress: Progress | None = None,
        file: File | None = None,
    ) -> ChannelResult:
        """Deliver; a channel that cannot be resolved is its result."""
        try:
            chat = GuardedAdapter.resolve(parse(channel), self.env)
        except DeliveryError as exc:
            return result_of(exc)
        context = replace(self.context, record=progress or MemoryRecord())
        return deliver(chat, Outgoing(text, key, webhook=webhook, file=file), context)

    def _perform(self, request: Request) -> Response:
        if self._impatient and _carries_a_text(request):
            self._impatient -= 1
            return SHORT(request)
        return LONG(request)

    def _sleep(self, seconds: float) -> bool:
        if seconds:
            self.waits.append(seconds)
            self.meanwhile()
        return False


def _carries_a_text(request: Request) -> bool:
    """Whether this is no question (a look-up) and no request for a token."""
    return request.method != "GET" and b"secret" not in request.body.lower()
