"""
One message to several endpoints: who they are, and what became of each.

Rule 1: that one of the names is wrong or unknown is said before anything is sent to any of them.
Rule 2: what fails for one is told with its name, and stops none of the others. Rule 3: the exit
status is the highest that any of them alone would have.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from wakebus.broker.client.client import Client
from wakebus.broker.errors import UnknownTarget, WakebusError
from wakebus.broker.protocol.message import check_name
from wakebus.plugin.cli.output import Usage, report_error

T = TypeVar("T")


def targets_of(given: Iterable[str]) -> list[str]:
    """Return the names in `a1`, `a2,a3` …, each once, in their order. Raises Usage and BadName."""
    names = [name.strip() for words in given for name in words.split(",")]
    if len(names) > 1 and not all(names):
        raise Usage(
            f"--to {','.join(names)!r}: a name is empty; write --to a1,a2 or --to a1 --to a2"
        )
    return list(dict.fromkeys(check_name(name, "to") for name in names))


def check_known(client: Client, names: Sequence[str]) -> None:
    """Raise UnknownTarget, which names all of them that nobody knows; nothing was sent then."""
    known = [str(row["name"]) for row in client.list()]
    unknown = [name for name in names if name not in known]
    if not unknown:
        return
    from difflib import get_close_matches

    near = [near for name in unknown for near in get_close_matches(name, known, n=3)]
    meant = f"; did you mean {' or '.join(near)}?" if near else ""
    who = ", ".join(map(repr, unknown))
    text = f"nobody ever registered {who}{meant}; nothing was sent to anybody"
    raise UnknownTarget(text, near=near, to=unknown[0])


class EachTarget:
    """
    What is done for each of `names`. `program`: who says what went wrong.

    `status` is the highest exit status so far.
    """

    def __init__(self, program: str, names: Sequence[str], *, as_json: bool) -> None:
        self.names, self.status = names, 0
        self.several = len(names) > 1
        self._program, self._json = program, as_json

    def label(self, name: str) -> str:
        """Return what a line about one of several begins with, "" where it is the only one."""
        return f"{name}: " if self.several else ""

    def run(self, act: Callable[[str], T]) -> dict[str, T]:
        """Return what `act` returns for each name for which it raised no WakebusError."""
        done: dict[str, T] = {}
        for name in self.names:
            try:
                done[name] = act(name)
            except WakebusError as exc:
                about = {"to": name} if self.several else {}
                who = f"{self._program}: {name}" if self.several else self._program
                self.note_status(report_error(who, exc, as_json=self._json, **about))
        self.names = [*done]
        return done

    def note_status(self, status: int) -> None:
        """One of them ends so."""
        self.status = max(self.status, status)
