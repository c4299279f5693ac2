"""
What stands in the sessions of the TUI and the desktop beside their turns: prints.

Rule 1: the server's standard output is its wire: nothing is ever printed there. Rule 2: what nobody
can see is an error that says so.
"""

from typing import Final

from wakebus.plugin.hermes.host_api.protocol import TuiApi
from wakebus.plugin.receive.terminal_output import TerminalOutput
from wakebus.plugin.rules.sanitize import sanitize

NO_SESSION: Final = "no session of the TUI is open"


class TuiOutput(TerminalOutput):
    """Prints in one session, in all where `session` is "". No colours: a line of text."""

    def __init__(self, hermes: TuiApi, session: str = "") -> None:
        super().__init__()
        self._hermes, self._session, self.color = hermes, session, False

    def of_session(self, session: str) -> TerminalOutput:
        """Return what prints in this session alone."""
        return TuiOutput(self._hermes, session)

    def show(self, text: str) -> str:
        """Show `text`; return why nobody can see it, or "" when it was handed over."""
        text = sanitize(text)
        keys = [self._session] if self._session else [one.key for one in self._hermes.sessions()]
        errors = [self._hermes.show(key, text) for key in keys]
        return "" if "" in errors else next(iter(errors), NO_SESSION)
