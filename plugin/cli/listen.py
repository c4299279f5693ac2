"""
`wakebus listen`: hold an endpoint in this terminal, print, run commands, run an agent.

Rule 1: it keeps the bus up: a missing broker is started, again after 1 s, then up to 30 s apart.
Rule 2: Ctrl-C ends turns and commands, gives back what was not finished, leaves nothing running.
Rule 3: what goes wrong with the rules, the terminal or the broker is said, and costs no message.
"""

import argparse
import os
import re
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
from wakebus.broker.paths import bus_dir, hermes_home, read_address, stop_mark
from wakebus.plugin import process
from wakebus.plugin.cli import who
from wakebus.plugin.cli.output import FAILED, OK, Usage, tell
from wakebus.plugin.receive.context import Context, context_file
from wakebus.plugin.receive.dispatch import Dispatch
from wakebus.plugin.receive.events import Events
from wakebus.plugin.receive.reply import COURIER, Answers
from wakebus.plugin.receive.screen import Screen
from wakebus.plugin.receive.spool import sweep
from wakebus.plugin.rules.load import RulesFile
from wakebus.plugin.rules.model import Rules

LOOK_S: Final = 0.25
FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 30.0
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
END_S: Final = 3.0  # an agent has 2 s after SIGTERM (plugin/process.py)

EXAMPLES: Final = """\
examples:
  wakebus listen                                         print what arrives
  wakebus listen worker-alpha --agent 'claude -p'        an agent: text in, answer out
  wakebus listen worker-beta --agent 'codex exec -'
  wakebus listen helper --agent ./agent.sh

What arrives is printed, run or given to the agent as bus-rules.yaml says (wakebus rules --help).
The agent finds WAKEBUS_ENDPOINT, _ID, _TYPE, _FROM, _CHANNEL, _SESSION and _TOKEN in its
environment, and may send with notify-hermes.

exit status: 0 ended by Ctrl-C or SIGTERM; 1 the name is taken or was taken over, the rules are
wrong, the broker cannot be started; 2 usage"""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `wakebus listen`."""
    parser = commands.add_parser(
        "listen",
        help="receive an endpoint's messages: print, commands, an agent",
        description="Receive an endpoint's messages here: print them, run commands, run an agent.",
        epilog=EXAMPLES,
    )
    parser.add_argument(
        "endpoint",
        nargs="?",
        metavar="ENDPOINT",
        help="default: HERMES_BUS_ENDPOINT, bus.endpoint of the rules, tmux session, profile, "
        "hermes-bus",
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
    _warn(found)
    endpoint = check_name(_name(args.endpoint, found.endpoint), "endpoint")
    if endpoint == COURIER:
        raise Usage(f"{COURIER} takes texts to chats, and would take none; choose another name")
    if args.agent and (name := _missing(args.agent)):
        _note(f"warning: no program {name!r} is found; turns fail until there is one")
    stop, asked = threading.Event(), _on_signals()
    sweep()
    start_broker()
    lost: list[str] = []
    with Client() as client:
        answers = Answers(client, endpoint, stop)
        context = Context(context_file(bus_dir(), endpoint))
        dispatch = Dispatch(endpoint, rules, answers, context, command=args.agent, screen=Screen())

        def on_lost(why: str) -> None:
            lost.append(why)
            stop.set()

        client.register(endpoint, dispatch.handle, takeover=args.takeover, on_lost=on_lost)
        what = f"agent: {args.agent}" if args.agent else "printing"
        _note(f"listening as {endpoint} ({what}; rules: {found.source}); Ctrl-C ends")
        _keep(client, rules, Events(client, endpoint, rules, _note), stop, asked)
        _ignore_signals()  # it ends soon, whoever goes on pressing Ctrl-C
        stop.set()
        dispatch.stop()
        process.end_all(END_S)
    if lost:
        _note(f"{endpoint}: {lost[0]}; this listener has ended")
    return FAILED if lost else OK


def _missing(command: str) -> str:
    """Return the first word of a command line if the shell knows no such program, else ""."""
    first = next(iter(command.split()), "")
    if not re.fullmatch(r"[\w./+-]+", first):
        return ""  # a variable, a quote, a list: the shell's business
    asked = ["/bin/sh", "-c", 'command -v "$1"', "sh", first]
    return first if subprocess.run(asked, capture_output=True, check=False).returncode else ""


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
    tell(text, error=True)


def _on_signals() -> list[int]:
    """Return a list that is empty until somebody asks us to end."""
    asked: list[int] = []

    def ask(number: int, frame: FrameType | None) -> None:
        # Nothing with a lock, as Event.set: the thread that we interrupt may hold it.
        asked.append(number)

    for number in _SIGNALS:
        signal.signal(number, ask)
    return asked


def _ignore_signals() -> None:
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def start_broker() -> None:
    """Start the broker unless one is ready; raises NotRunning with its own words if it cannot."""
    if _ready():
        return
    done = subprocess.run(
        [sys.executable, "-P", "-m", "wakebus.broker", "start"],
        capture_output=True,
        text=True,
        errors="replace",
        start_new_session=True,
        check=False,
    )
    if done.returncode:
        raise NotRunning(
            f"the broker does not start: {done.stderr.strip()}", step="By hand: hermes-busd start"
        )


def _ready() -> bool:
    """Whether a broker holds the lock and has written where it is."""
    holder = lock_holder(bus_dir())
    try:
        return holder is not None and read_address(bus_dir()).get("pid") == holder
    except NotRunning:
        return False


def _gone() -> bool:
    """Whether the broker is gone without anybody having stopped it (`hermes-busd stop`)."""
    return lock_holder(bus_dir()) is None and not stop_mark(bus_dir()).exists()


def _keep(
    client: Client, rules: RulesFile, events: Events, stop: threading.Event, asked: list[int]
) -> None:
    """Until `stop` or `asked`: start a broker that is missing, follow rules that have changed."""
    pause, next_try, found = FIRST_PAUSE_S, 0.0, rules.current()
    while not (asked or stop.wait(LOOK_S) or asked):
        if (new := rules.current()) is not found:
            found = new
            _note(f"the rules were read again: {found.source}")
            _warn(found)
        now = time.monotonic()
        if client.connected(0):
            pause, next_try = FIRST_PAUSE_S, now + FIRST_PAUSE_S
            _follow(events)
        elif now >= next_try and _gone():
            try:
                start_broker()
            except WakebusError as exc:
                _note(f"{exc}\nTrying again in {pause:g} s.")
            next_try = now + pause
            pause = min(pause * 2, LONGEST_PAUSE_S)


def _follow(events: Events) -> None:
    try:
        events.follow()
    except WakebusError as exc:  # the broker went away just now: again at the next look
        _note(f"events are not received yet: {exc.text}")


def _warn(rules: Rules) -> None:
    for warning in rules.warnings:
        _note(f"warning: {warning}")
