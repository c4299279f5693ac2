"""
A subscription in a loop: events by `async for`, or one call of a handler for each.

Rule 1: the events thread puts events into a bounded buffer, and wakes the loop once for all that
it holds. Rule 2: what finds the buffer full is missed, and shown as a gap before the next event of
its publisher and topic; nothing else waits for a slow consumer. Rule 3: a handler is called for one
event after the other, in order.
"""

import asyncio
import inspect
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from typing import Any, Final

from wakebus.broker.aio.loop_bridge import LoopBridge
from wakebus.broker.protocol.event import Event
from wakebus.broker.pubsub.sequences import Gap
from wakebus.broker.pubsub.subscription import OnEvent, OnGap, Subscription

MAX_BUFFERED: Final = 2_000  # events; as many as wait in a socket, EVENTS.md
FAIR: Final = 100  # events in a row without a look at what else the loop has to do


class AsyncSubscription(AsyncIterator[Event]):
    """
    `patterns`, and what came of them: `received` events, `missed` events; its iterator ends when
    it is closed.

    Made by `AsyncClient.subscribe`.
    """

    subscription: Subscription

    def __init__(self, bridge: LoopBridge, on_gap: OnGap | None) -> None:
        self._bridge, self._on_gap = bridge, on_gap
        self._buffer: deque[Event | Gap] = deque()
        self._ready = asyncio.Event()
        self._woken = self._closed = False
        self._in_a_row = 0

    @property
    def patterns(self) -> tuple[str, ...]:
        """What is subscribed to."""
        return self.subscription.patterns

    @property
    def received(self) -> int:
        """Events that came."""
        return self.subscription.received

    @property
    def missed(self) -> int:
        """Events that did not, as far as it knows."""
        return self.subscription.missed

    @property
    def closed(self) -> bool:
        """Whether it has ended."""
        return self._closed

    def close(self) -> None:
        """End it, at once. No event is handed out afterwards."""
        self._closed = True
        self._buffer.clear()
        self._ready.set()
        self.subscription.close()

    def after_fork(self) -> None:
        """In the child of a fork: be closed; whom it wakes is the parent's."""
        self._closed = True
        self._buffer.clear()

    # --- events thread --------------------------------------------------------------------

    def has_room(self) -> bool:
        """Whether the buffer takes an event and a gap."""
        return len(self._buffer) < MAX_BUFFERED

    def put(self, item: Event | Gap) -> None:
        """Put it into the buffer, and wake the loop."""
        if type(item) is Gap and self._on_gap is None:
            return
        self._buffer.append(item)
        if not self._woken:
            self._woken = True
            self._bridge.post(self._wake)

    # --- loop -----------------------------------------------------------------------------

    def _wake(self) -> None:
        self._woken = False  # first: what comes from now on wakes again
        self._ready.set()

    async def __anext__(self) -> Event:
        """Return the next event; `on_gap` is called before it."""
        while not self._closed:
            if not self._buffer:
                self._in_a_row = 0
                self._ready.clear()
                await self._ready.wait()
                continue
            await self._be_fair()
            item = self._buffer.popleft() if self._buffer else None
            if isinstance(item, Event):
                return item
            if item is not None and self._on_gap is not None:
                await self._call("on_gap", self._on_gap, item)
        raise StopAsyncIteration

    async def _be_fair(self) -> None:
        self._in_a_row += 1
        if self._in_a_row > FAIR:
            self._in_a_row = 0
            await asyncio.sleep(0)

    async def run(self, handler: OnEvent) -> None:
        """Call `handler` for each event, until it is closed."""
        async for event in self:
            await self._call("a handler", handler, event)

    async def _call(self, what: str, function: Callable[[Any], object], item: Event | Gap) -> None:
        try:
            found = function(item)
            if inspect.isawaitable(found):
                await found
        except (Exception, SystemExit) as exc:
            self.subscription.log_error(what, exc)


class Subscribing:
    """What `AsyncClient.subscribe` returns: to be awaited, or entered by `async with`."""

    def __init__(self, opening: Coroutine[Any, Any, AsyncSubscription]) -> None:
        self._opening = opening
        self._opened: AsyncSubscription | None = None

    def __await__(self) -> Generator[Any, Any, AsyncSubscription]:
        return self._opening.__await__()

    async def __aenter__(self) -> AsyncSubscription:
        self._opened = await self._opening
        return self._opened

    async def __aexit__(self, *_: object) -> None:
        if self._opened is not None:
            self._opened.close()
