"""Calls on Hermes's loop from our threads."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from fakes.hermes import Town
from wakebus.plugin.hermes.host_api.loop_calls import call_on_loop
from wakebus.plugin.hermes.host_api.protocol import Unreachable


def test_it_is_called_on_the_loop(town: Town) -> None:
    """HERMES-3.9: and its value is returned."""

    async def where() -> Any:
        return asyncio.get_running_loop()

    assert call_on_loop(town.loop, where, 30) is town.loop


def test_what_it_raises(town: Town) -> None:
    """HERMES-3.9: reaches who called."""

    async def fails() -> None:
        raise ValueError("boom")

    with pytest.raises(ValueError, match="boom"):
        call_on_loop(town.loop, fails, 30)


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
        call_on_loop(town.loop, slow, 0.05)
    call_on_loop(town.loop, lambda: asyncio.sleep(0), 30)
    assert ended == ["cancelled"]


@pytest.mark.parametrize("closed", [True, False])
def test_a_loop_that_is_gone(closed: bool) -> None:
    """HERMES-3.9: nothing is called, nothing is left unawaited."""
    loop = asyncio.new_event_loop()
    loop.close()
    with pytest.raises(Unreachable):
        call_on_loop(loop if closed else None, lambda: asyncio.sleep(0), 1)
    racing: Any = SimpleNamespace(
        is_closed=lambda: False, call_soon_threadsafe=loop.call_soon_threadsafe
    )
    with pytest.raises(Unreachable):
        call_on_loop(racing, lambda: asyncio.sleep(0), 1)
