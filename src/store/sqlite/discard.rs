//! The removal of a database that a command created and then stored nothing in.

use std::time::Duration;

use super::connect::{open_exclusively, sibling};
use super::identity::FileIdentity;
use super::lock::FileLock;
use super::lock_purpose::Purpose;

/// Removes a database that no other process uses or has used. Otherwise it stays, which harms nobody.
pub(super) fn remove_unused(created: &FileIdentity) {
    let path = created.path();
    // No server starts meanwhile, and a command that is about to open the file finds that it is not in its place any more.
    let Ok(_lock) = FileLock::take(path, Purpose::Command) else {
        return;
    };
    if !created.is_in_place() {
        return;
    }
    let Ok(connection) = open_exclusively(path, Duration::ZERO) else {
        return;
    };
    // Animals, orders and keys get their IDs from there, and nothing is stored without one of them.
    let used = "SELECT EXISTS (SELECT 1 FROM sqlite_sequence WHERE seq > 0)";
    if connection.query_row(used, (), |row| row.get(0)) == Ok(false) {
        for suffix in ["-wal", "-shm", ""] {
            // There may be none.
            let _ = std::fs::remove_file(sibling(path, suffix));
        }
    }
}
