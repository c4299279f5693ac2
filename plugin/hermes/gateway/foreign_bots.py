"""
Whether the courier would speak as another profile's bot.

The courier has the chats of one home for all (HERMES.md section 2). Rule 1: where that is another
profile's, it has no bot of ours. Rule 2: what no gateway of Hermes here has is the courier's own,
and nobody's bot. Rule 3: while nobody knows whose it will be, it is that of who started it all.
"""

from collections.abc import Collection
from pathlib import Path

from wakebus.plugin.receive.answers import Answers


class ForeignBots:
    """Asks for the profile at `home`; `launched`: whether this process was launched for it."""

    def __init__(self, answers: Answers, home: Path, *, launched: bool) -> None:
        self._answers, self._home, self._launched = answers, home, launched

    def reason(self, platform: str, of_gateways: Collection[str]) -> str:
        """Return why the courier may not speak there, "" where it may. `of_gateways`: platforms."""
        if platform.lower() not in of_gateways:
            return ""
        settings = self._answers.courier_settings()
        if not settings:
            return "" if self._launched else "the courier has another profile's bots"
        folder = Path(settings).parent
        if folder.resolve() == self._home:
            return ""
        return f"the courier has the bots of {folder}, not this profile's"
