"""
Bus time in the store: what the clocks showed when it was last looked at (PROTOCOL.md section 8).

Rule 1: one row, written at the start, hourly and at the end: over a restart in one boot any of them
is as good as the newest.
"""

import logging
import sqlite3

from wakebus.broker.store.row_check import LATEST, clean_row
from wakebus.broker.system.clock import Mark, bus_time

log = logging.getLogger("wakebus.store")


def restored_bus_time(db: sqlite3.Connection, now: Mark) -> float:
    """Return bus time, going on from where the last broker stopped."""
    return bus_time(_last(db), _newest(db), now.wall, now.up, now.boot)


def save_mark(db: sqlite3.Connection, mark: Mark) -> None:
    """Put a mark in the place of the last one."""
    db.execute("DELETE FROM mark")
    db.execute("INSERT INTO mark (bus, wall, up, boot) VALUES (?,?,?,?)", mark)


def _last(db: sqlite3.Connection) -> Mark | None:
    row = db.execute("SELECT bus, wall, up, boot FROM mark").fetchone()
    if row is None:
        return None
    if bad := clean_row(row)["unreadable"]:
        log.error("bus time: what is stored of it cannot be read (%s); it counts as absent", bad)
        return None
    return Mark(*row)


def _newest(db: sqlite3.Connection) -> float | None:
    """Return the newest time in the store; by indexes, but for the names, which are few."""
    found = db.execute(
        "SELECT max(t) FROM (SELECT max(seen) AS t FROM endpoint WHERE seen BETWEEN 0 AND ?1"
        " UNION ALL SELECT max(done) FROM message WHERE done BETWEEN 0 AND ?1"
        " UNION ALL SELECT accepted FROM message WHERE seq=(SELECT max(seq) FROM message)"
        " AND accepted BETWEEN 0 AND ?1)",
        (LATEST,),
    ).fetchone()[0]
    return None if found is None else float(found) or None
