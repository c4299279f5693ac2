"""
How a command speaks and ends: text for people, one JSON object for scripts, an exit status.

Rule 1: what a peer wrote reaches the terminal without what could steer it. Rule 2: whether the
reader of the output is still there changes no exit status: what became of the message does.
Rule 3: with `--json` there is exactly one JSON object on standard output, also for an error; of a
message to several, a line with one for each.
Rule 4: every error says the next step. Rule 5: notify-hermes imports this; nothing of weight.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from wakebus.broker.command_line.parser import Parser as Parser
from wakebus.broker.command_line.parser import Usage as Usage
from wakebus.broker.command_line.parser import input_text as input_text
from wakebus.broker.command_line.parser import path_text as path_text
from wakebus.broker.errors import (
    BadFrame,
    BadMessage,
    BadName,
    BadTopic,
    Conflict,
    NameTaken,
    NotRunning,
    TimedOut,
    TooBig,
    Undecided,
    UnknownId,
    UnknownTarget,
    WakebusError,
)
from wakebus.broker.system.standard_files import (
    drop_unwritten,
    open_missing_files,
    print_line,
    takes_color,
)

if TYPE_CHECKING:
    from wakebus.broker.system.text_table import Column

OK, FAILED, USAGE, UNKNOWN_TARGET, LATE, UNDECIDED, WORK_FAILED = range(7)
INTERRUPTED: Final = 130
NO_ENDPOINT: Final = "cli"  # sender_identity.FALLBACK, which would load more than help needs
_ENV_FILE: Final = "$HERMES_HOME/.env"


def guarded(name: str, run: Callable[[argparse.Namespace], int], args: argparse.Namespace) -> int:
    """Run a command; an error that was raised on purpose becomes its text and exit status."""
    open_missing_files()
    if getattr(args, "broker_verb", None) not in ("stop", "restart"):  # the step that is named
        _tell_other_version()
    try:
        status = int(run(args))
    except WakebusError as exc:
        status = report_error(name, exc, as_json=getattr(args, "json", False))
    except KeyboardInterrupt:
        status = INTERRUPTED
    except BrokenPipeError:
        status = FAILED
    except OSError as exc:
        from wakebus.broker.denial import system_error

        status = report_error(name, system_error(exc), as_json=getattr(args, "json", False))
    drop_unwritten()
    return status


def _tell_other_version() -> None:
    """Say it, before anything is waited for, where a broker of another version runs."""
    from wakebus.broker.address import read_address
    from wakebus.broker.other_version import version_note
    from wakebus.broker.paths import root_of

    try:
        folder = f"{root_of('HERMES_BUS_ROOT')}/bus"
        note = version_note(read_address(folder))
        if note and _runs(folder):  # not what a killed one left
            echo(note, error=True)
    except (WakebusError, KeyError):  # none runs, or none may be believed: whoever asks it says so
        pass


def _runs(folder: str) -> bool:
    from pathlib import Path

    from wakebus.broker.system.lock_file import lock_holder

    return lock_holder(Path(folder)) is not None


def report_error(name: str, error: WakebusError, *, as_json: bool, **about: str) -> int:
    """Print an error and its next step, with what else is said `about` it; return the status."""
    if as_json:
        echo_json({**about, "error": error.to_wire()})
    echo(f"{name}: {hint(error)}", error=True)
    return status_of(error)


def status_of(error: WakebusError) -> int:
    """Return the exit status that tells a script what to do."""
    if isinstance(error, Usage | BadMessage | BadName | BadTopic | TooBig | BadFrame):
        return USAGE
    if isinstance(error, TimedOut):  # without an id: a question to the broker, no message
        return LATE if error.data.get("id") else FAILED
    if isinstance(error, UnknownTarget):
        return UNKNOWN_TARGET
    return UNDECIDED if isinstance(error, Undecided) else FAILED


def hint(error: WakebusError) -> str:
    """Return the error with the next step."""
    return show_env_path(f"{error.text}\n{_step(error)}".rstrip())


def show_env_path(text: str) -> str:
    """Return `text` with the real path for `$HERMES_HOME/.env`: few know where that is."""
    if _ENV_FILE not in text:
        return text
    from wakebus.broker.paths import hermes_home

    return text.replace(_ENV_FILE, str(hermes_home() / ".env"))


def _step(error: WakebusError) -> str:
    id = error.data.get("id")
    if step := error.data.get("step"):
        return str(step)
    if isinstance(error, NotRunning):
        try:
            return _how_to_start()
        except WakebusError as exc:
            return str(exc.data.get("step", ""))
    if isinstance(error, UnknownTarget) and error.data.get("to") == NO_ENDPOINT:
        return (
            f"{NO_ENDPOINT!r} is what senders without an endpoint are called; it reaches nobody. "
            "An agent answers by what its turn prints, a person by: wakebus reply ID"
        )
    queue = " To keep it until somebody listens: --queue" if error.data.get("to") else ""
    steps: Mapping[type[WakebusError], str] = {
        UnknownTarget: f"Known names: wakebus endpoints.{queue}",
        Undecided: f"To settle it, send the same again with: --id {id} (it is not doubled)",
        TimedOut: f"It is not lost; follow it: wakebus trace {id}" if id else "",
        NameTaken: "To take it over: --takeover. Another name: wakebus listen NAME",
        Conflict: "A new message needs no --id; to settle an old one, send what was sent then.",
        UnknownId: "An id is what a receipt prints; messages are kept for 7 days after they ended.",
    }
    return next((text for kind, text in steps.items() if isinstance(error, kind)), "")


def _how_to_start() -> str:
    """Return what to do about a broker that does not answer; it may be there, but frozen."""
    from wakebus.broker.denial import current_sandbox
    from wakebus.broker.paths import bus_dir
    from wakebus.broker.system.lock_file import step_for_mute

    if step := step_for_mute(bus_dir()):
        return step
    if sandbox := current_sandbox():
        return f"{sandbox.name} may hide it. {sandbox.step}"
    return "Start the bus: hermes-busd start"


def echo(text: str, *, error: bool = False, styled: bool = False) -> None:
    """
    Print `text`, made safe, whether or not anybody can read it.

    `styled`: its colours and bold are ours, all that a peer or a file wrote in it is `safe`.
    """
    print_line(_safe_but_styled(text) if styled else safe(text), error=error)


def echo_json(value: Mapping[str, Any]) -> None:
    """Print one JSON object, in ASCII, so that it needs no cleaning."""
    echo(json.dumps(value))


def echo_table(columns: "Sequence[Column]", rows: Iterable[Sequence[str]]) -> None:
    """Print a table: on a terminal in its width and in colour, in a pipe whole and plain."""
    from wakebus.broker.system.text_table import text_table

    cleaned = [[safe(cell) for cell in row] for row in rows]
    echo(text_table(columns, cleaned, sys.stdout), styled=True)


def agreed(question: str) -> bool | None:
    """Ask the person at the terminal; None where nobody can be asked."""
    if sys.stdin is None or not sys.stdin.isatty():
        return None
    echo(f"{question} [y/N] ", error=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def echo_sentence(text: str) -> None:
    """Print a sentence that holds a peer's words, in lines that fit the terminal."""
    from wakebus.broker.system.text_table import wrapped_text

    echo(wrapped_text(one_line(text), sys.stdout))


def safe(text: str) -> str:
    """Return a peer's text without what could steer this terminal."""
    if text.isascii() and text.replace("\n", "").isprintable():
        return text
    from wakebus.plugin.rules.sanitize import sanitize

    return sanitize(text)


def one_line(text: str) -> str:
    """Return a line that holds a peer's text, which can begin none of its own in it."""
    return safe(text).replace("\n", " ")


def _safe_but_styled(text: str) -> str:
    from wakebus.plugin.rules.sanitize import sanitize_terminal

    return sanitize_terminal(text)


def colored() -> bool:
    """Return whether standard output is a terminal whose user has nothing against colour."""
    return takes_color(sys.stdout)
