"""
How many turns a session may begin in a window: `flood_turns`, `flood_window_s` of wakebus.toml.

Rule 1: read where a receiver starts; what is wrong in that file stops the start, as the broker's.
Rule 2: light to import, since the runtime is in every process of Hermes; the settings' model is
loaded by what reads them.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Self

from wakebus.broker.duration import seconds_text


class FloodLimit(NamedTuple):
    """`turns` that a session may begin within `window_s` seconds; then it rests."""

    turns: int = 5
    window_s: float = 60.0

    @classmethod
    def load(cls, bus: Path, environ: Mapping[str, str]) -> Self:
        """Return what wakebus.toml in folder `bus`, and variables, say. Raises BadSettings."""
        from wakebus.broker import settings

        found = settings.load(bus / "wakebus.toml", environ)
        return cls(found.flood_turns, found.flood_window_s)

    @property
    def reason(self) -> str:
        """Why a session rests, as a sender is told."""
        turns = "1 turn" if self.turns == 1 else f"{self.turns} turns"
        window = "a minute" if self.window_s == 60 else f"in {seconds_text(self.window_s)}"
        return f"more than {turns} {window}"
