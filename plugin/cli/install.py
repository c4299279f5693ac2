"""
`wakebus install hermes`: put wakebus into a Hermes, look whether it is there, take it out.

Rule 1: nothing here touches the bus or runs Hermes. Rule 2: exit 0 done, or everything is there;
1 refused, or `--check` found something wrong; 2 usage. Rule 3: a second run changes nothing.
"""

import argparse
from pathlib import Path
from typing import Any, Final

from wakebus.broker.paths import hermes_home
from wakebus.plugin.cli.output import FAILED, OK, tell, tell_json
from wakebus.plugin.install import hermes
from wakebus.plugin.install.errors import CannotInstall
from wakebus.plugin.install.hermes import Change, Found

HARNESSES: Final = {"hermes": "Hermes Agent: plugin, gateway hook, skill"}

EPILOG: Final = """\
It changes, in Hermes's home, and nothing else:
  config.yaml   plugins.enabled gets wakebus; with --allow-gateway-turns also
                plugins.entries.wakebus.allow_gateway_injection: true
  hooks/wakebus/                  events gateway.** (HERMES.md)
  skills/notification-protocol/   the protocol, for the agent
The state before the last change: config.yaml.wakebus.bak

exit status: 0 done, or all is there; 1 refused, or --check found something wrong; 2 usage"""

RESTART: Final = "hermes gateway restart"


def add_parser(commands: "argparse._SubParsersAction[Any]") -> None:
    """Add `install`; `args.run(args)` returns the exit status."""
    parser = commands.add_parser("install", help="put wakebus into an agent: hermes")
    parser.set_defaults(run=run_list, json=False)
    harnesses = parser.add_subparsers(dest="harness", metavar="HARNESS")
    one = harnesses.add_parser("hermes", help=HARNESSES["hermes"], epilog=EPILOG)
    one.set_defaults(run=run_hermes)
    _add_options(one)


def _add_options(to: argparse.ArgumentParser) -> None:
    to.add_argument("--home", type=Path, metavar="DIR", help="default: $HERMES_HOME, ~/.hermes")
    to.add_argument(
        "--allow-gateway-turns",
        action=argparse.BooleanOptionalAction,
        help="let messages start turns in the chats of the gateway, or no longer",
    )
    to.add_argument(
        "--python", metavar="PATH", help="the Python that runs Hermes; default: that of `hermes`"
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
        tell(f"wakebus install {name}   {text}")
    return OK


def run_hermes(args: argparse.Namespace) -> int:
    """Do what `args` say; return the exit status."""
    home = (args.home or hermes_home()).expanduser().absolute()
    found = hermes.look(home)
    if args.check:
        return _check(args, found)
    python = "" if args.remove else hermes.checked_python(home, args.python)
    changes = _changes(args, found)
    if not args.dry_run:
        hermes.apply(found, changes)
    now = found if args.dry_run else hermes.look(home)
    report = {"home": str(home), "python": python, "done": not args.dry_run}
    shown = [{"what": c.what, "path": str(c.path)} for c in changes]
    if args.json:
        next_ = RESTART if changes and not args.dry_run else ""
        turns = now.state.grant is True
        kept = [str(path) for path in hermes.kept(now)]
        tell_json({**report, "changes": shown, "turns": turns, "kept": kept, "next": next_})
        return OK
    _tell_changes(args, changes, now)
    if not python and not args.remove:
        tell("Not checked: does the Python of your Hermes have wakebus? Name it with --python PATH")
    return OK


def _changes(args: argparse.Namespace, found: Found) -> list[Change]:
    if args.remove:
        return hermes.to_remove(found, force=args.force)
    return hermes.to_install(found, turns=args.allow_gateway_turns, force=args.force)


def _tell_changes(args: argparse.Namespace, changes: list[Change], now: Found) -> None:
    verb = ("would change", "would remove") if args.dry_run else ("changed", "removed")
    for change in changes:
        tell(f"{verb[change.text is None]} {change.says}")
    if not changes:
        tell("nothing to do")
    for path in hermes.kept(now):
        tell(f"kept {path}: you changed it; with --force it is replaced or removed")
    if not args.remove:
        _tell_turns(args, now)
    if changes and not args.dry_run:
        tell(f"Next: restart the gateway: {RESTART} (and each open `hermes`)")


def _tell_turns(args: argparse.Namespace, now: Found) -> None:
    allowed = args.allow_gateway_turns if args.dry_run else None
    if allowed is None:
        allowed = now.state.grant is True
    if not allowed:
        tell(
            "Not on: turns in the gateway's chats; messages are shown there and wait for the next "
            "turn. To allow them: wakebus install hermes --allow-gateway-turns"
        )


def _check(args: argparse.Namespace, found: Found) -> int:
    wrong, python = hermes.missing(found), ""
    try:
        python = hermes.checked_python(found.home, args.python)
    except CannotInstall as exc:
        wrong.append(f"{exc.text}; {exc.data['step']}")
    kept = [str(path) for path in hermes.kept(found)]
    turns = found.state.grant is True
    if args.json:
        facts = {"home": str(found.home), "python": python, "wrong": wrong}
        tell_json({**facts, "turns": turns, "kept": kept})
        return FAILED if wrong else OK
    for line in wrong:
        tell(line)
    for path in kept:
        tell(f"{path}: changed by you")
    tell(f"gateway turns: {'allowed' if turns else 'not allowed (--allow-gateway-turns)'}")
    tell(f"Repair it: wakebus install hermes --home {found.home}" if wrong else "all is there")
    return FAILED if wrong else OK
