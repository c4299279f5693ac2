"""
What a holder says of its deliveries: `got`, `started`, `handled`, `refused`, `later`
(PROTOCOL.md section 6).

Rule 1: an answer leaves only after the commit that holds what was said, also where it was said
before. Rule 2: saying it twice is harmless: the client resends what was not answered. Rule 3: a
delivery belongs to one holder and epoch; what another one says of it is `fenced`.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from wakebus.broker.core.dispatch import commit_end, dispatch, do_nothing
from wakebus.broker.core.hub import Hub
from wakebus.broker.core.mailbox_entry import HeldReason, MailboxEntry
from wakebus.broker.core.model import ClientRequest, Endpoint, TokenOwner, digest
from wakebus.broker.core.wait_circles import refuse_circles
from wakebus.broker.core.waiters import answer_waiters
from wakebus.broker.errors import BadFrame, BadMessage, BadToken, Fenced, NotRegistered, TooBig
from wakebus.broker.protocol import wire
from wakebus.broker.protocol.delivery_state import (
    ENDS,
    NEXT,
    DeliveryEvent,
    DeliveryState,
    receipt_word,
)
from wakebus.broker.protocol.message import MAX_HOPS, MAX_PATH, check_name
from wakebus.broker.protocol.outcome import (
    MAX_LATER_S,
    MAX_OUTCOME,
    MAX_REASON,
    WORK,
    awaits_reply,
)
from wakebus.broker.store.rows import STARTED_LOG_BYTES
from wakebus.broker.verbs.held_reasons import note_reason

MAX_WHY: Final = 200  # characters
MAX_FAILURES: Final = 1_000_000  # that a client may say there were


def _entry(hub: Hub, request: ClientRequest) -> tuple[Endpoint, MailboxEntry | None, str]:
    """Return what a delivery verb speaks of; the entry is None once its end is stored."""
    name, id = request.payload.get("to"), request.payload.get("id")
    epoch = request.payload.get("epoch")
    if not isinstance(name, str) or not isinstance(id, str) or type(epoch) is not int:
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


def got(hub: Hub, request: ClientRequest) -> None:
    """
    Verb `got`: the receiver's client holds it. `more`: it takes the lane's next one too.

    `behind`, `why`, `for_s`: what work on it waits for.
    """
    endpoint, entry, id = _entry(hub, request)
    answer = partial(hub.reply, request, {"id": id})
    behind = request.payload.get("behind", "")
    if not isinstance(behind, str):
        raise BadMessage("got: `behind` is the id of a message")
    reason = _held_reason(hub, request)
    if entry is None or entry.state in ENDS:
        hub.when_stored(answer)
        return
    if not mark_held(hub, endpoint, entry, answer):
        hub.when_stored(answer)
    if behind and entry.out:
        entry.behind = behind
        refuse_circles(hub, (endpoint.name, id))
    if reason is not None and entry.out:
        note_reason(endpoint, entry, reason, hub.clock.mono())
    if request.payload.get("more") is True and id in endpoint.mailbox.entries:
        endpoint.mailbox.allow_more(id)
        dispatch(hub, endpoint)


def _held_reason(hub: Hub, request: ClientRequest) -> HeldReason | None:
    """Return why work on it waits, as its holder says; None where it says nothing."""
    after = request.payload.get("for_s", 0)
    known = isinstance(after, int | float) and not isinstance(after, bool)
    if not known or not 0 <= after <= MAX_LATER_S:
        raise BadMessage(f"got: `for_s` is a number of seconds from 0 to {MAX_LATER_S:g}")
    if "why" not in request.payload:
        return None
    until = hub.clock.mono() + after if after else 0.0
    return HeldReason(_text(request, "why")[:MAX_WHY], until)


def mark_held(
    hub: Hub, endpoint: Endpoint, entry: MailboxEntry, done: Callable[[], None] = do_nothing
) -> bool:
    """The holder has it: store that, then `done`; return False where nothing changes."""
    endpoint.mailbox.adopt(entry.id)  # said of a message that was on its way back, too
    state = NEXT.get((entry.state, DeliveryEvent.GOT))
    if state is None:
        return False
    entry.state = state
    line = hub.log_line("held", by=endpoint.name, pid=_pid(endpoint), attempt=entry.deaths + 1)
    _record(hub, endpoint, entry, line, done, urgent=False)
    return True


def started(hub: Hub, request: ClientRequest) -> None:
    """Verb `started`: work begins. With `token`, sends that show it are proven to be from here."""
    endpoint, entry, id = _entry(hub, request)
    token, hops, path = _turn(request.payload)
    answer = partial(hub.reply, request, {"id": id})
    if entry is None or entry.state in ENDS:
        hub.when_stored(answer)
        return
    if token is not None:
        _grant_token(hub, entry, TokenOwner(endpoint.name, id, hops, path), digest(token))
    entry.hops, entry.path, entry.behind = hops, path, ""
    entry.held_reason = None
    endpoint.mailbox.adopt(id)
    entry.work = ""
    entry.state = NEXT.get((entry.state, DeliveryEvent.STARTED), entry.state)
    line = hub.log_line("started", by=endpoint.name, pid=_pid(endpoint))
    _record(hub, endpoint, entry, line, answer, token=entry.token, log_bytes=STARTED_LOG_BYTES)


def _grant_token(hub: Hub, entry: MailboxEntry, owner: TokenOwner, token: str) -> None:
    other = hub.token_owners.get(token)
    if other is not None and (other.endpoint, other.id) != (owner.endpoint, owner.id):
        raise BadToken("started: this token belongs to another turn; make a new one for each")
    hub.revoke_token(entry)
    entry.token = token
    hub.token_owners[token] = owner


def _turn(payload: Mapping[str, Any]) -> tuple[str | None, int, tuple[str, ...]]:
    """Return what `started` says of the turn that begins: token, hops, path."""
    token, hops, path = payload.get("token"), payload.get("hops", 0), payload.get("path", [])
    if token is not None and not (isinstance(token, str) and 16 <= len(token) <= 128):
        raise BadMessage("token: 16 to 128 characters")
    if type(hops) is not int or not 0 <= hops <= MAX_HOPS:
        raise BadMessage(f"started: `hops` is a whole number from 0 to {MAX_HOPS}")
    if not isinstance(path, list) or len(path) > MAX_PATH:
        raise BadMessage(f"started: `path` is a list of up to {MAX_PATH} endpoint names")
    return token, hops, tuple(check_name(name, "path") for name in path)


def _record(
    hub: Hub,
    endpoint: Endpoint,
    entry: MailboxEntry,
    line: str,
    answer: Callable[[], None],
    *,
    urgent: bool = True,
    **columns: Any,
) -> None:
    """Store an entry's state, then answer and tell who waits for it."""
    state = entry.state

    def done() -> None:
        answer()
        hub.events.announce_message(receipt_word(state), endpoint.name, entry)
        answer_waiters(hub, entry.id)

    hub.mark_surely(entry, line, done, urgent=urgent, state=state, **columns)


def handled(hub: Hub, request: ClientRequest) -> None:
    """Verb `handled`: the work is done, `outcome` says how."""
    endpoint, entry, id = _entry(hub, request)
    outcome = _outcome(request.payload)
    line = hub.log_line("handled", by=endpoint.name, pid=_pid(endpoint))
    _finish(hub, request, endpoint, entry, id, DeliveryState.HANDLED, line, outcome, None)


def refused(hub: Hub, request: ClientRequest) -> None:
    """Verb `refused`: the receiver will never take it; it becomes a dead letter."""
    endpoint, entry, id = _entry(hub, request)
    outcome = _outcome(request.payload)
    reason = (_text(request, "reason") or "refused by its receiver")[:MAX_REASON]
    quiet = request.payload.get("notice", True) is False
    line = hub.log_line("refused", by=endpoint.name, pid=_pid(endpoint), reason=reason)
    _finish(hub, request, endpoint, entry, id, DeliveryState.REFUSED, line, outcome, reason, quiet)


def _text(request: ClientRequest, field: str) -> str:
    text = request.payload.get(field)
    if text is not None and not isinstance(text, str):
        raise BadMessage(f"`{field}` is a text")
    return text or ""


def _outcome(payload: Mapping[str, Any]) -> str | None:
    outcome = payload.get("outcome")
    if outcome is None:
        return None
    if not isinstance(outcome, dict):
        raise BadMessage("outcome: an object")
    try:
        encoded = wire.dumps(outcome)
    except BadFrame as exc:
        raise BadMessage(f"outcome: {exc.text}") from exc
    if len(encoded) > MAX_OUTCOME:
        raise TooBig(f"outcome is {len(encoded)} bytes as JSON; the limit is {MAX_OUTCOME}")
    if wire.too_deep(outcome, encoded):
        raise BadMessage(f"outcome: nested deeper than {wire.MAX_DEPTH} levels")
    return encoded.decode()


def _finish(
    hub: Hub,
    request: ClientRequest,
    endpoint: Endpoint,
    entry: MailboxEntry | None,
    id: str,
    state: DeliveryState,
    line: str,
    outcome: str | None,
    reason: str | None,
    quiet: bool = False,
) -> None:
    answer = partial(hub.reply, request, {"id": id})
    if entry is None:  # a resent ack of what has ended
        hub.when_stored(answer)
        return
    event = DeliveryEvent.CANCELLED if entry.cancelled else DeliveryEvent(state.value)
    if entry.cancelled:  # whatever it says; its outcome tells what was done all the same
        state, reason = DeliveryState.DEAD, entry.cancelled
        line = hub.log_line("dead", by=endpoint.name, pid=_pid(endpoint), reason=reason)
    # In memory at once: if the holder goes while the disk is slow, this does not come again.
    endpoint.mailbox.adopt(id)
    entry.state = NEXT.get((entry.state, event), entry.state)
    columns: dict[str, Any] = {"state": state, "outcome": outcome, "reason": reason, "token": None}
    if state is DeliveryState.HANDLED and _stays_in_inbox(entry, request.payload.get("outcome")):
        columns["silent"] = True
    quiet = entry.quiet if entry.cancelled else quiet
    commit_end(hub, endpoint, entry, line, answer, quiet=quiet, **columns)


def _stays_in_inbox(entry: MailboxEntry, outcome: Mapping[str, Any] | None) -> bool:
    """Whether it lies there for whoever looks: taken silently, or a person is to answer it."""
    return (outcome or {}).get("wake") == "silent" or (entry.asks and awaits_reply(outcome))


def later(hub: Hub, request: ClientRequest) -> None:
    """
    Verb `later`: not now; comes again after `after_s`, only its lane waits. No attempt.

    `failed`: work on it failed, for this reason, and is to be tried again.
    """
    endpoint, entry, id = _entry(hub, request)
    after = request.payload.get("after_s")
    if (
        isinstance(after, bool)
        or not isinstance(after, int | float)
        or not 0 <= after <= MAX_LATER_S
    ):
        raise BadMessage(f"later: `after_s` is a number of seconds from 0 to {MAX_LATER_S:g}")
    failed, failures = _failed(request)
    why = (failed or _text(request, "reason"))[:200]
    work = request.payload.get("work", "")
    if work != "" and not (isinstance(work, str) and work in WORK):
        raise BadMessage("later: `work` is `none` (nothing was done) or `maybe`")
    answer = partial(hub.reply, request, {"id": id})
    if entry is None or not entry.out or entry.state in ENDS:
        hub.when_stored(answer)
        return
    if entry.cancelled:
        _finish(hub, request, endpoint, entry, id, DeliveryState.DEAD, "", None, None)
        return
    hub.revoke_token(entry)
    entry.state, entry.sent = NEXT[entry.state, DeliveryEvent.LATER], False
    endpoint.mailbox.defer(id, why, hub.clock.mono() + max(after, 0.001))
    entry.work = work or entry.work
    columns: dict[str, Any] = {"token": None}
    said: dict[str, Any] = {"reason": why, "work": work}
    if failed:
        entry.failures = failures or entry.failures + 1
        said["failures"] = entry.failures
        columns |= {"failures": entry.failures, "failed": failed, "due": hub.bus_time() + after}
    facts = {"after_s": after, **{name: value for name, value in said.items() if value}}
    line = hub.log_line("later", by=endpoint.name, pid=_pid(endpoint), **facts)
    _record(hub, endpoint, entry, line, answer, **columns, **entry.past)
    hub.timers.later(max(after, 0.001), lambda: dispatch(hub, endpoint))
    dispatch(hub, endpoint)  # its place in the window is free for another lane


def _failed(request: ClientRequest) -> tuple[str, int]:
    """Return why work failed, and how often by now; 0: once more."""
    count = request.payload.get("failures", 0)
    if type(count) is not int or not 0 <= count <= MAX_FAILURES:
        raise BadMessage(f"later: `failures` is a whole number from 0 to {MAX_FAILURES}")
    return _text(request, "failed")[:MAX_REASON], count


def _pid(endpoint: Endpoint) -> int:
    return endpoint.holder.process.pid if endpoint.holder else 0
