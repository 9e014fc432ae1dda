//! Statements that may take long, and must not outlive their process: migrations, copies and imports.

use super::pool::Lease;

/// Statements without a time limit: a new index on a large table can take long. If this process exits, its connection and the
/// transaction end, too; if it is suspended, the limit of idle transactions applies, so that it does not keep its locks.
pub(super) const NO_LIMITS: &str = "SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0";

/// Makes PostgreSQL end a statement within a second after the process has exited or was killed. Otherwise it would notice that only when
/// the statement ends, and would keep its locks until then. To be called outside a transaction, which an error would abort: PostgreSQL
/// before 14 does not have this setting, and some operating systems do not support it.
pub(super) async fn detect_disconnect(lease: &Lease) {
    let set = "SET client_connection_check_interval = 1000";
    let _ = lease.batch_execute(set).await;
}
