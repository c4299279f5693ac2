"""
Verbs for what is dead: `dead`, `retry` and `purge` (PROTOCOL.md section 10).

Rule 1: what is not done is told with its state and reason, nothing is skipped in silence. Rule 2:
one request writes so much that others need not wait; the rest is handed back as `left`. Rule 3:
what may have been done already is done again only by `force`.
"""

from functools import partial
from typing import Any, Final

from wakebus.broker.core import ephemeral
from wakebus.broker.core.dispatch import dispatch
from wakebus.broker.core.hub import Hub
from wakebus.broker.core.mailbox_entry import MailboxEntry
from wakebus.broker.core.model import ClientRequest, Endpoint
from wakebus.broker.errors import BadMessage, WakebusError
from wakebus.broker.protocol.dead_letter import UNREADABLE
from wakebus.broker.protocol.delivery_state import DEATHS, ENDS
from wakebus.broker.protocol.message import check_name
from wakebus.broker.store import dead_letters
from wakebus.broker.store.dead_letters import DeadLetterFilter, LookupResult
from wakebus.broker.store.row_check import unusable, why_unreadable
from wakebus.broker.store.rows import Row
from wakebus.broker.verbs.fields import (
    LONGEST_ID,
    answering,
    is_number,
    page_limit,
    page_start,
    reply_page,
    requester,
    unless_error,
)

MAX_IDS: Final = 500


def dead(hub: Hub, request: ClientRequest) -> None:
    """Verb `dead`: a page of dead letters, newest first unless `oldest`; no bodies."""
    which, payload = _filter(hub, request.payload), request.payload
    oldest = payload.get("oldest") is True
    after, limit = page_start(payload, 2), page_limit(payload)
    hub.store.submit(
        lambda store: dead_letters.dead(store.db, which, oldest=oldest, after=after, limit=limit),
        reply_page(hub, request, "letters", lambda row: row),
    )


def _filter(hub: Hub, payload: dict[str, Any]) -> DeadLetterFilter:
    to, sender = (
        check_name(payload[field], field) if payload.get(field) is not None else None
        for field in ("to", "from")
    )
    before = payload.get("before")
    if before is not None and not is_number(before):
        raise BadMessage("dead: `before` is a time in wall seconds")
    jump = hub.clock.wall() - hub.bus_time()
    return DeadLetterFilter(to, sender, None if before is None else before - jump)


def _ids(payload: dict[str, Any]) -> list[str]:
    ids = payload.get("ids")
    if (
        not isinstance(ids, list)
        or not 1 <= len(ids) <= MAX_IDS
        or not all(isinstance(id, str) and len(id) <= LONGEST_ID for id in ids)
    ):
        most = f"{MAX_IDS} message ids of at most {LONGEST_ID} characters"
        raise BadMessage(f"`ids` is a list of 1 to {most}")
    return list(dict.fromkeys(ids))


def retry(hub: Hub, request: ClientRequest) -> None:
    """Verb `retry`: dead letters go back to the end of their lanes; `force`: also in doubt."""
    ids, force = _ids(request.payload), request.payload.get("force") is True
    in_turn = request.payload.get("token") is not None
    line = partial(hub.log_line, "retried", **requester(hub, request))

    def looked(found: LookupResult) -> None:
        chosen, kept = _choose(hub, found.rows, force=force, in_turn=in_turn)
        names = [row["id"] for row in chosen]
        now, said = hub.bus_time(), line()
        done = partial(_retried, hub, request, chosen, _untouched(found, kept))
        size = sum(row["size"] for row in chosen)
        ahead = hub.clock.wall() - now
        revive = partial(dead_letters.revive, ids=names, now=now, line=said, wall=ahead)
        hub.store.submit(lambda store: revive(store.db), answering(hub, request, done), size)

    hub.store.submit(
        lambda store: dead_letters.find(store.db, ids), unless_error(hub, request, looked)
    )


def _choose(
    hub: Hub, rows: list[Row], *, force: bool, in_turn: bool
) -> tuple[list[Row], list[Row]]:
    """Return the rows that may come back, with their places taken, and why others may not."""
    chosen, kept = [], []
    pairs = hub.loops.paused(hub.clock.mono()) if in_turn else []
    paused = {name for pair in pairs for name in (pair.sender, pair.to)}
    for row in rows:
        why = _unreadable(row)
        endpoint = hub.endpoint(row["endpoint"]) if not why else None
        if endpoint is not None:
            why = _obstacle(hub, endpoint, row, force=force)
            if not why and endpoint.name in paused:
                why = f"{endpoint.name} is in a loop that is paused; a turn does not go on with it"
        if endpoint is None or why:
            kept.append({"id": row["id"], "state": row["state"], "why": why})
        else:
            endpoint.arriving += 1
            endpoint.arriving_bytes += row["size"]
            chosen.append({**row, "target": endpoint})
    return chosen, kept


def _unreadable(row: Row) -> str:
    bad = unusable(row)
    return f"{why_unreadable(bad)}; to delete it: wakebus dead purge {row['id']}" if bad else ""


def _obstacle(hub: Hub, endpoint: Endpoint, row: Row, *, force: bool) -> str:
    if row["state"] not in DEATHS:
        return f"it is {row['state']}, not a dead letter"
    if why := ephemeral.stays_dead(hub, endpoint, row):
        return why
    if row["unreadable"] and row["in_doubt"] and not force:
        return f"{UNREADABLE} ({', '.join(row['unreadable'])}); to do it all the same: --force"
    if row["in_doubt"] and not force:
        return "work on it had begun, nobody knows how far; to do it again all the same: --force"
    return endpoint.full(hub.settings, row["size"])


def _untouched(found: LookupResult, kept: list[Row]) -> dict[str, Any]:
    unknown = [
        {"id": id, "state": "unknown", "why": "no such message is stored"} for id in found.missing
    ]
    return {"kept": kept + unknown, "left": found.left}


def _retried(
    hub: Hub,
    request: ClientRequest,
    chosen: list[Row],
    rest: dict[str, Any],
    revived: list[Row] | WakebusError,
) -> None:
    for row in chosen:
        row["target"].arriving -= 1
        row["target"].arriving_bytes -= row["size"]
    if isinstance(revived, WakebusError):
        hub.fail(request, revived)
        return
    targets = {row["endpoint"]: row["target"] for row in chosen}
    done = {row["id"]: row for row in revived}
    for row in revived:
        deadline = hub.clock.mono() + row["deadline"] - hub.bus_time()
        entry = MailboxEntry.of_row(row, deadline)
        entry.due = row["due"]
        hub.enter(targets[row["endpoint"]], entry)
    rest["kept"] += [
        {"id": row["id"], "state": "queued", "why": "somebody else was quicker"}
        for row in chosen
        if row["id"] not in done
    ]
    hub.reply(request, {"retried": [*done], **rest})
    for endpoint in targets.values():
        dispatch(hub, endpoint)


def purge(hub: Hub, request: ClientRequest) -> None:
    """Verb `purge`: delete messages that have ended, with their bodies, also from the log."""
    ids = _ids(request.payload)

    def done(found: LookupResult) -> None:
        gone = [row["id"] for row in found.rows if row["state"] in ENDS]
        still = [(row["id"], row["state"]) for row in found.rows if row["state"] not in ENDS]
        kept = [{"id": id, "state": s, "why": f"it is {s}; cancel it first"} for id, s in still]
        hub.reply(request, {"purged": gone, **_untouched(found, kept)})

    hub.store.submit(
        lambda store: dead_letters.purge(store.db, ids),
        unless_error(hub, request, done),
        erases=True,
    )
