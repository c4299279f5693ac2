"""What Hermes's core says of the answers that it delivers."""

from typing import Any

from fakes.hermes import MessageEvent, ProcessingOutcome, dm
from wakebus.plugin.hermes.gateway.delivery_tracker import DeliveryTracker

TEXT, WHERE = "ours", "mattermost:dm1"
SUCCESS, FAILURE = ProcessingOutcome.SUCCESS, ProcessingOutcome.FAILURE


def test_ours_is_noted() -> None:
    """HERMES-3.7: the very event that was handed over; others are not, also one that quotes it."""
    tracker = DeliveryTracker()
    with tracker.tracking(TEXT, WHERE) as delivery:
        delivery.handed_over(MessageEvent(TEXT, source=dm()))
        tracker.on_complete(MessageEvent(TEXT, source=dm()), SUCCESS)
        tracker.on_complete(MessageEvent(f"you wrote: {TEXT}", source=dm()), SUCCESS)
        assert not delivery.done.is_set()
        tracker.on_complete(delivery.event, FAILURE)
        assert delivery.done.is_set() and delivery.result == "failure"
    tracker.on_complete(delivery.event, SUCCESS)
    assert delivery.result == "failure"


def test_an_event_that_hermes_made() -> None:
    """HERMES-3.6: by its whole text, in its own chat."""
    tracker = DeliveryTracker()
    with tracker.tracking(TEXT, WHERE) as delivery:
        tracker.on_complete(MessageEvent(TEXT, source=dm("dm2")), SUCCESS)
        tracker.on_complete(MessageEvent(f"{TEXT} ", source=dm()), SUCCESS)
        assert not delivery.done.is_set()
        tracker.on_complete(MessageEvent(TEXT, source=dm()), SUCCESS)
        assert delivery.result == "success"


def test_an_event_that_is_none() -> None:
    """HERMES-3.9: fails nowhere."""
    tracker, odd = DeliveryTracker(), list[Any]([object(), None])
    with tracker.tracking(TEXT, WHERE) as delivery:
        for event in odd:
            tracker.on_complete(event, event)
        assert not delivery.done.is_set()
