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
