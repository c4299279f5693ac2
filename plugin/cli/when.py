"""
Times on a command line: a span as `10m`, a moment as `18:00`; and a moment as people read it.

Rule 1: a moment is of this machine's clock and time zone, unless it says another offset. Rule 2: an
hour that the clock skips is told, of one that it shows twice the first that is to come is meant.
Rule 3: what is wrong is told with what can be written. Rule 4: notify-hermes loads this only where
a time is given.
"""

import re
import time
from argparse import ArgumentTypeError
from datetime import date as Date
from datetime import datetime, timedelta
from typing import Final

from wakebus.broker.duration import seconds_of, span_text
from wakebus.broker.protocol.message import MAX_DELAY_S, MAX_TTL_S

_MOMENT: Final = re.compile(
    r"(?:(\d{4}-\d\d-\d\d)[T ])?(\d{1,2}:\d\d(?::\d\d(?:\.\d{1,6})?)?)(Z|[+-]\d\d:?\d\d)?",
    re.IGNORECASE | re.ASCII,
)
_FORMS: Final = "write 18:00 (tomorrow if it is past), 2026-12-01T18:00 or 2026-12-01T18:00+01:00"


def span(text: str) -> float:
    """Return the seconds of `90s`, `10m`, `1h30m`, `7d`, for argparse."""
    found = seconds_of(text.strip())
    if found is None:
        raise ArgumentTypeError(f"{text!r} is no span of time; write 90s, 10m, 1h30m or 7d")
    return found


def ttl(text: str) -> float:
    """Return the seconds that a message may live, for argparse."""
    found = span(text)
    if not 0.001 <= found <= MAX_TTL_S:
        raise ArgumentTypeError(f"{text!r}: from 0.001s to {MAX_TTL_S / 86400:g}d")
    return found


def after(text: str) -> float:
    """Return the Unix seconds of `10m` from now, for argparse."""
    return _near(text, span(text), time.time())


def moment(text: str) -> float:
    """Return the Unix seconds of the next `18:00`, or of a whole date and time, for argparse."""
    now = time.time()
    return _near(text, moment_at(text, now) - now, now)


def _near(text: str, wait: float, now: float) -> float:
    if wait > MAX_DELAY_S:
        raise ArgumentTypeError(f"{text!r} is more than {MAX_DELAY_S / 86400:g} days ahead")
    return round(now + wait, 3)


def moment_at(text: str, now: float) -> float:
    """
    Return the Unix seconds that `text` means at `now`.

    Raises ArgumentTypeError for what is no time, is past, or does not exist here.
    """
    found = _MOMENT.fullmatch(text.strip())
    if found is None:
        raise ArgumentTypeError(f"{text!r} is no time; {_FORMS}")
    day, clock, zone = found[1], found[2], (found[3] or "").upper()
    clock = f"0{clock}" if clock[1] == ":" else clock
    try:
        here = datetime.fromisoformat(f"{day or '2000-01-01'}T{clock}{zone}")
        if day is not None:
            return _on(text, here, now)
        today = datetime.fromtimestamp(now, here.tzinfo).date()
        for date in (today, today + timedelta(days=1)):
            then = _next(text, _of_day(here, date), now)
            if then is not None:
                return then
    except (ValueError, OverflowError, OSError) as exc:
        raise ArgumentTypeError(f"{text!r} is no time ({exc}); {_FORMS}") from exc
    raise ArgumentTypeError(f"{text!r} is past")


def _of_day(here: datetime, date: Date) -> datetime:
    return here.replace(year=date.year, month=date.month, day=date.day)


def _on(text: str, here: datetime, now: float) -> float:
    then = _next(text, here, now)
    if then is None:
        ago = span_text(max(0.0, now - here.timestamp()))
        raise ArgumentTypeError(f"{text!r} is past, {ago} ago")
    return then


def _next(text: str, here: datetime, now: float) -> float | None:
    """Return when the clock shows `here` from now on, None where it no more does."""
    times = [here.replace(fold=fold).timestamp() for fold in (0, 1)]
    shown = [t for t in times if datetime.fromtimestamp(t, here.tzinfo) == here]
    if not shown and max(times) >= now:
        skipped = f"{here:%H:%M} on {here:%Y-%m-%d}"
        raise ArgumentTypeError(f"{text!r}: there is no {skipped} here, the clock goes forward")
    return next((t for t in shown if t >= now), None)


def moment_text(t: float, now: float) -> str:
    """Return Unix seconds as local time: `18:00`, `18:00:05`, `2026-12-01 18:00` of another day."""
    try:
        there, here = time.localtime(t), time.localtime(now)
    except (OverflowError, ValueError, OSError):
        return f"{t:.0f}"
    clock = time.strftime("%H:%M:%S" if there.tm_sec else "%H:%M", there)
    return clock if there[:3] == here[:3] else time.strftime(f"%Y-%m-%d {clock}", there)


def goes_out_text(t: float, now: float) -> str:
    """Return in words when a message goes out: `at 18:00, in 10 min`."""
    return f"at {moment_text(t, now)}, in {span_text(max(0.0, t - now))}"
