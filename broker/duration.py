"""
A number of seconds, as people read and write it.

Rule 1: pure. Rule 2: what is not over is never called 0.
"""

import re
from typing import Final

UNITS: Final = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_SPAN: Final = re.compile(r"(?:[0-9]{1,6}(?:\.[0-9]{1,3})?[smhd])+")


def seconds_text(seconds: float) -> str:
    """Return seconds in words: `30 s`, `2 s`; of less than one its first digit, `0.5 s`."""
    return f"{seconds:.0f} s" if seconds >= 1 else f"{seconds:.1g} s"


def span_text(seconds: float) -> str:
    """Return a time to wait in a unit that fits: `45 s`, `10 min`, `5 h`, `3 days`."""
    for unit, size in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return seconds_text(seconds)


def seconds_of(text: str) -> float | None:
    """Return the seconds of `90s`, `30m`, `1h30m`, `7d`, None of anything else."""
    if not _SPAN.fullmatch(text):
        return None
    parts = re.findall(r"([0-9.]+)([smhd])", text)
    units = [unit for _, unit in parts]
    if units != [unit for unit in UNITS if unit in units]:
        return None  # `30m30m`, `5s1h`: a slip
    return sum(float(number) * UNITS[unit] for number, unit in parts)
