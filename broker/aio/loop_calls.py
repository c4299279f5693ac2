"""
How calls of a client are run in a loop: its steps, its threads' news, its tasks (for aio.py).

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

from wakebus.broker.aio.loop_bridge import Handover, resolve
from wakebus.broker.aio.subscription import AsyncSubscription
from wakebus.broker.client.calls import Ask, Pages, Row, Steps
from wakebus.broker.client.client import CLOSE_S, Client
from wakebus.broker.errors import WakebusError
from wakebus.broker.system.fork_safety import call_after_fork

T = TypeVar("T")

# In the child of a fork: loops, tasks and generators of the parent. They live on, because their
# destructors would speak to the parent's loop.
_parents: Final[list[object]] = []


class Looping:
    """`core`: the client that is run in a loop, the first one it is used in."""

    def __init__(self, core: Client) -> None:
        self._core = core
        self._closing = self._gone = False
        self._unbound()
        call_after_fork(self)

    def _unbound(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._handover: Handover
        self._tasks: set[asyncio.Task[None]] = set()
        self._streams: WeakSet[AsyncSubscription] = WeakSet()
        self._last: AsyncGenerator[None, None] | None = None
        self._publishes = False
        self._first = asyncio.Lock()

    def after_fork(self) -> None:
        """In the child of a fork: be free for a loop of the child's own."""
        for stream in [*self._streams]:
            stream.after_fork()
        _parents.append((self._loop, self._tasks, self._last))
        self._closing = self._gone = self._core._closed
        self._unbound()

    def _bound(self) -> tuple[Handover, asyncio.AbstractEventLoop]:
        """Return what belongs to the running loop, which is this client's from its first use on."""
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop, self._handover = loop, Handover(loop, self._loop_ended)
            self._last = self._until_the_end()
            _start(self._last)
        elif loop is not self._loop:
            raise RuntimeError("this AsyncClient belongs to another event loop; make one in each")
        return self._handover, loop

    async def _until_the_end(self) -> AsyncGenerator[None, None]:
        """Suspended until the loop ends: `asyncio.run` closes what it finds of this kind."""
        try:
            yield
        finally:
            await self._end()

    async def _end(self) -> None:
        """Cancel the tasks, end the subscriptions, close the client; once."""
        if self._closing:
            return
        self._closing = True
        for stream in [*self._streams]:
            stream.close()
        running = self._tasks - {asyncio.current_task()}
        for task in running:
            task.cancel()
        try:
            if running:
                await asyncio.wait(running, timeout=CLOSE_S / 2)
        finally:  # also when this is cancelled
            await self._in_thread(self._core.close, lambda _: None)

    def _loop_ended(self) -> None:
        """Close the client of a loop that was closed without being shut down (any thread)."""
        if not self._gone:
            self._gone = True
            try:
                threading.Thread(target=self._core.close, name="wakebus end", daemon=True).start()
            except RuntimeError:
                pass  # the process ends, or has no thread to spare: then it is silent until then

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        _, loop = self._bound()
        task = loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _drive(self, steps: Steps[T]) -> T:
        try:
            ask = next(steps)
            while True:
                try:
                    answer = await self._call(ask)
                except WakebusError as exc:
                    ask = steps.throw(exc)
                else:
                    ask = steps.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result

    async def _rows(self, pages: Pages) -> AsyncIterator[Row]:
        answer: dict[str, Any] | None = None
        while True:
            try:
                found = pages.send(answer)
            except StopIteration:
                return
            answer = await self._call(found) if isinstance(found, Ask) else None
            if not isinstance(found, Ask):
                yield found

    async def _call(self, ask: Ask) -> dict[str, Any]:
        handover, loop = self._bound()
        came: asyncio.Future[bool] = loop.create_future()
        pending = self._core._transport.request(
            ask.verb, ask.payload, lambda _: handover.post(resolve, came, True)
        )
        timer = loop.call_later(self._core._seconds(ask), resolve, came, False)
        try:
            return self._core._answer(ask, pending, came=await came)
        except asyncio.CancelledError:
            self._core._transport.drop(pending)
            raise
        finally:
            timer.cancel()

    async def _in_thread(self, work: Callable[[], T], undo: Callable[[T], object]) -> T:
        """Return what `work` returns in a thread; undone when nobody waits for it any more."""
        handover, loop = self._bound()
        done: asyncio.Future[Callable[[], T]] = loop.create_future()

        def take(found: Callable[[], T]) -> None:
            if done.done():
                threading.Thread(target=_undo, args=(found, undo), daemon=True).start()
            else:
                done.set_result(found)

        def run() -> None:
            found = _caught(work)
            if not handover.post(take, found):
                _undo(found, undo)

        threading.Thread(target=run, name="wakebus wait", daemon=True).start()
        return (await done)()


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
