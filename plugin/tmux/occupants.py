"""
What a pane holds that must not get a text and Enter: it would run, approve or scroll; pure.

Rule 1: a program is known by its own name, never by a part of it; a shell that only started the
program in front (a script) is looked through. Rule 2: a dialog is known by its shape at the bottom
of the screen: the lowest line with a mark is one of several choices. An input line below it means
that the dialog is history. Rule 3: what is not known is typed into: agents look like anything.
"""

import os
import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from wakebus.plugin.rules.sanitize import sanitize_line

LOOK: Final = (
    "#{cursor_y} #{?alternate_on,1,0} #{?pane_in_mode,#{pane_mode},-} #{pane_current_command}"
)
_SEEN: Final = 80
_BOTTOM: Final = 6  # lines in which a program says what it waits for
_NEAR: Final = 8  # lines between two choices, with what explains them

_SHELL: Final = re.compile(
    r"r?bash|sh|d?ash|zsh|fish|ksh(?:93)?|mksh|oksh|yash|t?csh|nu|pwsh|xonsh|elvish"
)
# They run each line that they get, as a shell does.
_INTERPRETER: Final = re.compile(
    r"psql|mysql|mariadb|sqlite3|redis-cli|mongosh|gdb|lldb|irb|ghci|i?pdb3?|[ib]python3?"
)
_PAGER: Final = re.compile(r"z?less|z?more|most|man|bat|batcat")
_TOOL: Final = re.compile(r"[hb]?top|tig|lazygit|mc|ranger|nnn|fzf|watch")
_EDITOR: Final = re.compile(
    r"(?:vi|vim|nvim|view|vimdiff|ex|nano|pico|rnano|emacs|emacsclient|micro|hx|helix|kak|joe|jed"
    r"|mcedit)(?:\.\w+|-(?:nox|gtk|pgtk|x|lucid|[\d.]+))?"
)
# What runs behind these stands in no list of processes here: only the screen tells.
_BEYOND: Final = re.compile(
    r"(?:auto)?ssh|mosh-client|docker|podman|kubectl|nerdctl|incus|lxc|machinectl|sudo|su|doas"
    r"|tmux(?:: client)?|screen|script|telnet"
)
_SHELL_PROMPT: Final = re.compile(r"(?:^|[\w\])~/:}>'\"-] ?)(?:[$#]|(?<!\d)%)$")
_PYTHON: Final = re.compile(r"python[\d.]*")
_BARE: Final = re.compile(r"node|deno|lua[\d.]*|R")
_PYTHON_PROMPT: Final = re.compile(r">>>|\.\.\.|In \[\d+\]:|\(Pdb\)|ipdb>")

_QUESTION: Final = re.compile(
    r"[\[(](?:[a-z]/)+[a-z][\])]\W*$|[\[(]yes/no(?:/\S+)?[\])]\W*$|\(y\)es/\(n\)o.*:$"
    r"|^(?:rm|cp|mv|ln): .*\?$|(?:password|passphrase|verification code)[^:]*:$",
    re.IGNORECASE,
)
_FRAME: Final = "│┃|║▌▐╭╮╰╯┌┐└┘ \t\xa0"
_MARK: Final = re.compile(r"([❯›▸▶>●])(?=[ \xa0]|$)[ \xa0]*(.*)")
# The input line of Hermes at work (`☤ ❯`) or with a profile's name in front.
_INPUT: Final = re.compile(r"[^\w\s]\ufe0f? [❯›](?:\s|$)|[\w-]+ [❯›]$")
_NUMBER: Final = re.compile(r"(?:[☐☑☒◯◉○●✔]|\[[ x✔]?\])?\s*(?:\[(\d{1,2})\]|(\d{1,2})[.)])\s+(.*)")
_CHOICE: Final = re.compile(
    r"(?:yes|no|allow|approve|deny|reject|trust|cancel|proceed|continue|skip)\b", re.IGNORECASE
)
_HINT: Final = re.compile(
    r"enter to (?:select|confirm|continue|submit|approve|accept|resume)"
    r"|to navigate|esc to (?:cancel|exit|go back|close|reject|deny|dismiss)|tab to amend",
    re.IGNORECASE,
)
_WAITS: Final = re.compile(
    r"press (?:enter|return|any key|t) to |^\W*permission required\b", re.IGNORECASE
)
# Hermes asks: approval, password, secret, clarification (cli_tui_mixin.py:326, 0.22.2).
_HERMES: Final = re.compile(r"(?:⚠|🔐|🔑|✎|\?|⚙)\ufe0f? [❯›»→>$#](?:\s|$)")
_PAGER_LINE: Final = re.compile(
    r":$|\(END\)$|--More--|Manual page .* line \d+|lines \d+-\d+(?:/\d+| \(END\))"
    r"|[↑↓/ ]*to scroll\b|q to quit\b|showing detailed transcript",
    re.IGNORECASE,
)


class FrontProcess(NamedTuple):
    """One of the processes in front on a terminal. `leader`: of their group."""

    leader: bool
    words: tuple[str, ...]

    @property
    def name(self) -> str:
        """Its program's name, without path and a login shell's `-`."""
        return os.path.basename(self.words[0].removeprefix("-")) if self.words else ""  # noqa: PTH119


class View(NamedTuple):
    """What tmux tells about a pane. `mode`: of tmux, "" for none; `cursor`: its line, from 0."""

    cursor: int
    alternate: bool
    mode: str
    command: str
    lines: tuple[str, ...]

    @property
    def cursor_line(self) -> str:
        """The text of the line with the cursor."""
        return self.lines[self.cursor].strip() if self.cursor < len(self.lines) else ""


class Obstacle(NamedTuple):
    """Why a text must not go there. `seen`: the words that told; `runs`: it would be run."""

    what: str
    seen: str
    step: str
    runs: bool = False


def parse_view(answer: str) -> View:
    """Return the view in an answer in LOOK with the screen's lines below it."""
    head, _, screen = answer.partition("\n")
    cursor, alternate, mode, command = (head.split(" ", 3) + [""] * 4)[:4]
    where = int(cursor) if cursor.isdigit() else 0
    lines = tuple(screen.split("\n"))
    return View(where, alternate == "1", "" if mode == "-" else mode, command, lines)


def parse_processes(listing: str) -> list[FrontProcess]:
    """Return those in front in the answer of `ps -o pid= -o pgid= -o tpgid= -o args=`."""
    rows = (line.split() for line in listing.splitlines())
    return [
        FrontProcess(row[0] == row[1], tuple(row[3:]))
        for row in rows
        if len(row) > 3 and row[1] == row[2]
    ]


def find_obstacle(view: View, processes: Sequence[FrontProcess]) -> Obstacle | None:
    """Return what must not get a text, by mode, programs and screen, or None."""
    if view.mode:
        step = "Leave it with q, then send again"
        return Obstacle(f"is in a mode of tmux ({view.mode})", view.mode, step)
    front = _in_front(view, processes)
    alone = [process for process in processes if process.leader and len(process.words) == 1]
    # Without a program of its own it reads one; an agent may call itself `node`, too.
    if alone and _BARE.fullmatch(front[0]) and view.cursor_line == ">":
        return _runs(f"an interpreter ({front[0]})", view.cursor_line)
    return _program(view, front) or find_dialog(view.lines) or _at_cursor(view, front)


def _in_front(view: View, processes: Sequence[FrontProcess]) -> list[str]:
    """Return the names of the programs in front; a shell only where it reads the keys itself."""
    ordered = sorted(processes, key=lambda process: not process.leader)
    others = [process.name for process in ordered if not _SHELL.fullmatch(process.name)]
    leader = ordered[0] if ordered else FrontProcess(True, (view.command,))
    if _SHELL.fullmatch(leader.name) and (not others or _reads_keys(leader.words)):
        return [leader.name]
    return others or [leader.name]


def _reads_keys(words: Sequence[str]) -> bool:
    """Return whether a shell was started without a script and without -c."""
    rest = list(words[1:])
    while rest:
        word = rest.pop(0)
        if word in ("--rcfile", "--init-file", "-o", "-O", "+o", "+O"):
            del rest[:1]
        elif not word.startswith(("-", "+")) or re.fullmatch(r"-[a-zA-Z]*c|--command.*", word):
            return False
    return True


def _program(view: View, front: Sequence[str]) -> Obstacle | None:
    first = front[0]
    if _SHELL.fullmatch(first):
        return _runs(f"a shell ({first})", first)
    if _INTERPRETER.fullmatch(first):
        return _runs(f"an interpreter ({first})", first)
    # What an agent starts in the background reads no keys: git's pager, an agent's editor do.
    candidates = front if view.alternate or _pager_line(view.lines) else front[:1]
    for name in candidates:
        if _EDITOR.fullmatch(name):
            step = "Save and leave it, then send again"
            return Obstacle(f"runs an editor ({name})", name, step)
        if _PAGER.fullmatch(name) or _TOOL.fullmatch(name):
            what = "a pager" if _PAGER.fullmatch(name) else "a full-screen program"
            return Obstacle(f"runs {what} ({name})", name, "Leave it with q, then send again")
    return None


def _runs(what: str, seen: str) -> Obstacle:
    step = "Start the agent there first, or, to have the text run as a command, give --shell"
    return Obstacle(f"runs {what}, which would run the text", seen, step, runs=True)


def _at_cursor(view: View, front: Sequence[str]) -> Obstacle | None:
    """Return what the line with the cursor asks: the text would be the answer, or a command."""
    line, first = view.cursor_line, front[0]
    if _QUESTION.search(line) and not _MARK.match(line.strip(_FRAME)):
        return _asks("a question", line)
    if _BEYOND.fullmatch(first) and _SHELL_PROMPT.search(line):
        return _runs(f"{first} with the prompt of a shell", line)
    if _PYTHON.fullmatch(first) and _PYTHON_PROMPT.fullmatch(line):
        return _runs(f"an interpreter ({first})", line)
    if seen := _pager_line(view.lines):
        return Obstacle("shows a pager", _words(seen), "Leave it with q, then send again")
    if _BEYOND.fullmatch(first) and (seen := _editor_line(view)):
        what = f"shows an editor behind {first}"
        return Obstacle(what, _words(seen), "Save and leave it, then send again")
    return None


def _pager_line(lines: Sequence[str]) -> str:
    return next((line for line in _bottom(lines, 2) if _PAGER_LINE.match(line)), "")


def _editor_line(view: View) -> str:
    """Return what vi (a `~` for each line behind the end) or nano writes on the whole screen."""
    nano = [line for line in view.lines if "GNU nano" in line or "^X Exit" in line]
    vi = [line for line in view.lines if line.strip() == "~"]
    return (nano or (vi if len(vi) > 1 else [""]))[0] if view.alternate else ""


def find_dialog(lines: Sequence[str], typed: str = "") -> Obstacle | None:
    """Return the dialog or menu at the bottom of a screen, or None. typed: stands in the input."""
    bare = [line.strip(_FRAME) for line in lines]
    for line in _bottom(bare, _BOTTOM):
        if _HERMES.match(line):
            return _asks("a dialog of Hermes", line)
    marked = [index for index, line in enumerate(bare) if _MARK.match(line) or _INPUT.match(line)]
    chosen = bare[marked[-1]] if marked else ""
    # A list in a text, and what opens below it by a `/`, are no menu: Enter takes what was typed.
    if typed and chosen[1:].strip().startswith(typed):
        return None
    if marked and _is_choice(lines, bare, marked[-1]):
        return _asks("a dialog or menu", chosen)
    for line in _bottom(bare[marked[-1] + 1 :] if marked else bare, _BOTTOM):
        if _WAITS.search(line):
            return _asks("a dialog", line)
        if chosen and _HINT.search(line):
            return _asks("a dialog or menu", f"{chosen} … {line}")
    return None


def _is_choice(lines: Sequence[str], bare: Sequence[str], at: int) -> bool:
    """Return whether the marked line is one of several numbered choices."""
    found = _MARK.match(bare[at])
    if not found or not (mine := _NUMBER.match(found[2])):
        return False
    number = _number(mine)
    near = [
        other for line in bare[max(0, at - _NEAR) : at + _NEAR] if (other := _NUMBER.match(line))
    ]
    if not any(abs(_number(other) - number) == 1 for other in near):
        return False
    # `>` and `●` also begin a quotation and an answer.
    framed = lines[at].strip().startswith(("│", "┃", "║", "▌"))
    labels = [mine[3], *(other[3] for other in near)]
    return found[1] not in ">●" or framed or any(_CHOICE.match(label) for label in labels)


def _number(found: re.Match[str]) -> int:
    return int(found[1] or found[2])


def _asks(what: str, seen: str) -> Obstacle:
    text = f"shows {what}, which the text or Enter would answer"
    return Obstacle(text, _words(seen), "Answer it there, then send again")


def _words(seen: str) -> str:
    return sanitize_line(seen.strip(), _SEEN)


def _bottom(lines: Sequence[str], count: int) -> list[str]:
    """Return the last lines that hold anything, the lowest first."""
    found = (line.strip(_FRAME + "─━═") for line in reversed(lines))
    return [line for line in found if line][:count]
