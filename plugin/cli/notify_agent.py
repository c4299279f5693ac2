"""
`notify-agent`: type a message into a tmux session (seed 004, section 1). Not through the bus.

Rule 1: it imports no zmq; yaml only if there is a rules file. Rule 2: it says what it typed and
where, never that somebody read it: tmux cannot know (notify-hermes can). Rule 3: the text is
read as the locale has it, else as UTF-8; it is typed as UTF-8.
"""

import argparse
import os
import sys
from collections.abc import Mapping
from typing import Final

from wakebus.broker import __version__
from wakebus.broker.errors import WakebusError
from wakebus.plugin import sender_identity
from wakebus.plugin.cli.output import (
    OK,
    Parser,
    Usage,
    echo,
    echo_json,
    guarded,
    input_text,
    path_text,
)
from wakebus.plugin.rules.sanitize import sanitize_line
from wakebus.plugin.tmux import keystrokes
from wakebus.plugin.tmux.panes import MAX_TEXT, literal

LONGEST_NAME: Final = 64

EXAMPLES: Final = """\
examples:
  notify-agent lead-agent "Task queue is empty, ready for next assignment"
  notify-agent --from worker-alpha lead-agent "Build complete, 3 tests passing"
  notify-agent --to lead-agent:1.0 "to one pane"
  git log -5 | notify-agent --to lead-agent -
  notify-agent --from "" lead-agent "/compact"
  notify-agent --from "" --shell build "make test"

It looks before it types, and again before Enter. Refused, with what was seen: a shell or
interpreter (--shell allows it), a dialog or menu, a question at the cursor, a pager, an editor,
copy mode. Behind ssh, sudo or docker it sees the screen alone.

With a sender the text begins with "⚕ [name]: ". A running program is not interrupted. Several lines
are one paste: a program that knows no bracketed paste takes each of them as an input of its own. A
text that begins with "-" goes behind "--".

exit status:
  0  typed, and Enter; whether the program took it, tmux cannot know: that is what the bus is for
  1  not sent: no such session or pane, nothing can or must be typed into it (with --json:
     pane_occupied and "seen"), or no tmux
  2  usage: the command line or the text cannot be sent as it is"""


def main(argv: list[str] | None = None) -> int:
    """Entry point of `notify-agent`."""
    words = sys.argv[1:] if argv is None else argv
    # parse_intermixed_args, which lets options stand anywhere, knows no "--".
    end = words.index("--") if "--" in words else len(words)
    own = parser()
    args = own.parse_intermixed_args(words[:end])
    args.words += words[end + 1 :]
    own.decode(args)
    return guarded("notify-agent", run, args)


def parser() -> Parser:
    """Return the parser of `notify-agent`."""
    found = Parser(
        prog="notify-agent",
        usage="%(prog)s [--from N] [--config F] [--shell] [--json]\n"
        "                    (SESSION | --to SESSION) TEXT",
        description="Type a message into a tmux session and press Enter.",
        epilog=EXAMPLES,
    )
    found.add_argument("words", nargs="*", metavar="SESSION TEXT", help="the text; - reads stdin")
    found.add_argument("--to", metavar="S", help="session, session:window.pane or %%pane")
    found.add_argument(
        "--from",
        dest="sender",
        metavar="N",
        help='sender, named by role_map; "": none; default: the turn\'s endpoint, '
        "HERMES_BUS_ENDPOINT, tmux session, default_sender",
    )
    found.add_argument(
        "--config",
        type=path_text,
        metavar="F",
        help="another bus-rules.yaml (role_map, default_sender)",
    )
    found.add_argument(
        "--shell", action="store_true", help="the pane's shell or interpreter may run the text"
    )
    found.add_argument("--json", action="store_true", help="print one JSON object, errors too")
    found.add_argument("--version", action="version", version=f"wakebus {__version__}")
    # hermes-notify takes it and does nothing with it.
    found.add_argument("--simple", action="store_true", help=argparse.SUPPRESS)
    return found


def run(args: argparse.Namespace) -> int:
    """Type as `args` say, print, return the exit status."""
    target, text = target_and_text(args.to, args.words)
    text = read_stdin() if text == "-" else text
    name, note = shown_name(args.sender, os.environ, args.config)
    whole = line_of(name, text)
    pane = keystrokes.find_pane(target)
    if note:
        echo(f"note: {note}", error=True)
    typed = keystrokes.type_text(pane, whole, shell=args.shell)
    return show(typed, name, args.json)


def target_and_text(to: str | None, words: list[str]) -> tuple[str, str]:
    """Return the target and the text; words that were not quoted are one text. Raises Usage."""
    target, *rest = [to, *words] if to is not None else words or [""]
    if not target or not target.isprintable():
        raise Usage(f"give a tmux session first, or --to; {target!r} is none")
    if not rest:
        raise Usage("give a text after the session, or - to read it from standard input")
    return target, " ".join(rest)


def read_stdin() -> str:
    """Return the text on standard input. Raises Usage."""
    if sys.stdin is None:
        raise Usage("standard input is closed, there is nothing to read")
    data = sys.stdin.buffer.read(MAX_TEXT + 2)  # a newline at the end is not counted
    if len(data) > MAX_TEXT + 1:
        raise _too_long()
    return input_text(data)


def line_of(name: str | None, text: str) -> str:
    """Return what is typed for `text` of `name`. Raises Usage."""
    if not literal(text).strip():
        raise Usage("the text is empty")
    whole = literal(f"⚕ [{name}]: {text}" if name else text)
    if len(whole.encode()) > MAX_TEXT:
        raise _too_long()
    return whole


def _too_long() -> Usage:
    step = "put it into a file and send the file's name"
    return Usage(f"the text is over {MAX_TEXT >> 10} KiB; {step}")


def shown_name(
    given: str | None, environ: Mapping[str, str], config: str | None
) -> tuple[str | None, str]:
    """Return the sender's name as people read it, or None, and a note about unread rules."""
    if given == "":
        return None, ""
    name = given or sender_identity.find_place(environ)
    try:
        rules, note = sender_identity.rules_of(config)
    except WakebusError as exc:
        raise Usage(exc.text, **exc.data) from exc
    if rules is not None:
        role = rules.role_map.get(name) if name else None
        name = role.name if role else name or rules.default_sender
    return (sanitize_line(name, LONGEST_NAME) or None) if name else None, note


def show(typed: keystrokes.Typed, name: str | None, as_json: bool) -> int:
    """Print what was typed and where; return the exit status."""
    pane = typed.pane
    if as_json:
        facts = {"state": "typed", "pane": pane.id, "place": pane.place, "session": pane.session}
        more = {"from": name, "characters": typed.characters, "pasted": typed.pasted}
        echo_json({**facts, **more, "left_mode": typed.left_mode})
        return OK
    left = "; somebody had entered copy mode, the pane has left it" if typed.left_mode else ""
    how = "pasted" if typed.pasted else "typed"
    echo(f"{how} into {pane.place} ({pane.id}): {typed.characters} characters and Enter{left}")
    return OK
