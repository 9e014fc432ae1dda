//! What the threads of a server share.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::failure_log::FailureLog;
use super::pages::Pages;
use super::write_behind::WriteBehind;
use crate::access::{Access, TrustedProxies};
use crate::api::Api;
use crate::clock::Clock;
use crate::health::Readiness;
use crate::limit::redis::Health;
use crate::metrics::ServerMetrics;
use crate::store::Store;

/// What all threads share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) store: Arc<Store>,
    pub(super) metrics: Arc<ServerMetrics>,
    pub(super) access: Access,
    /// How Redis is, where there is one.
    pub(super) redis: Option<Arc<Health>>,
    pub(super) api: Api,
    pub(super) pages: Pages,
    pub(super) proxies: TrustedProxies,
    pub(super) clock: Clock,
    pub(super) write_behind: WriteBehind,
    /// How long use by day is kept.
    pub(super) keep_usage: Duration,
    pub(super) readiness: Arc<Readiness>,
    pub(super) failure_log: FailureLog,
    /// Told to all when the server stops.
    pub(super) stopping: watch::Receiver<bool>,
}
