//! How long a write waits for the lock that another process holds. A server has requests to answer, and gives up after two
//! seconds; a command has nothing better to do, and its operator is told that it waits.

use std::time::{Duration, Instant};

use rusqlite::Connection;

/// How long a command waits in all.
const LONGEST: Duration = Duration::from_secs(30);

/// After so long its operator is told.
const TOLD_AFTER: Duration = Duration::from_secs(1);

/// How often it looks whether the lock is free.
const PAUSE: Duration = Duration::from_millis(10);

/// Lets a connection wait as a command does. `notice` is called once for each wait that takes longer than a moment.
pub(super) fn as_a_command(connection: &mut Connection, notice: fn()) -> rusqlite::Result<()> {
    let mut began = Instant::now();
    let mut told = false;
    connection.busy_handler(Some(move |tries| {
        if tries == 0 {
            (began, told) = (Instant::now(), false);
        }
        if !told && began.elapsed() >= TOLD_AFTER {
            told = true;
            notice();
        }
        std::thread::sleep(PAUSE);
        began.elapsed() < LONGEST
    }))
}
