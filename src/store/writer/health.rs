//! Whether writes succeed. A full disk fails every write while it is full: that is one line in the log when it
//! starts, one when it ends, and a state that readiness shows meanwhile.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::mutex::lock;

/// How long no write must have failed before a successful write to another table ends a failure: a lock may be on one table only.
const QUIET_TIME: Duration = Duration::from_secs(15);

/// The outcome of the last transactions.
#[derive(Default)]
pub(crate) struct WriteHealth(Mutex<HealthState>);

#[derive(Default)]
struct HealthState {
    failing: Option<WriteFailure>,
    /// The error of a failure that has not been logged.
    unlogged: Option<String>,
    /// Whether the last line in the log says that writes fail.
    is_logged: bool,
    /// Transactions that have failed since writes last succeeded.
    failed: u64,
}

struct WriteFailure {
    kind: &'static str,
    /// Whether only a successful creation ends it: creations failed, and not because of a lock or an outage. Smaller writes may succeed
    /// meanwhile.
    needs_creation: bool,
    at: Instant,
}

impl WriteHealth {
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

    /// Records a failed transaction. The error is for the log; its kind may be shown to anyone.
    pub(crate) fn failed(
        &self,
        error: &dyn std::fmt::Display,
        kind: &'static str,
        needs_creation: bool,
    ) {
        let mut state = lock(&self.0);
        let before = state.failing.take();
        if !state.is_logged {
            state.unlogged = Some(error.to_string());
        }
        state.failed += 1;
        state.failing = Some(WriteFailure {
            kind,
            needs_creation: needs_creation || before.is_some_and(|it| it.needs_creation),
            at: Instant::now(),
        });
    }

    /// Logs that writes have begun or ceased to fail, at debug if that is the consequence of a failure that is logged already.
    /// Called at an interval by the readiness check, because the writer does not know whether it is a consequence.
    pub(crate) fn log(&self, is_consequence: bool) {
        let mut state = lock(&self.0);
        if let Some(error) = state.unlogged.take() {
            if is_consequence {
                tracing::debug!(%error, "cannot write to the database");
            } else {
                tracing::error!(%error, "cannot write to the database; not logged again until writes succeed");
                state.is_logged = true;
            }
        }
        if state.failing.is_none() {
            let failed = std::mem::take(&mut state.failed);
            if std::mem::take(&mut state.is_logged) {
                tracing::info!(failed, "writes to the database succeed again");
            }
        }
    }

    /// The kind of the current failure. A later commit ends it, or after [`QUIET_TIME`] a write to another table; if it needs a
    /// creation, only a commit with creations does.
    pub(crate) fn failure(&self) -> Option<&'static str> {
        lock(&self.0).failing.as_ref().map(|failing| failing.kind)
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
