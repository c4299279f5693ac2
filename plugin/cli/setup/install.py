"""
`wakebus install hermes`: put wakebus into a Hermes, look whether it is there, take it out.

Rule 1: nothing here touches the bus or runs Hermes. Rule 2: exit 0 done, or nothing wrong found;
1 refused, or `--check` found something wrong; 2 usage. Rule 3: a second run changes nothing.
"""

import argparse
import os
import shlex
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

from wakebus.broker.paths import hermes_home
from wakebus.plugin.cli.command import Command
from wakebus.plugin.cli.output import FAILED, OK, Parser, echo, echo_json, path_text
from wakebus.plugin.cli.setup import install_service
from wakebus.plugin.install import hermes_home as hermes
from wakebus.plugin.install import hermes_python, next_steps
from wakebus.plugin.install.errors import CannotInstall
from wakebus.plugin.install.hermes_config import is_isolated
from wakebus.plugin.install.hermes_home import Change, Installation
from wakebus.plugin.install.hermes_tool_search import read_tool_search
from wakebus.plugin.install.owned_files import FileFault, OwnedFiles, look_at_files_of

HARNESSES: Final = {
    "hermes": "Hermes Agent: plugin, gateway hook, skill",
    "service": "the broker and listeners as services, which outlive your session",
}

ISOLATED: Final = (
    "plugins run in a process of their own (plugins.isolation: host, since Hermes 0.22): a gateway"
    " is an endpoint, but whether an answer was delivered is not seen (uncertain), prints are the"
    " courier's, cancelling a message ends no turn, and there are no gateway.** events; a terminal"
    " is no endpoint. Tools, skill and /bus work. For all of it: plugins.isolation: in_process"
)

EPILOG: Final = """\
It changes, in Hermes's home, and nothing else:
  config.yaml   plugins.enabled gets wakebus; with --allow-gateway-turns also
                plugins.entries.wakebus.allow_gateway_injection: true
  hooks/wakebus/                  events gateway.** (HERMES.md)
  skills/notification-protocol/   the protocol, for the agent
The state before the last change: config.yaml.wakebus.bak

exit status: 0 done, or nothing wrong found; 1 refused, or --check found something wrong; 2 usage"""


def _options(parser: Parser) -> None:
    parser.set_defaults(json=False)
    harnesses = parser.add_subparsers(dest="harness", metavar="HARNESS")
    one = harnesses.add_parser("hermes", help=HARNESSES["hermes"], epilog=EPILOG)
    one.set_defaults(run=run_hermes)
    _add_options(one)
    service = harnesses.add_parser(
        "service",
        help=HARNESSES["service"],
        description=install_service.DESCRIPTION,
        epilog=install_service.EPILOG,
    )
    install_service.add_options(service)


def _folder(given: str) -> Path:
    """Return the folder that was named; an empty name is a script's variable without a value."""
    if not given.strip():
        raise argparse.ArgumentTypeError("the name is empty; name the folder")
    try:
        return Path(given).expanduser()
    except RuntimeError as exc:
        raise argparse.ArgumentTypeError(str(exc)) from exc


def _home(given: Path | None) -> Path:
    """Return the home to change. Raises CannotInstall where Hermes would read another one."""
    if given is None and "HERMES_HOME" not in os.environ and (home := os.environ.get("HOME")):
        hermess = Path(home) / ".hermes"
        if hermess.absolute() != hermes_home().absolute():
            raise CannotInstall(
                f"HOME is {home}: Hermes reads {hermess}, the bus is at {hermes_home()}",
                f"Name the one you mean: --home {shlex.quote(str(hermess))}",
            )
    return (given or hermes_home()).absolute()


def _add_options(to: argparse.ArgumentParser) -> None:
    to.add_argument("--home", type=_folder, metavar="DIR", help="default: $HERMES_HOME, ~/.hermes")
    to.add_argument(
        "--allow-gateway-turns",
        action=argparse.BooleanOptionalAction,
        help="let messages start turns in the chats of the gateway, or no longer",
    )
    to.add_argument(
        "--python",
        type=path_text,
        metavar="PATH",
        help="the Python that runs Hermes; default: that of `hermes`",
    )
    to.add_argument("--force", action="store_true", help="also what you changed or disabled")
    to.add_argument("--dry-run", action="store_true", help="only say what would change")
    to.add_argument("--json", action="store_true", help="print one JSON object, errors too")
    instead = to.add_mutually_exclusive_group()
    instead.add_argument("--check", action="store_true", help="only say what is there and missing")
    instead.add_argument("--remove", action="store_true", help="take out what was put in")


def run_list(args: argparse.Namespace) -> int:
    """Say into what wakebus can be installed."""
    for name, text in HARNESSES.items():
        echo(f"wakebus install {name:<9} {text}")
    return OK


def run_hermes(args: argparse.Namespace) -> int:
    """Do what `args` say; return the exit status."""
    try:
        return _run(args, _home(args.home))
    except CannotInstall as exc:
        if not args.json:
            raise
        echo_json({"error": exc.to_wire()})
        return FAILED


def _run(args: argparse.Namespace, home: Path) -> int:
    found = hermes.inspect_home(home)
    if args.check:
        return _check(args, found)
    runs = "" if args.remove else hermes.checked_python(home, args.python)
    changes = _changes(args, found)
    if not args.dry_run:
        hermes.apply_changes(found, changes)
    now = found if args.dry_run else hermes.inspect_home(home)
    unchecked = [] if runs or args.remove else [_unchecked()]
    files = look_at_files_of(runs or sys.executable)
    report = Report(home, runs, unchecked, changes, now, files)
    if args.json:
        echo_json(_facts(args, report))
        return OK
    _tell_changes(args, report)
    for line in report.unchecked:
        echo(line)
    _warn_of_files(report.files.faults, report.files.repair)
    return OK


def _warn_of_files(faults: list[FileFault], repair: str) -> None:
    for fault in faults:
        echo(f"warning: {fault.says}")
    if repair:
        echo(f"Mend it: {repair}")


class Report(NamedTuple):
    """
    What was done. `unchecked`: what nobody could tell; `now`: what is there after it; `files`: what
    is wrong with wakebus's own, where Hermes runs.
    """

    home: Path
    python: str
    unchecked: list[str]
    changes: list[Change]
    now: Installation
    files: OwnedFiles

    @property
    def kept_files(self) -> list[Path]:
        """Return the files that stay as the user changed them."""
        touched = {change.path for change in self.changes}
        return [path for path in hermes.changed_files(self.now) if path not in touched]


def _unchecked() -> str:
    return f"{hermes_python.why_unknown()}: not checked which Python runs it (--python PATH)"


def _again(args: argparse.Namespace, home: Path, *options: str) -> str:
    """Return the command to run next, for the same Hermes as this one."""
    named = ["--python", str(args.python)] if args.python else []
    return next_steps.install(home, *named, *options)


def _facts(args: argparse.Namespace, report: Report) -> dict[str, Any]:
    return {
        "home": str(report.home),
        "python": report.python,
        "unchecked": report.unchecked,
        "done": not args.dry_run,
        "changes": [{"what": one.what, "path": str(one.path)} for one in report.changes],
        "turns": report.now.state.grant is True,
        "kept": [str(path) for path in report.kept_files],
        "files": [fault.says for fault in report.files.faults],
        "repair": report.files.repair,
        "next": next_steps.restart(report.home) if report.changes and not args.dry_run else "",
    }


def _changes(args: argparse.Namespace, found: Installation) -> list[Change]:
    if args.remove:
        return hermes.to_remove(found, force=args.force)
    return hermes.to_install(found, turns=args.allow_gateway_turns, force=args.force)


def _tell_changes(args: argparse.Namespace, report: Report) -> None:
    verb = ("would change", "would remove") if args.dry_run else ("changed", "removed")
    for change in report.changes:
        echo(f"{verb[change.text is None]} {change.says}")
    if not report.changes:
        echo("nothing to do")
    for path in report.kept_files:
        echo(f"kept {path}: you changed it; with --force it is replaced or removed")
    if not args.remove:
        _tell_turns(args, report.now)
    if report.changes and not args.dry_run:
        echo(
            f"Next: restart the gateway: {next_steps.restart(report.home)} (and each open `hermes`)"
        )


def _tell_turns(args: argparse.Namespace, now: Installation) -> None:
    allowed = args.allow_gateway_turns if args.dry_run else None
    if allowed is None:
        allowed = now.state.grant is True
    if not allowed:
        echo(
            "Not on: turns in the gateway's chats; a message that would start one waits for the "
            "chat's next turn. What rules print (`print: true`) is shown. To allow turns: "
            + _again(args, now.home, "--allow-gateway-turns")
        )


def _check(args: argparse.Namespace, found: Installation) -> int:
    repairable = hermes.faults_of(found)
    wrong, runs, unchecked = list(repairable), "", list[str]()
    try:
        runs = hermes.checked_python(found.home, args.python)
    except CannotInstall as exc:
        wrong.append(f"{exc.text}; {exc.data['step']}")
    else:
        unchecked += [] if runs else [_unchecked()]
    files = look_at_files_of(runs or sys.executable)
    wrong += [fault.says for fault in files.broken]
    kept = [str(path) for path in hermes.changed_files(found)]
    turns = found.state.grant is True
    isolated = is_isolated(found.text or "", str(found.config))
    search = read_tool_search(found.text or "", str(found.config))
    if args.json:
        facts = {"home": str(found.home), "python": runs, "wrong": wrong, "unchecked": unchecked}
        hermess = {"turns": turns, "isolated": isolated, "tool_search": search.setting}
        shared = [fault.says for fault in files.at_stake]
        echo_json({**facts, **hermess, "kept": kept, "files": shared, "repair": files.repair})
        return FAILED if wrong else OK
    for line in wrong + unchecked:
        echo(line)
    _warn_of_files(files.at_stake, files.repair)
    for path in kept:
        echo(f"{path}: changed by you")
    how = f"not allowed; to allow them: {_again(args, found.home, '--allow-gateway-turns')}"
    echo(f"gateway turns: {'allowed' if turns else how}")
    if isolated:
        echo(ISOLATED)
    echo(f"tool search: {search.meaning}")
    if repairable:  # of a wrong Python its own line tells the step
        echo(f"Repair it: {_again(args, found.home)}")
    elif not wrong:
        echo("nothing wrong was found" if unchecked else "all is there")
    return FAILED if wrong else OK


COMMAND: Final = Command(options=_options, run=run_list)
