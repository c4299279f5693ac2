"""
The calls of a client: what each asks of the broker, and what becomes of the answers (PROTOCOL.md).

Rule 1: no socket, no thread: who runs a call does the asking and the waiting. Rule 2: each call is
written once, and run by `Client` in threads and by `AsyncClient` in a loop. Rule 3: what may be
long comes in pages that are asked for as they are needed.
"""

import sys
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from wakebus.broker.errors import TimedOut, Undecided
from wakebus.broker.protocol import message as messages
from wakebus.broker.protocol.message import DEFAULT_TTL_S
from wakebus.broker.protocol.receipt import Answer, Receipt, receipt

if TYPE_CHECKING:  # a sender does not load it
    from wakebus.broker.client.delivery import Arrival

T = TypeVar("T")

PAGE: Final = 200  # rows of one answer
STEP: Final = 200  # ids of one request
CAUSES: Final = ("token", "cause", "hops", "path", "outside_turn")  # what says why one sends

ReplyRow = dict[str, Any]


class BrokerRequest(NamedTuple):
    """
    One request. `timeout`: seconds for its answer, None: what the client was made with.

    `id`: the message that may be stored although no answer comes; `waited`: the one waited for.
    """

    verb: str
    payload: dict[str, Any]
    timeout: float | None = None
    id: str = ""
    waited: str = ""


# Yields what is asked, is sent the answer or thrown the error, returns the result.
Call = Generator[BrokerRequest, dict[str, Any], T]
# Yields rows as well, one at a time.
PagedCall = Generator[BrokerRequest | ReplyRow, Any, None]


class Calls:
    """
    All calls of one client that ask the broker.

    `own_name()`: the first name it holds. `give_up(name)`: hold it no longer, return as which it
    was granted. `in_hand()`: the delivery whose handler makes the call.
    """

    def __init__(
        self,
        own_name: Callable[[], str | None],
        give_up: Callable[[str], str],
        in_hand: "Callable[[], Arrival | None]" = lambda: None,
    ) -> None:
        self._own_name, self._give_up, self._in_hand = own_name, give_up, in_hand
        self._ids = messages.Ids()

    # --- messages -------------------------------------------------------------------------

    def send(
        self,
        to: str,
        body: str | Mapping[str, Any],
        *,
        type: str | None = None,
        channel: str | None = None,
        sender: str | None = None,
        session: str | None = None,
        wake: str | None = None,
        reply_to: str | None = None,
        cause: str | None = None,
        hops: int = 0,
        path: tuple[str, ...] = (),
        key: str | None = None,
        id: str | None = None,
        ttl_s: float = DEFAULT_TTL_S,
        not_before: float | None = None,
        priority: str | None = None,
        queue: bool = False,
        asks: bool = False,
        token: str | None = None,
        outside_turn: bool = False,
        wait: float | None = None,
        timeout: float | None = None,
    ) -> Call[Receipt]:
        """
        Send `body` (a text, or fields) to endpoint `to`; return the receipt.

        `wait`: seconds to wait until it is handled or dead; the receipt then carries the outcome.
        `queue`: keep it although nobody ever registered `to`. `id`: send again what was undecided.
        `not_before`: Unix seconds; until then the broker keeps it. `priority`: `high` or `low`.
        `token`: a turn's, which proves sender and cause. What a handler sends is caused by its
        delivery, unless it says `token`, `cause`, `hops`, `path`, or `outside_turn`.

        Raises Refused (and its kinds), NotNow, NotRunning (nothing was written), Undecided
        (written, no receipt: send again with its id), TimedOut (stored, not handled in time).
        """
        delivery = self._cause(token, cause, hops, path, outside_turn)
        cause, hops, path = delivery.leads_to() if delivery else (cause, hops, path)
        message = {
            "id": id or self._ids.new(time.time()),
            "ts": time.time(),
            "from": sender or self._own_name() or "cli",
            "to": to,
            "body": _body(body, type=type, channel=channel),
            "ttl_s": ttl_s,
            "hops": hops,
            "path": list(path),
            **_given(session=session, wake=wake, reply_to=reply_to, cause=cause, key=key),
            **_given(not_before=not_before, priority=priority),
        }
        checked = messages.from_wire(message)
        payload = {"message": checked.to_wire(), **_given(token=token)}
        payload |= _set(queue=queue, asks=asks, outside_turn=outside_turn)
        stored = receipt((yield BrokerRequest("send", payload, timeout, id=checked.id)), to)
        if wait is None or stored.state in ("handled", "dead"):
            return stored
        reply = yield _waiting(stored.id, "handled", wait, token, delivery)
        return receipt(reply)._replace(to=to, duplicate=stored.duplicate)

    def wait(self, id: str, wait: float, *, token: str | None = None) -> Call[Receipt]:
        """
        Return the receipt of message `id` once it is handled or dead, or raise TimedOut.

        `token`: of the turn that waits; a handler's wait shows its delivery. Raises Loop where that
        could never end: it waits for itself, or for others who wait for it.
        """
        return receipt((yield _waiting(id, "handled", wait, token, self._cause(token))))

    def wait_answer(self, id: str, wait: float, *, token: str | None = None) -> Call[Answer]:
        """Return the answer to message `id`, or raise TimedOut, or Loop as `wait` does."""
        return (yield from _answer(_waiting(id, "answer", wait, token, self._cause(token))))

    def ask(
        self, /, to: str, body: str | Mapping[str, Any], *, wait: float, **fields: Any
    ) -> Call[Answer]:
        """
        Send `body` as `send` does (type `directive` if none is given); wait for the answer.

        `wait`: seconds for all of it, though never less than `timeout` for the receipt. Raises as
        `send` does; TimedOut (`data["id"]`) when it is stored and no answer came: `wait_answer`
        waits on.
        """
        if "type" not in fields and (isinstance(body, str) or "type" not in body):
            fields["type"] = "directive"
        started = time.monotonic()
        stored = yield from self.send(to, body, asks=True, **fields)
        left = max(0.0, wait - (time.monotonic() - started))
        token, delivery = fields.get("token"), self._cause(*map(fields.get, CAUSES))
        return (yield from _answer(_waiting(stored.id, "answer", left, token, delivery)))

    def reply(
        self, id: str, text: str, *, by: str | None = None, answer: str | None = None
    ) -> Call[Receipt]:
        """
        Answer message `id`, which its receiver showed to a person, in the name of that receiver.

        `by`: who does. `answer`: the answer's own id, to send again what was undecided. Return the
        answer's receipt; `waiting`: how many waited for it. Raises Refused where no person is asked
        (any more), and as `send` does.
        """
        asked = yield from self.read(id)
        now = time.time()
        channel = {"channel": asked.channel} if asked.channel else {}
        message = {
            "id": answer or self._ids.new(now),
            "ts": now,
            "from": asked.to,
            "to": asked.sender,
            "body": {"type": "answer", "text": text, **channel},
            "reply_to": id,
            **_given(session=asked.session),
        }
        checked = messages.from_wire(message)
        payload = {"message": checked.to_wire(), **_given(by=by or None)}
        stored = yield BrokerRequest("reply", payload, id=checked.id)
        return receipt(stored, checked.to)

    def _cause(self, *said: object) -> "Arrival | None":
        """Return the delivery whose handler calls, None where the caller said a cause or none."""
        return None if any(said) else self._in_hand()

    # --- names ----------------------------------------------------------------------------

    def unregister(self, name: str) -> Call[None]:
        """
        Give `name` up, asked for or granted; what its handlers have not finished goes back.

        Raises NotRegistered when this client does not hold it.
        """
        yield BrokerRequest("unregister", {"name": self._give_up(name)})

    def list(self) -> Call[Sequence[ReplyRow]]:
        """Return the known endpoints: name, state, holder's pid, epoch, queued, in_hand …"""
        found: Sequence[ReplyRow] = (yield BrokerRequest("list", {}))["endpoints"]
        return found

    def declare(self, name: str) -> Call[None]:
        """Make `name` known, so that messages for it are kept before anybody registers it."""
        yield BrokerRequest("declare", {"name": name})

    def forget(self, name: str) -> Call[None]:
        """Make `name` unknown again. Raises Refused while it is held or has messages."""
        yield BrokerRequest("forget", {"name": name})

    def trace(self, id: str) -> Call[Sequence[ReplyRow]]:
        """Return message `id` and all that hangs together with it, each with its steps."""
        found: Sequence[ReplyRow] = (yield BrokerRequest("trace", {"id": id}))["messages"]
        return found

    def read(self, id: str) -> Call[messages.Message]:
        """Return message `id` as it is stored. Raises UnknownId."""
        return messages.from_wire((yield BrokerRequest("read", {"id": id}))["message"])

    # --- inboxes and dead letters ---------------------------------------------------------

    def dead_letters(
        self,
        *,
        to: str | None = None,
        sender: str | None = None,
        older_than: float | None = None,
        oldest: bool = False,
        limit: int | None = None,
    ) -> PagedCall:
        """
        Yield dead letters, newest first unless `oldest`: id, from, to, type, reason, age_s …

        `older_than`: dead for so many seconds; 0: what dies from now on is not among them.
        `limit`: how many at most. Pages are asked for as they are needed.
        """
        before = None
        if older_than is not None:
            before = (yield BrokerRequest("dead", {"limit": 1}))["now"] - older_than  # by its clock
        asked = {"to": to, "from": sender, "before": before, "oldest": oldest or None}
        yield from _pages("dead", "letters", asked, limit)

    def inbox(self, name: str, *, all: bool = False) -> PagedCall:
        """
        Yield what endpoint `name` has, taking nothing: id, from, type, state, text (a line), age_s.

        First what is open, in its order; then what was handled `silent`, or with `all` whatever
        has ended and is still kept. Raises UnknownTarget.
        """
        return _pages("inbox", "messages", {"name": name, "all": all}, None)

    def retry(
        self,
        ids: Iterable[str],
        *,
        force: bool = False,
        by: str | None = None,
        token: str | None = None,
    ) -> Call[dict[str, Any]]:
        """
        Send dead letters again: `retried`, their ids, and `kept`, those that were not, each with
        `state` and `why`. `force`: also where work may have been done. `by`: who wants it. `token`:
        of the turn that does, which goes on with no loop that is paused.
        """
        said = {"force": force, **_given(by=by or None, token=token)}
        return (yield from _in_steps("retry", "retried", ids, said))

    def purge(self, ids: Iterable[str]) -> Call[dict[str, Any]]:
        """Delete messages that have ended: `purged`, and `kept` with `state` and `why`."""
        return (yield from _in_steps("purge", "purged", ids, {}))

    def cancel(self, id: str, *, by: str | None = None) -> Call[Receipt]:
        """
        Take back a message; return its receipt: `dead`, or `delivered` where it is in hand.

        Then its holder was told to end it, if it can be (`told`); it is dead once that has. Raises
        Refused when it has ended.
        """
        return receipt((yield BrokerRequest("cancel", {"id": id, **_given(by=by or None)})))

    def resume(
        self, name: str | None = None, *, sender: str | None = None, to: str | None = None
    ) -> Call[Sequence[ReplyRow]]:
        """
        Lift pauses of loops: of `sender` to `to`, or all that endpoint `name` is in, or all.

        Return those lifted, each `from` and `to`. What is paused: `status()["paused"]`.
        """
        asked = {"name": name, "from": sender, "to": to}
        found: Sequence[ReplyRow] = (yield BrokerRequest("resume", _given(**asked)))["resumed"]
        return found

    # --- events ---------------------------------------------------------------------------

    def publish(
        self, topic: str, fields: Mapping[str, Any] | None, token: str | None = None
    ) -> Call[None]:
        """Have the broker publish an event; it returns once that has handed it on."""
        from wakebus.broker.pubsub.publisher import one_shot

        try:
            yield BrokerRequest("publish", {**one_shot(topic, fields), **_given(token=token)})
        except TimedOut as exc:
            error = Undecided(f"{exc.text}; {topic} may have been published", id="")
            error.data["step"] = "Publish it again if it does no harm when it comes twice."
            raise error from exc

    # --- the broker -----------------------------------------------------------------------

    def status(self) -> Call[dict[str, Any]]:
        """Return the broker's own state."""
        return (yield BrokerRequest("status", {}))

    def stop_broker(self, boot: str) -> Call[int]:
        """
        Have the broker finish and end; nobody starts it again by itself (`hermes-busd start`).

        `boot`: which one, as bus/address.json says. Returns when it begins, with the pid that the
        broker calls its own. Raises BadMessage when another one runs by now, Refused from another
        user than the broker's.
        """
        answer = yield BrokerRequest("stop", {"boot": boot})
        return int(answer["pid"])


def _waiting(
    id: str, state: str, wait: float, token: str | None, delivery: "Arrival | None"
) -> BrokerRequest:
    payload = {"id": id, "state": state, "timeout": wait, **_given(token=token)}
    if delivery is not None:
        payload["delivery"] = {"to": delivery.name, "id": delivery.message.id}
    # The broker ends the wait; the second is for the way back.
    return BrokerRequest("wait", payload, wait + 1.0, waited=id)


def _answer(asked: BrokerRequest) -> Call[Answer]:
    reply = yield asked
    found = reply.get("answer")
    return Answer(receipt(reply), messages.from_wire(found) if found else None)


# What help() and a TypeError call them: both clients have them, nobody else sees this class.
for _call in vars(Calls).values():
    if isinstance(_call, FunctionType):
        _call.__qualname__ = f"Client.{_call.__name__}"


def _body(body: str | Mapping[str, Any], **fields: str | None) -> dict[str, Any]:
    return ({"text": body} if isinstance(body, str) else dict(body)) | _given(**fields)


def _set(**flags: bool) -> dict[str, bool]:
    return {name: True for name, on in flags.items() if on}


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _pages(verb: str, field: str, asked: Mapping[str, Any], limit: int | None) -> PagedCall:
    payload = _given(**asked)
    left = limit if limit is not None else sys.maxsize
    while left > 0:
        page = yield BrokerRequest(verb, {**payload, "limit": min(left, PAGE)})
        for row in page[field]:
            since = row.get("ended", row["accepted"])
            yield {**row, "age_s": round(max(0.0, page["now"] - since), 1)}
        left -= len(page[field])
        if page["next"] is None:
            return
        payload["after"] = page["next"]


def _in_steps(
    verb: str, field: str, ids: Iterable[str], said: Mapping[str, Any]
) -> Call[dict[str, Any]]:
    left = [*ids]
    total: dict[str, Any] = {field: [], "kept": []}
    while left:
        answer = yield BrokerRequest(verb, {**said, "ids": left[:STEP]})
        left = [*answer["left"], *left[STEP:]]
        total[field] += answer[field]
        total["kept"] += answer["kept"]
    return total
