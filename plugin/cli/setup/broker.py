"""`wakebus broker run|start|stop|restart|status`: the broker, as `hermes-busd` runs it."""

from typing import Final

from wakebus.broker.server.cli import add_verbs
from wakebus.plugin.cli.command import Command

COMMAND: Final = Command(
    options=add_verbs, description="Run, start, stop the broker, as hermes-busd does."
)
