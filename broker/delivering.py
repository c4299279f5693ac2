"""
Messages on their way out, and what becomes of them (PROTOCOL.md sections 6 and 7).

Rule 1: an end (handled, refused, dead) counts once it is committed; until then its lane waits.
Rule 2: a delivery belongs to one holder and epoch; what another one says of it is fenced.
Rule 3: a peer that does not read costs its own window and nobody else's time.
"""

import json
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from wakebus.broker import wire
from wakebus.broker.errors import BadMessage, Fenced, NotRegistered, TooBig
from wakebus.broker.hub import Endpoint, Hub, Request, Turn, digest
from wakebus.broker.mailbox import Entry
from wakebus.broker.state import NEXT, Event, State
from wakebus.broker.store import Row
from wakebus.broker.waiting import tell_waiters

MAX_OUTCOME: Final = 16 << 10
MAX_LATER_S: Final = 86400.0


def pump(hub: Hub, endpoint: Endpoint, fresh: Mapping[str, bytes] | None = None) -> None:
    """Send what may go out now; `fresh` holds bodies that need not be read from disk."""
    while hub.live(endpoint) and endpoint.holder and not endpoint.holder.blocked:
        entry = endpoint.mailbox.take(hub.clock.mono())
        if entry is None:
            return
        if fresh and entry.id in fresh:
            _deliver(hub, endpoint, entry, fresh[entry.id])
        else:
            fetched = partial(_fetched, hub, endpoint, entry, endpoint.epoch)
            hub.store.submit(lambda store, id=entry.id: store.find(id), fetched)  # type: ignore[misc]


def _fetched(hub: Hub, endpoint: Endpoint, entry: Entry, epoch: int, row: Row | None) -> None:
    if entry.id not in endpoint.mailbox.entries or not entry.out or endpoint.epoch != epoch:
        return
    if isinstance(row, dict) and endpoint.holder:
        _deliver(hub, endpoint, entry, row["message"])
        return
    endpoint.mailbox.give_back(entry.id, hub.clock.mono() + 1)  # the disk did not answer


def _deliver(hub: Hub, endpoint: Endpoint, entry: Entry, blob: bytes) -> None:
    holder = endpoint.holder
    assert holder is not None
    sender = entry.lane.partition("\n")[0]
    head = {
        "to": endpoint.name,
        "epoch": holder.epoch,
        "attempt": entry.deaths + 1,
        "redelivered": entry.redelivered,
        "started": entry.started_before,
        "asks": entry.asks,
        "claimed": entry.claimed,
        "sender_known": hub.known(sender),
    }
    frame = wire.encode_around("deliver", head, blob)
    if holder.conn is None or not hub.post(holder.conn, frame):
        # Its pipe is full or gone: the next beat or registration asks again.
        holder.blocked = True
        endpoint.mailbox.give_back(entry.id)


# --- what the holder says ---------------------------------------------------------------------


def _entry(hub: Hub, request: Request) -> tuple[Endpoint, Entry | None, str]:
    """Return what a delivery verb speaks of; the entry is None once it has ended."""
    name, id = request.payload.get("to"), request.payload.get("id")
    epoch = request.payload.get("epoch")
    if not isinstance(name, str) or not isinstance(id, str) or not isinstance(epoch, int):
        raise BadMessage("a delivery is named by `to`, `id` and `epoch`")
    endpoint = hub.endpoints.get(name)
    holder = endpoint.holder if endpoint else None
    if endpoint is None or holder is None or epoch > endpoint.epoch:
        raise NotRegistered(f"nobody is registered as {name}", to=name)
    if epoch < endpoint.epoch:
        raise Fenced(f"{name} is held by process {holder.process.pid} now", to=name)
    if holder.conn != request.conn:
        raise NotRegistered(f"this connection is not registered as {name}", to=name)
    return endpoint, endpoint.mailbox.entries.get(id), id


def got(hub: Hub, request: Request) -> None:
    """Verb `got`: the receiver's client holds it. `more`: it takes the lane's next one too."""
    endpoint, entry, id = _entry(hub, request)
    if entry is None:
        hub.reply(request, {"id": id})
        return
    if state := NEXT.get((entry.state, Event.GOT)):
        entry.state = state
        line = hub.line("held", by=endpoint.name, pid=_pid(endpoint), attempt=entry.deaths + 1)
        _record(hub, request, entry, line)
    else:
        hub.reply(request, {"id": id})
    if request.payload.get("more") is True and entry.out:
        endpoint.mailbox.allow_more(id)
        pump(hub, endpoint)


def started(hub: Hub, request: Request) -> None:
    """Verb `started`: work begins. With `token`, sends that show it are proven to be from here."""
    endpoint, entry, id = _entry(hub, request)
    if entry is None:
        hub.reply(request, {"id": id})
        return
    token = request.payload.get("token")
    if token is not None:
        if not isinstance(token, str) or not 16 <= len(token) <= 128:
            raise BadMessage("token: 16 to 128 characters")
        entry.token = digest(token)
        hub.turns[entry.token] = _turn(endpoint, entry, request.payload)
    entry.state = NEXT.get((entry.state, Event.STARTED), entry.state)
    line = hub.line("started", by=endpoint.name, pid=_pid(endpoint))
    _record(hub, request, entry, line, token=entry.token)


def _turn(endpoint: Endpoint, entry: Entry, payload: Mapping[str, Any]) -> Turn:
    hops, path = payload.get("hops", 0), payload.get("path", [])
    if not isinstance(hops, int) or not isinstance(path, list):
        raise BadMessage("started: `hops` is a number, `path` a list of names")
    return Turn(endpoint.name, entry.id, hops, tuple(str(name) for name in path))


def _record(hub: Hub, request: Request, entry: Entry, line: str, **columns: Any) -> None:
    """Store an entry's state, then answer and tell who waits for it."""
    state = entry.state

    def done() -> None:
        hub.reply(request, {"id": entry.id})
        tell_waiters(hub, entry.id)

    hub.store_surely(lambda store: store.mark(entry.id, line, state=state, **columns), done)


def handled(hub: Hub, request: Request) -> None:
    """Verb `handled`: the work is done, `outcome` says how."""
    endpoint, entry, id = _entry(hub, request)
    outcome = _outcome(request.payload)
    line = hub.line("handled", by=endpoint.name, pid=_pid(endpoint))
    _finish(hub, request, endpoint, entry, id, State.HANDLED, line, outcome, None)


def refused(hub: Hub, request: Request) -> None:
    """Verb `refused`: the receiver will never take it; it becomes a dead letter."""
    endpoint, entry, id = _entry(hub, request)
    outcome = _outcome(request.payload)
    reason = str(request.payload.get("reason") or "refused by its receiver")[:1000]
    line = hub.line("refused", by=endpoint.name, pid=_pid(endpoint), reason=reason)
    _finish(hub, request, endpoint, entry, id, State.REFUSED, line, outcome, reason)


def _outcome(payload: Mapping[str, Any]) -> str | None:
    outcome = payload.get("outcome")
    if outcome is None:
        return None
    if not isinstance(outcome, dict):
        raise BadMessage("outcome: an object")
    text = json.dumps(outcome, ensure_ascii=False)
    if len(text.encode()) > MAX_OUTCOME:
        raise TooBig(f"outcome is over {MAX_OUTCOME} bytes")
    return text


def _finish(
    hub: Hub,
    request: Request,
    endpoint: Endpoint,
    entry: Entry | None,
    id: str,
    state: State,
    line: str,
    outcome: str | None,
    reason: str | None,
) -> None:
    if entry is None:  # a resent ack of what is stored already
        hub.reply(request, {"id": id})
        return
    columns = {"state": state, "outcome": outcome, "reason": reason, "token": None}
    end(hub, endpoint, entry, line, lambda: hub.reply(request, {"id": id}), **columns)


def end(hub: Hub, endpoint: Endpoint, entry: Entry, line: str, done: Any, **columns: Any) -> None:
    """Commit a message's end, forget it, tell who waits, and let its lane go on."""
    now = hub.clock.wall()

    def stored() -> None:
        if entry.token:
            hub.turns.pop(entry.token, None)
        if entry.id in endpoint.mailbox.entries:
            endpoint.mailbox.end(entry.id)
        done()
        tell_waiters(hub, entry.id)
        pump(hub, endpoint)

    hub.store_surely(lambda store: store.mark(entry.id, line, done=now, **columns), stored)


def later(hub: Hub, request: Request) -> None:
    """Verb `later`: not now; comes again after `after_s`, only its lane waits. No attempt."""
    endpoint, entry, id = _entry(hub, request)
    after = request.payload.get("after_s")
    if (
        isinstance(after, bool)
        or not isinstance(after, int | float)
        or not 0 <= after <= MAX_LATER_S
    ):
        raise BadMessage(f"later: `after_s` is a number of seconds from 0 to {MAX_LATER_S:g}")
    if entry is None or not entry.out:
        hub.reply(request, {"id": id})
        return
    if entry.token:
        hub.turns.pop(entry.token, None)
        entry.token = None
    entry.state = NEXT[entry.state, Event.LATER]
    endpoint.mailbox.give_back(id, hub.clock.mono() + max(after, 0.001))
    _record(hub, request, entry, "", token=None)
    hub.later(max(after, 0.001), lambda: pump(hub, endpoint))


def _pid(endpoint: Endpoint) -> int:
    return endpoint.holder.process.pid if endpoint.holder else 0


# --- what happens to a delivery by itself -----------------------------------------------------


def bring_back(hub: Hub, endpoint: Endpoint, *, died: bool, why: str) -> None:
    """The holder has gone: what it had goes back into the mailbox, or is given up."""
    limit = hub.settings.attempts
    for entry in endpoint.mailbox.holder_gone(died=died):
        if entry.deaths >= limit:
            reason = f"its receiver died {entry.deaths} times while it was in its hands"
            give_up(hub, endpoint, entry, Event.EXHAUSTED, reason)
            continue
        line = hub.line("returned", by=endpoint.name, why=why, deaths=entry.deaths)
        hub.store_surely(
            partial(_mark_returned, entry, line, entry.deaths, entry.started_before), _nothing
        )
    for token in [t for t, turn in hub.turns.items() if turn.endpoint == endpoint.name]:
        del hub.turns[token]


def _mark_returned(entry: Entry, line: str, deaths: int, started: bool, store: Any) -> None:
    store.mark(
        *(entry.id, line),
        state=State.QUEUED,
        deaths=deaths,
        redelivered=True,
        started_before=started,
        token=None,
    )


def _nothing() -> None:
    pass


def give_up(hub: Hub, endpoint: Endpoint, entry: Entry, event: Event, reason: str) -> None:
    """Make a waiting message a dead letter."""
    state = NEXT[entry.state, event]
    endpoint.mailbox.end(entry.id)  # at once: nobody may take it while the store writes
    line = hub.line("dead", reason=reason)
    end(hub, endpoint, entry, line, _nothing, state=state, reason=reason, deaths=entry.deaths)


def expire(hub: Hub) -> None:
    """Give up what waited past its deadline."""
    for endpoint in hub.endpoints.values():
        for entry in endpoint.mailbox.expired(hub.clock.mono()):
            give_up(hub, endpoint, entry, Event.EXPIRED, "it expired before anybody took it")
