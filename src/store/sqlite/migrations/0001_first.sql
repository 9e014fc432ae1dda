-- Animals. AUTOINCREMENT keeps its counter row in the same transaction as the insert:
-- IDs ascend in the order of commits, and no new animal gets the ID of a removed one.
CREATE TABLE pets (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    name        TEXT    NOT NULL,
    category_id INTEGER NOT NULL,
    status      TEXT    NOT NULL CHECK (status IN ('available', 'pending', 'sold'))
) STRICT;
CREATE INDEX pets_by_status ON pets (status, id);

-- Times are milliseconds since 1970-01-01T00:00:00Z.
CREATE TABLE api_keys (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    name         TEXT    NOT NULL,
    plan         TEXT    NOT NULL CHECK (plan IN ('free', 'pro', 'business', 'enterprise')),
    per_minute   INTEGER CHECK ((per_minute IS NOT NULL) = (plan = 'enterprise') AND per_minute BETWEEN 1 AND 1000000000),
    per_day      INTEGER CHECK ((per_day IS NOT NULL) = (plan = 'enterprise') AND per_day BETWEEN 1 AND 1000000000),
    prefix       TEXT    NOT NULL,
    hash         BLOB    NOT NULL UNIQUE CHECK (length(hash) = 32),
    old_hash     BLOB    UNIQUE CHECK (length(old_hash) = 32),
    old_until    INTEGER CHECK ((old_until IS NULL) = (old_hash IS NULL)),
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER,
    revoked_at   INTEGER,
    last_used_at INTEGER,
    banned_at    INTEGER,
    banned_until INTEGER CHECK ((banned_until IS NULL) = (banned_at IS NULL)),
    unbanned_at  INTEGER,
    revision     INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX api_keys_by_revision ON api_keys (revision);

CREATE TABLE usage_by_day (
    day        TEXT    NOT NULL,
    api_key_id INTEGER NOT NULL,
    requests   INTEGER NOT NULL,
    refused    INTEGER NOT NULL,
    PRIMARY KEY (day, api_key_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX usage_by_key ON usage_by_day (api_key_id, day);

-- Only the SHA-256 of the client's Idempotency-Key and of the animal is kept.
CREATE TABLE idempotency (
    api_key_id      INTEGER NOT NULL,
    idempotency_key BLOB    NOT NULL CHECK (length(idempotency_key) = 32),
    fingerprint     BLOB    NOT NULL CHECK (length(fingerprint) = 32),
    pet_id          INTEGER NOT NULL,
    created_at      INTEGER NOT NULL,
    PRIMARY KEY (api_key_id, idempotency_key)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_by_age ON idempotency (created_at);

-- What a running server looks at to learn that someone else changed something. Triggers raise the numbers,
-- so that an UPDATE or DELETE by hand takes effect, too.
CREATE TABLE revisions (
    what   TEXT    PRIMARY KEY,
    number INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO revisions VALUES ('api_keys', 0), ('pets', 0);

CREATE TRIGGER pets_changed AFTER UPDATE ON pets BEGIN
    UPDATE revisions SET number = number + 1 WHERE what = 'pets';
END;
CREATE TRIGGER pets_removed AFTER DELETE ON pets BEGIN
    UPDATE revisions SET number = number + 1 WHERE what = 'pets';
END;
-- A running server would not notice that a key was deleted, and would continue to accept it; and its usage would have no name.
CREATE TRIGGER api_keys_kept BEFORE DELETE ON api_keys BEGIN
    SELECT raise(ABORT, 'a key is not deleted: revoke it with animal-store keys revoke');
END;
CREATE TRIGGER api_keys_added AFTER INSERT ON api_keys BEGIN
    UPDATE revisions SET number = number + 1 WHERE what = 'api_keys';
    UPDATE api_keys SET revision = (SELECT number FROM revisions WHERE what = 'api_keys') WHERE id = new.id;
END;
CREATE TRIGGER api_keys_changed
AFTER UPDATE OF plan, per_minute, per_day, hash, old_hash, old_until, expires_at, revoked_at,
                banned_at, banned_until, unbanned_at ON api_keys BEGIN
    UPDATE revisions SET number = number + 1 WHERE what = 'api_keys';
    UPDATE api_keys SET revision = (SELECT number FROM revisions WHERE what = 'api_keys') WHERE id = new.id;
END;
