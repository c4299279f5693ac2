"""A subscription in a loop, without a broker."""

import asyncio
from typing import Any

from wakebus.broker.aio.loop_bridge import LoopBridge
from wakebus.broker.aio.subscription import MAX_BUFFERED, AsyncSubscription
from wakebus.broker.protocol.event import Event
from wakebus.broker.pubsub.sequences import Gap
from wakebus.broker.pubsub.subscription import OnGap


class _Counts:
    """What a Subscription counts."""

    patterns, received, missed = ("a.**",), 3, 2

    def __init__(self) -> None:
        self.errors: list[tuple[str, BaseException]] = []
        self.closed = False

    def log_error(self, what: str, error: BaseException) -> None:
        self.errors.append((what, error))

    def close(self) -> None:
        self.closed = True


def event(number: int) -> Event:
    return Event("a.b", "0" * 16, number, {})


def opened(on_gap: OnGap | None = None) -> tuple[AsyncSubscription, _Counts]:
    """Return one as the client makes it."""
    found = AsyncSubscription(LoopBridge(asyncio.get_running_loop(), lambda: None), on_gap)
    counts: Any = _Counts()
    found.subscription = counts
    return found, counts


def test_its_buffer_is_bounded() -> None:
    """Full it has no room; what is taken out makes room."""

    async def main() -> None:
        found, _ = opened()
        for number in range(MAX_BUFFERED):
            assert found.has_room()
            found.put(event(number))
        assert not found.has_room()
        assert (await anext(found)).n == 0 and found.has_room()

    asyncio.run(main())


def test_a_gap_is_told_before_its_event() -> None:
    """Awaited if it is a coroutine; without `on_gap` it is only counted."""
    told: list[str] = []

    async def on_gap(gap: Gap) -> None:
        await asyncio.sleep(0)
        told.append(f"gap {gap.missed}")

    async def main() -> None:
        for given, expected in ((on_gap, ["gap 2", "event"]), (None, ["event"])):
            told.clear()
            found, _ = opened(given)
            found.put(Gap("a.b", "0" * 16, 2, 5))
            found.put(event(5))
            assert (await anext(found)).n == 5
            told.append("event")
            assert told == expected

    asyncio.run(main())


def test_others_have_their_turn() -> None:
    """A thousand events that are there already do not hold up the loop."""

    async def main() -> None:
        found, _ = opened()
        for number in range(1000):
            found.put(event(number))
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        task = asyncio.create_task(other())
        for _ in range(1000):
            await anext(found)
        task.cancel()
        assert turns > 5

    asyncio.run(main())


def test_several_may_read_and_all_end() -> None:
    """Each event goes to one of them; closing ends them, and what is in the buffer is gone."""

    async def main() -> None:
        found, counts = opened()
        tasks = [asyncio.create_task(_all(found)) for _ in range(3)]
        for number in range(10):
            found.put(event(number))
            await asyncio.sleep(0)
        while found._buffer:
            await asyncio.sleep(0)
        found.put(event(11))
        found.close()
        numbers = [n for task in tasks for n in await task]
        assert sorted(numbers) == [*range(10)] and counts.closed and found.closed
        assert (found.patterns, found.received, found.missed) == (("a.**",), 3, 2)

    asyncio.run(main())


async def _all(found: AsyncSubscription) -> list[int]:
    return [event.n async for event in found]


def test_a_handler_that_raises_gets_the_next_event() -> None:
    """The error goes to the subscription's log."""
    got: list[int] = []

    def handler(event: Event) -> None:
        got.append(event.n)
        raise SystemExit(event.n)

    async def main() -> None:
        found, counts = opened()
        task = asyncio.create_task(found.run(handler))
        for number in range(3):
            found.put(event(number))
        while len(got) < 3:
            await asyncio.sleep(0)
        found.close()
        await task
        assert [what for what, _ in counts.errors] == ["a handler"] * 3

    asyncio.run(main())
