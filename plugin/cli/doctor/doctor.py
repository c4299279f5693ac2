"""
`wakebus doctor`: look at all that wakebus needs, and say the next step for what is wrong.

Rule 1: it changes nothing, starts nothing and sends nothing. Rule 2: one check that fails keeps no
other from being done. Rule 3: exit 0 nothing is wrong, 1 something is, 2 usage.
"""

import argparse
from collections.abc import Iterator, Mapping
from typing import Final

from wakebus.broker.errors import WakebusError
from wakebus.plugin.cli.command import Command
from wakebus.plugin.cli.doctor import bus_checks, file_checks, install_checks
from wakebus.plugin.cli.doctor.finding import Check, Finding
from wakebus.plugin.cli.output import FAILED, OK, echo, echo_json, hint, one_line

# name: check; in the order in which one thing needs the other
CHECKS: Final[Mapping[str, Check]] = {
    "commands": install_checks.check_commands,
    "files": install_checks.check_files,
    "folder": bus_checks.check_folder,
    "settings": file_checks.check_settings,
    "broker": bus_checks.check_broker,
    "courier": bus_checks.check_courier,
    "rules": file_checks.check_rules,
    "hermes": install_checks.check_hermes,
}


def run(args: argparse.Namespace) -> int:
    """Do every check, print what each saw; 1 if anything is wrong."""
    faults, told = 0, []
    for name, check in CHECKS.items():
        for one in findings_of(check):
            faults += one.state == "wrong"
            told.append({"check": name, **one._asdict()})
            if not args.json:
                echo(text_of(name, one))
    if args.json:
        echo_json({"wrong": faults, "findings": told})
    else:
        echo(f"{faults} wrong" if faults else "nothing is wrong")
    return FAILED if faults else OK


def findings_of(check: Check) -> Iterator[Finding]:
    """Yield what a check sees; an error that it raises is a fault."""
    try:
        yield from check()
    except WakebusError as exc:
        text, _, step = hint(exc).partition("\n")
        yield Finding("wrong", text, step)
    except OSError as exc:  # it names the file
        yield Finding("wrong", str(exc), "Look after that file, then: wakebus doctor")


def text_of(name: str, one: Finding) -> str:
    """Return a finding as people read it: a line, and below it the next step."""
    steps = [f"       next: {line}" for line in one.step.splitlines()]
    return "\n".join([one_line(f"{one.state + ':':<6} {name}: {one.text}"), *steps])


COMMAND: Final = Command(
    options=lambda parser: None,
    run=run,
    description="Check the commands, the bus's folder, the settings, the broker, the courier, the "
    "rules and wakebus in Hermes; for what is wrong, say the next step. Nothing is changed, "
    "started or sent.",
    epilog="exit status: 0 nothing is wrong; 1 something is; 2 usage",
    json="print one JSON object",
)
