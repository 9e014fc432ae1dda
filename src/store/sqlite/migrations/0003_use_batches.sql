-- The last batch of usage that each process has added. Written in the transaction that adds the batch, so that a batch whose
-- outcome its process does not know can be sent again, and is added once.
CREATE TABLE use_batches (
    recorder TEXT    PRIMARY KEY,
    number   INTEGER NOT NULL,
    made_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
