"""
Names are claimed, kept and lost: the verbs `hello`, `register`, `unregister`, `beat`
(PROTOCOL.md section 5).

Rule 1: a grant is stored before it is answered. Rule 2: a returning instance keeps its epoch and
what it has in its hands. Rule 3: a process that is gone loses its names at the next look.
"""

import re
from functools import partial
from typing import Any, Final

from wakebus.broker import wire
from wakebus.broker.delivering import bring_back, pump
from wakebus.broker.errors import BadMessage, NotRegistered, WakebusError
from wakebus.broker.hub import Connection, Endpoint, Hub, Request
from wakebus.broker.message import check_name
from wakebus.broker.presence import Holder, Process, check_claim, gone, start_of
from wakebus.broker.state import State

_INSTANCE: Final = re.compile(r"[0-9a-f]{16}\Z")


def hello(hub: Hub, request: Request, facts: dict[str, Any]) -> None:
    """Verb `hello`: agree on a version, learn who is there."""
    low, high = request.payload.get("min"), request.payload.get("max")
    instance, pid = request.payload.get("instance"), request.payload.get("pid")
    if not isinstance(low, int) or not isinstance(high, int) or not low <= high:
        raise BadMessage("hello: `min` and `max` are protocol versions")
    if not isinstance(instance, str) or not _INSTANCE.match(instance):
        raise BadMessage("hello: `instance` is 16 hex digits, new for every client object")
    # The kernel's word counts; the client's own is for systems whose sockets do not tell.
    true_pid = request.pid or (pid if isinstance(pid, int) and pid > 0 else 0)
    process = Process(true_pid, start_of(true_pid))
    hub.conns[request.conn] = Connection(instance, process)
    hub.reply(request, {"version": wire.VERSION, **facts})


def register(hub: Hub, request: Request) -> None:
    """Verb `register`: hold a name. `holding`: ids in progress or finished but not confirmed."""
    conn = hub.conns.get(request.conn)
    if conn is None:
        raise NotRegistered("say hello before registering")
    name = check_name(request.payload.get("name"), "name")
    holding = request.payload.get("holding", [])
    if not isinstance(holding, list) or not all(isinstance(item, dict) for item in holding):
        raise BadMessage("register: `holding` is a list of {id}")
    endpoint = hub.endpoint(name)
    _claim(hub, endpoint, conn, request.conn, takeover=request.payload.get("takeover") is True)
    conn.names.add(name)
    ended = _take_stock(hub, endpoint, holding)
    _save(hub, endpoint, partial(_registered, hub, request, endpoint, ended))


def _claim(hub: Hub, endpoint: Endpoint, conn: Connection, id: bytes, *, takeover: bool) -> None:
    now, holder = hub.clock.mono(), endpoint.holder
    if holder is not None and holder.instance != conn.instance:
        dead = gone(holder.process)
        free = dead or holder.silent(now, hub.settings.stale_s)
        check_claim(endpoint.name, holder, conn.instance, takeover=takeover, free=free)
        _lose(hub, endpoint, holder, died=dead)
    if endpoint.instance != conn.instance:
        endpoint.epoch += 1
    since = holder.since if holder and holder.instance == conn.instance else hub.clock.wall()
    endpoint.holder = Holder(conn.instance, conn.process, endpoint.epoch, id)
    endpoint.holder.beat, endpoint.holder.since = now, since
    endpoint.instance, endpoint.seen = conn.instance, hub.clock.wall()


def _lose(hub: Hub, endpoint: Endpoint, holder: Holder, *, died: bool) -> None:
    why = f"process {holder.process.pid} " + ("ended" if died else "lost the name")
    endpoint.holder = None
    bring_back(hub, endpoint, died=died, why=why)
    if holder.conn is not None:
        if old := hub.conns.get(holder.conn):
            old.names.discard(endpoint.name)
        hub.post(holder.conn, wire.encode("fenced", 0, {"to": endpoint.name}))


def _take_stock(hub: Hub, endpoint: Endpoint, holding: list[dict[str, Any]]) -> list[str]:
    """Square the broker's view of what is out with the holder's; return ids that have ended."""
    mailbox = endpoint.mailbox
    ids = {str(item.get("id")): item for item in holding}
    for entry in mailbox.out:
        if entry.id not in ids:  # lost in a pipe: it goes out again, no attempt
            entry.state = State.QUEUED
            mailbox.give_back(entry.id)
    for id, item in ids.items():
        if (entry_ := mailbox.entries.get(id)) is None:
            continue
        mailbox.adopt(id)
        if entry_.state is State.QUEUED:
            entry_.state = State.HELD
        if item.get("more") is True:
            mailbox.allow_more(id)
    return [id for id in ids if id not in mailbox.entries]


def _save(hub: Hub, endpoint: Endpoint, done: Any = None) -> None:
    holder = endpoint.holder
    columns = {
        "seen": endpoint.seen,
        "epoch": endpoint.epoch,
        "instance": holder.instance if holder else "",
        "pid": holder.process.pid if holder else 0,
        "start": holder.process.start if holder else 0.0,
        "boot": hub.boot,
    }
    name = endpoint.name
    hub.store.submit(lambda store: store.save_endpoint(name, **columns), done)


def _registered(
    hub: Hub, request: Request, endpoint: Endpoint, ended: list[str], result: Any
) -> None:
    if isinstance(result, WakebusError):
        hub.fail(request, result)
        return
    hub.reply(request, {"name": endpoint.name, "epoch": endpoint.epoch, "ended": ended})
    pump(hub, endpoint)


def unregister(hub: Hub, request: Request) -> None:
    """Verb `unregister`: give a name up; what was in hand goes back, no attempt counted."""
    name = request.payload.get("name")
    endpoint = hub.endpoints.get(name) if isinstance(name, str) else None
    holder = endpoint.holder if endpoint else None
    if endpoint is None or holder is None or holder.conn != request.conn:
        raise NotRegistered(f"this connection is not registered as {name}")
    endpoint.seen = hub.clock.wall()
    hub.conns[request.conn].names.discard(endpoint.name)
    endpoint.holder = None
    bring_back(hub, endpoint, died=False, why=f"process {holder.process.pid} left")
    _save(hub, endpoint, lambda _: hub.reply(request, {"name": name}))


def beat(hub: Hub, request: Request) -> None:
    """Verb `beat`: the client's IO thread is alive; its pipe may have room again."""
    conn = hub.conns.get(request.conn)
    held = [
        endpoint
        for endpoint in (hub.endpoints[name] for name in (conn.names if conn else ()))
        if endpoint.holder and endpoint.holder.conn == request.conn
    ]
    if not held:
        raise NotRegistered("this connection holds no endpoint; register again")
    for endpoint in held:
        assert endpoint.holder is not None
        endpoint.holder.beat = hub.clock.mono()
        endpoint.holder.blocked = False
        endpoint.seen = hub.clock.wall()
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


def forget_conns(hub: Hub) -> None:
    """Drop the records of connections that hold nothing and whose process has ended."""
    for id, conn in list(hub.conns.items()):
        if not conn.names and gone(conn.process):
            del hub.conns[id]
