//! The timeout of a write that waits for the lock that another process holds: two seconds in a server, whose clients wait, and
//! longer in a command, which prints that it waits.

use std::time::{Duration, Instant};

use rusqlite::Connection;

/// The timeout of a command.
const LONGEST: Duration = Duration::from_secs(30);

/// After this time the notice is printed.
const NOTICE_AFTER: Duration = Duration::from_secs(1);

/// The interval at which it tries to get the lock.
const PAUSE: Duration = Duration::from_millis(10);

/// Makes a connection wait as a command does. `notice` is called once for each wait that takes longer than [`NOTICE_AFTER`].
pub(super) fn as_a_command(connection: &mut Connection, notice: fn()) -> rusqlite::Result<()> {
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
        std::thread::sleep(PAUSE);
        began.elapsed() < LONGEST
    }))
}
