-- The ID of this deployment: part of each of its Redis keys, because others may share the Redis.
CREATE TABLE deployment (
    number INTEGER PRIMARY KEY CHECK (number = 1),
    id     TEXT    NOT NULL
) STRICT;
INSERT INTO deployment VALUES (1, lower(hex(randomblob(8))));
