"""From threads to a loop."""

import asyncio
import threading

from wakebus.broker.aio.loop_bridge import LoopBridge, resolve


def test_one_wake_up_for_all_that_came() -> None:
    """A thousand from another thread, in order, while the loop is busy: it is woken once."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        bridge = LoopBridge(loop, lambda: None)
        got: list[int] = []

        def post() -> None:
            for number in range(1000):
                assert bridge.post(got.append, number)

        thread = threading.Thread(target=post)
        thread.start()
        thread.join(30)
        assert len(loop._ready) == 1  # type: ignore[attr-defined]
        await asyncio.sleep(0)
        assert got == [*range(1000)]

    asyncio.run(main())


def test_what_comes_while_it_is_taken_is_taken_too() -> None:
    """Nothing stays behind, whoever posts when."""

    async def main() -> None:
        bridge = LoopBridge(asyncio.get_running_loop(), lambda: None)
        got: list[int] = []

        def again(number: int) -> None:
            got.append(number)
            if number:
                bridge.post(again, number - 1)

        bridge.post(again, 3)
        while 0 not in got:
            await asyncio.sleep(0)
        assert got == [3, 2, 1, 0]

    asyncio.run(main())


def test_a_loop_that_has_ended_takes_nothing() -> None:
    """Who posts is told, `gone` is called, and nothing is kept."""
    gone: list[int] = []

    async def main() -> LoopBridge:
        return LoopBridge(asyncio.get_running_loop(), lambda: gone.append(1))

    bridge = asyncio.run(main())
    assert not bridge.post(print, "never")
    assert not bridge.post(print, "never")
    assert gone == [1, 1] and not bridge._posted


def test_a_wake_up_that_the_loop_never_came_to() -> None:
    """It is not waited for: the loop has ended."""
    gone: list[int] = []
    loop = asyncio.new_event_loop()
    bridge = LoopBridge(loop, lambda: gone.append(1))
    assert bridge.post(print, "never")
    loop.close()
    assert not bridge.post(print, "never")
    assert gone == [1] and not bridge._posted


def test_a_future_is_resolved_once() -> None:
    """One that is cancelled or resolved stays as it is."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        first, second = loop.create_future(), loop.create_future()
        second.cancel()
        for future in (first, first, second):
            resolve(future, 7)
        assert first.result() == 7 and second.cancelled()

    asyncio.run(main())
