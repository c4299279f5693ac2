"""
Names that got their suffix from the bus: `hermes-bus-2`. They end soon after their holders
(PROTOCOL.md section 5).

Rule 1: a name that somebody chose (held, declared, or registered as it is) is never given to
another one. Rule 2: what is for one session goes to no successor. Rule 3: who comes back is none.
Rule 4: ages are counted in bus time, so a restart of the broker shortens and lengthens nothing.
"""

from collections.abc import Iterator
from typing import Final

from wakebus.broker.core.dispatch import orphan
from wakebus.broker.core.hub import Hub
from wakebus.broker.core.mailbox_entry import MailboxEntry
from wakebus.broker.core.model import Endpoint, Holder
from wakebus.broker.errors import NameTaken
from wakebus.broker.protocol.dead_letter import ORPHANED
from wakebus.broker.protocol.delivery_state import DeliveryState
from wakebus.broker.store.rows import Row
from wakebus.broker.system.processes import has_ended

MOST: Final = 99
LENGTH: Final = 64  # of a name


def numbered(name: str) -> Iterator[str]:
    """Return name-2, name-3 … name-99; a long name is cut, so that the whole is a name."""
    suffixes = [f"-{number}" for number in range(2, MOST + 1)]
    return (name[: LENGTH - len(suffix)] + suffix for suffix in suffixes)


def choose_name(hub: Hub, name: str, instance: str) -> str:
    """
    Return which name a client gets that asks for `name`, with a suffix if need be.

    The one that it holds already: it was granted, and the answer was lost. Raises NameTaken.
    """
    others = [*numbered(name)]
    for one in (name, *others):
        endpoint = hub.endpoints.get(one)
        held = endpoint is not None and _holds(endpoint, instance)
        if endpoint is not None and held and (one == name or endpoint.ephemeral):
            return one
    if _is_free(hub, name):
        return name
    if found := next((one for one in others if _is_fresh(hub, one)), None):
        return found
    holder = hub.endpoints[name].holder
    assert holder is not None
    raise NameTaken(
        f"{name} and {others[0]} to {others[-1]} are all taken; choose another name, or end some "
        "sessions (wakebus endpoints shows them)",
        pid=holder.process.pid,
        epoch=holder.epoch,
    )


def _holds(endpoint: Endpoint, instance: str) -> bool:
    return endpoint.holder is not None and endpoint.holder.instance == instance


def _is_free(hub: Hub, name: str) -> bool:
    """Whether a plain claim would get it."""
    endpoint = hub.endpoints.get(name)
    holder = endpoint.holder if endpoint else None
    silent = holder is not None and holder.silent(hub.clock.mono(), hub.settings.stale_s)
    return holder is None or silent or has_ended(holder.process)


def _is_fresh(hub: Hub, name: str) -> bool:
    """Whether nobody chose it, and nobody has it: a silent holder has."""
    endpoint = hub.endpoints.get(name)
    if endpoint is None:
        return True
    if endpoint.ephemeral:
        return endpoint.holder is None or has_ended(endpoint.holder.process)
    return not hub.known(name) and not endpoint.arriving


def pass_on(hub: Hub, endpoint: Endpoint, last: str, *, ours: bool) -> None:
    """
    The name was free and is granted, after the instance `last`: what was for that one's is dead.

    `ours`: the bus gave it its suffix. Otherwise somebody chose it, and it is ephemeral no more.
    """
    another = last != endpoint.instance
    if endpoint.ephemeral and another:
        for entry in _waiting(endpoint):
            if entry.session:
                orphan(hub, endpoint, entry)
    endpoint.ended = False
    if not ours:
        endpoint.ephemeral = 0.0
    elif another or not endpoint.ephemeral:
        endpoint.ephemeral = hub.bus_time()


def is_left(hub: Hub, endpoint: Endpoint, holder: Holder) -> bool:
    """Whether an ephemeral name's holder counts as gone although no process tells."""
    quiet_s = max(hub.settings.stale_s, hub.settings.ephemeral_s)
    unseen = holder.process.pid <= 0  # another pid namespace
    return bool(endpoint.ephemeral and unseen and holder.silent(hub.clock.mono(), quiet_s))


def end_overdue(hub: Hub) -> None:
    """End the names whose holders are gone for `ephemeral_s`."""
    before = hub.bus_time() - hub.settings.ephemeral_s
    for endpoint in list(hub.endpoints.values()):
        if endpoint.ephemeral and endpoint.holder is None and endpoint.seen <= before:
            _end(hub, endpoint)


def _end(hub: Hub, endpoint: Endpoint) -> None:
    endpoint.ended = True  # what is still with the store is given up at a later look
    for entry in _waiting(endpoint):
        orphan(hub, endpoint, entry)
    if not len(endpoint.mailbox) and not endpoint.arriving:
        hub.forget_endpoint(endpoint.name)


def _waiting(endpoint: Endpoint) -> list[MailboxEntry]:
    """Return what nobody has; what has ended and only waits for its commit is not among it."""
    entries = endpoint.mailbox.entries.values()
    return [entry for entry in entries if entry.state is DeliveryState.QUEUED and not entry.out]


def stays_dead(hub: Hub, endpoint: Endpoint, row: Row) -> str:
    """Return why a dead letter cannot come back: it would find a stranger, or nobody; else ""."""
    orphaned = row["state"] == DeliveryState.DEAD and row["reason"].startswith(ORPHANED)
    if row["session"] and (orphaned or row["accepted"] < endpoint.ephemeral):
        return "its session has ended; send a new message to an endpoint that is there"
    if orphaned and not hub.known(endpoint.name):
        return f"nobody has the name {endpoint.name} any more; send it to another endpoint"
    return ""
