//! Whether writes succeed. A full disk fails every write while it is full, and one that hangs completes none: that is one line in
//! the log when it starts, one when it ends, and a state that readiness shows meanwhile.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::mutex::lock;

/// How long writes must have gone without a failure before a successful write to another table ends one: a lock may be on one table
/// only.
const QUIET_TIME: Duration = Duration::from_secs(15);

/// How long a transaction may write: far longer than any of the server's own takes on a slow disk.
const MAX_WRITE_TIME: Duration = Duration::from_secs(5);

/// The reason while one takes longer. Its changes may still be committed, so it has not failed.
const SLOW: &str = "a write is taking longer than 5 s";

/// The outcome of the last transactions.
#[derive(Default)]
pub(crate) struct WriteHealth(Mutex<HealthState>);

#[derive(Default)]
struct HealthState {
    failing: Option<WriteFailure>,
    /// The error of a failure that has not been logged.
    unlogged: Option<String>,
    /// Whether the log says that writes fail.
    is_logged: bool,
    /// Whether the log says that a write is slow.
    is_slow_logged: bool,
    /// Transactions that have failed since writes last succeeded.
    failed: u64,
    /// When the transaction that is in progress began to write.
    writing_since: Option<Instant>,
}

impl HealthState {
    fn is_slow(&self) -> bool {
        self.writing_since
            .is_some_and(|since| since.elapsed() > MAX_WRITE_TIME)
    }
}

struct WriteFailure {
    reason: &'static str,
    /// Whether only a successful creation ends it: creations failed, and not because of a lock or an outage. Smaller writes may succeed
    /// meanwhile.
    needs_creation: bool,
    at: Instant,
}

/// A transaction that writes, until it is dropped.
pub(crate) struct WriteInProgress<'a>(&'a WriteHealth);

impl Drop for WriteInProgress<'_> {
    fn drop(&mut self) {
        lock(&self.0.0).writing_since = None;
    }
}

impl WriteHealth {
    /// Records that a transaction, which has its locks, begins to write. Of one writer, so there is one at a time.
    pub(crate) fn begin_write(&self) -> WriteInProgress<'_> {
        lock(&self.0).writing_since = Some(Instant::now());
        WriteInProgress(self)
    }

    /// Records a committed transaction, with creations or without.
    pub(crate) fn succeeded(&self, of_creations: bool) {
        let failing = &mut lock(&self.0).failing;
        failing.take_if(|failing| of_creations || !failing.needs_creation);
    }

    /// Records a successful write that the writer did not make, to another table.
    pub(crate) fn other_write_succeeded(&self) {
        self.end_after(QUIET_TIME);
    }

    /// Ends a failure that has not recurred for this long, unless only a creation ends it.
    fn end_after(&self, quiet: Duration) {
        let failing = &mut lock(&self.0).failing;
        failing.take_if(|failing| !failing.needs_creation && failing.at.elapsed() >= quiet);
    }

    /// Records a failed transaction. The error is for the log; its reason may be shown to anyone.
    pub(crate) fn failed(
        &self,
        error: &dyn std::fmt::Display,
        reason: &'static str,
        needs_creation: bool,
    ) {
        let mut state = lock(&self.0);
        let before = state.failing.take();
        if !state.is_logged {
            state.unlogged = Some(error.to_string());
        }
        state.failed += 1;
        state.failing = Some(WriteFailure {
            reason,
            needs_creation: needs_creation || before.is_some_and(|it| it.needs_creation),
            at: Instant::now(),
        });
    }

    /// Logs that writes have begun or ceased to fail, at debug if that is the consequence of a failure that is logged already.
    /// Called at an interval by the readiness check, because the writer does not know whether it is a consequence.
    pub(crate) fn log(&self, is_consequence: bool) {
        let mut state = lock(&self.0);
        let is_slow = state.is_slow();
        if is_slow && !is_consequence && !std::mem::replace(&mut state.is_slow_logged, true) {
            tracing::error!(
                error = SLOW,
                "the disk may be hanging; not logged again until writes succeed"
            );
        }
        if let Some(error) = state.unlogged.take() {
            if is_consequence {
                tracing::debug!(%error, "cannot write to the database");
            } else {
                tracing::error!(%error, "cannot write to the database; not logged again until writes succeed");
                state.is_logged = true;
            }
        }
        if state.failing.is_none() && !is_slow {
            let failed = std::mem::take(&mut state.failed);
            let was_slow = std::mem::take(&mut state.is_slow_logged);
            if std::mem::take(&mut state.is_logged) || was_slow {
                tracing::info!(failed, "writes to the database succeed again");
            }
        }
    }

    /// The reason of the current failure, or of a slow write. A failure ends with the next commit, or with a write to another table after
    /// [`QUIET_TIME`] without a failure. One that needs a creation ends only with a commit that has creations.
    pub(crate) fn failure(&self) -> Option<&'static str> {
        let state = lock(&self.0);
        let failing = state.failing.as_ref().map(|failing| failing.reason);
        failing.or(state.is_slow().then_some(SLOW))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::recorded;

    #[test]
    fn the_failure_is_the_last_one_until_a_write_succeeds() {
        let health = WriteHealth::default();
        assert_eq!(health.failure(), None);
        health.failed(&"database is locked", "locked", false);
        health.failed(&"database or disk is full", "disk full", false);
        assert_eq!(health.failure(), Some("disk full"));
        health.succeeded(false);
        assert_eq!(health.failure(), None);
        health.failed(&"broken", "failing", true);
        health.failed(&"database is locked", "locked", false);
        health.succeeded(false);
        assert_eq!(health.failure(), Some("locked"), "creations still fail");
        health.succeeded(true);
        assert_eq!(health.failure(), None);
    }

    #[test]
    fn a_write_to_another_table_ends_a_failure_after_some_time_unless_it_needs_a_creation() {
        let health = WriteHealth::default();
        health.failed(&"no connection", "down", false);
        health.other_write_succeeded();
        assert_eq!(health.failure(), Some("down"), "it is too early");
        health.end_after(Duration::ZERO);
        assert_eq!(health.failure(), None);
        health.failed(&"disk full", "disk full", true);
        health.end_after(Duration::ZERO);
        assert_eq!(health.failure(), Some("disk full"));
    }

    #[test]
    fn a_slow_write_is_logged_once_and_its_failure_with_its_cause() {
        let health = WriteHealth::default();
        let logged = || recorded(|| health.log(false)).numbered(..).len();
        let writing = health.begin_write();
        assert_eq!((health.failure(), logged()), (None, 0));
        lock(&health.0).writing_since = Instant::now().checked_sub(2 * MAX_WRITE_TIME);
        assert_eq!((health.failure(), logged()), (Some(SLOW), 1));
        assert_eq!(logged(), 0);
        health.failed(&"disk full", "disk full", true);
        drop(writing);
        assert_eq!((health.failure(), logged()), (Some("disk full"), 1));
        health.succeeded(true);
        assert_eq!((health.failure(), logged()), (None, 1));
        assert_eq!(logged(), 0);
    }

    #[test]
    fn a_failure_is_logged_when_it_begins_and_when_it_ends_with_the_number_of_transactions() {
        let health = WriteHealth::default();
        let logged = |is_consequence| {
            let events = recorded(|| health.log(is_consequence)).numbered(..);
            let line = |event: &serde_json::Value| {
                let [level, fields] = ["level", "fields"].map(|name| event[name].as_str());
                format!("{} {}", level.unwrap(), fields.unwrap())
            };
            events.iter().map(line).collect::<Vec<_>>()
        };
        assert_eq!(logged(false), [""; 0]);
        health.failed(&"disk full", "disk full", false);
        assert_eq!(logged(false), ["ERROR error=disk full"]);
        health.failed(&"disk full", "disk full", false);
        assert_eq!(logged(false), [""; 0]);
        health.failed(&"disk full", "disk full", false);
        assert_eq!(logged(false), [""; 0]);
        health.succeeded(true);
        assert_eq!(logged(false), ["INFO failed=3"]);
        assert_eq!(logged(false), [""; 0]);
        // What fails and succeeds between two calls is counted, too.
        health.failed(&"locked", "locked", false);
        health.failed(&"locked", "locked", false);
        health.succeeded(true);
        assert_eq!(logged(false), ["ERROR error=locked", "INFO failed=2"]);
        health.failed(&"no connection", "down", false);
        assert_eq!(logged(true), ["DEBUG error=no connection"]);
        health.succeeded(true);
        assert_eq!(logged(true), [""; 0]);
        health.failed(&"disk full", "disk full", false);
        assert_eq!(logged(false), ["ERROR error=disk full"]);
        health.succeeded(true);
        assert_eq!(
            logged(false),
            ["INFO failed=1"],
            "a failure that was a consequence is not counted"
        );
    }
}
