-- An order stays when its animal is removed, so it no longer references the table of animals.
CREATE TABLE new_orders (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    pet_id    INTEGER NOT NULL,
    quantity  INTEGER NOT NULL DEFAULT 1 CHECK (quantity = 1),
    ship_date INTEGER,
    status    TEXT    NOT NULL CHECK (status IN ('open', 'complete', 'cancelled')),
    placed_at INTEGER NOT NULL,
    ended_at  INTEGER CHECK ((ended_at IS NULL) = (status = 'open'))
) STRICT;
INSERT INTO new_orders (id, pet_id, quantity, ship_date, status, placed_at, ended_at)
    SELECT id, pet_id, quantity, ship_date, status, placed_at, ended_at FROM orders;
-- The counter of IDs may be ahead of the last order.
DELETE FROM sqlite_sequence WHERE name = 'new_orders';
INSERT INTO sqlite_sequence (name, seq) SELECT 'new_orders', seq FROM sqlite_sequence WHERE name = 'orders';
DROP TABLE orders;
ALTER TABLE new_orders RENAME TO orders;
CREATE UNIQUE INDEX orders_open_by_pet ON orders (pet_id) WHERE status = 'open';
CREATE INDEX orders_listed ON orders (id) WHERE status <> 'cancelled';
