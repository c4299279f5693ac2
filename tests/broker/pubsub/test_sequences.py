"""`gaps`: numbers of events, and which are missing."""

from hypothesis import given
from hypothesis import strategies as st

from wakebus.broker.pubsub.sequences import Gap, Line, Lines, Numbers


def line(last: int = 0) -> Line:
    """Return a line whose newest event has this number."""
    return Line("a.b", "p" * 16, last, True)


def test_the_next_event_shows_how_many_are_missing() -> None:
    """Exactly: 1, 2, then 7 is four missing."""
    one = line()
    assert [one.step(n) for n in (1, 2, 7, 8)] == [0, 0, 4, 0]
    assert Gap("a.b", "p", 4, 7).missed == 4


def test_the_same_event_again_is_told_and_an_older_one_counts_for_nothing() -> None:
    """A relay may be late; a request that was written twice is one event."""
    one = line(5)
    assert one.step(5) == -1
    assert one.step(3) == 0
    assert one.last == 5 and one.step(6) == 0


@given(st.lists(st.booleans(), min_size=1, max_size=200))
def test_received_and_missed_are_all(kept: list[bool]) -> None:
    """Whatever is lost before the last one that came: none is missing in the sum."""
    one = line()
    came = [n for n, keep in enumerate(kept, start=1) if keep]
    missed = sum(one.step(n) for n in came)
    assert len(came) + missed == (came[-1] if came else 0)


def test_lines_are_bounded_and_those_in_use_stay() -> None:
    """A flood of topics makes it forget what is unused, never what is used."""
    lines, used = Lines(10), line()
    lines.put(b"used", used)
    for number in range(1_000):
        lines.put(b"%d" % number, line())
        assert lines.find(b"used") is used
        assert len(lines) <= 12
    assert lines.find(b"0") is None and lines.find(b"999") is not None
    assert lines.get(b"999") is lines.find(b"999")


def test_a_publisher_with_too_many_topics_begins_anew() -> None:
    """Under another name: no subscriber takes its new numbers for old ones."""
    numbers = Numbers(3)
    first, own = numbers.pub, numbers.own
    for topic in ("a", "b", "c"):
        numbers.add(topic).last = 7
    assert numbers.pub == first and len(first) == 16
    begun = numbers.add("d")
    assert numbers.pub == begun.pub != first and begun.last == 0
    assert numbers.own == {"d": begun} and numbers.own is own
