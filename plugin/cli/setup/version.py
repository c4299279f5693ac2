"""`wakebus version`: which wakebus this command is, and which one the running broker is."""

import argparse
import sys
from pathlib import Path
from typing import Any, Final

import wakebus
from wakebus.broker import __version__
from wakebus.broker.address import read_address
from wakebus.broker.errors import NotRunning
from wakebus.broker.paths import bus_dir
from wakebus.broker.system.lock_file import lock_holder
from wakebus.plugin.cli.command import Command
from wakebus.plugin.cli.output import OK, echo, echo_json


def run(args: argparse.Namespace) -> int:
    """Print both versions."""
    place, python = str(Path(*wakebus.__path__)), sys.version.partition(" ")[0]
    broker, unknown = _broker()
    if args.json:
        own = {"version": __version__, "path": place, "python": python}
        echo_json({**own, "broker": broker or None, **({"unknown": unknown} if unknown else {})})
        return OK
    echo(f"wakebus {__version__}, {place}, Python {python}")
    if broker:
        known = broker.get("version", "of before 0.1.0")
        echo(f"broker  {known}, pid {broker.get('pid')}, {bus_dir()}")
    elif unknown:
        echo(f"broker  unknown: {unknown}")
    else:
        echo(f"broker  none runs in {bus_dir()}; start it: hermes-busd start")
    return OK


def _broker() -> tuple[dict[str, Any], str]:
    """Return what the running broker wrote of itself, {} for none, and why it is not known."""
    try:
        said = read_address(bus_dir()) if lock_holder(bus_dir()) is not None else {}
    except NotRunning as exc:
        return {}, exc.text
    return {name: said[name] for name in ("version", "protocol", "pid") if name in said}, ""


COMMAND: Final = Command(
    options=lambda parser: None,
    run=run,
    description="Show the version of this command, where it is installed, and the version of the "
    "running broker, which stays what it was when it was started.",
    json="print one JSON object",
)
