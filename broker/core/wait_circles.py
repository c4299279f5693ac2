"""
Turns that wait for each other in a circle (PROTOCOL.md section 9): none of them would ever end.

Rule 1: only what is certain counts: who waits from inside which turn, what a lane or its holder
says must end first. Rule 2: the newest wait of a circle is refused, the others go on. Rule 3: what
was only asked is taken back with it; any other message stays.
"""

from collections.abc import Iterator
from typing import NamedTuple

from wakebus.broker.core.dispatch import cancel_in_hand, end_cancelled
from wakebus.broker.core.hub import Hub
from wakebus.broker.core.mailbox_entry import MailboxEntry
from wakebus.broker.core.model import MessageKey, Waiter
from wakebus.broker.core.waiters import forget_waiter
from wakebus.broker.errors import Loop
from wakebus.broker.protocol.dead_letter import CIRCLE
from wakebus.broker.protocol.delivery_state import ENDS, DeliveryState
from wakebus.broker.system.processes import has_ended


class _Need(NamedTuple):
    """A message cannot go on until `key` has ended; `waiter`: because its turn waits for it."""

    key: MessageKey
    waiter: Waiter | None


def refuse_circles(hub: Hub, key: MessageKey) -> None:
    """Refuse waits until message `key` is in no circle."""
    while circle := _circle(hub, key):
        waiters = [need.waiter for need in circle if need.waiter]
        if not waiters:
            return
        newest = max(waiters, key=lambda waiter: _sequence(hub, waiter.key))
        _refuse(hub, newest, _names(circle, newest))


def _circle(hub: Hub, start: MessageKey) -> list[_Need]:
    """Return the needs that lead from a message to itself, nothing if none do."""
    path: list[_Need] = []
    left = [_needs(hub, start)]
    seen: set[MessageKey] = set()
    while left:
        need = next(left[-1], None)
        if need is None:
            left.pop()
            if path:
                path.pop()
        elif need.key == start:
            return [*path, need]
        elif need.key not in seen:
            seen.add(need.key)
            path.append(need)
            left.append(_needs(hub, need.key))
    return []


def _needs(hub: Hub, key: MessageKey) -> Iterator[_Need]:
    """Yield all that must end before a message can."""
    name, _ = key
    entry = hub.find_entry(*key)
    if entry is None or entry.state in ENDS:
        return
    for id in hub.endpoints[name].mailbox.ahead_of(entry):
        yield _Need((name, id), None)
    if entry.behind:
        yield _Need((name, entry.behind), None)
    for waiter in list(hub.turn_waits.get(key, ())):
        if _is_inside(entry, waiter) and not has_ended(waiter.process):
            yield _Need(waiter.key, waiter)


def _is_inside(entry: MailboxEntry, waiter: Waiter) -> bool:
    """Whether work on a message goes on, and waits: as its holder said, or in its handler."""
    if waiter.generation:
        return entry.out and entry.generation == waiter.generation
    return entry.state is DeliveryState.STARTED


def _sequence(hub: Hub, key: MessageKey) -> int:
    entry = hub.find_entry(*key)
    return entry.seq if entry else 0


def _names(circle: list[_Need], newest: Waiter) -> list[str]:
    """Return whose turns wait, beginning with the target of the newest wait, and again that."""
    place = next(n for n, need in enumerate(circle) if need.waiter is newest)
    after = [need for need in circle[place + 1 :] + circle[: place + 1] if need.waiter]
    return [newest.key[0], *(need.key[0] for need in after)]


def _refuse(hub: Hub, newest: Waiter, names: list[str]) -> None:
    entry = hub.find_entry(*newest.key)
    assert entry is not None
    circle = CIRCLE.format(" waits for ".join(names))
    becomes = "was taken back: answer without it, or send it and do not wait"
    if not entry.asks:
        becomes = "stays, and can only begin when this turn has ended: do not wait for it"
    text = f"{circle}; {newest.id} {becomes}"
    for waiter in list(hub.waiters.get(newest.id, ())):
        if waiter.turn == newest.turn:
            forget_waiter(hub, waiter)
            hub.fail(waiter.request, Loop(text, id=newest.id, circle=names))
    if entry.asks and not entry.cancelled:
        entry.cancelled = circle
        end = cancel_in_hand if entry.out and not entry.on_disk else end_cancelled
        end(hub, hub.endpoints[newest.endpoint], entry)
