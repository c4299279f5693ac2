"""What Hermes's core says of the answers that it delivers."""

import asyncio
from types import SimpleNamespace
from typing import Any

from fakes.hermes import MessageEvent, ProcessingOutcome, dm
from wakebus.plugin.hermes.gateway.delivery_tracker import Fates

TEXT, WHERE = "ours", "mattermost:dm1"


class Adapter:
    """Remembers what reached its own hook."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    async def on_processing_complete(self, event: Any, outcome: Any) -> None:
        """The platform's own."""
        self.seen.append(outcome)


def complete(
    adapter: Any, text: Any, outcome: Any = ProcessingOutcome.SUCCESS, source: Any = None
) -> Any:
    """The core has ended with an event (base.py:4170); return the event."""
    event = text if isinstance(text, MessageEvent) else MessageEvent(text, source=source)
    asyncio.run(adapter.on_processing_complete(event, outcome))
    return event


def test_ours_is_noted_and_the_adapters_own_is_called() -> None:
    """HERMES-3.7: the very event that was handed over; others pass, also one that quotes it."""
    fates, adapter = Fates(), Adapter()
    assert fates.listen(adapter)
    with fates.over(TEXT, WHERE) as fate:
        fate.event = MessageEvent(TEXT, source=dm())
        complete(adapter, TEXT, source=dm())
        complete(adapter, f"you wrote: {TEXT}", source=dm())
        assert not fate.done.is_set()
        complete(adapter, fate.event, ProcessingOutcome.FAILURE)
        assert fate.done.is_set() and fate.result == "failure"
    complete(adapter, fate.event)
    assert len(adapter.seen) == 4


def test_an_event_that_hermes_made() -> None:
    """HERMES-3.6: by its whole text, in its own chat."""
    fates, adapter = Fates(), Adapter()
    fates.listen(adapter)
    with fates.over(TEXT, WHERE) as fate:
        complete(adapter, TEXT, source=dm("dm2"))
        complete(adapter, f"{TEXT} ", source=dm())
        assert not fate.done.is_set()
        complete(adapter, TEXT, source=dm())
        assert fate.result == "success"


def test_it_is_wrapped_once() -> None:
    """HERMES-3.10: also by a second host in the same process."""
    first, second, adapter = Fates(), Fates(), Adapter()
    for fates in (first, first, second):
        assert fates.listen(adapter)
    with first.over(TEXT, WHERE) as old, second.over(TEXT, WHERE) as new:
        complete(adapter, TEXT, source=dm())
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
    with fates.over(TEXT, WHERE):
        complete(adapter, object(), object())
        asyncio.run(adapter.on_processing_complete(None, None))
    assert len(adapter.seen) == 2
