-- The ID of this deployment: part of every name that it has in a Redis, which others may share.
CREATE TABLE deployment (
    number BIGINT PRIMARY KEY CHECK (number = 1),
    id     TEXT   NOT NULL
);
INSERT INTO deployment VALUES (1, substr(replace(gen_random_uuid()::text, '-', ''), 1, 16));
