"""
`wakebus rules init | check | test`: write, check and try out the rules.

Rule 1: nothing here touches the bus or runs what a rule names. Rule 2: exit 0 done, 1 refused or
wrong (the reason on stderr), 2 usage.
"""

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any, Final, get_args

from wakebus.adapters.courier.channel_check import check_channel
from wakebus.broker.errors import WakebusError
from wakebus.broker.paths import bus_dir
from wakebus.broker.protocol import message as messages
from wakebus.broker.protocol.event import Event, encode, stamp
from wakebus.broker.protocol.message import Message
from wakebus.broker.protocol.topics import check_topic
from wakebus.plugin.cli import message_body
from wakebus.plugin.cli.command import Command, add_action
from wakebus.plugin.cli.output import Parser, Usage, colored, echo, safe
from wakebus.plugin.receive import event_rules
from wakebus.plugin.receive.failure import tells_chat
from wakebus.plugin.rules import load, match
from wakebus.plugin.rules.errors import RulesError
from wakebus.plugin.rules.match import Plan
from wakebus.plugin.rules.model import WAKES, HostKind, Rules
from wakebus.plugin.rules.render import RenderTarget, render
from wakebus.plugin.rules.script import is_script
from wakebus.plugin.sender_identity import FALLBACK

_NO_FILE: Final = "no such file; the default rules are in force (`wakebus rules init` writes them)"


def _options(parser: Parser) -> None:
    actions = parser.add_subparsers(metavar="init|check|test", required=True)
    file_help = "the rules file (default: $HERMES_HOME/bus-rules.yaml)"

    init = add_action(actions, "init", "write the default rules", run_init)
    init.add_argument("file", nargs="?", type=Path, metavar="FILE", help=file_help)
    init.add_argument("--force", action="store_true", help="replace the file that is there")

    check = add_action(actions, "check", "say what is wrong with a rules file", run_check)
    check.add_argument("file", nargs="?", type=Path, metavar="FILE", help=file_help)
    check.add_argument("--rules", type=Path, metavar="FILE", help="the same")

    test = add_action(actions, "test", "show what a message would do; does nothing", run_test)
    test.add_argument(
        "text", nargs="?", default="", help="the message's text; an event's text or fields as JSON"
    )
    test.add_argument("--type", metavar="T", help="its type (default: untyped)")
    test.add_argument("--topic", metavar="T", help="as an event on this topic, not a message")
    test.add_argument(
        "--from",
        dest="sender",
        default=FALLBACK,
        metavar="F",
        help=f"its sender, an endpoint (default: {FALLBACK}, which is none)",
    )
    test.add_argument("--channel", metavar="C", help="platform[:chat_id]")
    test.add_argument("--session", metavar="S", help="the session it is for")
    test.add_argument("--wake", choices=WAKES, help="what the sender asks for")
    test.add_argument(
        "--host",
        choices=get_args(HostKind),
        default="agent",
        help="where it arrives: listen --agent (default), listen, a Hermes gateway, hermes itself",
    )
    test.add_argument("--rules", dest="file", type=Path, metavar="FILE", help=file_help)
    test.add_argument("--json", action="store_true", help="as one JSON object")


def run_init(args: argparse.Namespace) -> int:
    """Write the default rules to the file, which must not exist unless `--force`."""
    path: Path = args.file or load.default_path(os.environ)
    try:
        load.write_default(path, force=args.force)
    except FileExistsError:
        return _fail(f"{path} is there already; --force replaces it")
    except OSError as exc:
        return _fail(f"cannot write {path}: {exc.strerror}")
    echo(f"wrote {path}")
    return 0


def run_check(args: argparse.Namespace) -> int:
    """Print every error (stderr) and warning; 1 if the file would not be loaded."""
    given: Path | None = args.file or args.rules
    path = given or load.default_path(os.environ)
    if given is None and not path.exists():
        echo(f"{path}: {_NO_FILE}")
        return 0
    try:
        rules = load.load(path)
    except RulesError as exc:
        return _fail(*map(str, exc.problems))
    for warning in rules.warnings:
        echo(f"{warning} (warning)")
    echo(f"{path}: {len(rules.callbacks)} rules, {len(rules.warnings)} warnings")
    return 0


def run_test(args: argparse.Namespace) -> int:
    """Print which rule matches and what would happen."""
    try:
        rules = _rules(args.file)
        if args.topic:
            message, starts_nothing = _of_event(args, rules)
        else:
            message, starts_nothing = _message(args), ""
    except RulesError as exc:
        return _fail(*map(str, exc.problems))
    except Usage:
        raise
    except WakebusError as exc:
        return _fail(exc.text)
    if message.channel and (why := _refused(message.channel)):
        echo(f"note: {why}", error=True)
    known = args.topic is None and args.sender != FALLBACK  # an event has no sender
    plan = match.plan(rules, message, args.host, sender_known=known, topic=args.topic or "")
    if plan.note:
        echo(f"note: {plan.note}", error=True)
    if args.topic and (starts_nothing or plan.rule is None):
        return _show_nothing(rules, starts_nothing or "no rule with match_topic takes it", args)
    if args.json:
        echo(json.dumps(_report(rules, plan, message, known, color=False), indent=2))
    else:
        echo("\n".join(_lines(_report(rules, plan, message, known, color=colored()))), styled=True)
    return 0


def _show_nothing(rules: Rules, why: str, args: argparse.Namespace) -> int:
    """Say that an event becomes no message here, and why."""
    if args.json:
        report = {"rule": "none", "where": rules.source, "nothing": why}
        echo(json.dumps(report, indent=2))
    else:
        echo(safe(f"rule     none  ({rules.source})\n         nothing: {why}"))
    return 0


def _refused(token: str) -> str:
    """Return why `notify-hermes` would refuse a channel, or what it would note."""
    try:
        return check_channel(token, str(bus_dir()))
    except WakebusError as exc:
        return f"senders refuse it: {exc.text}"


def _fail(*lines: str) -> int:
    for line in lines:
        echo(line, error=True)
    return 1


def _rules(path: Path | None) -> Rules:
    default = load.default_path(os.environ)
    if path is None and not default.exists():
        return load.default_rules()
    return load.load(path or default)


def _of_event(args: argparse.Namespace, rules: Rules) -> tuple[Message, str]:
    """
    Return the message that the event becomes, by the same steps as a real one, and why it starts
    nothing ("" where a rule may take it). Raises Usage for what no event has.
    """
    topic, now = check_topic(args.topic, "--topic"), time.time()
    if args.sender != FALLBACK or args.wake:
        what = "--from" if args.sender != FALLBACK else "--wake"
        source = f"its sender is the first word of its topic ({topic.partition('.')[0]})"
        raise Usage(f"{what} means nothing for an event: {source}, and its rule says how it wakes")
    fields = message_body.json_object(args.text, "the event") if _is_json(args.text) else {}
    if args.text and not fields:
        fields["text"] = args.text
    given = {"type": args.type, "channel": args.channel, "session": args.session}
    fields |= {name: value for name, value in given.items() if value is not None}
    envelope = stamp(topic, fields, now)
    encode(topic, "0" * 16, 1, envelope)  # what the bus would not take is said as it says it
    endpoint = rules.endpoint or "here"
    event = Event(topic, "0" * 16, 1, envelope)
    nothing = "what the bus tells of this endpoint's own messages starts nothing here"
    return (
        event_rules.message_of(event, endpoint)._replace(id=messages.new_id(now)),
        nothing if event_rules.concerns(event, endpoint) else "",
    )


def _is_json(text: str) -> bool:
    return text == "-" or text.lstrip().startswith("{")


def _message(args: argparse.Namespace) -> Message:
    body = {"text": args.text, "type": args.type, "channel": args.channel}
    now = time.time()
    fields = {
        "id": messages.new_id(now),
        "ts": now,
        "from": args.sender,
        "to": "here",
        "body": {name: value for name, value in body.items() if value is not None},
        "session": args.session,
        "wake": args.wake,
    }
    return messages.from_wire({name: value for name, value in fields.items() if value is not None})


def _report(
    rules: Rules, plan: Plan, message: Message, known: bool, *, color: bool
) -> dict[str, Any]:
    prints = plan.prints != "no"
    where = plan.rule.where if plan.rule else rules.source
    return {
        "rule": plan.rule_label,
        "where": where,
        "print": plan.prints,
        "print_text": _text(plan.print_format, message, "terminal", color) if prints else None,
        "context": plan.context,
        "context_text": _text(plan.context_format, message, "plain", False)
        if plan.context
        else None,
        "wake": plan.wake if plan.context else None,
        "session": plan.session,
        "channel": message.channel,
        "reply": plan.reply if plan.context else None,
        "command": plan.command,
        "on_failure": _told_of_failure(plan, message, known),
        **_retries(plan),
    }


def _told_of_failure(plan: Plan, message: Message, known: bool) -> list[str] | None:
    """Return who is told if it fails: `chat`, `sender`; None where nothing can fail."""
    if plan.command is None and not (plan.context and plan.wake == "immediate"):
        return None
    told = {"chat": tells_chat(message, plan), "sender": plan.on_failure.sender and known}
    return [who for who, wanted in told.items() if wanted]


def _retries(plan: Plan) -> dict[str, Any]:
    rule = plan.rule
    return {"retries": rule.retries, "retry_after": rule.retry_after} if rule else {}


def _text(source: str, message: Message, target: RenderTarget, color: bool) -> str:
    if is_script(source):
        return f"(what {source} prints; not run)"
    return render(source, message, target, color=color)


_WHEN: Final = {
    "immediate": "starts a turn",
    "next_turn": "waits for the next turn",
    "silent": "inbox only",
}


def _lines(report: dict[str, Any]) -> list[str]:
    lines = [safe(f"rule     {report['rule']}  ({report['where']})")]
    if report["print_text"] is not None:
        lines += [f"print    {report['print']}", *_indented(report["print_text"])]
    if report["context"]:
        session = report["session"] or "the default session"
        lines += [f"context  {report['wake']}: {_WHEN[report['wake']]}, in {safe(session)}"]
        lines += [*_indented(safe(report["context_text"])), f"reply    {report['reply']}"]
    if report["command"]:
        lines += ["command  (not run)", *_indented(safe(report["command"]))]
    if report["on_failure"] is not None:
        told = [_TOLD[who].format(report["channel"]) for who in report["on_failure"]]
        lines += [safe(f"failure  {' and '.join(told) or 'is told to nobody'}")]
    if report.get("retries") and report["on_failure"] is None:
        lines += ["retries  do nothing here: no turn begins and no command runs that could fail"]
    elif report.get("retries"):
        first = f"{report['retry_after']:g} s after the first failure"
        lines += [f"retries  {report['retries']}: {first}, then twice as long each time"]
    return lines if len(lines) > 1 else [*lines, "         nothing: no print, context or command"]


_TOLD: Final = {"chat": "one line in {}", "sender": "a notice to its sender"}


def _indented(text: str) -> list[str]:
    return [f"         {line}" for line in text.split("\n")]


COMMAND: Final = Command(options=_options)
