"""How long a lane waits, and what is said of it."""

import threading
from dataclasses import replace

import pytest

from wakebus.adapters.base import ChannelResult
from wakebus.adapters.courier import lane_backoff
from wakebus.adapters.courier.lane_backoff import LaneBackoff, backoff
from wakebus.broker import Later

DOWN = ChannelResult("not_sent", "console", reason="down", again=True)
HELD = ChannelResult("not_sent", "console", reason="kept to the pace", retry_after=3.0, again=True)


def test_waits_are_spread() -> None:
    """ADP-6.5: jitter shortens a wait by up to a quarter, and never below a second."""
    assert [backoff(4, jitter) for jitter in (0.0, 0.5, 1.0)] == [12, 14, 16]
    assert backoff(0, 0.0) == 1 and backoff(10**6, 1.0) == 60


def test_what_is_held_back_is_no_try() -> None:
    """ADP-6.15: the waits between tries do not grow by it; another message begins anew."""
    backoffs = LaneBackoff(lambda: 1.0)
    assert backoffs.defer("a", "m1", DOWN, held=False) == Later(1.0, "down")
    assert backoffs.defer("a", "m1", HELD, held=True).after_s == 3.0
    assert backoffs.defer("a", "m1", DOWN, held=False) == Later(2.0, "down")
    assert backoffs.defer("a", "m2", DOWN, held=False) == Later(1.0, "down")
    backoffs.reset("a")
    assert backoffs.defer("a", "m2", DOWN, held=False) == Later(1.0, "down")


@pytest.mark.parametrize("hint", [0.1, 1.0, None])
def test_a_platform_that_is_never_content(hint: float | None) -> None:
    """ADP-6.5: the same short wait is asked for again and again: each is longer all the same."""
    backoffs, slow = (
        LaneBackoff(lambda: 1.0),
        ChannelResult("not_sent", retry_after=hint, again=True),
    )
    told = [backoffs.defer("a", "m1", slow, held=False).after_s for _ in range(9)]
    assert told[0] == hint or hint is None
    assert told[-1] == 60 and told[4] >= 8 and sum(told) > 180
    longer = replace(slow, retry_after=90.0)
    assert backoffs.defer("a", "m1", longer, held=False).after_s == 90


def test_a_part_that_gets_through() -> None:
    """ADP-6.5: the tries are a part's: of ten that each fail once, each waits a second."""
    backoffs = LaneBackoff(lambda: 1.0)
    for done in range(10):
        assert backoffs.defer("a", "m1", replace(DOWN, done=done), held=False).after_s == 1.0
    assert backoffs.defer("a", "m1", replace(DOWN, done=9), held=False).after_s == 2.0
    assert backoffs.defer("a", "m1", replace(HELD, done=10), held=True).after_s == 3.0
    assert backoffs.defer("a", "m1", replace(DOWN, done=10), held=False).after_s == 1.0


def test_the_platforms_last_words() -> None:
    """ADP-6.20: they stand in front of why it is held back, once."""
    backoffs = LaneBackoff(lambda: 1.0)
    assert backoffs.defer("a", "m1", HELD, held=True).reason == "kept to the pace"
    backoffs.defer("a", "m1", DOWN, held=False)
    assert backoffs.defer("a", "m1", HELD, held=True).reason == "down (now: kept to the pace)"
    assert backoffs.defer("a", "m1", HELD, held=True).reason == "down (now: kept to the pace)"
    again = ChannelResult("not_sent", reason="no answer several times: down", retry_after=1.0)
    assert backoffs.defer("a", "m1", again, held=True).reason == again.reason


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """ADP-6.5: lanes that wait for ever do not fill the memory, however many threads there are."""
    monkeypatch.setattr(lane_backoff, "MAX_LANES", 3)
    backoffs = LaneBackoff(lambda: 1.0)

    def fill(name: str) -> None:
        for number in range(100):
            backoffs.defer(f"{name}{number}", "m1", DOWN, held=False)

    threads = [threading.Thread(target=fill, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(backoffs) <= 3 + len(threads)
