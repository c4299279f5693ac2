"""
`wakebus`: one command for people; its verbs import what they need when they are called.

Exit status of every verb: 0 done, 1 failed (says why and what to do), 2 usage; sending verbs have
the further ones of notify-hermes (3 unknown target, 4 late, 5 unknown).
"""

import sys
from importlib import import_module
from typing import Final

from wakebus.broker import __version__
from wakebus.plugin.cli import output

# verb: (module with its COMMAND, help in one line)
VERBS: Final = {
    "listen": ("bus.listen", "receive an endpoint's messages: print, commands, an agent"),
    "ask": ("bus.ask", "send a directive and print the answer"),
    "reply": ("bus.reply", "answer a question that a listener has shown"),
    "send": ("chats.send", "send a text or a file to a chat and print the result"),
    "channels": ("chats.channels", "show what is set up for chats, and check it"),
    "publish": ("bus.publish", "publish an event on a topic"),
    "tail": ("bus.tail", "show events and message states as they happen"),
    "trace": ("bus.trace", "show what became of a message, step by step"),
    "dead": ("bus.dead", "list, show, retry and purge dead letters"),
    "inbox": ("bus.inbox", "show what waits for an endpoint, without taking it"),
    "cancel": ("bus.cancel", "take back a message, also one that is being worked on"),
    "resume": ("bus.resume", "show loops that are paused, and let them go on"),
    "endpoints": ("bus.endpoints", "list, add and remove endpoints"),
    "status": ("setup.status", "show the broker, endpoints, queues, and what to do"),
    "install": ("setup.install", "put wakebus into Hermes; make it a service"),
    "rules": ("setup.rules", "write, check and try out bus-rules.yaml"),
    "doctor": ("doctor.doctor", "look at all that wakebus needs, and say what is wrong"),
    "settings": ("setup.settings", "list and check every setting; their JSON Schema"),
    "backup": ("setup.backup", "copy the whole bus into one file, also while it runs"),
    "restore": ("setup.restore", "make the bus what it was at a backup"),
    "uninstall": ("setup.uninstall", "stop the bus, take out what install put in"),
    "broker": ("setup.broker", "run, start, stop the broker (as hermes-busd)"),
    "version": ("setup.version", "show the version of this command and of the running broker"),
    "logs": ("setup.logs", "show where the logs are, and their last lines; follow them"),
    "courier": ("chats.courier", "run the courier in this terminal"),
}

# What people type who know other programs.
SYNONYMS: Final = {
    **{verb: f"hermes-busd {verb}" for verb in ("start", "stop", "restart", "run")},
    "check": "doctor",
    "config": "settings",
    "events": "tail",
    "follow": "tail",
    "list": "endpoints",
    "log": "logs",
    "ls": "endpoints",
    "messages": "inbox",
    "notify": "send, or notify-hermes",
    "ps": "endpoints",
    "queue": "inbox",
    "setup": "install",
    "show": "trace",
    "subscribe": "tail",
    "watch": "tail",
}

START: Final = """\
start here:
  hermes-busd start                              the broker, in the background
  wakebus listen helper --agent 'claude -p'      an agent on the bus, in this terminal
  wakebus ask helper "what is in this folder?"   from another one

From a script or a hook: notify-hermes --help. Each verb: wakebus help VERB"""


def main(argv: list[str] | None = None) -> int:
    """Entry point of `wakebus`."""
    words = sys.argv[1:] if argv is None else argv
    parser = output.Parser(
        prog="wakebus", description="A message bus that wakes agents.", epilog=START
    )
    parser.add_argument("--version", action="version", version=f"wakebus {__version__}")
    parser.synonyms = SYNONYMS
    commands = parser.add_subparsers(dest="verb", metavar="VERB")
    verb = next((word for word in words if word in VERBS), None)
    for name, (module, text) in VERBS.items():
        listed = commands.add_parser(name, help=text)
        if name == verb:
            import_module(f"wakebus.plugin.cli.{module}").COMMAND.set_up(listed)
    args = parser.parse_words(words)
    if args.verb is None:
        output.echo(parser.format_help().rstrip(), error=True)
        return output.USAGE
    return output.guarded("wakebus", args.run, args)
