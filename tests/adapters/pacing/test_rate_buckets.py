"""A limit that refills: as many at once as it holds, and then as fast as it refills."""

import pytest

from fakes.pacing import Ask, play
from wakebus.adapters.pacing.rate_buckets import LATE_S, RateRule, Refilling, Window, bucket_of

SYNAPSE = RateRule("matrix", 10, 50.0, refills=True)


def passed(count: int, *of_app: float) -> list[float]:
    """Return when so many messages to one app pass that all come at once."""
    most, seconds = of_app
    asks = [Ask(0.0, 0, 0.0, 0.0)] * count
    return [time for time, _ in play(asks, (1000, 1.0), (int(most), seconds, True)).passed]


def test_words() -> None:
    """ADP-6.23: people read what it does."""
    assert str(SYNAPSE) == "10 at once, then one in 5 s"
    assert str(RateRule("chat", 20, 60.0)) == "20 in 60 s"


def test_kinds() -> None:
    """ADP-6.15, ADP-6.23: a window, unless it refills."""
    assert isinstance(bucket_of(SYNAPSE), Refilling)
    assert isinstance(bucket_of(SYNAPSE._replace(refills=False)), Window)


def test_a_burst_and_what_comes_after_it() -> None:
    """ADP-6.23: ten at once, the eleventh after 5 s, not after 50; then one in 5 s."""
    times = passed(14, 10, 50.0)
    assert times[:10] == [0.0] * 10
    assert times[10:] == pytest.approx([5.0, 10.0, 15.0, 20.0], rel=0.03, abs=0.1)


def test_it_is_not_much_slower_than_it_may() -> None:
    """ADP-6.23: 100 messages by 10 a second after 20 at once take 8 s; the margin is 2 in 100."""
    assert 8.0 <= passed(100, 20, 2.0)[-1] < 8.3


def test_a_pause_refills_it() -> None:
    """ADP-6.23: by as many as the time that has gone."""
    bucket = bucket_of(SYNAPSE)
    for number in range(10):
        bucket.begin(f"k{number}", 0.0)
        bucket.finish(f"k{number}", 0.0)
    assert bucket.open_at(0.0) == 5.0 and bucket.open_at(5.0) == 5.0
    assert not bucket.idle(49.0) and bucket.idle(50.0)


def test_a_place_that_lies_ahead() -> None:
    """ADP-6.23: who comes later passes before it where that takes nothing from it, else after."""
    bucket = bucket_of(RateRule("one", 1, 10.0, refills=True))
    bucket.reserve(30.0)
    assert bucket.find_slot(0.0, 0.0) == 0.0
    assert 40.0 <= bucket.find_slot(25.0, 0.0) < 41.0
    bucket.unreserve(30.0)
    assert bucket.find_slot(25.0, 0.0) == 25.0


def test_one_that_hangs() -> None:
    """ADP-6.23: after 2 s it is taken for counted, as in a window."""
    bucket = bucket_of(RateRule("one", 1, 1.0, refills=True))
    bucket.begin("hangs", 0.0)
    assert bucket.open_at(0.5) == 1.5
    assert bucket.open_at(9.0) == 9.0 and LATE_S + 1.0 < 9.0
    bucket.finish("hangs", 9.0)
    assert bucket.open_at(9.0) == 9.0
