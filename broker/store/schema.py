"""
The store's tables. One row per message; `log` collects its steps as JSON lines for `trace`.

Rule 1: a step that was released is never changed (system/sqlite_file.py).
"""

import sqlite3
from typing import Final

from wakebus.broker.system.sqlite_file import FileSchema, make_durable

# In a new file only, before all else: free space can be given back to the disk in steps.
GIVE_BACK: Final = "PRAGMA auto_vacuum=INCREMENTAL"

KEPT_LOG: Final = 16 << 20  # bytes; what the log keeps of its size when it begins anew

PRAGMAS: Final = (
    "PRAGMA wal_autocheckpoint=0",  # a checkpoint in a commit stalls every sender; done when idle
    "PRAGMA busy_timeout=0",
    f"PRAGMA journal_size_limit={KEPT_LOG}",  # a log that had to grow gives its space back
    "PRAGMA secure_delete=ON",  # a purged body is gone
)

FIRST: Final = """
CREATE TABLE message (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    sender TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    lane TEXT NOT NULL,
    key TEXT,
    reply_to TEXT,
    cause TEXT,
    type TEXT NOT NULL,
    state TEXT NOT NULL,
    size INTEGER NOT NULL,
    accepted REAL NOT NULL,
    deadline REAL NOT NULL,
    deaths INTEGER NOT NULL DEFAULT 0,
    redelivered INTEGER NOT NULL DEFAULT 0,
    started_before INTEGER NOT NULL DEFAULT 0,
    asks INTEGER NOT NULL DEFAULT 0,
    claimed INTEGER NOT NULL DEFAULT 0,
    token TEXT,
    message BLOB NOT NULL,
    outcome TEXT,
    reason TEXT,
    done REAL,
    log TEXT NOT NULL
);
CREATE INDEX message_open ON message (endpoint) WHERE done IS NULL;
CREATE INDEX message_done ON message (done) WHERE done IS NOT NULL;
CREATE INDEX message_dead ON message (endpoint) WHERE state IN ('dead', 'refused');
CREATE INDEX message_key ON message (sender, key) WHERE key IS NOT NULL;
CREATE INDEX message_reply ON message (reply_to) WHERE reply_to IS NOT NULL;
CREATE INDEX message_cause ON message (cause) WHERE cause IS NOT NULL;
CREATE TABLE machine (boot TEXT NOT NULL);
CREATE TABLE endpoint (
    name TEXT PRIMARY KEY,
    declared INTEGER NOT NULL DEFAULT 0,
    seen REAL NOT NULL,
    epoch INTEGER NOT NULL DEFAULT 0,
    instance TEXT NOT NULL DEFAULT '',
    pid INTEGER NOT NULL DEFAULT 0,
    start REAL NOT NULL DEFAULT 0,
    boot TEXT NOT NULL DEFAULT ''
);
"""

# Dead letters and inboxes. `silent`: handled, and left in the inbox for whoever looks; `retried`:
# how often it was dead and brought back. At the row's end, so read only with the body.
SECOND: Final = """
ALTER TABLE message ADD COLUMN silent INTEGER NOT NULL DEFAULT 0;
ALTER TABLE message ADD COLUMN retried INTEGER NOT NULL DEFAULT 0;
DROP INDEX message_dead;
CREATE INDEX message_dead ON message (done) WHERE state IN ('dead', 'refused');
CREATE INDEX message_silent ON message (endpoint) WHERE silent;
CREATE TABLE mark (bus REAL NOT NULL, wall REAL NOT NULL, up REAL NOT NULL, boot TEXT NOT NULL);
"""

# `ephemeral`: the bus gave the name its suffix; bus time since when this session has it, else 0.
THIRD: Final = """
ALTER TABLE endpoint ADD COLUMN ephemeral REAL NOT NULL DEFAULT 0;
"""

# Dead letters, and what has no state that is known; when they died. As the index has it.
DEAD: Final = "state NOT IN ('queued','held','started','handled')"
DIED: Final = "CASE WHEN done BETWEEN 0 AND 1e12 THEN done ELSE 0 END"

# A file that the very first commits made has version 1, and no table `machine`.
# `failures`: how often work on it failed while its receiver tries again; `due`: bus time before
# which it does not go out for that; `failed`: why it did the last time.
FOURTH: Final = """
CREATE TABLE IF NOT EXISTS machine (boot TEXT NOT NULL);
ALTER TABLE message ADD COLUMN failures INTEGER NOT NULL DEFAULT 0;
ALTER TABLE message ADD COLUMN due REAL NOT NULL DEFAULT 0;
ALTER TABLE message ADD COLUMN failed TEXT;
DROP INDEX message_dead;
CREATE INDEX message_dead ON message (
    CASE WHEN done BETWEEN 0 AND 1e12 THEN done ELSE 0 END
) WHERE state NOT IN ('queued','held','started','handled');
CREATE INDEX message_failed ON message (id, failures, due) WHERE failures > 0 AND done IS NULL;
"""

# `due` without `failures`: bus time before which it does not go out, as its sender said.
FIFTH: Final = """
CREATE INDEX message_due ON message (id, failures, due) WHERE due > 0 AND done IS NULL;
"""

STORE: Final = FileSchema((FIRST, SECOND, THIRD, FOURTH, FIFTH))


def set_up(db: sqlite3.Connection) -> None:
    """Set what a connection to the store needs."""
    if db.execute("PRAGMA page_count").fetchone()[0] == 0:
        db.execute(GIVE_BACK)
    make_durable(db)  # a receipt is a promise over a power cut
    for pragma in PRAGMAS:
        db.execute(pragma)
