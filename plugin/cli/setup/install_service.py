"""
`wakebus install service`: the broker, and listeners, as services of this user.

Rule 1: nothing is said to run that the service manager does not run. Rule 2: exit 0 done; 1
refused, or no service manager here (the unit is printed); 2 usage. Rule 3: a second run changes
nothing.
"""

import argparse
import os
import shlex
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from wakebus.broker.paths import ROOTS, bus_dir, bus_root, root_of
from wakebus.broker.protocol.message import check_name
from wakebus.broker.system.lock_file import lock_holder
from wakebus.broker.user_unit import BROKER
from wakebus.plugin.cli.main import VERBS
from wakebus.plugin.cli.output import FAILED, OK, Parser, Usage, echo, echo_json
from wakebus.plugin.install.errors import CannotInstall
from wakebus.plugin.receive.maintenance import start_broker
from wakebus.plugin.services import service_manager as manager
from wakebus.plugin.services.service_manager import ServiceUnit
from wakebus.plugin.services.unit_files import (
    ROOT,
    Service,
    fits_line,
    fits_unit,
    passed_environment,
)

DESCRIPTION: Final = (
    "Keep the broker, and with `listen` a listener, running as a service of your user: started "
    "with your session (or at boot), started again when it was killed. systemd on Linux, launchd "
    "on macOS. The courier is a part of the broker."
)
EPILOG: Final = """\
examples:
  wakebus install service                    the broker
  wakebus install service listen worker-alpha --agent 'claude -p'
                                             and a listener, in this folder
  wakebus install service --dry-run          print the unit; change nothing
  wakebus install service --uninstall        stop and remove all of them

A service gets PATH, HERMES_BUS_ROOT, HERMES_HOME, the locale, settings of
wakebus and proxies of this shell, and what --env names; an agent's key, as
ANTHROPIC_API_KEY, is no part of it by itself. Credentials of chats belong
into $HERMES_HOME/.env. After a change of these run it again.

exit status: 0 done; 1 refused, or no service manager here; 2 usage"""
_UNFIT: Final = "a control character, or what is no UTF-8"
_STEP: Final = "The units, for a machine with systemd (a login session) or launchd:"
_FLAGS: Final = {"--dry-run": "dry_run", "--uninstall": "uninstall", "--json": "json"}


def add_options(to: argparse.ArgumentParser) -> None:
    """Add what `wakebus install service` takes."""
    to.add_argument("--dry-run", action="store_true", help="only print what would be done")
    to.add_argument("--uninstall", action="store_true", help="stop them and remove their units")
    to.add_argument(
        "--env", action="append", default=[], metavar="NAME", help="pass this variable on, too"
    )
    to.add_argument("--json", action="store_true", help="print one JSON object, errors too")
    to.add_argument(
        "words", nargs=argparse.REMAINDER, metavar="listen NAME …", help="as for wakebus listen"
    )
    to.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Do what `args` say; return the exit status."""
    words = [word for word in args.words if word not in _FLAGS]
    for flag in {*args.words} & {*_FLAGS}:
        setattr(args, _FLAGS[flag], True)  # behind `listen`, all words are in one list
    try:
        name = _listener(words)
        if args.uninstall:
            return _uninstall(args, f"listen-{name}" if name else "")
        services = [_broker(args.env)]
        if name:
            services.append(_listen(name, words, args.env))
        return _install(args, [manager.unit_for(one) for one in services])
    except CannotInstall as exc:
        if not args.json:
            raise
        echo_json({"error": exc.to_wire()})
        return FAILED


def _listener(words: list[str]) -> str:
    """Return the endpoint of `listen NAME …`, "" for the broker alone. Raises Usage."""
    if not words:
        return ""
    if not all(map(fits_unit, words)):
        raise Usage(f"a word of this command line holds {_UNFIT}, which no unit can")
    if words[0] != "listen":
        raise Usage(f"{words[0]!r}: a service is the broker, or listen NAME …")
    parser = Parser(prog="wakebus install service listen")
    import_module(f"wakebus.plugin.cli.{VERBS['listen'][0]}").COMMAND.set_up(parser)
    if (name := parser.parse_args(words[1:]).endpoint) is None:
        raise Usage("name the endpoint: wakebus install service listen NAME …")
    return check_name(name, "endpoint")


def _broker(extra: list[str]) -> Service:
    command = (sys.executable, "-P", "-m", "wakebus.broker", "run")
    log = bus_dir() / "broker.out"
    return Service(BROKER, "wakebus: the broker", command, _environment(extra), Path("/"), log)


def _listen(name: str, words: list[str], extra: list[str]) -> Service:
    command = (sys.executable, "-P", "-m", "wakebus.plugin.cli", *words)
    log, folder = bus_dir() / f"listen-{name}.log", _nameable(Path.cwd())
    return Service(
        f"listen-{name}", f"wakebus: {name} listens", command, _environment(extra), folder, log
    )


def _nameable(folder: Path) -> Path:
    """Return `folder`, if a unit can name it. Raises CannotInstall."""
    if fits_line(str(folder)):
        return folder
    why = f"{_UNFIT}, a line end, or a blank or backslash at its end"
    raise CannotInstall(
        f"no unit can name the folder {str(folder)!a}: it holds {why}", "Run this in another folder"
    )


def _environment(extra: list[str]) -> dict[str, str]:
    if missing := [name for name in extra if name not in os.environ]:
        raise Usage(f"--env {missing[0]}: there is no such variable in this shell")
    if unfit := [name for name in extra if not fits_unit(os.environ[name])]:
        raise Usage(f"--env {unfit[0]}: its value holds {_UNFIT}, which no unit can")
    absolute = {name: root_of(name) for name in ROOTS if os.environ.get(name, "").strip()}
    return {**passed_environment(os.environ, extra), **absolute, ROOT: str(_nameable(bus_root()))}


def _install(args: argparse.Namespace, units: list[ServiceUnit]) -> int:
    problem = "" if args.dry_run else manager.why_no_manager()
    if args.dry_run or problem:
        return _show(args, units, problem)
    broker, *listeners = units
    outside = lock_holder(bus_dir()) is not None and not manager.is_active(broker)
    manager.put_unit(broker, start=not outside)
    start_broker()  # returns when it is ready
    for unit in listeners:
        manager.put_unit(unit, start=True)
    notes = [*_notes(broker), *(_of_keys(args.env) if listeners else ())]
    active = {unit.name: manager.is_active(unit) for unit in units}
    if args.json:
        told = [{**_facts(unit), "active": active[unit.name]} for unit in units]
        echo_json({"done": True, "services": told, "notes": notes})
        return OK
    for unit in units:
        done = "installed" if unit.changed else "unchanged:"
        echo(f"{done} {unit.path} ({'it runs' if active[unit.name] else 'it does not run yet'})")
    for note in notes:
        echo(note)
    return OK


def _notes(broker: ServiceUnit) -> Iterator[str]:
    if not manager.is_active(broker):
        yield "The broker runs, but not as this service yet; to hand it over: hermes-busd restart"
    if manager.needs_linger():
        yield (
            "It ends when you log out and starts with your next session. To let it run from boot "
            f"on: loginctl enable-linger {shlex.quote(manager.user_name())}"
        )


def _of_keys(passed: list[str]) -> Iterator[str]:
    """Yield what an agent will miss that this shell has: names alone, by how keys are called."""
    keys = [name for name in os.environ if name.endswith(("_API_KEY", "_AUTH_TOKEN"))]
    if missing := sorted({*keys} - {*passed}):
        yield f"Not passed to the agent: {', '.join(missing)}; to pass one: --env {missing[0]}"


def _show(args: argparse.Namespace, units: list[ServiceUnit], problem: str) -> int:
    """Print the units and what would be run; FAILED where that is not what was asked for."""
    if args.json:
        told = [{**_facts(unit), "text": unit.text} for unit in units]
        wrong = {"error": CannotInstall(problem, _STEP).to_wire()} if problem else {}
        echo_json({"done": False, "services": told, **wrong})
        return FAILED if problem else OK
    if problem:
        echo(f"wakebus: nothing was installed: no service manager answers: {problem}", error=True)
        echo(_STEP, error=True)
    for unit in units:
        echo(f"\n{unit.path}{'' if unit.changed else ' (as it is)'}:\n\n{unit.text}")
        for command in manager.enable_commands(unit, start=True):
            echo(f"$ {shlex.join(command)}")
    return FAILED if problem else OK


def _uninstall(args: argparse.Namespace, name: str) -> int:
    units = [unit for unit in manager.installed_units() if name in ("", unit.name)]
    managed = bool(units) and not args.dry_run and not manager.why_no_manager()
    for unit in () if args.dry_run else units:
        manager.remove_unit(unit, managed=managed)
    if args.json:
        echo_json({"done": not args.dry_run, "services": [*map(_facts, units)]})
        return OK
    for unit in units:
        echo(f"{'would remove' if args.dry_run else 'stopped and removed'} {unit.path}")
    if not units:
        echo("nothing to do")
    return OK


def _facts(unit: ServiceUnit) -> dict[str, Any]:
    return {"name": unit.name, "file": str(unit.path), "changed": unit.changed}
