"""
Typing into a tmux pane: found exactly, typed literally, then one Enter (pure part: panes.py).

Rule 1: a target never reaches tmux, only the id (`%3`) of the pane that it names. Rule 2: no key
is sent but the text and Enter; C-c would kill running work. Rule 3: bytes of UTF-8 in and out,
whatever the locale says. Rule 4: two who type into one pane take turns. Rule 5: that a program
took what was typed, tmux cannot know, and nobody here says so. Rule 6: the text goes to tmux on
standard input: what stands in a command line, other users see in `ps`. Rule 7: who types looks
first, and again before Enter (occupants.py).
"""

import fcntl
import os
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from wakebus.plugin.tmux.occupants import (
    LOOK,
    FrontProcess,
    Obstacle,
    View,
    find_dialog,
    find_obstacle,
    parse_processes,
    parse_view,
)
from wakebus.plugin.tmux.panes import (
    FORMAT,
    NoPane,
    Occupied,
    Pane,
    TmuxError,
    check_pane,
    is_paste,
    literal,
    parse_panes,
    pick_pane,
)

# An Enter that comes too soon is a line break to a TUI, not the end of the input. After keys: Codex
# suppresses it for 120 ms (PASTE_ENTER_SUPPRESS_WINDOW; byobu #115). After a paste: Claude Code
# still does so about 1 s later (maw-js #707; claude-code-tools #46 settled on 1.5 s too).
KEYS_SETTLE_S: Final = 0.3
PASTE_SETTLE_S: Final = 1.5
ANSWER_S: Final = 5.0  # tmux answers within milliseconds, or its server is stopped
TURN_S: Final = 30.0  # one turn takes below 2 s: this is a queue of fifteen
_RETRY_S: Final = 0.05
_HEAD: Final = 20  # characters of a text that stand in one line of an input


class Typed(NamedTuple):
    """What was typed: `characters` of the cleaned text; `left_mode`: copy mode was left for it."""

    pane: Pane
    characters: int
    pasted: bool
    left_mode: bool


def find_pane(target: str) -> Pane:
    """Return the pane that `target` names (panes.pick_pane). Raises NoPane, TmuxError."""
    try:
        listing = _tmux("list-panes", "-a", "-F", FORMAT)
    except TmuxError as exc:
        if not exc.text.startswith(("tmux: no server", "tmux: error connecting")):
            raise
        step = "Start one: tmux new-session -d -s lead-agent 'claude'"
        text = f"there is no {target!r}, because no tmux server answers ({exc.text})"
        raise NoPane(text, step=step) from exc
    return pick_pane(parse_panes(listing), target)


def type_text(
    pane: Pane, text: str, *, shell: bool = False, sleep: Callable[[float], None] = time.sleep
) -> Typed:
    """
    Type `text` into `pane`, wait until its program sees Enter as a key of its own, send Enter.

    Several lines, tabs and long texts go as one bracketed paste; a program that does not ask for
    brackets (`cat`) sees each line break as Enter. shell: a shell may run the text. Raises NoPane,
    Occupied (a program that must not get the text, or not the Enter), TmuxError.
    """
    text = literal(text)
    pasted = is_paste(text)
    with _turn(pane):
        check_pane(_look(pane))
        if (found := _find_obstacle(pane)) and not (shell and found.runs):
            raise _occupied(pane, found, "Nothing was typed")
        _put_in(pane, text, pasted=pasted)
        sleep(PASTE_SETTLE_S if pasted else KEYS_SETTLE_S)
        left_mode = _leave_mode(pane)
        if (found := _appeared(pane, text)) and not (shell and found.runs):
            raise _occupied(pane, found, "The text is typed, Enter was not sent")
        _tmux("send-keys", "-t", pane.id, "Enter")
    return Typed(pane, len(text), pasted, left_mode)


def _find_obstacle(pane: Pane) -> Obstacle | None:
    return find_obstacle(_view(pane), _processes(pane.tty))


def _appeared(pane: Pane, text: str) -> Obstacle | None:
    """Return what came up since the text was typed; what only the text says is none."""
    view = _view(pane)
    if found := find_obstacle(view._replace(lines=()), _processes(pane.tty)):
        return found
    lines = text.split("\n")
    return None if find_dialog(lines) else find_dialog(view.lines, typed=lines[0][:_HEAD])


def _view(pane: Pane) -> View:
    of_pane = ("-p", "-t", pane.id)
    return parse_view(_tmux("display-message", *of_pane, LOOK, ";", "capture-pane", *of_pane))


def _processes(tty: str) -> list[FrontProcess]:
    """Return the processes in front on a terminal; none where `ps` cannot tell."""
    # -ww: a line is not cut at 80 columns.
    columns = (word for name in (b"pid=", b"pgid=", b"tpgid=", b"args=") for word in (b"-o", name))
    command = [b"ps", b"-ww", b"-t", tty.removeprefix("/dev/").encode(), *columns]
    try:
        done = subprocess.run(command, capture_output=True, timeout=ANSWER_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return parse_processes(done.stdout.decode(errors="replace"))


def _occupied(pane: Pane, found: Obstacle, done: str) -> Occupied:
    seen = f" (seen: {found.seen})" if found.seen not in found.what else ""
    text = f"pane {pane.id} ({pane.place}) {found.what}{seen}. {done}"
    step = f"{found.step}. To see it: tmux attach -t {shlex.quote(f'={pane.session}')}"
    return Occupied(text, step=step, seen=found.seen)


def _leave_mode(pane: Pane) -> bool:
    """Leave a mode that somebody entered meanwhile: the text would stay without its Enter."""
    now = _look(pane)
    check_pane(now)
    if not now.in_mode:
        return False
    _tmux("copy-mode", "-q", "-t", pane.id)  # any mode, not only copy mode
    if _look(pane).in_mode:
        raise NoPane(f"pane {pane.id} ({pane.place}) stays in a mode of tmux", step="Press q in it")
    return True


def _look(pane: Pane) -> Pane:
    found = parse_panes(_tmux("list-panes", "-t", pane.id, "-F", FORMAT))
    same = [now for now in found if now.id == pane.id]
    if not same:
        raise NoPane(f"pane {pane.id} ({pane.place}) is gone", step="All panes: tmux list-panes -a")
    return same[0]


def _put_in(pane: Pane, text: str, *, pasted: bool) -> None:
    """Hand the text over, in brackets if it is a paste; without them a program sees keys."""
    buffer = f"wakebus-{os.getpid()}"
    _tmux("load-buffer", "-b", buffer, "-", data=text.encode())
    brackets = ["-p"] if pasted else []
    try:
        _tmux("paste-buffer", *brackets, "-d", "-b", buffer, "-t", pane.id)
    except TmuxError:
        _tmux("delete-buffer", "-b", buffer)  # else the text stays for everybody's next paste
        raise


@contextmanager
def _turn(pane: Pane) -> Iterator[None]:
    """Hold the pane alone, by a lock on its terminal, which leaves no file and dies with us."""
    try:
        # NOCTTY: it must not become ours.
        terminal = os.open(pane.tty, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:  # of another user: then two texts may mix, but each arrives
        yield
        return
    try:
        _lock(terminal, pane)
        yield
    finally:
        os.close(terminal)


def _lock(terminal: int, pane: Pane) -> None:
    end = time.monotonic() + TURN_S
    while True:
        try:
            return fcntl.flock(terminal, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                raise NoPane(
                    f"others have been typing into pane {pane.id} for {TURN_S:g} s",
                    step="Nothing was typed; try again",
                ) from None
        except OSError:  # a system that locks no terminals
            return None
        time.sleep(_RETRY_S)


def _tmux(*words: str, data: bytes = b"") -> str:
    """Run a command of tmux; return what it printed. Raises TmuxError with its own words."""
    # -u: without it tmux writes `_` for every character that the locale does not have.
    command = [b"tmux", b"-u", *(word.encode() for word in words)]
    try:
        done = subprocess.run(command, input=data, capture_output=True, timeout=ANSWER_S)
    except subprocess.TimeoutExpired as exc:
        step = "Is its server stopped? tmux list-sessions"
        raise TmuxError(f"tmux {words[0]} did not answer in {ANSWER_S:g} s", step=step) from exc
    except OSError as exc:
        step = "Install it, or set PATH so that it is found"
        raise TmuxError(f"tmux cannot be run: {exc.strerror}", step=step) from exc
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip() or f"exit {done.returncode}"
        raise TmuxError(f"tmux: {said}", step="All panes: tmux list-panes -a")
    return done.stdout.decode(errors="replace")
