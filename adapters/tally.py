"""
What became of deliveries, counted by platform.

Rule 1: pure. Rule 2: words and numbers only: no chat, no text but the last error's, which is
masked where it was made. Rule 3: bounded: as many platforms as there are adapters.
"""

from typing import Any

from wakebus.adapters.base import ChannelResult


class Tally:
    """Not thread-safe."""

    def __init__(self) -> None:
        self._counts: dict[str, dict[str, Any]] = {}

    def count(self, platform: str, result: ChannelResult, *, held: bool) -> None:
        """Count a delivery that ended, or that was held back before it began."""
        found = self._counts.setdefault(
            platform,
            dict.fromkeys(("sent", "rejected", "not_sent", "uncertain", "held"), 0)
            | {"last_error": ""},
        )
        found["held" if held else result.word] += 1
        if result.word != "sent" and not held:
            found["last_error"] = result.reason[:200]

    def counts(self) -> dict[str, dict[str, Any]]:
        """Return a copy of the counts of each platform."""
        return {platform: dict(found) for platform, found in self._counts.items()}
