"""
What became of deliveries, counted by platform.

Rule 1: pure. Rule 2: words and numbers only: no text but the last error's, redacted where it was
made, which may name the chat. Rule 3: bounded: as many platforms as there are adapters.
"""

from typing import Any

from wakebus.adapters.base import ChannelResult


class DeliveryCounters:
    """Those of a host. Not thread-safe."""

    def __init__(self) -> None:
        self._counts: dict[str, dict[str, Any]] = {}

    def count_result(self, platform: str, result: ChannelResult, at: float, *, held: bool) -> None:
        """Count a delivery that ended at `at` (Unix seconds), or was held back and not tried."""
        found = self._counts.setdefault(
            platform,
            dict.fromkeys(("sent", "rejected", "not_sent", "uncertain", "held"), 0)
            | {"last_error": "", "last_error_at": 0},
        )
        found["held" if held else result.result] += 1
        if result.result != "sent" and not held:
            found |= {"last_error": result.reason[:200], "last_error_at": round(at)}

    def counts(self) -> dict[str, dict[str, Any]]:
        """Return a copy of the counts of each platform."""
        return {platform: dict(found) for platform, found in self._counts.items()}
