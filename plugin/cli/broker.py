"""`wakebus broker run|start|stop|restart|status`: the broker, as `hermes-busd` runs it."""

import argparse

from wakebus.broker import busd


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `wakebus broker`."""
    parser = commands.add_parser("broker", help="run, start, stop the broker", description=__doc__)
    busd.add_verbs(parser)
