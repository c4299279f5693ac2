"""
What several verbs read of a request, and how a page or a row is answered.

Rule 1: a field that is wrong is named. Rule 2: stored times are bus time; people read the wall
clock.
"""

import logging
import math
from collections.abc import Callable
from typing import Any, Final

from wakebus.broker.core.hub import Hub
from wakebus.broker.core.model import ClientRequest
from wakebus.broker.errors import BadMessage, UnknownId, WakebusError
from wakebus.broker.protocol.message import check_name
from wakebus.broker.store.dead_letters import Cursor, Page
from wakebus.broker.store.rows import Row
from wakebus.broker.store.store import Store
from wakebus.broker.verbs.held_reasons import held_text

log = logging.getLogger("wakebus.router")

FAULT: Final = "the broker has a fault; its log tells more"
LONGEST_ID: Final = 64  # characters (protocol/message.py)
MAX_PAGE: Final = 200  # rows; with the longest names and reasons far below a frame


def is_number(value: Any) -> bool:
    """Whether it is a finite number that JSON carries exactly."""
    real = isinstance(value, int | float) and not isinstance(value, bool)
    return real and math.isfinite(value) and abs(value) < 2**53


def message_id(request: ClientRequest, verb: str) -> str:
    """Return the field `id`."""
    id = request.payload.get("id")
    if not isinstance(id, str):
        raise BadMessage(f"{verb}: `id` of a message")
    return id


def waits_behind(hub: Hub, name: str, id: str) -> Row:
    """Return `behind` and `behind_why` of a message that another of its lane holds up, else {}."""
    endpoint, entry = hub.endpoints.get(name), hub.find_entry(name, id)
    blocker = endpoint.mailbox.blocker(entry) if endpoint and entry else None
    if blocker is None:
        return {}
    assert endpoint is not None
    # Of a full lane the one before it may wait here, for those that the holder has.
    held = blocker if blocker.out else endpoint.mailbox.first_in_hand(blocker)
    why = blocker.deferred or (held_text(hub, endpoint, held) if held else "")
    return {"behind": blocker.id, **({"behind_why": why} if why else {})}


def page_start(payload: dict[str, Any], length: int) -> Cursor:
    """Return the field `after`, a cursor of `length` numbers, [] for the first page."""
    after = payload.get("after")
    if after is None:
        return []
    if not isinstance(after, list) or len(after) != length or not all(map(is_number, after)):
        raise BadMessage("`after` is what the page before gave as `next`")
    return after


def page_limit(payload: dict[str, Any]) -> int:
    """Return the field `limit`."""
    limit = payload.get("limit", MAX_PAGE)
    if type(limit) is not int or not 1 <= limit <= MAX_PAGE:
        raise BadMessage(f"`limit` is a whole number from 1 to {MAX_PAGE}")
    return limit


def requester(hub: Hub, request: ClientRequest) -> dict[str, Any]:
    """Return who asks, for a message's steps: a name that it holds, or says it has."""
    conn = hub.conns.get(request.conn)
    names = sorted(conn.names) if conn else []
    said = request.payload.get("by")
    if said is not None and check_name(said, "by") not in names:
        return {"by": said, "pid": request.pid, "claimed": True}
    name = said or next(iter(names), None)
    return {**({"by": name} if name else {}), "pid": request.pid}


def unless_error(
    hub: Hub, request: ClientRequest, use: Callable[[Any], None]
) -> Callable[[Any], None]:
    """Return what calls `use` with a result of the store, or answers with the error that it is."""

    def done(result: Any) -> None:
        if isinstance(result, WakebusError):
            hub.fail(request, result)
        else:
            use(result)

    return answering(hub, request, done)


def answering(
    hub: Hub, request: ClientRequest, done: Callable[[Any], None]
) -> Callable[[Any], None]:
    """Return what calls `done`; where that fails by a bug, the request is answered with it."""

    def guarded(result: Any) -> None:
        try:
            done(result)
        except Exception as exc:
            if not isinstance(exc, WakebusError):
                log.exception("a request failed")
                exc = WakebusError(FAULT)
            hub.fail(request, exc)

    return guarded


def found_or_fail(
    hub: Hub, request: ClientRequest, id: str, use: Callable[[Any], None]
) -> Callable[[Any], None]:
    """Return what calls `use` with what was found, or answers with an error: nothing was."""

    def looked(found: Any) -> None:
        if found:
            use(found)
        else:
            fail_unknown(hub, request, id)

    return unless_error(hub, request, looked)


def shown_id(id: str) -> str:
    """Return an id that nothing has as an error names it: no more than an id may be long."""
    return id if len(id) <= LONGEST_ID else f"{id[:LONGEST_ID]}…"


def fail_unknown(hub: Hub, request: ClientRequest, id: str) -> None:
    """Answer that no message `id` is stored, and where it may be: in what was set aside."""

    def told(aside: list[str] | WakebusError) -> None:
        kept = ", ".join(aside) if isinstance(aside, list) else ""
        more = f"; it may be in what was set aside: {kept}" if kept else ""
        hub.fail(request, UnknownId(f"no message {shown_id(id)} is stored{more}"))

    hub.store.submit(Store.set_aside, answering(hub, request, told))


def reply_page(
    hub: Hub,
    request: ClientRequest,
    name: str,
    tell: Callable[[Row], Row],
) -> Callable[[Any], None]:
    """Return what answers with a page's rows as `name`, each as `tell` tells it."""

    def told(page: Page) -> None:
        rows = [_with_wall_times(hub, tell(row)) for row in page.rows]
        hub.reply(request, {name: rows, "next": page.next, "now": hub.clock.wall()})

    return unless_error(hub, request, told)


def _with_wall_times(hub: Hub, row: Row) -> Row:
    times = ("accepted", "ended", "not_before")
    return row | {name: hub.wall_time(row[name]) for name in times if name in row}
