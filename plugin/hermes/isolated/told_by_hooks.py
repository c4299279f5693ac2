"""
What Hermes's hooks tell a plugin that sees nothing else of a gateway.

Rule 1: a turn runs from `pre_llm_call` to `on_session_end`; of 24 ways out of a turn some tell no
end, so who asks says what else is known. Rule 2: a slash command is told (`pre_command`) before it
is called, apart from the call: two that are the same, from two sessions at once, are nobody's. Rule
3: bounded.
"""

import threading
import time
from collections import OrderedDict
from typing import Final, NamedTuple

MOST: Final = 2000  # turns whose end is not told, commands that are not called
COMMAND_S: Final = 30.0  # between a command and its call


class RunningTurn(NamedTuple):
    """A turn of the session whose history has this id; `since`: of the monotonic clock."""

    session_id: str
    since: float


class ToldByHooks:
    """Thread-safe. `has_admitted`: whether a person was let in, as only a gateway does."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turns: OrderedDict[str, RunningTurn] = OrderedDict()
        self._commands: list[tuple[float, str, str]] = []
        self.has_admitted = False

    def begin_turn(self, session_id: str, turn_id: str) -> None:
        """A turn begins; what ran in its session before is over."""
        with self._lock:
            for id in [id for id, one in self._turns.items() if one.session_id == session_id]:
                del self._turns[id]
            self._turns[turn_id] = RunningTurn(session_id, time.monotonic())
            if len(self._turns) > MOST:
                self._turns.popitem(last=False)

    def end_turn(self, turn_id: str) -> None:
        """A turn is over."""
        with self._lock:
            self._turns.pop(turn_id, None)

    def running(self) -> dict[str, RunningTurn]:
        """Return the turns that run, by their ids."""
        with self._lock:
            return dict(self._turns)

    def give_command(self, key: str, words: str) -> None:
        """In session `key` a slash command of ours with these arguments is about to be called."""
        with self._lock:
            self._commands.append((time.monotonic() + COMMAND_S, key, words.strip()))
            del self._commands[:-MOST]

    def take_command(self, words: str) -> str:
        """Return the key of the session in which the command was given, "" where unknown."""
        now, words = time.monotonic(), words.strip()
        with self._lock:
            self._commands = [one for one in self._commands if one[0] > now]
            same = [one for one in self._commands if one[2] == words]
            if same:
                self._commands.remove(same[0])
        return same[0][1] if len({key for _, key, _ in same}) == 1 else ""
