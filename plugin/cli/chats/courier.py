"""`wakebus courier`: the courier in this terminal, in place of the broker's own child."""

from typing import Final

from wakebus.adapters.courier.service import run_foreground
from wakebus.plugin.cli.command import Command

COMMAND: Final = Command(
    options=lambda parser: None,
    run=lambda args: run_foreground(takeover=True),
    description="Take texts to chats from here until Ctrl-C; console chats are shown as well "
    "as kept. The broker's own courier has the name back afterwards.",
)
