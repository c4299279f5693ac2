"""
`wakebus listen`: hold an endpoint in this terminal, print, run commands, run an agent.

Rule 1: it keeps the bus up: a missing broker is started, again after 1 s, then up to 30 s apart.
Rule 2: Ctrl-C ends turns and commands, gives back what was not finished, leaves nothing running.
"""

import argparse
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Final

from wakebus.broker import Client
from wakebus.broker.daemon import lock_holder
from wakebus.broker.errors import NotRunning, WakebusError
from wakebus.broker.message import check_name
from wakebus.broker.paths import bus_dir, hermes_home
from wakebus.plugin.cli import who
from wakebus.plugin.receive.context import Context, context_file
from wakebus.plugin.receive.dispatch import Dispatch
from wakebus.plugin.receive.reply import Answers
from wakebus.plugin.receive.screen import Screen
from wakebus.plugin.rules.load import RulesFile

FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 30.0


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `wakebus listen`."""
    text = "receive an endpoint's messages here: print, run commands, run an agent"
    parser = commands.add_parser("listen", help=text, description=text)
    parser.add_argument(
        "endpoint",
        nargs="?",
        help="default: HERMES_BUS_ENDPOINT, bus.endpoint of the rules, tmux session, profile",
    )
    parser.add_argument("--rules", metavar="FILE", help="another bus-rules.yaml")
    parser.add_argument(
        "--agent", metavar="CMD", help="run CMD on each turn: prompt on stdin, answer on stdout"
    )
    parser.add_argument("--takeover", action="store_true", help="take the name from its holder")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Listen until Ctrl-C, SIGTERM, or the name goes to another process."""
    path = Path(args.rules) if args.rules else None
    rules = RulesFile(path, required=path is not None, on_error=_complain)
    found = rules.current()
    for warning in found.warnings:
        _note(f"warning: {warning}")
    endpoint = check_name(_name(args.endpoint, found.endpoint), "endpoint")
    stop = threading.Event()
    _on_signals(stop)
    start_broker()
    with Client() as client:
        answers = Answers(client, endpoint, stop)
        context = Context(context_file(bus_dir(), endpoint))
        dispatch = Dispatch(endpoint, rules, answers, context, command=args.agent, screen=Screen())
        lost: list[str] = []

        def on_lost(why: str) -> None:
            lost.append(why)
            stop.set()

        client.register(endpoint, dispatch.handle, takeover=args.takeover, on_lost=on_lost)
        what = f"agent: {args.agent}" if args.agent else "printing"
        _note(f"listening as {endpoint} ({what}; rules: {found.source}); Ctrl-C ends")
        _keep_broker(client, stop)
        dispatch.stop()
    if lost:
        _note(f"{endpoint}: {lost[0]}")
        return 1
    return 0


def _name(given: str | None, ruled: str | None) -> str:
    if name := given or os.environ.get("HERMES_BUS_ENDPOINT") or ruled:
        return name
    if session := who.tmux_session(os.environ):
        return who.fitting(session)
    home = hermes_home()
    return who.fitting(home.name) if home.parent.name == "profiles" else "hermes-bus"


def _complain(error: Exception) -> None:
    _note(f"{error}\nThe last good rules stay in force.")


def _note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _on_signals(stop: threading.Event) -> None:
    def ask(number: int, frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, ask)


def start_broker() -> None:
    """Start the broker unless one runs; raises NotRunning with its own words if it cannot."""
    if lock_holder(bus_dir()) is not None:
        return
    done = subprocess.run(
        [sys.executable, "-P", "-m", "wakebus.broker", "start"],
        capture_output=True,
        text=True,
        start_new_session=True,
        check=False,
    )
    if done.returncode:
        raise NotRunning(f"the broker does not start: {done.stderr.strip()}")


def _keep_broker(client: Client, stop: threading.Event) -> None:
    """Wait for `stop`; meanwhile start a broker that is missing."""
    pause, next_try = FIRST_PAUSE_S, 0.0
    while not stop.wait(0.2):
        now = time.monotonic()
        if client.connected(0):
            pause, next_try = FIRST_PAUSE_S, now + FIRST_PAUSE_S
        elif now >= next_try and lock_holder(bus_dir()) is None:
            try:
                start_broker()
            except WakebusError as exc:
                _note(f"{exc}\nTrying again in {pause:g} s.")
            next_try = now + pause
            pause = min(pause * 2, LONGEST_PAUSE_S)
