"""How calls are run in a loop, without a broker."""

import asyncio
import threading

import pytest

from fakes.broker import until
from wakebus.broker.aio.loop_calls import LoopCalls
from wakebus.broker.errors import NotRunning


class _Silent:
    """A client that asks nothing."""

    def __init__(self) -> None:
        self.closed = threading.Event()

    def close(self) -> None:
        self.closed.set()


def loop_calls() -> LoopCalls:
    return LoopCalls(_Silent(), 5.0)  # type: ignore[arg-type]


def test_what_a_thread_returns_or_raises() -> None:
    """Comes to who waits for it."""

    def fail() -> int:
        raise NotRunning("no")

    async def main() -> None:
        found = loop_calls()
        assert await found.in_thread(lambda: 7, print) == 7
        with pytest.raises(NotRunning, match="no"):
            await found.in_thread(fail, print)

    asyncio.run(main())


def test_what_nobody_waits_for_is_undone() -> None:
    """Once it is there; what has failed needs no undoing."""
    go_on = threading.Event()
    undone: list[int] = []

    def work() -> int:
        go_on.wait(30)
        return 7

    def fail() -> int:
        go_on.wait(30)
        raise NotRunning("no")

    async def main() -> None:
        found = loop_calls()
        tasks = [asyncio.create_task(found.in_thread(w, undone.append)) for w in (work, fail)]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        go_on.set()
        await asyncio.to_thread(until, lambda: undone == [7])

    asyncio.run(main())


def test_what_is_there_after_the_loop_is_undone_too() -> None:
    """And the client ends, once."""
    go_on = threading.Event()
    undone: list[int] = []
    found = loop_calls()

    def work() -> int:
        go_on.wait(30)
        return 7

    async def main() -> None:
        task = asyncio.create_task(found.in_thread(work, undone.append))
        await asyncio.sleep(0)
        task.cancel()

    asyncio.run(main())
    go_on.set()
    until(lambda: undone == [7])
    core: object = found._core
    assert isinstance(core, _Silent) and core.closed.wait(30)
