//! Reports this node as alive to the shared database, and detects when a newer version has migrated it to a format that this one
//! cannot use.

use std::time::Duration;

use tokio::sync::mpsc;

use crate::server::shared::Shared;
use crate::store::{self, Heartbeat};

/// The interval of heartbeats. A node counts as dead after it has missed several.
pub(super) const INTERVAL: Duration = Duration::from_secs(5);

/// Reports once. If this node cannot use the database any more, `superseded` gets the reason.
pub(super) async fn beat(shared: &Shared, superseded: &mpsc::Sender<String>) -> store::Result<()> {
    if let Heartbeat::Superseded { format } = shared.store.heartbeat().await? {
        let reason = format!(
            "a newer version has migrated the database to format {format}, which this version cannot use"
        );
        // There is room for the first one, which makes the server exit.
        let _ = superseded.try_send(reason);
    }
    Ok(())
}
