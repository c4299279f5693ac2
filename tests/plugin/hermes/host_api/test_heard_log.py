"""What is logged while one text is sent."""

import asyncio
import logging

import pytest

from wakebus.plugin.hermes.host_api.heard_log import MOST, hearing

log = logging.getLogger("some.adapter")


def test_only_what_this_task_says() -> None:
    """HERMES-3.8: two sends at once hear themselves, and their threads; warnings and worse."""
    heard: dict[str, list[str]] = {"a": [], "b": []}

    async def send(name: str, both: asyncio.Barrier) -> None:
        with hearing(heard[name]):
            await both.wait()
            log.info("nothing of %s", name)
            log.error("fault of %s", name)
            await asyncio.to_thread(log.warning, "thread of %s", name)
            await both.wait()
        log.error("after %s", name)

    async def main() -> None:
        both = asyncio.Barrier(2)
        await asyncio.gather(send("a", both), send("b", both))

    asyncio.run(main())
    assert heard == {name: [f"fault of {name}", f"thread of {name}"] for name in "ab"}


def test_it_is_bounded_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """HERMES-3.10: so many lines, no handler stays, a wrong line harms nothing."""
    before, heard = list(logging.getLogger().handlers), list[str]()
    monkeypatch.setattr(logging, "raiseExceptions", False)
    with hearing(heard):
        log.error("%d", "no number")
        for number in range(MOST + 5):
            log.error("%d", number)
    assert len(heard) == MOST and logging.getLogger().handlers == before
