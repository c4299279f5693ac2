"""`wakebus status`: the broker, its endpoints and queues, as `hermes-busd status` shows them."""

from typing import Final

from wakebus.broker.server.cli import status
from wakebus.plugin.cli.command import Command

COMMAND: Final = Command(
    options=lambda parser: None,
    run=status,
    description="Show the broker, its endpoints, queues and dead letters; each number that is not "
    "good has a line with the next command.",
    epilog="exit status: 0 it runs; 1 it does not answer; 3 it is stopped",
    json="for scripts",
)
