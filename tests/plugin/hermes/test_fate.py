"""What Hermes's core says of the answers that it delivers."""

import asyncio
from types import SimpleNamespace
from typing import Any

from fakes.hermes import MessageEvent, ProcessingOutcome
from wakebus.plugin.hermes.fate import Fates

MARKER = "a" * 24


class Adapter:
    """Remembers what reached its own hook."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    async def on_processing_complete(self, event: Any, outcome: Any) -> None:
        """The platform's own."""
        self.seen.append(outcome)


def complete(adapter: Any, text: Any, outcome: Any = ProcessingOutcome.SUCCESS) -> None:
    """The core has ended with an event (base.py:4170)."""
    asyncio.run(adapter.on_processing_complete(MessageEvent(text), outcome))


def test_ours_is_noted_and_the_adapters_own_is_called() -> None:
    """HERMES-3.7: by the marker; others pass."""
    fates, adapter = Fates(), Adapter()
    assert fates.listen(adapter)
    with fates.over(MARKER) as fate:
        complete(adapter, "of a person")
        assert not fate.done.is_set()
        complete(adapter, f"x {MARKER} y", ProcessingOutcome.FAILURE)
        assert fate.done.is_set() and fate.result == "failure"
    complete(adapter, MARKER)
    assert len(adapter.seen) == 3


def test_it_is_wrapped_once() -> None:
    """HERMES-3.10: also by a second host in the same process."""
    first, second, adapter = Fates(), Fates(), Adapter()
    for fates in (first, first, second):
        assert fates.listen(adapter)
    with first.over(MARKER) as old, second.over(MARKER) as new:
        complete(adapter, MARKER)
    assert len(adapter.seen) == 1
    assert new.done.is_set() and not old.done.is_set()


def test_what_cannot_be_heard() -> None:
    """HERMES-3.9: an adapter without the hook is another Hermes's."""
    assert not Fates().listen(object())
    assert not Fates().listen(SimpleNamespace(on_processing_complete=None))


def test_nothing_of_ours_reaches_hermes() -> None:
    """HERMES-3.9: an event that is none fails nowhere."""
    fates, adapter = Fates(), Adapter()
    fates.listen(adapter)
    with fates.over(MARKER):
        complete(adapter, object(), object())
        asyncio.run(adapter.on_processing_complete(None, None))
    assert len(adapter.seen) == 2
