"""Calls on Hermes's loop from our threads."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from fakes.hermes import Town
from wakebus.plugin.hermes.gateway.loop_calls import LoopGone, call


def test_it_is_called_on_the_loop(town: Town) -> None:
    """HERMES-3.9: and its value is returned."""

    async def where() -> Any:
        return asyncio.get_running_loop()

    assert call(town.runner, where, 30) is town.loop


def test_what_it_raises(town: Town) -> None:
    """HERMES-3.9: reaches who called."""

    async def fails() -> None:
        raise ValueError("boom")

    with pytest.raises(ValueError, match="boom"):
        call(town.runner, fails, 30)


def test_what_takes_too_long(town: Town) -> None:
    """HERMES-3.9: is cancelled there."""
    ended: list[str] = []

    async def slow() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    with pytest.raises(TimeoutError):
        call(town.runner, slow, 0.05)
    call(town.runner, lambda: asyncio.sleep(0), 30)
    assert ended == ["cancelled"]


@pytest.mark.parametrize("closed", [True, False])
def test_a_loop_that_is_gone(closed: bool) -> None:
    """HERMES-3.9: nothing is called, nothing is left unawaited."""
    loop = asyncio.new_event_loop()
    loop.close()
    runner = SimpleNamespace(_gateway_loop=loop if closed else None)
    with pytest.raises(LoopGone):
        call(runner, lambda: asyncio.sleep(0), 1)
    racing = SimpleNamespace(
        is_closed=lambda: False, call_soon_threadsafe=loop.call_soon_threadsafe
    )
    with pytest.raises(LoopGone):
        call(SimpleNamespace(_gateway_loop=racing), lambda: asyncio.sleep(0), 1)
