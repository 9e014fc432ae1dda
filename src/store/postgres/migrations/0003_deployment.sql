-- The ID of this deployment: part of each of its Redis keys, because others may share the Redis.
CREATE TABLE deployment (
    number BIGINT PRIMARY KEY CHECK (number = 1),
    id     TEXT   NOT NULL
);
INSERT INTO deployment VALUES (1, substr(replace(gen_random_uuid()::text, '-', ''), 1, 16));
