//! The timeout of a write that waits for the lock that another process holds: two seconds in a server, whose clients wait (longer
//! while an import inserts its animals: `import_wait`), and thirty in a command, which prints that it waits.

use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::error::is_busy;

/// How long a command waits for the lock.
pub(crate) const COMMAND_LOCK_TIMEOUT: Duration = Duration::from_secs(30);

const NOTICE_AFTER: Duration = Duration::from_secs(1);

const RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// Makes a connection wait as a command does. `notice` is called once for each wait that takes longer than [`NOTICE_AFTER`].
pub(super) fn wait_as_command(connection: &mut Connection, notice: fn()) -> rusqlite::Result<()> {
    let mut wait = Wait::new(notice);
    connection.busy_handler(Some(move |tries| {
        if tries == 0 {
            wait = Wait::new(notice);
        }
        wait.wait_for_retry_blocking()
    }))
}

/// Begins a transaction that writes, and waits for its lock as a command does. SQLite itself would wait without noticing a signal, so
/// the busy timeout of the connection is set to zero, and stays so.
pub(super) async fn begin_immediate(connection: &Connection, notice: fn()) -> rusqlite::Result<()> {
    connection.busy_timeout(Duration::ZERO)?;
    let mut wait = Wait::new(notice);
    loop {
        match connection.execute_batch("BEGIN IMMEDIATE") {
            Err(error) if is_busy(&error) && wait.wait_for_retry().await => {}
            begun => return begun,
        }
    }
}

/// One wait of a command.
pub(super) struct Wait {
    began: Instant,
    notice: Option<fn()>,
}

impl Wait {
    pub(super) fn new(notice: fn()) -> Self {
        Self {
            began: Instant::now(),
            notice: Some(notice),
        }
    }

    fn has_time(&self) -> bool {
        self.began.elapsed() < COMMAND_LOCK_TIMEOUT
    }

    fn notify(&mut self) {
        if self.began.elapsed() >= NOTICE_AFTER
            && let Some(notice) = self.notice.take()
        {
            notice();
        }
    }

    /// Waits for one interval. Returns whether there is time for another attempt.
    pub(super) async fn wait_for_retry(&mut self) -> bool {
        let may_retry = self.has_time();
        self.pause().await;
        may_retry
    }

    /// The same, where nothing else happens on this thread.
    pub(super) fn wait_for_retry_blocking(&mut self) -> bool {
        let may_retry = self.has_time();
        self.notify();
        std::thread::sleep(RETRY_INTERVAL);
        may_retry
    }

    /// Waits for one interval, for a wait without a time limit.
    pub(super) async fn pause(&mut self) {
        self.notify();
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
}
