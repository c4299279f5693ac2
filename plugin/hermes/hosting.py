"""
Which host and screen a listening process of Hermes has.

Rule 1: what is of one mode is loaded only there.
"""

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from wakebus.plugin.hermes.process_kind import Live
from wakebus.plugin.receive.answers import Answers
from wakebus.plugin.receive.terminal_output import TerminalOutput

if TYPE_CHECKING:
    from wakebus.plugin.hermes.runtime import Runtime

MakeHost = Callable[[Live, str, Answers, "Runtime", threading.Event], tuple[Any, Any]]
"""Returns a Host (receive/host.py) for an endpoint's name, and the screen for its prints."""


def make(
    live: Live, endpoint: str, answers: Answers, runtime: "Runtime", stop: threading.Event
) -> tuple[Any, Any]:
    """Return the host and the screen of `live`; `stop` is set when it leaves the bus."""
    if live.mode == "cli":
        from wakebus.plugin.hermes.terminal.host import CliHost, CliScreen

        return CliHost(live.object, endpoint, answers, runtime.watch, stop), CliScreen()
    from wakebus.plugin.hermes.gateway.host import GatewayHost
    from wakebus.plugin.hermes.shared.turn_grant import granted

    facts = (live.object, endpoint, answers, runtime.watch, granted, stop)
    return GatewayHost(*facts, inject=runtime.inject), TerminalOutput()
