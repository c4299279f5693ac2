"""
Names are claimed, kept and lost: the verbs `hello`, `register`, `unregister`, `beat`
(PROTOCOL.md section 5).

Rule 1: a grant is stored before it is answered. Rule 2: a returning instance keeps its epoch and
what it has in its hands. Rule 3: a process that is gone loses its names at the next look.
"""

import re
import sys
from functools import partial
from typing import Any, Final

from wakebus.broker.core import ephemeral
from wakebus.broker.core.bounces import check_not_ours
from wakebus.broker.core.dispatch import bring_back, pump
from wakebus.broker.core.hub import Connection, Endpoint, Hub, Request
from wakebus.broker.errors import BadMessage, BadVersion, Fenced, NotRegistered, WakebusError
from wakebus.broker.protocol import wire
from wakebus.broker.protocol.delivery_state import ENDS, DeliveryState
from wakebus.broker.protocol.message import check_name
from wakebus.broker.system.processes import Holder, Process, check_claim, gone, start_of
from wakebus.broker.verbs.acks import hold
from wakebus.broker.verbs.events import count_missed

IDLE_S: Final = 60.0  # a client says hello before each registration, so a record is cheap to drop
SAVE_SEEN_S: Final = 3600.0

_INSTANCE: Final = re.compile(r"[0-9a-f]{16}\Z")


def hello(hub: Hub, request: Request, facts: dict[str, Any]) -> None:
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
    if not isinstance(instance, str) or not _INSTANCE.match(instance):
        raise BadMessage("hello: `instance` is 16 hex digits, new for every client object")
    conn, now = hub.conns.get(request.conn), hub.clock.mono()
    if conn is None:
        true_pid = request.pid or _stated(pid)
        process = Process(true_pid, start_of(true_pid))
        hub.conns[request.conn] = Connection(instance, process, now)
    elif conn.instance != instance:
        raise BadMessage("hello: this connection belongs to another `instance`; open a new one")
    else:
        conn.greeted = now  # its names stay
    hub.reply(request, {"version": wire.VERSION, **facts})


def _stated(pid: Any) -> int:
    # Where the kernel tells, 0 means another pid namespace, and the stated pid somebody else's.
    told = sys.platform == "linux" or type(pid) is not int or not 0 < pid < 2**31
    return 0 if told else pid


def register(hub: Hub, request: Request) -> None:
    """Verb `register`: hold a name. `holding`: ids in progress or finished but not confirmed."""
    conn = hub.conns.get(request.conn)
    if conn is None:
        raise NotRegistered("say hello before registering")
    asked = check_not_ours(check_name(request.payload.get("name"), "name"), "name")
    suffix, takeover = (request.payload.get(word) is True for word in ("suffix", "takeover"))
    if suffix and takeover:
        raise BadMessage("register: `takeover` wants this very name, `suffix` another; say one")
    holding = request.payload.get("holding", [])
    if not isinstance(holding, list) or not all(_is_held(item) for item in holding):
        raise BadMessage('register: `holding` is a list of {"id": …, "more": …}')
    name = ephemeral.choose(hub, asked, conn.instance) if suffix else asked
    passing = name != asked or request.payload.get("ephemeral") is True
    endpoint = _take(hub, name, conn, request.conn, takeover=takeover, passing=passing)
    ended = _take_stock(hub, endpoint, holding)
    _save(hub, endpoint, partial(_registered, hub, request, endpoint, endpoint.epoch, ended))


def _take(
    hub: Hub, name: str, conn: Connection, id: bytes, *, takeover: bool, passing: bool
) -> Endpoint:
    """Claim `name` for a connection; `passing`: for as long as its session lasts."""
    endpoint, known = hub.endpoint(name), hub.known(name)
    back = endpoint.holder is not None and endpoint.holder.instance == conn.instance
    last = endpoint.instance
    _claim(hub, endpoint, conn, id, takeover=takeover)
    conn.names.add(name)
    conn.lost.discard(name)
    if not back:
        ours = passing and (not known or endpoint.ephemeral > 0)
        ephemeral.pass_on(hub, endpoint, last, ours=ours)
    return endpoint


def _is_held(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(item.get("id"), str)


def _claim(hub: Hub, endpoint: Endpoint, conn: Connection, id: bytes, *, takeover: bool) -> None:
    now, holder = hub.clock.mono(), endpoint.holder
    if holder is not None and holder.instance != conn.instance:
        dead = gone(holder.process)
        free = dead or holder.silent(now, hub.settings.stale_s)
        check_claim(endpoint.name, holder, conn.instance, takeover=takeover, free=free)
        _lose(hub, endpoint, holder, died=dead)
    if endpoint.instance != conn.instance:
        endpoint.epoch += 1
    since = holder.since if holder and holder.instance == conn.instance else hub.steady_wall()
    if holder and holder.conn not in (None, id) and (old := hub.conns.get(holder.conn or b"")):
        old.names.discard(endpoint.name)  # its connection before a reconnect
    endpoint.holder = Holder(conn.instance, conn.process, endpoint.epoch, id)
    endpoint.holder.blocked = True  # until the grant is stored
    endpoint.holder.beat, endpoint.holder.since = now, since
    endpoint.instance, endpoint.seen = conn.instance, hub.steady_wall()


def _lose(hub: Hub, endpoint: Endpoint, holder: Holder, *, died: bool) -> None:
    why = f"process {holder.process.pid} " + ("ended" if died else "lost the name")
    endpoint.holder = None
    if endpoint.ephemeral:
        endpoint.seen = hub.steady_wall()  # from now on its time runs
    hub.announcer.name(endpoint, holder.process.pid, up=False)
    bring_back(hub, endpoint, died=died, why=why)
    if holder.conn is not None:
        if old := hub.conns.get(holder.conn):
            old.names.discard(endpoint.name)
            old.lost.add(endpoint.name)
        hub.post(holder.conn, wire.encode("fenced", 0, {"to": endpoint.name}))


def _take_stock(hub: Hub, endpoint: Endpoint, holding: list[dict[str, Any]]) -> list[str]:
    """Square the broker's view of what is out with the holder's; return ids that have ended."""
    mailbox = endpoint.mailbox
    ids = {item["id"]: item for item in holding}
    for entry in mailbox.out:
        if entry.id not in ids and entry.state not in ENDS:
            # Lost in a pipe: it goes out again, no attempt.
            hub.end_turn(entry)
            entry.started_before |= entry.state is DeliveryState.STARTED
            entry.state = DeliveryState.QUEUED
            mailbox.give_back(entry.id)
    for id, item in ids.items():
        if (entry_ := mailbox.entries.get(id)) is None:
            continue
        if entry_.state not in ENDS:
            hold(hub, endpoint, entry_, _nothing)
        if item.get("more") is True:
            mailbox.allow_more(id)
    return [id for id in ids if id not in mailbox.entries]


def _nothing() -> None:
    pass


def _save(hub: Hub, endpoint: Endpoint, done: Any = None) -> None:
    holder = endpoint.holder
    columns = {
        "seen": endpoint.seen,
        "epoch": endpoint.epoch,
        "ephemeral": endpoint.ephemeral,
        "instance": holder.instance if holder else "",
        "pid": holder.process.pid if holder else 0,
        "start": holder.process.start if holder else 0.0,
        "boot": hub.boot,
    }
    name, endpoint.saved = endpoint.name, endpoint.seen
    hub.store.submit(lambda store: store.save_endpoint(name, **columns), done)


def _registered(
    hub: Hub, request: Request, endpoint: Endpoint, epoch: int, ended: list[str], result: Any
) -> None:
    holder = endpoint.holder
    if isinstance(result, WakebusError):
        hub.fail(request, result)
    elif holder is None or holder.conn != request.conn or holder.epoch != epoch:
        lost = f"{endpoint.name} was lost again before the grant was stored"
        hub.fail(request, Fenced(lost, to=endpoint.name))
    else:
        holder.blocked = False
        short = {"ephemeral": True} if endpoint.ephemeral else {}
        hub.reply(request, {"name": endpoint.name, "epoch": epoch, "ended": ended, **short})
        hub.announcer.name(endpoint, holder.process.pid, up=True)
        pump(hub, endpoint)


def unregister(hub: Hub, request: Request) -> None:
    """Verb `unregister`: give a name up; what was in hand goes back, no attempt counted."""
    name = request.payload.get("name")
    endpoint = hub.endpoints.get(name) if isinstance(name, str) else None
    holder = endpoint.holder if endpoint else None
    if endpoint is None or holder is None or holder.conn != request.conn:
        raise NotRegistered(f"this connection is not registered as {name}")
    endpoint.seen = hub.steady_wall()
    if conn := hub.conns.get(request.conn):
        conn.names.discard(endpoint.name)
    endpoint.holder = None
    hub.announcer.name(endpoint, holder.process.pid, up=False)
    bring_back(hub, endpoint, died=False, why=f"process {holder.process.pid} left")
    _save(hub, endpoint, lambda _: hub.reply(request, {"name": name}))


def beat(hub: Hub, request: Request) -> None:
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
        endpoint.seen = hub.steady_wall()
    hub.reply(request, {})
    for endpoint in held:
        pump(hub, endpoint)


def look_for_the_gone(hub: Hub) -> None:
    """Free the names of processes that have ended."""
    verdict: dict[Process, bool] = {}
    for endpoint in list(hub.endpoints.values()):
        holder = endpoint.holder
        if holder is None:
            continue
        if holder.process not in verdict:
            verdict[holder.process] = gone(holder.process)
        if verdict[holder.process]:
            _lose(hub, endpoint, holder, died=True)
            _save(hub, endpoint)
            if holder.conn is not None:
                hub.conns.pop(holder.conn, None)
        elif ephemeral.is_left(hub, endpoint, holder):
            _lose(hub, endpoint, holder, died=False)
            _save(hub, endpoint)


def forget_conns(hub: Hub) -> None:
    """Drop the records of connections that hold nothing."""
    old = hub.clock.mono() - IDLE_S
    for id, conn in list(hub.conns.items()):
        if not conn.names and ((conn.greeted < old and not conn.lost) or gone(conn.process)):
            del hub.conns[id]


def look_after_names(hub: Hub) -> None:
    """Store now and then that held names are in use; drop what nobody knows any more."""
    for name, endpoint in list(hub.endpoints.items()):
        if endpoint.seen - endpoint.saved > SAVE_SEEN_S:
            _save(hub, endpoint)
        elif not hub.known(name) and not endpoint.arriving and not endpoint.ended:
            del hub.endpoints[name]
            hub.store.submit(partial(_forget_endpoint, name))


def _forget_endpoint(name: str, store: Any) -> None:
    store.forget_endpoint(name)
