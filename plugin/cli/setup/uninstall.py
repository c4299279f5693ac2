"""
`wakebus uninstall`: stop the bus of this user and take out what `install` put in.

Rule 1: what it would do is said before it is asked, and nothing is done before the answer. Rule 2:
only what wakebus made goes; what stays is named. Rule 3: a second run finds nothing to do. Rule 4:
exit 0 done or nothing to do; 1 not agreed, nobody to ask, or something remained; 2 usage.
"""

import argparse
import signal
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

from wakebus.adapters.base import COURIER
from wakebus.broker import Client
from wakebus.broker.backup.backup_file import BackupError, count_messages
from wakebus.broker.errors import Refused, WakebusError
from wakebus.broker.paths import bus_dir, bus_root, hermes_home
from wakebus.broker.server.cli import end_broker
from wakebus.broker.server.purge_folder import purge_folder
from wakebus.broker.system.lock_file import lock_holder
from wakebus.broker.system.processes import has_ended, send_signal
from wakebus.broker.user_unit import root_of_unit
from wakebus.plugin.cli import notify
from wakebus.plugin.cli.command import Command
from wakebus.plugin.cli.output import FAILED, OK, Parser, agreed, echo, echo_json, hint, one_line
from wakebus.plugin.cli.setup.bus_processes import BusProcess, find_processes
from wakebus.plugin.install import hermes_home as hermes
from wakebus.plugin.install import next_steps
from wakebus.plugin.install.hermes_home import Change, Installation
from wakebus.plugin.services import service_manager as manager
from wakebus.plugin.services.service_manager import ServiceUnit

END_S: Final = 20.0  # a listener gives its agents 2 s, and says goodbye to the broker

EPILOG: Final = """\
Stopped are the broker with its courier, listeners and couriers in terminals,
and services; taken out are the plugin, hook and skill in Hermes, and the
units of services. Messages stay in the bus's folder, unless --purge deletes
it (a backup first: wakebus backup FILE). Your bus-rules.yaml, .env and the
Python package stay; the command that removes the package is told.

exit status: 0 done, or nothing to do; 1 not agreed, or something remained;
2 usage"""


class UninstallPlan(NamedTuple):
    """What there is to do. `others`: who else holds an endpoint, as `name (pid 12)`."""

    units: list[ServiceUnit]
    processes: list[BusProcess]
    broker: int | None
    others: list[str]
    homes: list[tuple[Installation, list[Change]]]
    purge: Path | None

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to do."""
        found = (self.units, self.processes, self.homes, self.purge)
        return not any(found) and self.broker is None

    def lines(self) -> Iterator[str]:
        """Yield each thing in words."""
        for unit in self.units:
            yield f"stop and remove the service {unit.path}"
        for one in self.processes:
            yield one_line(f"stop process {one.process.pid}: wakebus {one.words}")
        if self.broker is not None:
            yield f"stop the broker and its courier (pid {self.broker or 'unknown'})"
        for found, changes in self.homes:
            yield from (f"in {found.home}: remove {change.says}" for change in changes)
        if self.purge:
            yield f"delete {self.purge} {_loss(self.purge)}"


def _options(parser: Parser) -> None:
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument(
        "--purge", action="store_true", help="delete the bus's folder with all messages, too"
    )
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done")
    parser.add_argument(
        "--home",
        action="append",
        default=[],
        type=lambda given: Path(given).expanduser().absolute(),
        metavar="DIR",
        help="a Hermes home beside $HERMES_HOME (~/.hermes) and its profiles",
    )


def run(args: argparse.Namespace) -> int:
    """Plan, ask, do."""
    if notify.turn_token():
        raise Refused("this is a turn, which takes out nothing; only a person does, outside of it")
    faults: list[str] = []
    plan = _plan(args, faults)
    status = _decide(args, plan)
    if status is not None:
        return _told(args, plan, [], faults) if args.json else status
    done = []
    for line in _do(plan, faults):
        done.append(line)
        if not args.json:
            echo(line)
    if args.json:
        return _told(args, plan, done, faults)
    for fault in faults:
        echo(fault, error=True)
    _tell_what_stays(plan)
    return FAILED if faults else OK


def _plan(args: argparse.Namespace, faults: list[str]) -> UninstallPlan:
    root = str(bus_root())
    units = [one for one in manager.installed_units() if root_of_unit(one.text.encode()) == root]
    processes = sorted(find_processes(), key=lambda one: one.words)
    folder = bus_dir()
    broker = lock_holder(folder)
    ours = {one.process.pid for one in processes} | {broker}
    return UninstallPlan(
        units,
        processes,
        broker,
        [] if broker is None else _others(ours),
        [*_homes(args.home, faults)],
        folder if args.purge and folder.exists() else None,
    )


def _others(ours: set[int | None]) -> list[str]:
    """Return who else is on the bus: Hermes, programs with a client."""
    try:
        with Client() as client:
            held = [one for one in client.list() if one["state"] == "live" and one.get("pid")]
    except WakebusError:
        return []
    # A courier is the broker's own child, or one of `ours`.
    ours |= {one["pid"] for one in held if one["name"] == COURIER}
    return [f"{one['name']} (pid {one['pid']})" for one in held if one["pid"] not in ours]


def _homes(given: list[Path], faults: list[str]) -> Iterator[tuple[Installation, list[Change]]]:
    own = hermes_home()  # no other by itself: it may be of another bus
    profiles = sorted((own / "profiles").glob("*"))
    for home in dict.fromkeys([own, *profiles, *given]):
        if not home.is_dir():
            continue
        try:
            found = hermes.inspect_home(home)
            changes = hermes.to_remove(found, force=False)
        except WakebusError as exc:  # a config that cannot be read
            faults.append(hint(exc))
            continue
        if changes:
            yield found, changes


def _decide(args: argparse.Namespace, plan: UninstallPlan) -> int | None:
    """Say what would be done and ask; return the exit status, None to go on."""
    if plan.is_empty:
        if not args.json:
            echo("nothing to do")
            _tell_what_stays(plan)
        return OK
    if not args.json:
        echo("This will:" if not args.dry_run else "This would:")
        for line in plan.lines():
            echo(f"  {line}")
    if args.dry_run:
        return OK
    if args.yes:
        return None
    if (said := None if args.json else agreed("Go on?")) is None:
        echo("nothing was done: nobody can be asked here; to do it: --yes", error=True)
        return FAILED
    if said and plan.purge:
        said = bool(agreed(f"Delete {plan.purge} {_loss(plan.purge)}, for good?"))
    if not said:
        echo("nothing was done", error=True)
        return FAILED
    return None


def _loss(folder: Path) -> str:
    try:
        counts = count_messages(folder)
    except BackupError as exc:
        return f"(what is in it cannot be told: {exc.text})"
    return f"with {counts.in_words()}"


def _do(plan: UninstallPlan, faults: list[str]) -> Iterator[str]:
    """Do it, in an order in which nothing is started again; yield what was done."""
    managed = bool(plan.units) and not manager.why_no_manager()
    for unit in plan.units:
        yield from _tried(faults, partial(_remove_unit, unit, managed=managed))
    for one in plan.processes:
        send_signal(one.process, signal.SIGTERM)
    for one in plan.processes:
        yield from _tried(faults, partial(_await_end, one))
    if plan.broker is not None:
        yield from _tried(faults, end_broker)
    for found, changes in plan.homes:
        yield from _tried(faults, partial(_take_out, found, changes))
    if plan.purge:
        yield from _tried(faults, partial(_purge, plan))


def _tried(faults: list[str], step: Callable[[], str]) -> Iterator[str]:
    """Do one step; what goes wrong is kept, and the others are done all the same."""
    try:
        yield step()
    except WakebusError as exc:
        faults.append(hint(exc))
    except OSError as exc:
        faults.append(str(exc))


def _remove_unit(unit: ServiceUnit, *, managed: bool) -> str:
    manager.remove_unit(unit, managed=managed)
    return f"stopped and removed {unit.path}"


def _await_end(one: BusProcess) -> str:
    pid, deadline = one.process.pid, time.monotonic() + END_S
    while not has_ended(one.process):
        if time.monotonic() > deadline:
            raise WakebusError(f"process {pid} has not ended", step=f"End it: kill -9 {pid}")
        time.sleep(0.02)
    return one_line(f"stopped process {pid}: wakebus {one.words}")


def _take_out(found: Installation, changes: list[Change]) -> str:
    hermes.apply_changes(found, changes)
    return f"taken out of {found.home}; restart it: {next_steps.restart(found.home)}"


def _purge(plan: UninstallPlan) -> str:
    assert plan.purge is not None
    if plan.others:  # they would start a broker anew, in an empty folder
        raise WakebusError(
            f"{plan.purge} was not deleted: still on the bus are {', '.join(plan.others)}",
            step="End them, then: wakebus uninstall --purge",
        )
    left = purge_folder(plan.purge)
    kept = f", but not {', '.join(left)}: not wakebus's" if left else ""
    return f"deleted {plan.purge}{kept}"


def _told(args: argparse.Namespace, plan: UninstallPlan, done: list[str], faults: list[str]) -> int:
    finished = bool(done) or plan.is_empty
    echo_json({"done": done, "plan": [*plan.lines()], "faults": faults, "others": plan.others})
    return OK if (finished or args.dry_run) and not faults else FAILED


def _tell_what_stays(plan: UninstallPlan) -> None:
    folder = bus_dir()
    if plan.others:
        echo(f"Still there, without a bus: {', '.join(plan.others)}")
    if folder.exists() and not plan.purge:
        echo(f"The bus's folder stays: {folder} {_loss(folder)}; to delete it: --purge")
    has_pip = find_spec("pip") is not None
    package = next_steps.pip_uninstall(sys.executable, "wakebus", has_pip=has_pip)
    echo(f"The package stays; to remove it: {package}")


COMMAND: Final = Command(
    options=_options,
    run=run,
    description="Stop the bus of this user, and take out what wakebus install put in.",
    epilog=EPILOG,
    json="print one JSON object; asks nobody: with --yes or --dry-run",
)
