"""
What a client asks of the broker beside sending and receiving (PROTOCOL.md section 10).

Rule 1: one verb, one method, as steps; nothing is kept here. Rule 2: what may be long comes in
pages that are asked for as they are needed.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from wakebus.broker.client.calls import Ask, Pages, Row, Steps, T, asks, pages
from wakebus.broker.errors import WakebusError
from wakebus.broker.protocol import message as messages
from wakebus.broker.protocol.receipt import Receipt, receipt

PAGE: Final = 200  # rows of one answer
STEP: Final = 200  # ids of one request


class Queries:
    """The part of a client that asks."""

    def _call(self, ask: Ask) -> dict[str, Any]:
        """Ask the broker; the client says how."""
        raise NotImplementedError

    def _run(self, steps: Steps[T]) -> T:
        """Do what the steps ask for, waiting for each answer; return their result."""
        try:
            ask = next(steps)
            while True:
                try:
                    answer = self._call(ask)
                except WakebusError as exc:
                    ask = steps.throw(exc)
                else:
                    ask = steps.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result

    def _rows(self, pages: Pages) -> Iterator[Row]:
        """Return an iterator of the rows; the first question is asked at once."""
        found = next(pages, None)
        answer = self._call(found) if isinstance(found, Ask) else None
        return iter(()) if found is None else self._rest(pages, answer)

    def _rest(self, pages: Pages, answer: dict[str, Any] | None) -> Iterator[Row]:
        while True:
            try:
                found = pages.send(answer)
            except StopIteration:
                return
            if isinstance(found, Ask):
                answer = self._call(found)
            else:
                answer = None
                yield found

    @asks
    def list(self) -> Steps[Sequence[Row]]:
        """Return the known endpoints: name, state, holder's pid, epoch, queued, in_hand …"""
        found: Sequence[Row] = (yield Ask("list", {}))["endpoints"]
        return found

    @asks
    def declare(self, name: str) -> Steps[None]:
        """Make `name` known, so that messages for it are kept before anybody registers it."""
        yield Ask("declare", {"name": name})

    @asks
    def forget(self, name: str) -> Steps[None]:
        """Make `name` unknown again. Raises Refused while it is held or has messages."""
        yield Ask("forget", {"name": name})

    @asks
    def trace(self, id: str) -> Steps[Sequence[Row]]:
        """Return message `id` and all that hangs together with it, each with its steps."""
        found: Sequence[Row] = (yield Ask("trace", {"id": id}))["messages"]
        return found

    @asks
    def read(self, id: str) -> Steps[messages.Message]:
        """Return message `id` as it is stored. Raises UnknownId."""
        return messages.from_wire((yield Ask("read", {"id": id}))["message"])

    # --- dead letters and boxes -----------------------------------------------------------

    @pages
    def dead_letters(
        self,
        *,
        to: str | None = None,
        sender: str | None = None,
        older_than: float | None = None,
        oldest: bool = False,
        limit: int | None = None,
    ) -> Pages:
        """
        Yield dead letters, newest first unless `oldest`: id, from, to, type, reason, age_s …

        `older_than`: dead for so many seconds; 0: what dies from now on is not among them.
        `limit`: how many at most. Pages are asked for as they are needed.
        """
        before = None
        if older_than is not None:
            before = (yield Ask("dead", {"limit": 1}))["now"] - older_than  # by its clock
        asked = {"to": to, "from": sender, "before": before, "oldest": oldest or None}
        yield from _pages("dead", "letters", asked, limit)

    @pages
    def inbox(self, name: str, *, all: bool = False) -> Pages:
        """
        Yield what endpoint `name` has, taking nothing: id, from, type, state, text (a line), age_s.

        First what is open, in its order; then what was handled `silent`, or with `all` whatever
        has ended and is still kept. Raises UnknownTarget.
        """
        return _pages("inbox", "messages", {"name": name, "all": all}, None)

    @asks
    def retry(
        self, ids: Iterable[str], *, force: bool = False, by: str | None = None
    ) -> Steps[dict[str, Any]]:
        """
        Send dead letters again: `retried`, their ids, and `kept`, those that were not, each with
        `state` and `why`. `force`: also where work may have been done. `by`: who wants it.
        """
        said = {"force": force, **({"by": by} if by else {})}
        return (yield from _in_steps("retry", "retried", ids, said))

    @asks
    def purge(self, ids: Iterable[str]) -> Steps[dict[str, Any]]:
        """Delete messages that have ended: `purged`, and `kept` with `state` and `why`."""
        return (yield from _in_steps("purge", "purged", ids, {}))

    @asks
    def cancel(self, id: str, *, by: str | None = None) -> Steps[Receipt]:
        """Take back a message that is still queued. Raises Refused when it is not any more."""
        return receipt((yield Ask("cancel", {"id": id, **({"by": by} if by else {})})))

    @asks
    def status(self) -> Steps[dict[str, Any]]:
        """Return the broker's own state."""
        return (yield Ask("status", {}))


def _pages(verb: str, field: str, asked: Mapping[str, Any], limit: int | None) -> Pages:
    payload: dict[str, Any] = {k: v for k, v in asked.items() if v is not None}
    left = limit if limit is not None else sys.maxsize
    while left > 0:
        page = yield Ask(verb, {**payload, "limit": min(left, PAGE)})
        for row in page[field]:
            since = row.get("ended", row["accepted"])
            yield {**row, "age_s": round(max(0.0, page["now"] - since), 1)}
        left -= len(page[field])
        if page["next"] is None:
            return
        payload["after"] = page["next"]


def _in_steps(
    verb: str, field: str, ids: Iterable[str], said: Mapping[str, Any]
) -> Steps[dict[str, Any]]:
    left = [*ids]
    total: dict[str, Any] = {field: [], "kept": []}
    while left:
        answer = yield Ask(verb, {**said, "ids": left[:STEP]})
        left = [*answer["left"], *left[STEP:]]
        total[field] += answer[field]
        total["kept"] += answer["kept"]
    return total
