//! The state of the server that the dashboard, the admin API and the metrics read and change.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Clock, Timestamp};
use crate::counter::Counter;
use crate::health::Readiness;
use crate::limit::redis::RedisHealth;
use crate::metrics::ServerMetrics;
use crate::store::Store;

pub(crate) struct AdminSources {
    pub(crate) store: Arc<Store>,
    pub(crate) metrics: Arc<ServerMetrics>,
    pub(crate) redis: Option<Arc<RedisHealth>>,
    pub(crate) readiness: Arc<Readiness>,
    pub(crate) max_connections: usize,
    /// The interval of backups, if the server makes any.
    pub(crate) backup_interval: Option<Duration>,
    /// Log lines that were lost: dropped, or not written.
    pub(crate) lost_lines: Arc<Counter>,
    pub(crate) clock: Clock,
    pub(crate) started: Timestamp,
}
