"""
Context that waits: texts that go in front of a session's next turn, once.

Rule 1: on disk before it is acknowledged. Rule 2: removed when the turn that showed it has ended
well; one that failed or was cut off may never have seen it, so the next shows it again, but three
that failed over a text are enough: it may be the text. Attempts of one message count once. Rule 3:
bounded; what is pushed out is counted and said to the model. Rule 4: no two processes write one
file: each has a journal of its own (journal.py). Rule 5: the body is not kept, only the text that
the model gets; the label says where the whole is.
"""

import threading
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from wakebus.broker.errors import WakebusError
from wakebus.broker.protocol import message as messages
from wakebus.plugin.prompt.journal import Journal, JournalLine
from wakebus.plugin.prompt.label import PromptItem

MAX_ITEMS: Final = 100  # per session; a night of progress reports, of which the newest matter
MAX_ALL: Final = 5000  # of all sessions: at most 40 MB in memory
MAX_TEXT: Final = 8 << 10  # characters of one item
MAX_FAILED: Final = 3  # messages whose turns a text may stand in front of without success
SPARE_LINES: Final = 200  # a journal is rewritten when it is twice as long as it must be, and this


class PendingContext(NamedTuple):
    """What stands in front of a session's next turn; `dropped` items were pushed out before."""

    items: tuple[PromptItem, ...] = ()
    dropped: int = 0

    def at(self, now: float) -> Self:
        """Return it as it is shown at `now`, Unix seconds."""
        return self._replace(items=tuple(item.at(now) for item in self.items))


class Context:
    """
    The waiting texts of one endpoint, by session. Thread-safe. Only the name's holder uses it.

    Nothing is read before the first call: until a process holds the name, another may write.
    """

    def __init__(self, file: Path) -> None:
        self._journal = Journal(file)
        self._lock = threading.Lock()
        self._pending: PendingTexts | None = None
        self._failed: dict[tuple[str, str], set[str]] = {}  # by session and id; not on disk

    def add(self, session: str, item: PromptItem) -> int:
        """Keep `item`, on disk when this returns; return how many wait. The same id is kept once.

        Raises OSError when the disk does not take it; then it is not kept.
        """
        item = trimmed(item)
        with self._lock:
            pending = self._opened()
            if not pending.holds(session, item.message.id):
                self._append(pending, {"session": session, "item": _to_json(item)})
                pending.add_text(session, item)
            return len(pending.sessions[session])

    def waiting(self, session: str) -> PendingContext:
        """Return what waits for `session`, oldest first. Raises OSError if it cannot be read."""
        with self._lock:
            pending = self._opened()
            return PendingContext(
                tuple(pending.sessions.get(session, ())), pending.dropped.get(session, 0)
            )

    def counts(self) -> dict[str, int]:
        """Return how many texts wait, by session. Raises OSError if they cannot be read."""
        with self._lock:
            return {session: len(items) for session, items in self._opened().sessions.items()}

    def shown(self, session: str, waiting: PendingContext) -> None:
        """Forget what a turn has shown. Raises OSError if only this process can forget it."""
        if not waiting.items and not waiting.dropped:
            return
        ids = [item.message.id for item in waiting.items]
        with self._lock:
            for id in ids:
                self._failed.pop((session, id), None)
            pending = self._opened()
            try:
                line = {"session": session, "shown": ids, "dropped": waiting.dropped}
                self._append(pending, line)
            finally:
                pending.forget(session, ids, waiting.dropped)

    def failed(self, session: str, waiting: PendingContext, work: str) -> tuple[str, ...]:
        """
        Note that a turn with `waiting` failed; return the ids that are forgotten, for it was the
        third with them. `work`: id of what it was on; its attempts count once. Raises OSError as
        `shown` does.
        """
        with self._lock:
            spoiled = tuple(
                item for item in waiting.items if self._spoils(session, item.message.id, work)
            )
        self.shown(session, PendingContext(spoiled))
        return tuple(item.message.id for item in spoiled)

    def _spoils(self, session: str, id: str, work: str) -> bool:
        works = self._failed.setdefault((session, id), set())
        works.add(work)
        return len(works) >= MAX_FAILED

    def _opened(self) -> "PendingTexts":
        if self._pending is None:
            pending = PendingTexts()
            for line in self._journal.read():
                pending.apply(line)
            self._pending = pending
        return self._pending

    def _append(self, pending: "PendingTexts", line: JournalLine) -> None:
        if not self._journal.ours:
            self._journal.rewrite(pending.lines())
        self._journal.append(line, pending.lines)
        if self._journal.length > 2 * len(pending) + SPARE_LINES:
            try:
                self._journal.rewrite([*pending.lines(), line])
            except OSError:
                pass  # it is only longer than it must be


class PendingTexts:
    """Pure: what waits, and what a journal's lines make of it."""

    def __init__(self) -> None:
        self.sessions: dict[str, list[PromptItem]] = {}
        self.dropped: dict[str, int] = {}

    def __len__(self) -> int:
        return sum(map(len, self.sessions.values()))

    def holds(self, session: str, id: str) -> bool:
        """Whether message `id` waits for `session`."""
        return any(item.message.id == id for item in self.sessions.get(session, ()))

    def add_text(self, session: str, item: PromptItem) -> None:
        """Add `item`; push out the oldest of the fullest session where there are too many."""
        if self.holds(session, item.message.id):
            return
        self.sessions.setdefault(session, []).append(item)
        if len(self.sessions[session]) > MAX_ITEMS:
            self._push_out(session)
        elif len(self) > MAX_ALL:
            self._push_out(max(self.sessions, key=lambda name: len(self.sessions[name])))

    def _push_out(self, session: str) -> None:
        del self.sessions[session][0]
        self.dropped[session] = self.dropped.get(session, 0) + 1

    def forget(self, session: str, ids: list[str], dropped: int) -> None:
        """Remove what was shown; `dropped` were said to be pushed out."""
        items = self.sessions.get(session, [])
        left = [item for item in items if item.message.id not in ids]
        # What was pushed out while the turn showed it is not missing.
        pushed_out = len(ids) - (len(items) - len(left))
        still = max(0, self.dropped.pop(session, 0) - dropped - pushed_out)
        self.sessions.pop(session, None)
        if left:
            self.sessions[session] = left
        if still:
            self.dropped[session] = still

    def apply(self, line: JournalLine) -> None:
        """Do what a line of a journal says; what is no line of ours does nothing."""
        try:
            session = str(line["session"])
            if "item" in line:
                self.add_text(session, _from_json(line["item"]))
            elif "shown" in line:
                self.forget(session, list(map(str, line["shown"])), int(line["dropped"]))
            else:
                self.dropped[session] = self.dropped.get(session, 0) + int(line["dropped"])
        except (KeyError, TypeError, ValueError, WakebusError):
            pass  # of another version; its message is in the store, `wakebus trace` shows it

    def lines(self) -> list[JournalLine]:
        """Return the shortest journal that says the same."""
        kept = [
            {"session": session, "item": _to_json(item)}
            for session, items in self.sessions.items()
            for item in items
        ]
        return [*kept, *({"session": s, "dropped": n} for s, n in self.dropped.items())]


def trimmed(item: PromptItem) -> PromptItem:
    """Return `item` without its body, its text no longer than what is kept."""
    message, text = item.message, item.text
    if len(text) > MAX_TEXT:
        where = f"`wakebus trace {message.id} --text`"
        cut = f"[cut: {MAX_TEXT} of {len(text)} characters; the whole: {where}]"
        text = f"{text[:MAX_TEXT]}\n{cut}"
    body = {name: message.body[name] for name in ("type", "channel") if name in message.body}
    return item._replace(message=message._replace(body=body), text=text)


def _to_json(item: PromptItem) -> dict[str, Any]:
    return item._asdict() | {"message": item.message.to_wire()}


def _from_json(data: dict[str, Any]) -> PromptItem:
    found = PromptItem(**(data | {"message": messages.from_wire(data["message"])}))
    return found._replace(text=str(found.text), attempt=int(found.attempt))


def context_file(bus: Path, endpoint: str) -> Path:
    """Return the name that the journals of `endpoint` are made of."""
    return bus / "context" / f"{endpoint}.jsonl"
