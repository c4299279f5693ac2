ALTER TABLE message ADD COLUMN silent INTEGER NOT NULL DEFAULT 0;
ALTER TABLE message ADD COLUMN retried INTEGER NOT NULL DEFAULT 0;
DROP INDEX message_dead;
CREATE INDEX message_dead ON message (done) WHERE state IN ('dead', 'refused');
CREATE INDEX message_silent ON message (endpoint) WHERE silent;
CREATE TABLE mark (bus REAL NOT NULL, wall REAL NOT NULL, up REAL NOT NULL, boot TEXT NOT NULL);
