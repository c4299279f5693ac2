"""
Queries and declarations: `list`, `declare`, `forget`, `trace`, `read`, `status` (section 10 of
PROTOCOL.md).

Rule 1: only `read` shows a body. Rule 2: what is not in memory is asked of the writer thread.
"""

import itertools
import os
from functools import partial
from typing import Any

from wakebus.broker import __version__
from wakebus.broker.core.bounces import check_not_reserved
from wakebus.broker.core.hub import Hub
from wakebus.broker.core.model import ClientRequest, Endpoint
from wakebus.broker.errors import Refused, WakebusError
from wakebus.broker.protocol import wire
from wakebus.broker.protocol.dead_letter import UNREADABLE
from wakebus.broker.protocol.message import check_name
from wakebus.broker.store.rows import Row
from wakebus.broker.store.stored_json import message_of, steps_of
from wakebus.broker.store.stored_receipt import receipt_of_row
from wakebus.broker.verbs.fields import (
    answering,
    found_or_fail,
    message_id,
    unless_error,
    waits_behind,
)
from wakebus.broker.verbs.held_reasons import held_text
from wakebus.broker.verbs.loops import describe_pause


def describe(hub: Hub, endpoint: Endpoint) -> dict[str, Any]:
    """Return what people are told of an endpoint; ages in seconds."""
    holder, now = endpoint.holder, hub.clock.mono()
    state = "live" if hub.live(endpoint) else "silent" if holder else "away"
    data: dict[str, Any] = {
        "name": endpoint.name,
        "state": state,
        "declared": endpoint.declared,
        "ephemeral": bool(endpoint.ephemeral),
        "epoch": endpoint.epoch,
        "queued": len(endpoint.mailbox) - len(endpoint.mailbox.out),
        "in_hand": len(endpoint.mailbox.out),
        "seen": hub.wall_time(endpoint.seen),
    }
    if held_up := endpoint.mailbox.held_up():
        first, behind = held_up[0]
        data["held_up"] = {"behind": first.id, "waiting": behind, "why": first.deferred}
        data["held_up"]["lanes"] = len(held_up)
    if holder:
        data |= {"pid": holder.process.pid, "beat_age_s": round(max(0.0, now - holder.beat), 1)}
    return data


def list_endpoints(hub: Hub, request: ClientRequest) -> None:
    """Verb `list`: every known endpoint."""
    known = sorted(name for name in hub.endpoints if hub.known(name))
    hub.reply(request, {"endpoints": [describe(hub, hub.endpoints[name]) for name in known]})


def declare(hub: Hub, request: ClientRequest) -> None:
    """Verb `declare`: messages for this name are kept although nobody has come yet."""
    name = check_not_reserved(check_name(request.payload.get("name"), "name"), "name")
    endpoint = hub.endpoint(name)
    endpoint.declared = True  # for good, also where the bus gave it its suffix
    endpoint.ephemeral, endpoint.ended = 0.0, False
    hub.store.submit(
        lambda store: store.save_endpoint(name, declared=True, ephemeral=0, seen=endpoint.seen),
        unless_error(hub, request, lambda _: hub.reply(request, {"name": name})),
    )


def forget(hub: Hub, request: ClientRequest) -> None:
    """Verb `forget`: the name is unknown again; refused while it is held or has messages."""
    name = check_name(request.payload.get("name"), "name")
    endpoint = hub.endpoints.get(name)
    if endpoint is None:
        raise hub.unknown_target(name)
    holder = endpoint.holder
    if holder and not holder.silent(hub.clock.mono(), hub.settings.stale_s):
        raise Refused(f"{name} is held by process {holder.process.pid}; stop it first")
    if len(endpoint.mailbox) or endpoint.arriving:
        raise Refused(f"{name} has {len(endpoint.mailbox)} messages waiting; they would be lost")
    if holder and (conn := hub.conns.get(holder.conn or b"")):
        conn.names.discard(name)
    if holder:
        hub.announce_holder(endpoint, holder.process.pid, up=False)
    hub.forget_endpoint(
        name, unless_error(hub, request, lambda _: hub.reply(request, {"name": name}))
    )


def trace(hub: Hub, request: ClientRequest) -> None:
    """Verb `trace`: a message, what led to it and what came of it, each with its steps."""
    id = message_id(request, "trace")

    def looked(rows: list[Row]) -> None:
        hub.reply(request, _within_limits([_traced(hub, row) for row in rows]))

    hub.store.submit(lambda store: store.related(id), found_or_fail(hub, request, id, looked))


def read(hub: Hub, request: ClientRequest) -> None:
    """Verb `read`: one message with its body, for somebody who was shown a part of it."""
    id = message_id(request, "read")

    def looked(row: Row) -> None:
        if (message := message_of(row["message"], row["id"])) is None:
            step = f"delete it once it has ended: wakebus dead purge {id}"
            hub.fail(request, Refused(f"{id}: {UNREADABLE}; {step}"))
        else:
            hub.reply(request, {"message": message})

    hub.store.submit(lambda store: store.find(id), found_or_fail(hub, request, id, looked))


def _traced(hub: Hub, row: Row) -> dict[str, Any]:
    told = {
        **row["message"],
        **receipt_of_row(row),
        "steps": steps_of(row["log"]),
        "claimed": bool(row["claimed"]),
    }
    if row["unreadable"]:
        told["unreadable"] = row["unreadable"]
    entry = hub.find_entry(row["endpoint"], row["id"])
    # Its steps may have become too long for the newest ones.
    last = {"put_off": entry.deferred, "work": entry.work} if entry else {}
    if entry:
        last["why"] = held_text(hub, hub.endpoints[row["endpoint"]], entry)
    behind = waits_behind(hub, row["endpoint"], row["id"])
    return told | behind | {name: word for name, word in last.items() if word}


def _within_limits(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Leave out the newest of a long lineage, so that the answer fits into a frame."""
    sizes = itertools.accumulate(len(wire.dumps(message)) for message in messages)
    fit = sum(size < wire.MAX_BODY for size in sizes)
    return {"messages": messages[:fit], "left_out": len(messages) - fit}


def status(hub: Hub, request: ClientRequest) -> None:
    """Verb `status`: the broker's own state, with its endpoints."""

    def looked(moved: dict[str, int], counts: Row | WakebusError) -> None:
        if isinstance(counts, WakebusError):
            hub.fail(request, counts)
            return
        lost = {"missed": hub.missed.total, "dropped": hub.events.dropped}
        endpoints = [describe(hub, hub.endpoints[name]) for name in sorted(hub.endpoints)]
        paused = hub.loops.paused(hub.clock.mono())
        hub.reply(
            request,
            {
                "pid": os.getpid(),
                "version": __version__,
                "protocol": wire.VERSION,
                "boot": hub.boot,
                "uptime_s": round(hub.clock.mono() - hub.started_mono, 1),
                "accepted": hub.accepted,
                "dead_letters": counts["dead"],
                "messages": counts["messages"],
                "store_bytes": counts["bytes"],
                "store_limit": hub.settings.store_bytes,
                "purged_early": counts["early"],
                "notices_lost": hub.bounces_lost,
                "set_aside": counts["set_aside"],
                "events": {**moved, **lost},
                "paused": [describe_pause(hub, pair) for pair in paused],
                "endpoints": endpoints,
            },
        )

    def counted(moved: dict[str, int]) -> None:
        hub.store.submit(
            lambda store: store.counts(), answering(hub, request, partial(looked, moved))
        )

    hub.request_figures(counted)
