"""
Verbs that look into boxes and take back: `dead`, `inbox`, `cancel` (PROTOCOL.md section 10).

Rule 1: every page fits into a frame; where more is left, it says so. Rule 2: no body is shown, and
of an inbox first lines only. Rule 3: whoever is on this bus may take a message back (one user, one
trust); its steps tell who did.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from wakebus.broker.core.dispatch import give_up
from wakebus.broker.core.hub import Endpoint, Hub, Request
from wakebus.broker.core.mailbox import Entry
from wakebus.broker.errors import BadMessage, Busy, Refused, UnknownId, WakebusError
from wakebus.broker.protocol.delivery_state import OPEN, DeliveryEvent, DeliveryState
from wakebus.broker.protocol.message import check_name
from wakebus.broker.store import dead_letters as letters
from wakebus.broker.store.dead_letters import Cursor, Page, Which
from wakebus.broker.store.store import Row

MAX_PAGE: Final = 200  # rows; with the longest names and reasons far below a frame

IN_HAND: Final = "is in the hands of {to} ({state}) and cannot be taken back"


def dead(hub: Hub, request: Request) -> None:
    """Verb `dead`: a page of dead letters, newest first unless `oldest`; no bodies."""
    which, payload = _which(hub, request.payload), request.payload
    oldest, after, limit = payload.get("oldest") is True, _after(payload), _limit(payload)
    hub.store.submit(
        lambda store: letters.dead(store.db, which, oldest=oldest, after=after, limit=limit),
        partial(_paged, hub, request, "letters", _as_it_is),
    )


def _which(hub: Hub, payload: dict[str, Any]) -> Which:
    to, sender = (
        check_name(payload[field], field) if payload.get(field) is not None else None
        for field in ("to", "from")
    )
    before = payload.get("before")
    if before is not None and not _is_number(before):
        raise BadMessage("dead: `before` is a time in wall seconds")
    jump = hub.clock.wall() - hub.steady_wall()
    return Which(to, sender, None if before is None else before - jump)


def _is_number(value: Any) -> bool:
    real = isinstance(value, int | float) and not isinstance(value, bool)
    return real and math.isfinite(value) and abs(value) < 2**53


def _after(payload: dict[str, Any]) -> Cursor:
    after = payload.get("after")
    if after is None:
        return []
    if not isinstance(after, list) or len(after) not in (2, 3) or not all(map(_is_number, after)):
        raise BadMessage("`after` is what the page before gave as `next`")
    return after


def _limit(payload: dict[str, Any]) -> int:
    limit = payload.get("limit", MAX_PAGE)
    if type(limit) is not int or not 1 <= limit <= MAX_PAGE:
        raise BadMessage(f"`limit` is a whole number from 1 to {MAX_PAGE}")
    return limit


def _paged(
    hub: Hub,
    request: Request,
    name: str,
    tell: Callable[[Row], Row],
    page: Page | WakebusError,
) -> None:
    if isinstance(page, WakebusError):
        hub.fail(request, page)
        return
    rows = [_timed(hub, tell(row)) for row in page.rows]
    hub.reply(request, {name: rows, "next": page.next, "now": hub.clock.wall()})


def _timed(hub: Hub, row: Row) -> Row:
    """Stored times are bus time; people read the wall clock."""
    return row | {name: hub.shown(row[name]) for name in ("accepted", "ended") if name in row}


def _as_it_is(row: Row) -> Row:
    return row


# --- inbox ----------------------------------------------------------------------------------


def inbox(hub: Hub, request: Request) -> None:
    """Verb `inbox`: what endpoint `name` has, without taking it; first lines only."""
    payload = request.payload
    name = check_name(payload.get("name"), "name")
    ended, after, limit = payload.get("all") is True, _after(payload), _limit(payload)
    if name not in hub.endpoints:
        raise hub.unknown(name)
    hub.store.submit(
        lambda store: letters.inbox(store.db, name, ended=ended, after=after, limit=limit),
        partial(_paged, hub, request, "messages", partial(_with_state, hub, name)),
    )


def _with_state(hub: Hub, name: str, row: Row) -> Row:
    """What has gone out and is not confirmed yet is in hand, too."""
    endpoint = hub.endpoints.get(name)
    entry = endpoint.mailbox.entries.get(row["id"]) if endpoint else None
    out = entry is not None and entry.out and row["state"] == DeliveryState.QUEUED
    return {**row, "state": "held"} if out else row


# --- cancel ---------------------------------------------------------------------------------


def cancel(hub: Hub, request: Request) -> None:
    """Verb `cancel`: take back a message that is still queued; it ends as a dead letter."""
    id = request.payload.get("id")
    if not isinstance(id, str):
        raise BadMessage("cancel: `id` of a message")
    by = who(hub, request)
    if (found := _find(hub, id)) is not None:
        _take_back(hub, request, *found, by)
        return

    def looked(row: Row | WakebusError | None) -> None:
        if isinstance(row, WakebusError):
            hub.fail(request, row)
        elif row is None:
            hub.fail(request, UnknownId(f"no message {id} is stored"))
        elif row["state"] not in OPEN:
            hub.fail(request, Refused(f"{id} is {row['state']} already; nothing to take back"))
        elif (now_found := _find(hub, id)) is not None:  # it was on its way into the mailbox
            _guarded(hub, request, lambda: _take_back(hub, request, *now_found, by))
        else:
            hub.fail(request, Busy(f"{id} is just changing; ask again"))

    hub.store.submit(lambda store: store.find(id), looked)


def who(hub: Hub, request: Request) -> dict[str, Any]:
    """Return who asks, for a message's steps: a name that it holds, or says it has."""
    conn = hub.conns.get(request.conn)
    names = sorted(conn.names) if conn else []
    said = request.payload.get("by")
    if said is not None and check_name(said, "by") not in names:
        return {"by": said, "pid": request.pid, "claimed": True}
    name = said or next(iter(names), None)
    return {**({"by": name} if name else {}), "pid": request.pid}


def _find(hub: Hub, id: str) -> tuple[Endpoint, Entry] | None:
    for endpoint in hub.endpoints.values():
        if (entry := endpoint.mailbox.entries.get(id)) is not None:
            return endpoint, entry
    return None


def _guarded(hub: Hub, request: Request, act: Callable[[], None]) -> None:
    try:
        act()
    except WakebusError as exc:
        hub.fail(request, exc)


def _take_back(
    hub: Hub, request: Request, endpoint: Endpoint, entry: Entry, by: dict[str, Any]
) -> None:
    if entry.state not in OPEN:
        raise Refused(f"{entry.id} is {entry.state} already; nothing to take back")
    if entry.out or entry.state is not DeliveryState.QUEUED:
        state = "on its way" if entry.state is DeliveryState.QUEUED else entry.state
        raise Refused(f"{entry.id} {IN_HAND.format(to=endpoint.name, state=state)}")
    sender = entry.lane.partition("\n")[0]
    name = by.get("by") or (f"process {by['pid']}" if by["pid"] else "somebody without a name")
    reason = f"cancelled by {name}"
    give_up(
        *(hub, endpoint, entry, DeliveryEvent.CANCELLED, reason),
        lambda: hub.reply(request, {"id": entry.id, "state": "dead", "reason": reason}),
        quiet=name == sender,  # it took its own message back
        **by,
    )
