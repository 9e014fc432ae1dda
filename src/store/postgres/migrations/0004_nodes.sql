-- The nodes that are alive: each renews the time of its row every few seconds, by the clock of the database. A migration that nodes
-- of an older format cannot work with is rejected while there are any.
CREATE TABLE nodes (
    id      BIGINT PRIMARY KEY,
    version TEXT   NOT NULL,
    format  BIGINT NOT NULL,
    seen_at BIGINT NOT NULL
);
-- Also the lock between nodes that start and such a migration.
INSERT INTO counters (what, number) VALUES ('nodes', 0);
