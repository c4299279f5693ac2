"""
`wakebus listen`: hold an endpoint in this terminal, print, run commands, run an agent.

Rule 1: it keeps the bus up (receive/maintenance.py).
Rule 2: Ctrl-C ends turns and commands, gives back what was not finished, leaves nothing running.
Rule 3: what goes wrong with the rules, the terminal or the broker is said, and costs no message.
"""

import argparse
import os
import re
import signal
import subprocess
import threading
from pathlib import Path
from types import FrameType
from typing import Final

from wakebus.adapters.base import COURIER
from wakebus.broker import Client
from wakebus.broker.paths import bus_dir, hermes_home
from wakebus.broker.protocol.message import check_name
from wakebus.plugin import sender_identity
from wakebus.plugin.cli.bus.broker_presence import BrokerPresence
from wakebus.plugin.cli.command import Command
from wakebus.plugin.cli.output import FAILED, OK, Parser, Usage, echo, path_text
from wakebus.plugin.harness.agent_command import AgentCommand
from wakebus.plugin.harness.conversations import ConversationFile, conversations_file
from wakebus.plugin.processes.run import end_all
from wakebus.plugin.prompt.pending_context import Context, context_file
from wakebus.plugin.receive.agent_conversations import AgentConversations
from wakebus.plugin.receive.answers import Answers
from wakebus.plugin.receive.dispatch import Dispatch
from wakebus.plugin.receive.event_rules import RuleSubscriptions
from wakebus.plugin.receive.listen_host import Listener
from wakebus.plugin.receive.maintenance import Maintenance, print_warnings, start_broker
from wakebus.plugin.receive.message_file import remove_stale_files
from wakebus.plugin.receive.terminal_output import TerminalOutput
from wakebus.plugin.receive.terminal_report import TerminalReport
from wakebus.plugin.rules.load import RulesFile
from wakebus.plugin.turns.flood_limit import FloodLimit

LOOK_S: Final = 0.25
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
END_S: Final = 3.0  # an agent has 2 s after SIGTERM (processes/run.py)

EXAMPLES: Final = """\
examples:
  wakebus listen                                         print what arrives
  wakebus listen worker-alpha --agent 'claude -p'        an agent: text in, answer out
  wakebus listen worker-beta --agent 'codex exec -'
  wakebus listen worker-gamma --agent 'claude -p --resume {session_id}'
  wakebus listen helper --agent ./agent.sh

What arrives is printed, run or given to the agent as bus-rules.yaml says (wakebus rules --help).
{session_id} in CMD keeps a conversation for each session: 'claude -p --resume {session_id}',
'codex exec resume {session_id} -', 'hermes chat -Q --resume {session_id} -q'; their first turn is
begun as each of them wants it. To any other program it is a UUID, the same one in each turn.

The agent finds WAKEBUS_ENDPOINT, _ID, _TYPE, _FROM, _CHANNEL, _SESSION and _TOKEN in its
environment, and may send with notify-hermes.

exit status: 0 ended by Ctrl-C or SIGTERM; 1 the name is taken or was taken over, the rules are
wrong, the broker cannot be started; 2 usage"""


def _options(parser: Parser) -> None:
    parser.add_argument(
        "endpoint",
        nargs="?",
        metavar="ENDPOINT",
        help="default: HERMES_BUS_ENDPOINT, bus.endpoint of the rules, tmux session, profile, "
        "hermes-bus",
    )
    parser.add_argument("--rules", type=path_text, metavar="FILE", help="another bus-rules.yaml")
    parser.add_argument(
        "--agent", metavar="CMD", help="run CMD on each turn: prompt on stdin, answer on stdout"
    )
    parser.add_argument("--takeover", action="store_true", help="take the name from its holder")


def run(args: argparse.Namespace) -> int:
    """Listen until Ctrl-C, SIGTERM, or the name goes to another process."""
    path = Path(args.rules) if args.rules else None
    rules = RulesFile(path, required=path is not None, on_error=_complain)
    found = rules.current()
    print_warnings(found, _note)
    endpoint = check_name(_name(args.endpoint, found.endpoint), "endpoint")
    if endpoint == COURIER:
        raise Usage(f"{COURIER} takes texts to chats, and would take none; choose another name")
    if args.agent is not None:
        _check_agent(args.agent)
    if args.agent and (name := _missing(args.agent)):
        _note(f"warning: no program {name!r} is found; turns fail until there is one")
    agent = AgentCommand(args.agent or "")
    if agent.nearly:
        raise Usage(f"--agent: {agent.nearly} is nothing; a conversation's id is {{session_id}}")
    limit = FloodLimit.load(bus_dir(), os.environ)
    stop, asked = threading.Event(), _on_signals()
    remove_stale_files()
    start_broker()
    lost: list[str] = []
    with Client() as client:
        answers = Answers(client, endpoint, stop)
        host = Listener(
            endpoint, answers, args.agent, conversations=_conversations(agent, endpoint)
        )
        context = Context(context_file(bus_dir(), endpoint))
        terminal = TerminalOutput()
        report = TerminalReport(terminal, host.kind)
        dispatch = Dispatch(endpoint, rules, host, answers, context, terminal=terminal, limit=limit)

        def on_lost(why: str) -> None:
            lost.append(why)
            stop.set()

        client.register(endpoint, dispatch.handle, takeover=args.takeover, on_lost=on_lost)
        events = RuleSubscriptions(client, endpoint, rules, _note)
        maintenance = Maintenance(client, rules, events, _note)
        maintenance.check()  # an event that is published once we say that we listen is not missed
        what = f"agent: {args.agent}" if args.agent else "printing"
        _note(f"listening as {endpoint} ({what}; rules: {found.source}); Ctrl-C ends")
        if not args.agent:
            for one in client.inbox(endpoint):
                if one.get("awaits"):
                    report.report_unanswered(one)
        presence = BrokerPresence(client, _note)
        while not (asked or stop.wait(LOOK_S) or asked):
            presence.check()
            maintenance.check()
        _ignore_signals()  # it ends soon, whoever goes on pressing Ctrl-C
        stop.set()
        dispatch.stop()
        end_all(END_S)
    if lost:
        _note(f"{endpoint}: {lost[0]}; this listener has ended")
    return FAILED if lost else OK


def _conversations(command: AgentCommand, endpoint: str) -> AgentConversations | None:
    if not command.keeps:
        return None
    file = conversations_file(bus_dir(), endpoint)
    return AgentConversations(command, ConversationFile(file, command.harness.name))


def _check_agent(command: str) -> None:
    """Raise Usage for a command line that is empty, as an unset variable is, or that cannot run."""
    if not command.strip():
        raise Usage("--agent is empty; leave it out to print what arrives")
    asked = ["/bin/sh", "-n", "-c", command]
    done = subprocess.run(asked, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        why = next(iter(done.stderr.splitlines()), "").rpartition(": ")[2]
        raise Usage(f"--agent: the shell cannot read {command!r}: {why}")


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
    if session := sender_identity.tmux_session(os.environ):
        return sender_identity.as_endpoint_name(session)
    home = hermes_home()
    return (
        sender_identity.as_endpoint_name(home.name)
        if home.parent.name == "profiles"
        else "hermes-bus"
    )


def _complain(error: Exception) -> None:
    _note(f"{error}\nThe last good rules stay in force.")


def _note(text: str) -> None:
    echo(text, error=True)


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


COMMAND: Final = Command(
    options=_options,
    run=run,
    description="Receive an endpoint's messages here: print them, run commands, run an agent.",
    epilog=EXAMPLES,
)
