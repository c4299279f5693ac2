"""Streams of events: their numbers, and which are missing."""

from hypothesis import given
from hypothesis import strategies as st

from wakebus.broker.pubsub.sequences import Counters, Gap, Stream, Streams


def stream(last: int = 0) -> Stream:
    """Return a stream whose newest event has this number."""
    return Stream("a.b", "p" * 16, last, True)


def test_the_next_event_shows_how_many_are_missing() -> None:
    """Exactly: 1, 2, then 7 is four missing."""
    one = stream()
    assert [one.advance_to(n) for n in (1, 2, 7, 8)] == [0, 0, 4, 0]
    assert Gap("a.b", "p", 4, 7).missed == 4


def test_the_same_event_again_is_told_and_an_older_one_counts_for_nothing() -> None:
    """A relay may be late; a request that was written twice is one event."""
    one = stream(5)
    assert one.advance_to(5) == -1
    assert one.advance_to(3) == 0
    assert one.last == 5 and one.advance_to(6) == 0


@given(st.lists(st.booleans(), min_size=1, max_size=200))
def test_received_and_missed_are_all(kept: list[bool]) -> None:
    """Whatever is lost before the last one that came: none is missing in the sum."""
    one = stream()
    came = [n for n, keep in enumerate(kept, start=1) if keep]
    missed = sum(one.advance_to(n) for n in came)
    assert len(came) + missed == (came[-1] if came else 0)


def test_streams_are_bounded_and_those_in_use_stay() -> None:
    """A flood of topics makes it forget what is unused, never what is used."""
    streams, used = Streams(10), stream()
    streams.put(b"used", used)
    for number in range(1_000):
        streams.put(b"%d" % number, stream())
        assert streams.find(b"used") is used
        assert len(streams) <= 12
    assert streams.find(b"0") is None and streams.find(b"999") is not None
    assert streams.get(b"999") is streams.find(b"999")


def test_a_publisher_with_too_many_topics_begins_anew() -> None:
    """Under another name: no subscriber takes its new numbers for old ones."""
    counters = Counters(3)
    first, own = counters.pub, counters.streams
    for topic in ("a", "b", "c"):
        counters.add(topic).last = 7
    assert counters.pub == first and len(first) == 16
    begun = counters.add("d")
    assert counters.pub == begun.pub != first and begun.last == 0
    assert counters.streams == {"d": begun} and counters.streams is own
