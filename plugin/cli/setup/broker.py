"""`wakebus broker run|start|stop|restart|status`: the broker, as `hermes-busd` runs it."""

import argparse

from wakebus.broker.server import cli as busd


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `wakebus broker`."""
    parser = commands.add_parser(
        "broker",
        help="run, start, stop the broker",
        description="Run, start, stop the broker, as hermes-busd does.",
    )
    busd.add_verbs(parser)
