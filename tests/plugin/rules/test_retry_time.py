"""A3: when work that failed is tried again, by the words that harnesses really write."""

import time
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakebus.plugin.rules import retry_time

NOW = datetime(2026, 7, 4, 7, 20, tzinfo=UTC).timestamp()  # a Saturday; in New York 3:20 am
HOUR = 3600.0
DAY = 86_400.0


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("Claude AI usage limit reached|1783153200", 1783153200 - NOW),
        ("You've hit your session limit · resets 12:50am (America/Los_Angeles)", 0.5 * HOUR),
        ("You've hit your session limit · resets 8:30pm (Asia/Tokyo)", 4 * HOUR + 600),
        ("Claude usage limit reached. Your limit will reset at 1pm (Etc/GMT+5).", 10 * HOUR + 2400),
        ("5-hour limit reached ∙ resets 9am (UTC)", HOUR + 2400),
        ("You've hit your weekly limit · resets Jul 6 at 5pm (UTC)", 2 * DAY + 9 * HOUR + 2400),
        ("resets Mon 12:00am (UTC)", DAY + 16 * HOUR + 2400),
        ("or try again in 5 days 22 hours 11\nminutes.", 5 * DAY + 22 * HOUR + 660),
        ("or try again at Jul 5th, 2026 8:19 AM UTC.", DAY + 59 * 60),
        ("or try again at Aug 20, 2026, 7:38 AM (UTC).", 47 * DAY + 18 * 60),
        ("Your quota will reset after 12h34m16s.", 12 * HOUR + 34 * 60 + 16),
        ('"retryDelay": "37.5s"', 37.5),
        ("Please retry in 643ms.", 0.643),
        ("Please retry in 500 milliseconds.", 0.5),
        ("Rate limit reached for gpt-5. Please try again in 1m26.4s.", 86.4),
        ("Please try again in 20s. Visit https://x to learn more.", 20),
        ("retry-after: 30", 30),
        ("Retry-After: Sat, 04 Jul 2026 07:21:00 GMT", 60),
        ("retry-after-ms: 1500", 1.5),
        ("anthropic-ratelimit-requests-reset: 2026-07-04T07:20:30Z", 30),
        ('{"resets_at": 1783153200, "plan": "pro"}', 1783153200 - NOW),
        ('{"resets_in_seconds":1234}', 1234),
        ("x-ratelimit-reset: 1783153200000", 1783153200 - NOW),
        ("x-ratelimit-reset-requests: 1s x-ratelimit-reset-tokens: 6m0s", 360),
        ("Current session resets in 4hr 29min", 4 * HOUR + 29 * 60),
        ("try again in 1 hour, 2 minutes and 3 seconds", HOUR + 123),
    ],
)
def test_the_words_of_harnesses(said: str, seconds: float) -> None:
    """RULES-8.10: durations, times of day with their zone, dates, epochs, headers."""
    found = retry_time.named_time(said, NOW)
    assert found is not None and found - NOW == pytest.approx(seconds, abs=0.01)


@pytest.mark.parametrize(
    "said",
    [
        "",
        "429 Too Many Requests",
        "Please try again later.",
        "I will retry. 100000 tokens were used",
        "wait for limits to reset (every 5h and every week.)",
        "reset the 3 tests",
        "resets Feb 31 at 5pm",
        "resets 99:99",
        "retry-after: soon",
        "resets 6:30am (UTC)",  # 50 minutes ago: a stale word
        "retry " * 5000 + "!",
    ],
)
def test_what_names_no_time(said: str) -> None:
    """RULES-8.10: a number alone, a time that has just passed, nonsense."""
    assert retry_time.named_time(said, NOW) is None


def test_a_local_time_of_day() -> None:
    """Without a zone it is this machine's; one that is not known is read as that."""
    local = time.localtime(NOW + 2 * HOUR)
    clock = time.strftime("%H:%M", local)
    for said in (f"try again at {clock}", f"resets {clock} (Nowhere/Land)"):
        found = retry_time.named_time(said, NOW)
        assert found is not None and abs(found - NOW - 2 * HOUR) < 60


def test_the_rules_own_time() -> None:
    """RULES-8.9: doubled up to an hour; never shortened by that."""
    own = [retry_time.delay_s(30, n, "", NOW) for n in range(9)]
    assert own == [30, 60, 120, 240, 480, 960, 1920, 3600, 3600]
    assert retry_time.delay_s(7200, 3, "", NOW) == 7200
    assert retry_time.delay_s(1, 10**6, "", NOW) == 3600


def test_the_later_of_both() -> None:
    """RULES-8.10: what is named puts it off, by a day at most, and never brings it forward."""
    assert retry_time.delay_s(30, 0, "try again in 20s", NOW) == 30
    assert retry_time.delay_s(30, 0, "try again in 40s", NOW) == pytest.approx(42)
    assert retry_time.delay_s(30, 0, "try again in 5 days", NOW) == 86_400
    assert retry_time.delay_s(30, 0, "resets at 2020-01-01T00:00:00Z", NOW) == 30


@given(st.text(alphabet="resetryagainlimt |0123456789:.-hdms()/,APM", max_size=200))
def test_nothing_raises(said: str) -> None:
    """Whatever a harness writes."""
    assert retry_time.delay_s(30, 0, said, NOW) >= 30
