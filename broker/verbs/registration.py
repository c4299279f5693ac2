"""
Names are claimed, kept and lost: the verbs `hello`, `register`, `unregister`, `beat`
(PROTOCOL.md section 5).

Rule 1: a grant is stored before it is answered. Rule 2: a returning instance keeps its epoch and
what it has in flight. Rule 3: a process that is gone loses its names at the next look.
"""

import sys
from functools import partial
from typing import Any

from wakebus.broker import __version__
from wakebus.broker.core import ephemeral
from wakebus.broker.core.bounces import check_not_reserved
from wakebus.broker.core.dispatch import dispatch, do_nothing, end_cancelled, tell_cancelled
from wakebus.broker.core.holders import claim_name, release_name, save_holder
from wakebus.broker.core.hub import Hub
from wakebus.broker.core.model import ClientRequest, Connection, Endpoint
from wakebus.broker.errors import BadMessage, BadVersion, Fenced, NotRegistered, WakebusError
from wakebus.broker.protocol import wire
from wakebus.broker.protocol.delivery_state import ENDS, DeliveryState
from wakebus.broker.protocol.message import INSTANCE, check_name
from wakebus.broker.protocol.outcome import MAX_OUTCOME
from wakebus.broker.verbs.acks import mark_held
from wakebus.broker.verbs.events import count_missed
from wakebus.broker.verbs.fields import answering


def hello(hub: Hub, request: ClientRequest) -> None:
    """Verb `hello`: agree on a version, learn who is there."""
    low, high = request.payload.get("min"), request.payload.get("max")
    instance, pid = request.payload.get("instance"), request.payload.get("pid")
    if type(low) is not int or type(high) is not int or not low <= high:
        raise BadMessage("hello: `min` and `max` are protocol versions")
    if not low <= wire.VERSION <= high:
        raise BadVersion(
            f"protocol versions {low} to {high}; this broker speaks {wire.VERSION}",
            min=wire.VERSION,
            max=wire.VERSION,
            sequence=request.sequence,
        )
    if not isinstance(instance, str) or not INSTANCE.match(instance):
        raise BadMessage("hello: `instance` is 16 hex digits, new for every client object")
    conn, now = hub.conns.get(request.conn), hub.clock.mono()
    if conn is None:
        hub.conns[request.conn] = Connection(instance, request.pid or _stated(pid), now)
    elif conn.instance != instance:
        raise BadMessage("hello: this connection belongs to another `instance`; open a new one")
    else:
        conn.greeted = now  # its names stay
    hub.conns[request.conn].cancels = request.payload.get("cancel") is True
    limits = {"body_bytes": wire.MAX_BODY, "outcome_bytes": MAX_OUTCOME}
    hub.reply(
        request,
        {"version": wire.VERSION, "broker": __version__, "boot": hub.boot, "limits": limits},
    )


def _stated(pid: Any) -> int:
    # Where the kernel tells, 0 means another pid namespace, and the stated pid somebody else's.
    told = sys.platform == "linux" or type(pid) is not int or not 0 < pid < 2**31
    return 0 if told else pid


def register(hub: Hub, request: ClientRequest) -> None:
    """Verb `register`: hold a name. `holding`: ids in progress or finished but not confirmed."""
    conn = hub.conns.get(request.conn)
    if conn is None:
        raise NotRegistered("say hello before registering")
    asked = check_not_reserved(check_name(request.payload.get("name"), "name"), "name")
    suffix, takeover = (request.payload.get(word) is True for word in ("suffix", "takeover"))
    if suffix and takeover:
        raise BadMessage("register: `takeover` wants this very name, `suffix` another; say one")
    holding = request.payload.get("holding", [])
    if not isinstance(holding, list) or not all(_is_held(item) for item in holding):
        raise BadMessage('register: `holding` is a list of {"id": …, "more": …}')
    name = ephemeral.choose_name(hub, asked, conn.instance) if suffix else asked
    passing = name != asked or request.payload.get("ephemeral") is True
    endpoint = claim_name(hub, name, conn, request.conn, takeover=takeover, passing=passing)
    ended = _reconcile(hub, endpoint, holding)
    done = partial(_registered, hub, request, endpoint, endpoint.epoch, ended)
    save_holder(hub, endpoint, answering(hub, request, done))


def _is_held(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(item.get("id"), str)


def _reconcile(hub: Hub, endpoint: Endpoint, holding: list[dict[str, Any]]) -> list[str]:
    """Square the broker's view of what is out with the holder's; return ids that have ended."""
    mailbox = endpoint.mailbox
    ids = {item["id"]: item for item in holding}
    for entry in mailbox.out:
        if entry.id not in ids and entry.state not in ENDS:
            # Lost in a pipe: it goes out again, no attempt. It is no redelivery if it was not held.
            hub.revoke_token(entry)
            entry.redelivered |= entry.state is not DeliveryState.QUEUED
            entry.started_before |= entry.state is DeliveryState.STARTED
            entry.state, entry.sent = DeliveryState.QUEUED, False
            mailbox.give_back(entry.id)
            if entry.cancelled:
                end_cancelled(hub, endpoint, entry)
                continue
            line = hub.log_line("returned", by=endpoint.name, why="its holder does not have it")
            columns = {"state": entry.state, "token": None, **entry.past}
            hub.mark_surely(entry, line, do_nothing, **columns)
    for id, item in ids.items():
        if (entry_ := mailbox.entries.get(id)) is None:
            continue
        if entry_.state not in ENDS:
            mark_held(hub, endpoint, entry_)
        if item.get("more") is True:
            mailbox.allow_more(id)
    return [id for id in ids if id not in mailbox.entries]


def _registered(
    hub: Hub, request: ClientRequest, endpoint: Endpoint, epoch: int, ended: list[str], result: Any
) -> None:
    holder = endpoint.holder
    if isinstance(result, WakebusError):
        hub.fail(request, result)
    elif holder is None or holder.conn != request.conn or holder.epoch != epoch:
        lost = f"{endpoint.name} was lost again before the grant was stored"
        hub.fail(request, Fenced(lost, to=endpoint.name))
    else:
        holder.granted = True
        short = {"ephemeral": True} if endpoint.ephemeral else {}
        hub.reply(request, {"name": endpoint.name, "epoch": epoch, "ended": ended, **short})
        hub.announce_holder(endpoint, holder.process.pid, up=True)
        for entry in endpoint.mailbox.out:
            tell_cancelled(hub, endpoint, entry)  # it may have come back since
        dispatch(hub, endpoint)


def unregister(hub: Hub, request: ClientRequest) -> None:
    """Verb `unregister`: give a name up; what was in flight goes back, no attempt counted."""
    name = request.payload.get("name")
    endpoint = hub.endpoints.get(name) if isinstance(name, str) else None
    holder = endpoint.holder if endpoint else None
    if endpoint is None or holder is None or holder.conn != request.conn:
        raise NotRegistered(f"this connection is not registered as {name}")
    release_name(hub, endpoint, holder)
    done = partial(_unregistered, hub, request, endpoint)
    save_holder(hub, endpoint, answering(hub, request, done))


def _unregistered(hub: Hub, request: ClientRequest, endpoint: Endpoint, result: Any) -> None:
    """Answer once that is stored, and what became of the deliveries; it has happened already."""
    if isinstance(result, WakebusError):
        again = partial(_unregistered, hub, request, endpoint)
        hub.timers.later(1.0, partial(save_holder, hub, endpoint, again))
    else:
        hub.when_stored(partial(hub.reply, request, {"name": endpoint.name}))


def beat(hub: Hub, request: ClientRequest) -> None:
    """Verb `beat`: the client's IO thread is alive; its pipe may have room again."""
    count_missed(hub, request)
    conn = hub.conns.get(request.conn)
    held = [
        endpoint
        for endpoint in (hub.endpoints.get(name) for name in (conn.names if conn else ()))
        if endpoint and endpoint.holder and endpoint.holder.conn == request.conn
    ]
    if not held:
        raise NotRegistered("this connection holds no endpoint; register again")
    for endpoint in held:
        assert endpoint.holder is not None
        endpoint.holder.beat = hub.clock.mono()
        endpoint.holder.blocked = False
        endpoint.seen = hub.bus_time()
    hub.reply(request, {})
    for endpoint in held:
        dispatch(hub, endpoint)
