"""
A number of seconds, as people read it.

Rule 1: pure. Rule 2: what is not over is never called 0.
"""


def seconds_text(seconds: float) -> str:
    """Return seconds in words: `30 s`, `2 s`; of less than one its first digit, `0.5 s`."""
    return f"{seconds:.0f} s" if seconds >= 1 else f"{seconds:.1g} s"
