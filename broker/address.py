"""
Where the broker's events are: what a client reads of `address.json` for the topic plane.

Rule 1: clients compute no address. Rule 2: of a file that tells of another broker nothing is taken.
"""

import os
from typing import NamedTuple

from wakebus.broker import paths
from wakebus.broker.errors import NotRunning


class Plane(NamedTuple):
    """Where the events are: `events_in`, `events_out`; `bus_pub`, whose word `bus.**` is."""

    events_in: str
    events_out: str
    bus_pub: str


def plane(router: str, *, explicit: bool) -> Plane:
    """
    Return where the events of the broker at `router` are. `explicit`: a caller gave its address.

    Raises NotRunning when the broker has written none, or wrote of another one.
    """
    own = os.path.dirname(router.removeprefix("ipc://"))  # noqa: PTH120
    folders: tuple[str, ...] = (own, str(paths.bus_dir())) if explicit else (str(paths.bus_dir()),)
    problem = f"the broker at {router} has written nowhere where its events are"
    for folder in folders:
        try:
            data = paths.read_address(folder)
        except NotRunning as exc:
            problem = problem if explicit else exc.text
            continue
        if explicit and data["router"] != router:
            continue
        found = [data.get(field) for field in Plane._fields]
        if all(isinstance(value, str) for value in found):
            return Plane(*map(str, found))
        problem = f"the broker at {router} is older than this client: it has no events"
        raise NotRunning(problem, step="Replace it by the new one: hermes-busd restart")
    raise NotRunning(problem)
