-- The ID of this deployment: part of every name that it has in a Redis, which others may share.
CREATE TABLE deployment (
    number INTEGER PRIMARY KEY CHECK (number = 1),
    id     TEXT    NOT NULL
) STRICT;
INSERT INTO deployment VALUES (1, lower(hex(randomblob(8))));
