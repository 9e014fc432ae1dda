-- Plain tables, plain types, no triggers, no sequences, no advisory locks: CockroachDB, YugabyteDB and Citus support it, too.
-- Times are milliseconds since 1970-01-01T00:00:00Z.

-- The last ID given out for each kind of row. The row is locked from the moment an ID is taken until the
-- commit, so that IDs ascend in the order of commits. A sequence would not do that.
CREATE TABLE counters (
    what   TEXT   PRIMARY KEY,
    number BIGINT NOT NULL
);
INSERT INTO counters (what, number) VALUES ('pets', 0), ('api_keys', 0), ('orders', 0);

-- What a node polls to notice that another changed something. Raised in the transaction that makes the change; whoever
-- changes an animal or a key by hand raises the number by hand, too.
CREATE TABLE revisions (
    what   TEXT   PRIMARY KEY,
    number BIGINT NOT NULL
);
INSERT INTO revisions (what, number) VALUES ('pets', 0), ('api_keys', 0);

CREATE TABLE pets (
    id          BIGINT PRIMARY KEY,
    name        TEXT   NOT NULL,
    category_id BIGINT NOT NULL,
    status      TEXT   NOT NULL CHECK (status IN ('available', 'pending', 'sold'))
);
CREATE INDEX pets_by_status ON pets (status, id);

CREATE TABLE api_keys (
    id           BIGINT PRIMARY KEY,
    name         TEXT   NOT NULL,
    plan         TEXT   NOT NULL CHECK (plan IN ('free', 'pro', 'business', 'enterprise')),
    per_minute   BIGINT CHECK ((per_minute IS NOT NULL) = (plan = 'enterprise') AND per_minute BETWEEN 1 AND 1000000000),
    per_day      BIGINT CHECK ((per_day IS NOT NULL) = (plan = 'enterprise') AND per_day BETWEEN 1 AND 1000000000),
    prefix       TEXT   NOT NULL,
    hash         BYTEA  NOT NULL UNIQUE CHECK (length(hash) = 32),
    old_hash     BYTEA  UNIQUE CHECK (length(old_hash) = 32),
    old_until    BIGINT CHECK ((old_until IS NULL) = (old_hash IS NULL)),
    created_at   BIGINT NOT NULL,
    expires_at   BIGINT,
    revoked_at   BIGINT,
    last_used_at BIGINT,
    banned_at    BIGINT,
    banned_until BIGINT CHECK ((banned_until IS NULL) = (banned_at IS NULL)),
    unbanned_at  BIGINT,
    revision     BIGINT NOT NULL
);
CREATE INDEX api_keys_by_revision ON api_keys (revision);

CREATE TABLE usage_by_day (
    day        TEXT   NOT NULL,
    api_key_id BIGINT NOT NULL,
    requests   BIGINT NOT NULL,
    refused    BIGINT NOT NULL,
    PRIMARY KEY (day, api_key_id)
);
CREATE INDEX usage_by_key ON usage_by_day (api_key_id, day);

-- Only the SHA-256 of the client's Idempotency-Key and of the animal is kept.
CREATE TABLE idempotency (
    api_key_id      BIGINT NOT NULL,
    idempotency_key BYTEA  NOT NULL CHECK (length(idempotency_key) = 32),
    fingerprint     BYTEA  NOT NULL CHECK (length(fingerprint) = 32),
    pet_id          BIGINT NOT NULL,
    created_at      BIGINT NOT NULL,
    PRIMARY KEY (api_key_id, idempotency_key)
);
CREATE INDEX idempotency_by_age ON idempotency (created_at);

-- An animal has at most one order that is open; a cancelled one stays, but the public API does not list it.
CREATE TABLE orders (
    id        BIGINT PRIMARY KEY,
    pet_id    BIGINT NOT NULL,
    quantity  BIGINT NOT NULL DEFAULT 1 CHECK (quantity = 1),
    ship_date BIGINT,
    status    TEXT   NOT NULL CHECK (status IN ('open', 'complete', 'cancelled')),
    placed_at BIGINT NOT NULL,
    ended_at  BIGINT CHECK ((ended_at IS NULL) = (status = 'open'))
);
CREATE UNIQUE INDEX orders_open_by_pet ON orders (pet_id) WHERE status = 'open';
