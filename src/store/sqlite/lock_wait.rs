//! The timeout of a write that waits for the lock that another process holds: two seconds in a server, whose clients wait, and
//! longer in a command, which prints that it waits.

use std::time::{Duration, Instant};

use rusqlite::Connection;

const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);

const NOTICE_AFTER: Duration = Duration::from_secs(1);

const RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// Makes a connection wait as a command does. `notice` is called once for each wait that takes longer than [`NOTICE_AFTER`].
pub(super) fn wait_as_command(connection: &mut Connection, notice: fn()) -> rusqlite::Result<()> {
    let mut began = Instant::now();
    let mut noticed = false;
    connection.busy_handler(Some(move |tries| {
        if tries == 0 {
            (began, noticed) = (Instant::now(), false);
        }
        if !noticed && began.elapsed() >= NOTICE_AFTER {
            noticed = true;
            notice();
        }
        std::thread::sleep(RETRY_INTERVAL);
        began.elapsed() < COMMAND_TIMEOUT
    }))
}
