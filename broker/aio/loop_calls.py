"""
How a client is run in a loop: its calls, its threads' news, its tasks.

Rule 1: nothing in here blocks the loop; what must wait in a thread (a claim, a subscription) has
one of its own. Rule 2: who stops waiting leaves nothing behind: a request is dropped, and what a
thread has done by then is undone. Rule 3: all futures are resolved in the loop, a batch at a time.
Rule 4: in the child of a fork it belongs to no loop yet; the parent's tasks are not touched there.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from typing import Any, Final, TypeVar
from weakref import WeakSet

from wakebus.broker.aio.loop_bridge import LoopBridge, resolve
from wakebus.broker.aio.subscription import AsyncSubscription
from wakebus.broker.client.calls import BrokerRequest, Call, PagedCall, ReplyRow
from wakebus.broker.client.core import CLOSE_S, ClientCore
from wakebus.broker.errors import WakebusError
from wakebus.broker.system.fork_safety import call_after_fork

T = TypeVar("T")

# In the child of a fork: loops, tasks and generators of the parent. They live on, because their
# destructors would speak to the parent's loop.
_parents: Final[list[object]] = []


class LoopCalls:
    """`core`: the client that is run in a loop, the first one it is used in. `timeout`: seconds."""

    def __init__(self, core: ClientCore, timeout: float) -> None:
        self._core, self._timeout = core, timeout
        self.closing = self._gone = False
        self._unbind()
        call_after_fork(self)

    def _unbind(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._bridge: LoopBridge
        self._tasks: set[asyncio.Task[None]] = set()
        self._subscriptions: WeakSet[AsyncSubscription] = WeakSet()
        self._sentinel: AsyncGenerator[None, None] | None = None
        self._has_worked = False
        self._first = asyncio.Lock()

    def after_fork(self) -> None:
        """In the child of a fork: be free for a loop of the child's own."""
        for subscription in [*self._subscriptions]:
            subscription.after_fork()
        _parents.append((self._loop, self._tasks, self._sentinel))
        self.closing = self._gone = self._core.closed
        self._unbind()

    def bind(self) -> tuple[LoopBridge, asyncio.AbstractEventLoop]:
        """Return what belongs to the running loop, which is this client's from its first use on."""
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop, self._bridge = loop, LoopBridge(loop, self._loop_ended)
            self._sentinel = self._until_the_end()
            _start(self._sentinel)
        elif loop is not self._loop:
            raise RuntimeError("this AsyncClient belongs to another event loop; make one in each")
        return self._bridge, loop

    # --- calls ----------------------------------------------------------------------------

    async def run(self, call: Call[T]) -> T:
        """Do what a call asks for, awaiting each answer; return its result."""
        try:
            asked = next(call)
            while True:
                try:
                    answer = await self._answer(asked)
                except WakebusError as exc:
                    asked = call.throw(exc)
                else:
                    asked = call.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result

    async def rows(self, call: PagedCall) -> AsyncIterator[ReplyRow]:
        """Yield the rows, asking for each page when it is needed."""
        answer: dict[str, Any] | None = None
        while True:
            try:
                found = call.send(answer)
            except StopIteration:
                return
            answer = await self._answer(found) if isinstance(found, BrokerRequest) else None
            if not isinstance(found, BrokerRequest):
                yield found

    async def _answer(self, asked: BrokerRequest) -> dict[str, Any]:
        bridge, loop = self.bind()
        connection = self._core.connection
        seconds = self._timeout if asked.timeout is None else asked.timeout
        came: asyncio.Future[bool] = loop.create_future()
        pending = connection.request(
            asked.verb, asked.payload, lambda _: bridge.post(resolve, came, True)
        )
        timer = loop.call_later(seconds, resolve, came, False)
        try:
            return self._core.answer(asked, pending, seconds, came=await came)
        except asyncio.CancelledError:
            connection.drop_request(pending)
            raise
        finally:
            timer.cancel()

    # --- threads and tasks ----------------------------------------------------------------

    async def in_thread(self, work: Callable[[], T], undo: Callable[[T], object]) -> T:
        """Return what `work` returns in a thread; undone when nobody waits for it any more."""
        bridge, loop = self.bind()
        done: asyncio.Future[Callable[[], T]] = loop.create_future()

        def arrived(found: Callable[[], T]) -> None:
            if done.done():
                threading.Thread(target=_undo, args=(found, undo), daemon=True).start()
            else:
                done.set_result(found)

        def run() -> None:
            found = _caught(work)
            if not bridge.post(arrived, found):
                _undo(found, undo)

        threading.Thread(target=run, name="wakebus wait", daemon=True).start()
        return (await done)()

    async def first_in_thread(self, work: Callable[[], None]) -> None:
        """Do `work`: in a thread until that has succeeded once, as only the first one waits."""
        if not self._has_worked:
            async with self._first:
                if not self._has_worked:
                    await self.in_thread(work, lambda _: None)
                    self._has_worked = True
                    return
        work()

    def post(self, function: Callable[..., object], *args: Any) -> bool:
        """Have `function(*args)` called in the loop (any thread); return whether it takes it."""
        return self._bridge.post(function, *args)

    def start_task(self, work: Coroutine[Any, Any, None]) -> None:
        """Have `work` done in the loop; cancelled when the client closes."""
        _, loop = self.bind()
        task = loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def add_subscription(self, subscription: AsyncSubscription) -> None:
        """Have it closed with the client."""
        self._subscriptions.add(subscription)
        if self.closing:
            subscription.close()

    # --- the end --------------------------------------------------------------------------

    async def close(self) -> None:
        """Cancel the tasks, end the subscriptions, close the client."""
        self.bind()
        await self._end()
        if self._sentinel is not None:
            await self._sentinel.aclose()

    async def _until_the_end(self) -> AsyncGenerator[None, None]:
        """Suspended until the loop ends: `asyncio.run` closes what it finds of this kind."""
        try:
            yield
        finally:
            await self._end()

    async def _end(self) -> None:
        if self.closing:
            return
        self.closing = True
        for subscription in [*self._subscriptions]:
            subscription.close()
        running = self._tasks - {asyncio.current_task()}
        for task in running:
            task.cancel()
        try:
            if running:
                await asyncio.wait(running, timeout=CLOSE_S / 2)
        finally:  # also when this is cancelled
            await self.in_thread(self._core.close, lambda _: None)

    def _loop_ended(self) -> None:
        """Close the client of a loop that was closed without being shut down (any thread)."""
        if not self._gone:
            self._gone = True
            try:
                threading.Thread(target=self._core.close, name="wakebus end", daemon=True).start()
            except RuntimeError:
                pass  # the process ends, or has no thread to spare: then it is silent until then


def _start(generator: AsyncGenerator[None, None]) -> None:
    """Run it up to its first `yield`, at which it must be at once."""
    try:
        generator.__anext__().send(None)
    except StopIteration:
        pass


def _caught(work: Callable[[], T]) -> Callable[[], T]:
    """Do the work; return what returns or raises its result."""
    try:
        found = work()
    except BaseException as exc:
        error = exc

        def fail() -> T:
            raise error

        return fail
    return lambda: found


def _undo(found: Callable[[], T], undo: Callable[[T], object]) -> None:
    try:
        undo(found())
    except WakebusError:
        pass  # there is nothing to undo, or it is gone with its client
