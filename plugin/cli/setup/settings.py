"""
`wakebus settings list | check | schema`: every setting, what is wrong with them, what they may be.

Rule 1: nothing here asks the broker or changes anything. Rule 2: exit 0 done, 1 wrong (all faults
on stderr), 2 usage. Rule 3: no credential is shown: none is among them.
"""

import argparse
import json
from typing import Any, Final

from wakebus.broker.system.text_table import Column
from wakebus.plugin.cli.command import Command, add_action
from wakebus.plugin.cli.output import Parser, echo, echo_json, echo_table
from wakebus.plugin.cli.setup.settings_model import SettingRow, SettingsInForce, json_schema

COLUMNS: Final = (
    Column("SETTING", whole=True),
    Column("VALUE"),
    Column("DEFAULT"),
    Column("FROM"),
    Column("WHAT", text=True),
)


def _options(parser: Parser) -> None:
    actions = parser.add_subparsers(metavar="list|check|schema", required=True)
    add_action(
        actions,
        "list",
        "show every setting with its value, its default and where it is from",
        run_list,
        json="as one JSON object",
    )
    add_action(actions, "check", "say all that is wrong with them", run_check)
    add_action(actions, "schema", "print their JSON Schema", run_schema)


def run_list(args: argparse.Namespace) -> int:
    """Print every setting. Raises BadSettings, which tells all faults."""
    settings = SettingsInForce()
    rows = settings.rows()
    if args.json:
        echo_json({"settings": [row._asdict() for row in rows]})
        return 0
    places = {
        "broker": f"{settings.file}, or WAKEBUS_<NAME>",
        "courier": f"{settings.environment.file}, or a variable",
    }
    for group, place in places.items():
        echo(f"{group}: {place}")
        echo_table(COLUMNS, [_cells(row) for row in rows if row.group == group])
        echo("")
    echo("A broker that runs holds what it read at its start: hermes-busd restart")
    return 0


def run_check(args: argparse.Namespace) -> int:
    """Print every fault (stderr); 1 if there is one."""
    settings = SettingsInForce()
    faults = settings.faults()
    for fault in faults:
        echo(fault, error=True)
    if faults:
        return 1
    echo(f"{settings.file}, {settings.environment.file}: no fault in the settings")
    return 0


def run_schema(args: argparse.Namespace) -> int:
    """Print the JSON Schema of all settings."""
    echo(json.dumps(json_schema(), indent=2))
    return 0


def _cells(row: SettingRow) -> list[str]:
    values = in_words(row, row.value), in_words(row, row.default)
    return [row.name, *values, row.source, row.description]


def in_words(row: SettingRow, value: Any) -> str:
    """Return a value with its unit: `64 MiB`, `10 s`, `1/1, 20/60 (group)`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if row.unit == "bytes" and value % (1 << 20) == 0:
        return f"{value >> 20} MiB"
    return f"{value:.15g} {row.unit}"


COMMAND: Final = Command(
    options=_options,
    description="The settings of the broker (wakebus.toml and WAKEBUS_<NAME>) and how fast the "
    "courier writes to each platform (<PLATFORM>_RATE_CHAT and _RATE_APP in .env). Shown is what "
    "this shell would start a broker with.",
    epilog="exit status: 0 done; 1 a setting is wrong, each with its place; 2 usage",
)
