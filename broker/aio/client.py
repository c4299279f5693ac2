"""
The client for asyncio: the same calls as `Client`, as coroutines.

    async with AsyncClient() as bus:
        receipt = await bus.send("worker-alpha", "run the tests", type="directive")
        answer = await bus.ask("worker-alpha", "done?", wait=60)

Rule 1: the same core: each call's steps, the IO thread and the events thread are Client's own; only
the waiting is a loop's. Rule 2: nothing in here blocks the loop. Rule 3: a cancelled call leaves
nothing behind; what it asked for may have been written, so a cancelled send is sent again with its
`id`. Rule 4: one loop; when that ends, its client does.
"""

import asyncio
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
)
from functools import partial, wraps
from typing import Any, Concatenate, Final, ParamSpec, TypeVar, cast

from wakebus.broker.aio.loop_bridge import resolve
from wakebus.broker.aio.loop_calls import Looping
from wakebus.broker.aio.subscription import AsyncSubscription, OnEvent, OnGap, Subscribing
from wakebus.broker.client.calls import Row, pages_of, steps_of
from wakebus.broker.client.client import Client
from wakebus.broker.client.delivery import AsyncDelivery, Delivery
from wakebus.broker.client.in_flight import Handler, Hands, Run, Word, failed, lose
from wakebus.broker.client.registrations import Receiver
from wakebus.broker.errors import WakebusError
from wakebus.broker.protocol.outcome import Later, Outcome
from wakebus.broker.pubsub.subscription import Subscription

P = ParamSpec("P")
T = TypeVar("T")

CANCELLED_S: Final = 1.0  # a message comes again after this when its handler was cancelled
LOOK_S: Final = 0.02

AsyncHandler = Callable[[AsyncDelivery], Awaitable[Outcome]]


class _Core(Client):
    """The client inside. `start`: has handlers run."""

    def __init__(self, socket: str | None, timeout: float, start: Run) -> None:
        self._start = start
        super().__init__(socket, timeout=timeout)

    def _receiver(self) -> Receiver:
        return Receiver(self._transport, self.instance, self._start)


def _awaits(
    call: Callable[Concatenate[Client, P], T],
) -> Callable[Concatenate["AsyncClient", P], Coroutine[Any, Any, T]]:
    """Return a call of Client as a coroutine."""
    steps = steps_of(call)

    @wraps(call)
    async def awaited(self: "AsyncClient", /, *args: P.args, **fields: P.kwargs) -> T:
        return await self._drive(steps(self._core, *args, **fields))

    return awaited


def _iterates(
    call: Callable[Concatenate[Client, P], Iterator[Row]],
) -> Callable[Concatenate["AsyncClient", P], AsyncIterator[Row]]:
    """Return an iterating call of Client for `async for`."""
    pages = pages_of(call)

    @wraps(call)
    def iterated(self: "AsyncClient", /, *args: P.args, **fields: P.kwargs) -> AsyncIterator[Row]:
        return self._rows(pages(self._core, *args, **fields))

    return iterated


class AsyncClient(Looping):
    """
    A connection to the broker of this machine, for one event loop.

    `socket`: path of the broker's socket, default from `bus/address.json`. `timeout`: seconds
    that a call waits for its receipt. Raises NotRunning when no broker has started here.
    """

    def __init__(self, socket: str | None = None, *, timeout: float = 5.0) -> None:
        super().__init__(_Core(socket, timeout, self._begin))

    # --- sending, and what is asked: Client says what each call does, takes and raises ------

    send = _awaits(Client.send)
    ask = _awaits(Client.ask)
    wait = _awaits(Client.wait)
    wait_answer = _awaits(Client.wait_answer)
    unregister = _awaits(Client.unregister)
    list = _awaits(Client.list)
    declare = _awaits(Client.declare)
    forget = _awaits(Client.forget)
    trace = _awaits(Client.trace)
    read = _awaits(Client.read)
    retry = _awaits(Client.retry)
    purge = _awaits(Client.purge)
    cancel = _awaits(Client.cancel)
    status = _awaits(Client.status)
    dead_letters = _iterates(Client.dead_letters)
    inbox = _iterates(Client.inbox)

    # --- receiving ------------------------------------------------------------------------

    async def register(
        self,
        name: str,
        handler: AsyncHandler,
        *,
        takeover: bool = False,
        suffix: bool = False,
        on_lost: Callable[[str], object] | None = None,
    ) -> int:
        """
        Hold endpoint `name`: `await handler(delivery)` for its messages; return the epoch.

        Handlers are tasks of the loop, one at a time per lane, up to 64 lanes at once. What one
        returns is the outcome: a mapping (<= 16 KiB) or None for handled, `Later` or `Refusal`;
        an exception becomes a Refusal. Cancelled by `close`, it has acknowledged nothing; by
        somebody else, its message comes again after a second. `on_lost(why)`: the name went to
        another client for good. `suffix`: as Client.register does; `names` tells the name.

        Raises NameTaken, BadName, NotRunning or TimedOut.
        """
        handover, loop = self._bound()

        def lost(why: str) -> None:
            if on_lost is not None:
                handover.post(loop.call_soon, on_lost, why)

        claim = partial(self._core.register, name, takeover=takeover, suffix=suffix, on_lost=lost)
        claimed = partial(claim, cast(Handler, handler))  # nobody but `_begin` looks at it
        return await self._in_thread(claimed, lambda _: self._core.unregister(name))

    @property
    def names(self) -> dict[str, str]:
        """The names held, in order: what was asked for, and as which it was granted."""
        return self._core.names

    def _begin(self, hands: Hands, handler: Handler, delivery: Delivery) -> None:
        if not self._handover.post(self._take, hands, handler, delivery):
            raise RuntimeError("the loop has ended")

    def _take(self, hands: Hands, handler: Handler, delivery: Delivery) -> None:
        if not self._closing:
            self._keep(self._handle(hands, cast(AsyncHandler, handler), delivery))

    async def _handle(self, hands: Hands, handler: AsyncHandler, delivery: Delivery) -> None:
        try:
            outcome = await handler(AsyncDelivery(delivery, partial(self._tell, hands)))
        except asyncio.CancelledError as exc:
            if self._closing:
                raise  # its name is given up, and the message goes back
            cancelled = Later(CANCELLED_S, "its handler was cancelled")
            task = asyncio.current_task()
            outcome = cancelled if task and task.cancelling() else failed(exc)
        except (Exception, SystemExit) as exc:
            outcome = failed(exc)
        hands.done(delivery, outcome)

    async def _tell(
        self, hands: Hands, delivery: Delivery, verb: str, fields: dict[str, Any]
    ) -> None:
        handover, loop = self._bound()
        said: asyncio.Future[WakebusError | None] = loop.create_future()
        hands.say(Word(delivery, verb, fields, partial(handover.post, resolve, said)))
        error = await said
        if error is not None:
            lose(delivery, error)
            raise error

    # --- events ---------------------------------------------------------------------------

    async def publish(
        self, topic: str, fields: Mapping[str, Any] | None = None, *, confirm: bool = False
    ) -> None:
        """Publish an event, as `Client.publish` does: without `confirm` only the first waits."""
        self._bound()
        if confirm:
            await self._drive(steps_of(Client._confirmed)(self._core, topic, fields))
        elif self._publishes:
            self._core.publish(topic, fields)
        else:
            async with self._first:
                await self._publish_first(partial(self._core.publish, topic, fields))

    async def _publish_first(self, publish: Callable[[], None]) -> None:
        if self._publishes:
            publish()
        else:
            await self._in_thread(publish, lambda _: None)
            self._publishes = True

    def subscribe(
        self,
        pattern: str | Iterable[str],
        handler: OnEvent | None = None,
        *,
        on_gap: OnGap | None = None,
    ) -> Subscribing:
        """
        Subscribe as `Client.subscribe` does: to be awaited, or entered.

            async with bus.subscribe("ci.**") as events:
                async for event in events: ...

            subscription = await bus.subscribe("ci.**", handler)

        `handler(event)` and `on_gap(gap)` are called in the loop, one after the other, and awaited
        if they are coroutines. 2,000 events wait for a slow one; what comes then is missed and
        told as a gap, by this subscription alone.
        """
        return Subscribing(self._subscribe(pattern, handler, on_gap))

    async def _subscribe(
        self, pattern: str | Iterable[str], handler: OnEvent | None, on_gap: OnGap | None
    ) -> AsyncSubscription:
        handover, _ = self._bound()
        found = AsyncSubscription(handover, on_gap)
        opening = partial(self._core._subscribe, pattern, found.put, found.put, found.room)
        found.subscription = await self._in_thread(opening, Subscription.close)
        self._streams.add(found)
        if self._closing:
            found.close()
        elif handler is not None:
            self._keep(found.run(handler))
        return found

    @property
    def dropped(self) -> int:
        """Events of this client that could not go out: the broker was away, or its pipe full."""
        return self._core.dropped

    @property
    def missed(self) -> int:
        """Events that the subscriptions of this client have missed, as far as they know."""
        return self._core.missed

    # --- the connection -------------------------------------------------------------------

    @property
    def address(self) -> str:
        """Where the broker is looked for."""
        return self._core.address

    async def connected(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds for a broker to be there; return whether one is."""
        _, loop = self._bound()
        deadline = loop.time() + timeout
        while not self._core.connected(0) and loop.time() < deadline:
            await asyncio.sleep(LOOK_S)
        return self._core.connected(0)

    async def close(self) -> None:
        """
        Give up all names and the connection; never hangs. Safe to call twice.

        Handlers that run are cancelled, and have acknowledged nothing.
        """
        self._bound()
        await self._end()
        if self._last is not None:
            await self._last.aclose()

    async def __aenter__(self) -> "AsyncClient":
        self._bound()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
