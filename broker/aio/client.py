"""
The client for asyncio: the same calls as `Client`, as coroutines.

    async with AsyncClient() as bus:
        receipt = await bus.send("worker-alpha", "run the tests", type="directive")
        answer = await bus.ask("worker-alpha", "done?", wait=60)

Rule 1: the same core: the calls, the IO thread and the events thread are Client's own; only the
waiting is a loop's. Rule 2: nothing in here blocks the loop. Rule 3: a cancelled call leaves
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
    Mapping,
)
from functools import partial, wraps
from typing import Any, Concatenate, Final, ParamSpec, TypeVar, cast

from wakebus.broker.aio.loop_bridge import resolve
from wakebus.broker.aio.loop_calls import LoopCalls
from wakebus.broker.aio.subscription import AsyncSubscription, Subscribing
from wakebus.broker.client.calls import Call, Calls, PagedCall, ReplyRow
from wakebus.broker.client.core import ClientCore, ClientStatus
from wakebus.broker.client.delivery import AsyncDelivery, Delivery
from wakebus.broker.client.in_flight import (
    Handler,
    InFlight,
    PendingAck,
    mark_lost,
    outcome_of_error,
)
from wakebus.broker.errors import WakebusError
from wakebus.broker.protocol.outcome import Later, Outcome
from wakebus.broker.pubsub.subscription import OnEvent, OnGap, Subscription

P = ParamSpec("P")
T = TypeVar("T")

CANCELLED_S: Final = 1.0  # a message comes again after this when its handler was cancelled
POLL_S: Final = 0.02

AsyncHandler = Callable[[AsyncDelivery], Awaitable[Outcome]]


def _async_call(
    call: Callable[Concatenate[Calls, P], Call[T]],
) -> Callable[Concatenate["AsyncClient", P], Coroutine[Any, Any, T]]:
    """Return a call as a coroutine."""

    @wraps(call)
    async def called(self: "AsyncClient", /, *args: P.args, **fields: P.kwargs) -> T:
        return await self._runner.run(call(self._core.calls, *args, **fields))

    return called


def _async_pages(
    call: Callable[Concatenate[Calls, P], PagedCall],
) -> Callable[Concatenate["AsyncClient", P], AsyncIterator[ReplyRow]]:
    """Return a call that yields rows for `async for`."""

    @wraps(call)
    def called(
        self: "AsyncClient", /, *args: P.args, **fields: P.kwargs
    ) -> AsyncIterator[ReplyRow]:
        return self._runner.rows(call(self._core.calls, *args, **fields))

    return called


class AsyncClient(ClientStatus):
    """
    A connection to the broker of this machine, for one event loop.

    `socket`: path of the broker's socket, default from `bus/address.json`. `timeout`: seconds
    that a call waits for its receipt. Raises NotRunning when no broker has started here.
    """

    def __init__(self, socket: str | None = None, *, timeout: float = 5.0) -> None:
        self._timeout = timeout
        super().__init__(ClientCore(socket, self._start_handler))
        self._runner = LoopCalls(self._core, timeout)

    # --- what is asked of the broker: calls.py says what each call takes, returns, raises ---

    send = _async_call(Calls.send)
    ask = _async_call(Calls.ask)
    wait = _async_call(Calls.wait)
    wait_answer = _async_call(Calls.wait_answer)
    reply = _async_call(Calls.reply)
    cancel = _async_call(Calls.cancel)
    resume = _async_call(Calls.resume)
    read = _async_call(Calls.read)
    trace = _async_call(Calls.trace)
    list = _async_call(Calls.list)
    declare = _async_call(Calls.declare)
    forget = _async_call(Calls.forget)
    inbox = _async_pages(Calls.inbox)
    dead_letters = _async_pages(Calls.dead_letters)
    retry = _async_call(Calls.retry)
    purge = _async_call(Calls.purge)
    status = _async_call(Calls.status)
    stop_broker = _async_call(Calls.stop_broker)
    unregister = _async_call(Calls.unregister)

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
        an exception becomes a Refusal. Cancelled by `close`, it has acknowledged nothing; because
        its message was (`AsyncDelivery.cancelled`), that is dead; by somebody else, its message
        comes again after a second. `on_lost(why)`: the name went to
        another client for good. `suffix`: as Client.register does; `names` tells the name.

        Raises NameTaken, BadName, NotRunning or TimedOut.
        """
        bridge, loop = self._runner.bind()

        def lost(why: str) -> None:
            if on_lost is not None:
                bridge.post(loop.call_soon, on_lost, why)

        def claim() -> int:
            # Nobody but `_start_handler` looks at what the handler is.
            return self._core.registrations().register(
                name,
                cast(Handler, handler),
                lost,
                self._timeout,
                takeover=takeover,
                suffix=suffix,
            )

        def give_up(_: int) -> None:
            granted = self._core.registrations().give_up(name)
            self._core.connection.request("unregister", {"name": granted})

        return await self._runner.in_thread(claim, give_up)

    def _start_handler(self, in_flight: InFlight, handler: Handler, delivery: Delivery) -> None:
        if not self._runner.post(self._start_task, in_flight, handler, delivery):
            raise RuntimeError("the loop has ended")

    def _start_task(self, in_flight: InFlight, handler: Handler, delivery: Delivery) -> None:
        if not self._runner.closing:
            self._runner.start_task(self._handle(in_flight, cast(AsyncHandler, handler), delivery))

    async def _handle(self, in_flight: InFlight, handler: AsyncHandler, delivery: Delivery) -> None:
        if (running := asyncio.current_task()) is not None:
            delivery.on_cancel(partial(self._runner.post, running.cancel))
        outcome: Outcome
        try:
            with in_flight.running(delivery):
                given = AsyncDelivery(delivery, partial(self._await_ack, in_flight))
                outcome = await handler(given)
        except asyncio.CancelledError as exc:
            if self._runner.closing:
                raise  # its name is given up, and the message goes back
            cancelled = Later(CANCELLED_S, "its handler was cancelled")
            task = asyncio.current_task()
            outcome = cancelled if task and task.cancelling() else outcome_of_error(delivery, exc)
        except (Exception, SystemExit) as exc:
            outcome = outcome_of_error(delivery, exc)
        in_flight.finish(delivery, outcome)

    async def _await_ack(
        self, in_flight: InFlight, delivery: Delivery, verb: str, fields: dict[str, Any]
    ) -> None:
        bridge, loop = self._runner.bind()
        stored: asyncio.Future[WakebusError | None] = loop.create_future()
        settle = partial(bridge.post, resolve, stored)
        in_flight.send_ack(PendingAck(delivery, verb, fields, settle))
        error = await stored
        if error is not None:
            mark_lost(delivery, error)
            raise error

    # --- events ---------------------------------------------------------------------------

    async def publish(
        self,
        topic: str,
        fields: Mapping[str, Any] | None = None,
        *,
        confirm: bool = False,
        token: str | None = None,
    ) -> None:
        """Publish an event, as `Client.publish` does: without `confirm` only the first waits."""
        self._runner.bind()
        if confirm:
            await self._runner.run(self._core.calls.publish(topic, fields, token))
        else:
            await self._runner.first_in_thread(
                lambda: self._core.topics().publish(topic, fields, self._timeout)
            )

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
        bridge, _ = self._runner.bind()
        found = AsyncSubscription(bridge, on_gap)

        def opened() -> Subscription:
            return self._core.topics().subscribe(
                pattern, found.put, found.put, self._timeout, found.has_room
            )

        found.subscription = await self._runner.in_thread(opened, Subscription.close)
        self._runner.add_subscription(found)
        if handler is not None and not found.closed:
            self._runner.start_task(found.run(handler))
        return found

    # --- the connection -------------------------------------------------------------------

    async def connected(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds for a broker to be there; return whether one is."""
        _, loop = self._runner.bind()
        deadline = loop.time() + timeout
        while not self._core.connection.connected(0) and loop.time() < deadline:
            await asyncio.sleep(POLL_S)
        return self._core.connection.connected(0)

    async def close(self) -> None:
        """
        Give up all names and the connection; never hangs. Safe to call twice.

        Handlers that run are cancelled, and have acknowledged nothing.
        """
        await self._runner.close()

    async def __aenter__(self) -> "AsyncClient":
        self._runner.bind()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
