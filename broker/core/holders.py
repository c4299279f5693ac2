"""
Who holds a name, and how it is lost (PROTOCOL.md section 5).

Rule 1: one live holder per endpoint. Rule 2: only another instance raises the epoch. Rule 3: a
process that is gone frees its names at once; a silent one keeps them until somebody else asks.
"""

from collections.abc import Callable
from typing import Any, Final

from wakebus.broker.core import ephemeral
from wakebus.broker.core.dispatch import bring_back
from wakebus.broker.core.hub import Hub
from wakebus.broker.core.model import Connection, Endpoint, Holder
from wakebus.broker.errors import NameTaken
from wakebus.broker.protocol import wire
from wakebus.broker.system.processes import Process, has_ended

IDLE_S: Final = 60.0  # a client says hello before each registration, so a record is cheap to drop
SAVE_SEEN_S: Final = 3600.0


def claim_name(
    hub: Hub, name: str, conn: Connection, id: bytes, *, takeover: bool, passing: bool
) -> Endpoint:
    """
    Make connection `conn` the holder of a name, in memory. Raises NameTaken.

    `passing`: for as long as its session lasts.
    """
    endpoint, known = hub.endpoint(name), hub.known(name)
    back = endpoint.holder is not None and endpoint.holder.instance == conn.instance
    last = endpoint.instance
    _set_holder(hub, endpoint, conn, id, takeover=takeover)
    conn.names.add(name)
    conn.lost.discard(name)
    if not back:
        ours = passing and (not known or endpoint.ephemeral > 0)
        ephemeral.pass_on(hub, endpoint, last, ours=ours)
    return endpoint


def _set_holder(
    hub: Hub, endpoint: Endpoint, conn: Connection, id: bytes, *, takeover: bool
) -> None:
    now, holder = hub.clock.mono(), endpoint.holder
    if holder is not None and holder.instance != conn.instance:
        dead = has_ended(holder.process)
        free = dead or holder.silent(now, hub.settings.stale_s)
        check_claim(endpoint.name, holder, conn.instance, takeover=takeover, free=free)
        _lose(hub, endpoint, holder, died=dead)
    if endpoint.instance != conn.instance:
        endpoint.epoch += 1
    since = holder.since if holder and holder.instance == conn.instance else hub.bus_time()
    if holder and holder.conn not in (None, id) and (old := hub.conns.get(holder.conn or b"")):
        old.names.discard(endpoint.name)  # its connection before a reconnect
    endpoint.holder = Holder(conn.instance, conn.process, endpoint.epoch, id)
    endpoint.holder.granted = False  # until that is stored
    endpoint.holder.beat, endpoint.holder.since = now, since
    endpoint.instance, endpoint.seen = conn.instance, hub.bus_time()


def check_claim(name: str, holder: Holder, instance: str, *, takeover: bool, free: bool) -> None:
    """Raise NameTaken if `instance` may not have `name`; `free`: its holder is gone or silent."""
    if holder.instance == instance or takeover or free:
        return
    raise NameTaken(
        f"{name} is held by process {holder.process.pid}; stop it, choose another name, "
        "or take the name over",
        pid=holder.process.pid,
        epoch=holder.epoch,
    )


def _lose(hub: Hub, endpoint: Endpoint, holder: Holder, *, died: bool) -> None:
    why = f"process {holder.process.pid} " + ("ended" if died else "lost the name")
    endpoint.holder = None
    if endpoint.ephemeral:
        endpoint.seen = hub.bus_time()  # from now on its time runs
    hub.announce_holder(endpoint, holder.process.pid, up=False)
    bring_back(hub, endpoint, died=died, why=why)
    if holder.conn is not None:
        if old := hub.conns.get(holder.conn):
            old.names.discard(endpoint.name)
            old.lost.add(endpoint.name)
        hub.push(holder.conn, wire.encode("fenced", 0, {"to": endpoint.name}))


def release_name(hub: Hub, endpoint: Endpoint, holder: Holder) -> None:
    """The holder gives the name up; what was in flight goes back, no attempt counted."""
    endpoint.seen = hub.bus_time()
    if holder.conn is not None and (conn := hub.conns.get(holder.conn)):
        conn.names.discard(endpoint.name)
    endpoint.holder = None
    hub.announce_holder(endpoint, holder.process.pid, up=False)
    bring_back(hub, endpoint, died=False, why=f"process {holder.process.pid} left")


def save_holder(hub: Hub, endpoint: Endpoint, done: Callable[[Any], None] | None = None) -> None:
    """Store who holds the name now; then `done`."""
    holder = endpoint.holder
    columns: dict[str, Any] = {
        "seen": endpoint.seen,
        "epoch": endpoint.epoch,
        "ephemeral": endpoint.ephemeral,
        "instance": holder.instance if holder else "",
        "pid": holder.process.pid if holder else 0,
        "start": holder.process.start if holder else 0.0,
        "boot": hub.boot,
    }
    name, endpoint.saved = endpoint.name, endpoint.seen
    hub.store.submit(lambda store: store.save_holder(name, **columns), done)


def release_ended_holders(hub: Hub) -> None:
    """Free the names of processes that have ended."""
    verdict: dict[Process, bool] = {}
    for endpoint in list(hub.endpoints.values()):
        holder = endpoint.holder
        if holder is None:
            continue
        if holder.process not in verdict:
            verdict[holder.process] = has_ended(holder.process)
        if verdict[holder.process]:
            _lose(hub, endpoint, holder, died=True)
            save_holder(hub, endpoint)
            if holder.conn is not None:
                hub.conns.pop(holder.conn, None)
        elif ephemeral.is_left(hub, endpoint, holder):
            _lose(hub, endpoint, holder, died=False)
            save_holder(hub, endpoint)


def forget_connections(hub: Hub) -> None:
    """Drop the records of connections that hold nothing."""
    old = hub.clock.mono() - IDLE_S
    for id, conn in list(hub.conns.items()):
        idle = conn.greeted < old and not conn.lost
        if not conn.names and (idle or has_ended(conn.process)):
            del hub.conns[id]


def look_after_names(hub: Hub) -> None:
    """Store now and then that held names are in use; drop what nobody knows any more."""
    for name, endpoint in list(hub.endpoints.items()):
        if endpoint.seen - endpoint.saved > SAVE_SEEN_S:
            save_holder(hub, endpoint)
        elif not hub.known(name) and not endpoint.arriving and not endpoint.ended:
            hub.forget_endpoint(name)
