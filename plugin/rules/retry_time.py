"""
When work that failed is tried again: after the rule's time, or when the harness says that it can.

Rule 1: pure; `now` is an argument. Rule 2: a time is read only behind a word that announces one
(`resets`, `try again`, `retry-after`); of several the latest is taken. Rule 3: what is named only
puts an attempt off, and by no more than a day.

The words are those of Claude Code (anthropics/claude-code#2087, #74079), Codex (openai/codex#3899,
#26668, #39603), Gemini (google-gemini/gemini-cli#21881), OpenAI's API, and HTTP (RFC 9110, 10.2.3).
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from email.utils import parsedate_to_datetime
from typing import Final
from zoneinfo import ZoneInfo

LONGEST_S: Final = 3600.0  # to which the rule's own time is doubled
MOST_S: Final = 86_400.0  # by which a named time puts an attempt off; what `later` takes
SLACK_S: Final = 2.0  # after the named time: clocks differ
# A time of day that has just passed is a stale word, no time of tomorrow: what is told so is a
# limit of five hours (anthropics/claude-code#11429).
STALE_S: Final = 4 * 3600.0

_WORD: Final = re.compile(
    r"(?:re-?sets?|try again|retry|limit reached)"
    r"(?P<between>(?:(?:in|at|on|after|delay|time|requests|tokens|seconds|ms)(?![a-z0-9])"
    r"|[^\w.!?]|_|\.(?! ))*)",
    re.IGNORECASE,
)
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_PART: Final = (
    r"(?P<{}>\d+(?:\.\d+)?) ?(?P<{}>ms|milliseconds?|d(?:ays?)?|h(?:(?:ou)?rs?)?|m(?:in(?:ute)?s?)?"
    r"|s(?:ec(?:ond)?s?)?)(?![a-z])"
)
_ONE: Final = re.compile(_PART.format("number", "unit"), re.IGNORECASE)
_DURATION: Final = re.compile(
    rf"(?:{_PART.replace('?P<{}>', '?:')}(?:,? (?:and )?)?)+", re.IGNORECASE
)
_ISO: Final = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?")
_HTTP: Final = re.compile(r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT")
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?(?![\w:]|\.\d)")
_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_MONTHS: Final = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"
_CLOCK: Final = re.compile(
    rf"(?:(?P<weekday>{'|'.join(_DAYS)})[a-z]*,? (?:at )?)?"
    rf"(?:(?P<month>{_MONTHS})[a-z]*\.? (?P<day>\d\d?)(?:st|nd|rd|th)?"
    r"(?:,? (?P<year>\d{4}))?,? (?:at )?)?"
    r"(?P<hour>\d\d?)(?::(?P<minute>\d\d)(?::\d\d)?)?(?: ?(?P<half>[ap])\.?m\b)?"
    r"(?:\.? ?\(?(?P<zone>UTC|GMT|[A-Z][\w+-]*(?:/[\w+-]+)+)\)?)?",
    re.IGNORECASE,
)


def delay_s(first: float, failures: int, said: str, now: float) -> float:
    """
    Return the seconds until the next attempt.

    first: those after the first failure; `failures`: how many there were before this one; `said`:
    what the harness wrote; `now`: Unix seconds.
    """
    own = min(first * 2.0 ** min(failures, 32), max(first, LONGEST_S))
    named = named_time(said, now)
    return own if named is None else max(own, min(named + SLACK_S - now, MOST_S))


def named_time(said: str, now: float) -> float | None:
    """Return the latest time that `said` names for a new attempt, Unix seconds; None for none."""
    text = " ".join(said.split())  # harnesses wrap their lines
    found = []
    for word in _WORD.finditer(text):
        rest, between = text[word.end() :], word["between"]
        times = (read(rest, between, now) for read in _READERS)
        if (time := next((time for time in times if time is not None), None)) is not None:
            found.append(time)
    return max(found, default=None)


def _absolute(rest: str, between: str, now: float) -> float | None:
    try:
        if iso := _ISO.match(rest):
            return datetime.fromisoformat(iso[0]).timestamp()
        if http := _HTTP.match(rest):
            return parsedate_to_datetime(http[0]).timestamp()
    except ValueError:
        pass
    return None


def _duration(rest: str, between: str, now: float) -> float | None:
    if (whole := _DURATION.match(rest)) is None:
        return None
    parts = ((float(part["number"]), part["unit"].lower()) for part in _ONE.finditer(whole[0]))
    return now + sum(number * _UNITS[_unit(name)] for number, name in parts)


def _unit(name: str) -> str:
    return "ms" if name.startswith(("ms", "mil")) else name[0]


def _number(rest: str, between: str, now: float) -> float | None:
    """Read what no unit stands behind: seconds since 1970, or from now where a field is named."""
    if (found := _NUMBER.match(rest)) is None:
        return None
    number = float(found[0])
    if number >= 1e9:
        return number / 1000 if number >= 1e12 else number
    if not set(between) & set(":=|"):
        return None
    return now + (number / 1000 if "ms" in between.lower() else number)


def _clock(rest: str, between: str, now: float) -> float | None:
    found = _CLOCK.match(rest)
    if found is None or not (found["half"] or found["minute"]):
        return None
    try:
        return _next_time(found, datetime.fromtimestamp(now, _zone(found["zone"])))
    except (ValueError, OverflowError):
        return None


def _zone(name: str | None) -> tzinfo | None:
    """Return the zone of that name; None, which is the local one, also where it is not known."""
    if name and name.upper() in ("UTC", "GMT"):
        return UTC
    try:
        return ZoneInfo(name) if name else None
    except (LookupError, ValueError, OSError):
        return None


def _next_time(found: re.Match[str], now: datetime) -> float | None:
    hour = int(found["hour"])
    if found["half"]:
        hour = hour % 12 + (12 if found["half"].lower() == "p" else 0)
    at = now.replace(hour=hour, minute=int(found["minute"] or 0), second=0, microsecond=0)
    if found["month"]:
        month = _MONTHS.split("|").index(found["month"].lower()) + 1
        at = at.replace(year=int(found["year"] or now.year), month=month, day=int(found["day"]))
        if not found["year"] and now - at > timedelta(days=180):
            at = at.replace(year=now.year + 1)
        return at.timestamp()
    if found["weekday"]:
        at += timedelta(days=(_DAYS.index(found["weekday"].lower()) - now.weekday()) % 7)
    passed = (now - at).total_seconds()
    if passed >= 0:
        at += timedelta(days=7 if found["weekday"] else 1)
    return None if 0 <= passed < STALE_S else at.timestamp()


_READERS: Final[tuple[Callable[[str, str, float], float | None], ...]] = (
    _absolute,
    _duration,
    _clock,
    _number,
)
