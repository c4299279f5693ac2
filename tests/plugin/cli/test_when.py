"""Times on a command line, in time zones whose clocks jump."""

import time
from argparse import ArgumentTypeError
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from wakebus.broker.duration import span_text
from wakebus.plugin.cli import when


@pytest.fixture
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This process in another time zone."""
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def utc(text: str) -> float:
    """Return the Unix seconds of a time in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


in_berlin = pytest.mark.parametrize("zone", ["Europe/Berlin"], indirect=True)


@in_berlin
@pytest.mark.parametrize(
    ("text", "now", "then"),
    [
        ("18:00", "2026-11-29T10:00", "2026-11-29T17:00"),
        ("18:00", "2026-11-29T17:00", "2026-11-29T17:00"),
        ("18:00", "2026-11-29T17:00:01", "2026-11-30T17:00"),
        ("9:05", "2026-11-29T10:00", "2026-11-30T08:05"),
        ("18:00:30", "2026-11-29T10:00", "2026-11-29T17:00:30"),
        ("2026-12-01T18:00", "2026-11-29T10:00", "2026-12-01T17:00"),
        ("2026-12-01 18:00", "2026-11-29T10:00", "2026-12-01T17:00"),
        ("2026-12-01T18:00Z", "2026-11-29T10:00", "2026-12-01T18:00"),
        ("2026-12-01t18:00z", "2026-11-29T10:00", "2026-12-01T18:00"),
        ("2026-12-01T18:00-05:00", "2026-11-29T10:00", "2026-12-01T23:00"),
        ("18:00+0900", "2026-11-29T10:00", "2026-11-30T09:00"),
        # Over the night in which the clock goes forward, a day has 23 hours; back, 25.
        ("18:00", "2026-03-28T20:00", "2026-03-29T16:00"),
        ("18:00", "2026-10-24T20:00", "2026-10-25T17:00"),
        # 02:30 is twice, and the first that is to come counts.
        ("02:30", "2026-10-25T00:00", "2026-10-25T00:30"),
        ("02:30", "2026-10-25T00:45", "2026-10-25T01:30"),
        ("02:30", "2026-10-25T01:45", "2026-10-26T01:30"),
        ("2026-10-25T02:30", "2026-10-25T00:45", "2026-10-25T01:30"),
        # Once the hour that there was not is over, the next day is meant.
        ("02:30", "2026-03-29T10:00", "2026-03-30T00:30"),
    ],
)
def test_a_moment(zone: None, text: str, now: str, then: str) -> None:
    """The next one in this machine's zone; tomorrow is a date, not 24 hours."""
    assert when.moment_at(text, utc(now)) == utc(then)


@in_berlin
@pytest.mark.parametrize(
    ("text", "says"),
    [
        *((text, "is no time; write 18:00") for text in ("", "soon", "6pm", "18", "1800", "18:0")),
        *((text, "is no time; write 18:00") for text in ("2026-12-01", "1796000400", "٠٩:٠٠")),
        ("25:00", "is no time (hour must be in 0..23)"),
        ("18:60", "is no time (minute must be in 0..59)"),
        ("2026-02-30T10:00", "is no time (day is out of range for month)"),
        ("2026-11-28T18:00", "is past, 18 h ago"),
        ("2026-03-29T02:30", "is past"),
        ("2027-03-28T02:30", "there is no 02:30 on 2027-03-28 here, the clock goes forward"),
        ("0001-01-01T00:00", "is "),
        ("9999-12-31T23:59:59-12:00", "is "),
    ],
)
def test_what_is_no_moment(zone: None, text: str, says: str) -> None:
    """It is told with what can be written; nothing else is raised."""
    try:
        found = when.moment_at(text, utc("2026-11-29T11:00"))
    except ArgumentTypeError as exc:
        assert says in str(exc)
    else:
        assert text.startswith("9999") and found > 2e11


@in_berlin
def test_an_hour_that_is_skipped(zone: None) -> None:
    """Before it, `02:30` of that night is told: nobody guesses which other one is meant."""
    with pytest.raises(ArgumentTypeError, match="there is no 02:30 on 2026-03-29 here"):
        when.moment_at("02:30", utc("2026-03-29T00:00"))


def test_more_than_a_year_ahead() -> None:
    """PROTOCOL-4.18: told before anything is sent."""
    for read, text in ((when.after, "367d"), (when.moment, "2999-01-01T00:00")):
        with pytest.raises(ArgumentTypeError, match="more than 366 days ahead"):
            read(text)
    assert when.after("366d") > time.time()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("10m", 600),
        ("1h30m", 5400),
        ("1.5h", 5400),
        ("7d", 604800),
        (" 2d12h ", 216000),
    ],
)
def test_a_span(text: str, seconds: float) -> None:
    """In one unit or several."""
    assert when.span(text) == seconds


@pytest.mark.parametrize("text", ["", "10", "m", "10 m", "-5m", "1e3s", "5m1h", "1h1h", "10min"])
def test_what_is_no_span(text: str) -> None:
    """Also a number without a unit: nobody guesses whether minutes were meant."""
    with pytest.raises(ArgumentTypeError, match="is no span of time; write 90s, 10m, 1h30m or 7d"):
        when.span(text)


@pytest.mark.parametrize("text", ["0s", "0.0s", "367d"])
def test_what_is_no_ttl(text: str) -> None:
    """PROTOCOL-4.2: its limits, in the units of the option."""
    with pytest.raises(ArgumentTypeError, match=r"from 0.001s to 366d"):
        when.ttl(text)


@in_berlin
def test_a_moment_as_people_read_it(zone: None) -> None:
    """The date where it is another day; seconds where there are any."""
    now = utc("2026-11-29T10:00")
    shown = [when.moment_text(utc(t), now) for t in ("2026-11-29T17:00", "2026-11-29T17:00:05")]
    assert shown == ["18:00", "18:00:05"]
    assert when.moment_text(utc("2026-11-30T17:00"), now) == "2026-11-30 18:00"
    assert when.moment_text(1e300, now) == f"{1e300:.0f}"
    assert when.goes_out_text(now + 600, now) == "at 11:10, in 10 min"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0.4 s"), (119, "119 s"), (120, "2 min"), (7200, "2 h"), (172800, "2 days")],
)
def test_a_span_as_people_read_it(seconds: float, text: str) -> None:
    """The unit that fits."""
    assert span_text(seconds) == text
