-- Orders. An animal has at most one that is open; a cancelled one stays, but the public API does not list it.
CREATE TABLE orders (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    pet_id    INTEGER NOT NULL REFERENCES pets (id),
    quantity  INTEGER NOT NULL DEFAULT 1 CHECK (quantity = 1),
    ship_date INTEGER,
    status    TEXT    NOT NULL CHECK (status IN ('open', 'complete', 'cancelled')),
    placed_at INTEGER NOT NULL,
    ended_at  INTEGER CHECK ((ended_at IS NULL) = (status = 'open'))
) STRICT;
CREATE UNIQUE INDEX orders_open_by_pet ON orders (pet_id) WHERE status = 'open';
CREATE INDEX orders_listed ON orders (id) WHERE status <> 'cancelled';
