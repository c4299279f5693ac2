"""
What the router thread does by the clock.

Rule 1: only when is decided here; what is done, and to whom, is decided by the core.
"""

from functools import partial
from typing import Any, Final

from wakebus.broker.core.delays import release_due
from wakebus.broker.core.dispatch import expire
from wakebus.broker.core.ephemeral import end_overdue
from wakebus.broker.core.holders import forget_connections, look_after_names, release_ended_holders
from wakebus.broker.core.hub import Hub
from wakebus.broker.server.connection_limit import ConnectionLimit
from wakebus.broker.store.clock_marks import restored_bus_time, save_mark
from wakebus.broker.store.retention import tidy
from wakebus.broker.store.store import Store

SWEEP_S: Final = 1.0
NAMES_S: Final = 30.0
CLOCK_S: Final = 3600.0
TIDY_S: Final = 5.0  # between looks at what is too old, when nothing is left to do
TIDY_AGAIN_S: Final = 0.02  # between steps: what senders and receivers want comes first


def start(hub: Hub, limit: ConnectionLimit) -> None:
    """Do all of it now, and from now on."""
    sweep(hub, limit)
    check_names(hub)
    tidy_store(hub)
    checkpoint_hourly(hub)


def sweep(hub: Hub, limit: ConnectionLimit) -> None:
    """Look for what has ended, or is due, since the last look."""
    release_ended_holders(hub)
    release_due(hub)
    expire(hub)
    end_overdue(hub)
    limit.check()
    hub.timers.later(SWEEP_S, partial(sweep, hub, limit))


def check_names(hub: Hub) -> None:
    """Look for names and connections that nobody uses."""
    forget_connections(hub)
    look_after_names(hub)
    hub.timers.later(NAMES_S, partial(check_names, hub))


def tidy_store(hub: Hub) -> None:
    """Delete what is over its time or over the bound."""
    before = hub.bus_time() - hub.settings.retention_days * 86400

    def tidied(more: Any) -> None:  # an error: the disk did not answer
        hub.timers.later(TIDY_AGAIN_S if more is True else TIDY_S, partial(tidy_store, hub))

    hub.store.submit(lambda store: tidy(store.db, store.path, store.quota, before), tidied)


def restore_clock(hub: Hub, store: Store) -> None:
    """Count ages on from where the last broker stopped."""
    hub.set_bus_time(restored_bus_time(store.db, hub.clock_mark()))


def checkpoint_clock(hub: Hub) -> None:
    """Store what the clocks show."""
    mark = hub.clock_mark()
    hub.store.submit(lambda store: save_mark(store.db, mark))


def checkpoint_hourly(hub: Hub) -> None:
    """Store what the clocks show, and again in an hour."""
    checkpoint_clock(hub)
    hub.timers.later(CLOCK_S, partial(checkpoint_hourly, hub))
