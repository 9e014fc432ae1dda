//! Reports to a shared database that this node is running, and detects when the node can no longer use it.

use std::time::Duration;

use tokio::sync::mpsc;

use crate::server::shared::Shared;
use crate::store::{self, DeploymentId, Heartbeat};

/// The interval of heartbeats. A node counts as dead after it has missed several.
pub(super) const INTERVAL: Duration = Duration::from_secs(5);

/// Reports once. If this node cannot use the database any more, `end_reason` gets the reason.
pub(super) async fn beat(
    shared: &Shared,
    deployment: &DeploymentId,
    end_reason: &mpsc::Sender<String>,
) -> store::Result<()> {
    let reason = match shared.store.heartbeat().await? {
        Heartbeat::Superseded { format } => format!(
            "a newer version has migrated the database to format {format}, which this version cannot use"
        ),
        // A node that starts while a copy into its database runs is not registered until that ends. It would count under the old ID
        // in Redis, and without the usage of the day.
        Heartbeat::Alive
            if shared.store.is_shared() && shared.store.deployment().await? != *deployment =>
        {
            "a copy has replaced the content of the database since this node started: start it again".into()
        }
        Heartbeat::Alive => return Ok(()),
    };
    // There is room for the first one, which makes the server exit.
    let _ = end_reason.try_send(reason);
    Ok(())
}
