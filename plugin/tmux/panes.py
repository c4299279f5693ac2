"""
Which pane of tmux a target names, and what of a text can be typed into it.

Rule 1: pure; keystrokes.py asks and types. Rule 2: names are compared whole, with tmux's own list
of panes: `tmux -t work` would also take `worker`. Rule 3: nothing in a text is a key, a command of
tmux or the end of a paste: control characters are taken out, the rest is data.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from wakebus.broker.errors import WakebusError
from wakebus.plugin.rules.sanitize import sanitize

MAX_TEXT: Final = 256 * 1024  # bytes; what is longer belongs into a file whose name is sent
# Characters that are typed as keys: agents' TUIs take a longer burst of keys for a paste anyway.
LONGEST_KEYS: Final = 500

FORMAT: Final = (
    "#{pane_id} #{window_index} #{pane_index} #{window_active} #{pane_active} #{pane_dead} "
    "#{?pane_in_mode,1,0} #{pane_input_off} #{pane_synchronized} #{pane_tty} "
    "#{session_name}:#{window_name}"  # a session's name has no ":", a window's may have anything
)
_FIELDS: Final = FORMAT.count("} #{") + 1
_SHOWN: Final = 20  # names in an error


class TmuxError(WakebusError):
    """tmux is absent or refused; the text holds its own words."""

    code = "tmux"


class NoPane(TmuxError):
    """There is no such session, window or pane, or nothing can be typed into it."""

    code = "no_pane"


class Occupied(TmuxError):
    """The pane holds what must not get the text; `data["seen"]` says by which words."""

    code = "pane_occupied"
    retry = True  # once that is gone


class Pane(NamedTuple):
    """One row of tmux's list, in the order of FORMAT. `shown`: its window is the current one."""

    id: str
    window: str
    number: str
    shown: bool
    active: bool
    dead: bool
    in_mode: bool
    deaf: bool
    synchronized: bool
    tty: str
    session: str
    window_name: str

    @property
    def place(self) -> str:
        """How people name it: `session:window.pane`, as numbers."""
        return f"{self.session}:{self.window}.{self.number}"


def parse_panes(listing: str) -> list[Pane]:
    """Return the panes in an answer in FORMAT."""
    rows = (line.split(" ", _FIELDS - 1) for line in listing.split("\n"))
    return [_pane(row) for row in rows if len(row) == _FIELDS]


def _pane(row: Sequence[str]) -> Pane:
    session, _, window_name = row[-1].partition(":")
    shown, active, dead, in_mode, deaf, synchronized = (flag == "1" for flag in row[3:9])
    flags = (shown, active, dead, in_mode, deaf, synchronized)
    return Pane(row[0], row[1], row[2], *flags, row[9], session, window_name)


def pick_pane(panes: Sequence[Pane], target: str) -> Pane:
    """
    Return the pane that `target` names exactly: S, S:W, S:W.P or %N. Raises NoPane.

    S: a session's name; W: a window's number or name; P: a pane's number. Without W or P the
    current one.
    """
    # A pane stands in the list once for each session that shows its window.
    found = {pane.id: pane for pane in panes if pane.id == target}
    found = found or {pane.id: pane for pane in _named(panes, target)}
    if not found:
        raise NoPane(f"there is no tmux {_kind(panes, target)}", step=_names(panes))
    if len(found) > 1:
        step = f"Name one by its id: {', '.join(found)}"
        raise NoPane(f"{target!r} names {len(found)} panes", step=step)
    return next(iter(found.values()))


def _named(panes: Sequence[Pane], target: str) -> list[Pane]:
    session, _, rest = target.removeprefix("=").partition(":")
    inside = [pane for pane in panes if pane.session == _stored(session)]
    if not rest:
        return [pane for pane in inside if pane.shown and pane.active]
    if whole := _of_window(inside, rest):
        return [pane for pane in whole if pane.active]
    window, _, number = rest.rpartition(".")
    return [pane for pane in _of_window(inside, window) if pane.number == number]


def _of_window(panes: Sequence[Pane], window: str) -> list[Pane]:
    by_number = [pane for pane in panes if pane.window == window]
    return by_number or [pane for pane in panes if window and pane.window_name == window]


def _stored(session: str) -> str:
    """Return a session's name as tmux keeps it: `new-session -s my.app` makes `my_app`."""
    return session.replace(".", "_")


def _kind(panes: Sequence[Pane], target: str) -> str:
    session = target.removeprefix("=").partition(":")[0]
    known = any(pane.session == _stored(session) for pane in panes)
    return f"pane {target!r}" if known or target.startswith("%") else f"session {session!r}"


def _names(panes: Sequence[Pane]) -> str:
    sessions = list(dict.fromkeys(pane.session for pane in panes))
    more = f" and {len(sessions) - _SHOWN} more" if len(sessions) > _SHOWN else ""
    return f"Sessions: {', '.join(sessions[:_SHOWN])}{more}. All panes: tmux list-panes -a"


def check_pane(pane: Pane) -> None:
    """Raise NoPane if nothing can be typed into `pane`, or not into it alone."""
    where = f"pane {pane.id} ({pane.place})"
    if pane.dead:
        step = f"Start it again: tmux respawn-pane -t {pane.id}"
        raise NoPane(f"{where} is dead: its program has ended", step=step)
    if pane.deaf:
        step = f"Switch it on: tmux select-pane -e -t {pane.id}"
        raise NoPane(f"the input of {where} is switched off", step=step)
    if pane.synchronized:
        step = f"Switch it off: tmux set-option -t {pane.id} synchronize-panes off"
        raise NoPane(f"{where} is synchronized: others would get the text too", step=step)


def literal(text: str) -> str:
    """Return what of `text` can be typed: no control characters, no line break at its end."""
    text = sanitize(text).rstrip("\n")
    # To Claude Code, Gemini and shells a backslash before Enter means: the text goes on.
    return f"{text} " if text.endswith("\\") else text


def is_paste(text: str) -> bool:
    """Return whether `text` has to be pasted: line breaks and tabs would be keys."""
    return "\n" in text or "\t" in text or len(text) > LONGEST_KEYS
