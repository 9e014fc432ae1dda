//! What tests inject: broken variants that they must detect, failures that the server must survive or report, aids, and simulations of
//! later versions. They exist only in debug builds, which the tests run, and there only if `ANIMAL_STORE_FAULT` names one (as in
//! `ack-before-commit`). In a release `is_enabled` is always false.

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Fault {
    /// Responds 201 before the commit, and commits a little later.
    AckBeforeCommit,
    /// Panics in a request with the header `X-Fault`.
    PanicInRequest,
    /// Panics in the writer at the first animal called `writer, die`.
    WriterDies,
    /// Panics in the accept loop at the first connection.
    WorkerDies,
    /// Blocks the thread of a worker for a minute in a request with the header `X-Fault`.
    WorkerHangs,
    /// Panics when a SIGHUP reads the certificate.
    ReloadPanics,
    /// Blocks the thread that reads the certificate after a SIGHUP for a minute.
    ReloadHangs,
    /// No fault: takes 8 s to migrate an embedded database.
    SlowMigration,
    /// Filters new connections on a socket that the next server uses, too.
    FiltersPassedSocket,
    /// Closes the listening socket with connections in its queue.
    DropsQueue,
    /// Waits for PostgreSQL without a timeout.
    NoTimeouts,
    /// Creates an animal on PostgreSQL without its idempotency record.
    NoIdempotencyRecord,
    /// No fault: deletes old records without waiting for the clock to be steady.
    SweepsAtOnce,
    /// Adds usage on PostgreSQL without the ID of its batch, which makes repeating it safe.
    NoUsageBatchId,
    /// Takes IDs on PostgreSQL from the ID of the transaction, which, like a sequence, does not follow the commit order.
    IdsFromSequence,
    /// Reads the counters in Redis, decides, and writes them back.
    ReadThenWrite,
    /// No fault: waits longer for Redis, on a machine that is busy.
    WaitsForRedis,
    /// Simulates a later version, with one more migration of PostgreSQL.
    LaterVersion,
    /// Simulates a later version, with one more migration of PostgreSQL that nodes of this version cannot work with.
    LaterBreakingVersion,
}

impl Fault {
    pub fn is_enabled(self) -> bool {
        if !cfg!(debug_assertions) {
            return false;
        }
        static ENABLED: std::sync::OnceLock<Option<Fault>> = std::sync::OnceLock::new();
        let enabled = ENABLED.get_or_init(|| {
            let name = std::env::var("ANIMAL_STORE_FAULT").ok()?;
            clap::ValueEnum::from_str(&name, false).ok()
        });
        *enabled == Some(self)
    }

    /// Panics if this fault is enabled and the condition holds.
    #[expect(clippy::panic, reason = "a panic that a test requires")]
    pub fn panic_if(self, condition: impl FnOnce() -> bool) {
        if self.is_enabled() && condition() {
            panic!("fault {self:?}");
        }
    }

    /// Blocks the thread for a minute if this fault is enabled and the condition holds.
    pub fn hang_if(self, condition: impl FnOnce() -> bool) {
        if self.is_enabled() && condition() {
            tracing::error!("fault {self:?}");
            std::thread::sleep(std::time::Duration::from_secs(60));
        }
    }

    /// Returns `correct`, or `broken` if this fault is enabled.
    pub fn choose<T>(self, correct: T, broken: T) -> T {
        match self.is_enabled() {
            true => broken,
            false => correct,
        }
    }
}
