"""`wakebus courier`: the courier in this terminal, in place of the broker's own child."""

import argparse

from wakebus.adapters.courier.service import run_foreground


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `wakebus courier`."""
    parser = commands.add_parser(
        "courier",
        help="run the courier in this terminal",
        description="Take texts to chats from here until Ctrl-C; console chats are shown as well "
        "as kept. The broker's own courier has the name back afterwards.",
    )
    parser.set_defaults(run=lambda args: run_foreground(takeover=True))
