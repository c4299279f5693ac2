"""`wakebus endpoints [add NAME | remove NAME]`: the names that the bus knows."""

import argparse
import json

from wakebus.plugin.cli import notify


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `wakebus endpoints`."""
    parser = commands.add_parser(
        "endpoints",
        help="list, add and remove endpoints",
        description="List the endpoints; add one, so that messages for it are kept before anybody "
        "listens; remove one that nobody holds and nothing waits for.",
    )
    parser.add_argument("action", nargs="?", choices=("add", "remove"), help="default: list")
    parser.add_argument("name", nargs="?", metavar="NAME")
    parser.add_argument("--json", action="store_true", help="for scripts")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """List, add or remove."""
    if bool(args.action) != bool(args.name):
        raise notify.Usage("usage: wakebus endpoints [add NAME | remove NAME]")
    with notify.connect(None) as client:
        if args.action == "add":
            client.declare(args.name)
            print(f"added {args.name}: messages for it are kept")
            return 0
        if args.action == "remove":
            client.forget(args.name)
            print(f"removed {args.name}")
            return 0
        found = client.list()
    if args.json:
        print(json.dumps(list(found), indent=2))
        return 0
    for one in found:
        holder = f"pid {one['pid']}" if "pid" in one else ""
        waiting = f"{one['queued']} queued" if one["queued"] else ""
        print(f"{one['name']:24} {one['state']:8} {holder:12} {waiting}".rstrip())
    if not found:
        print("no endpoint yet; `wakebus listen NAME` registers one")
    return 0
