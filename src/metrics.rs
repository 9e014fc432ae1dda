//! The metrics of the server. Each worker has separate counters, which are summed when `/metrics` is requested, and once a
//! second for the dashboard: a counter that all cores write costs each of them a cache miss for each request.

mod watched;

pub(crate) use watched::{Watch, WatchedKeys};

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::api::operation::PublicResource;
use crate::api::{Operation, Route};
use crate::clock::Timestamp;
use crate::counter::{Counter, Gauge, Histogram};
use crate::http::ReachedLimit;
use crate::mutex::lock;
use crate::names::named;

/// The operation label of a request, in the log and in metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationLabel {
    Operation(Operation),
    /// A path or method without an operation.
    Unknown,
    /// The docs and the OpenAPI document.
    Docs,
    Preflight,
    Health,
    /// No request: a connection that was rejected, or whose request head was not completed.
    Connection,
}

impl OperationLabel {
    const COUNT: usize = Self::OTHERS.len() + Operation::ALL.len();

    const OTHERS: [Self; 5] = [
        Self::Unknown,
        Self::Docs,
        Self::Preflight,
        Self::Health,
        Self::Connection,
    ];

    /// Whether its requests have lines in the log: health checks would fill it.
    pub(crate) fn is_logged(self) -> bool {
        self != Self::Health
    }

    /// Every label, in the order of their counters.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let operations = Operation::ALL.map(Self::Operation);
        operations.into_iter().chain(Self::OTHERS)
    }

    const fn index(self) -> usize {
        let others = Operation::ALL.len();
        match self {
            Self::Operation(operation) => operation as usize,
            Self::Unknown => others,
            Self::Docs => others + 1,
            Self::Preflight => others + 2,
            Self::Health => others + 3,
            Self::Connection => others + 4,
        }
    }

    pub(crate) const fn of(route: &Route<'_>) -> Self {
        match route {
            Route::Operation(call) => Self::Operation(call.operation),
            Route::Public(PublicResource::Liveness | PublicResource::Readiness) => Self::Health,
            Route::Public(_) => Self::Docs,
            Route::Preflight { .. } => Self::Preflight,
            Route::WrongMethod { .. }
            | Route::Unknown
            | Route::PublicWrongMethod
            | Route::PublicUnknown => Self::Unknown,
        }
    }

    /// Its name: the `operationId` of an operation.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Operation(operation) => operation.name(),
            Self::Unknown => "unknown",
            Self::Docs => "docs",
            Self::Preflight => "preflight",
            Self::Health => "health",
            Self::Connection => "connection",
        }
    }
}

/// The status counted for a request that was cancelled before its response was ready.
pub(crate) const CANCELLED_STATUS: u16 = 499;

/// Every status that the API listener counts. The list is searched from its beginning. A status that is missing
/// would be counted as status 0, the last entry.
const STATUSES: [u16; 21] = [
    200,
    201,
    302,
    400,
    401,
    404,
    405,
    408,
    409,
    410,
    413,
    414,
    415,
    422,
    429,
    500,
    503,
    CANCELLED_STATUS,
    204,
    304,
    0,
];

/// Statuses that every operation has in `/metrics` before they first occur. A rate begins with the second sample, so the
/// first failures would otherwise not be seen.
const ALWAYS_SHOWN: [u16; 4] = [401, 429, 500, 503];

named! {
    /// Why a request was rejected with a 429.
    pub(crate) enum RejectedBy {
        Window = "window",
        Ban = "ban",
        /// The address had failed to authenticate too often.
        Address = "address",
    }
}

named! {
    pub(crate) enum BackgroundTask {
        /// Polls the store for changes made by other processes.
        Poll = "poll",
        /// Stores usage.
        Flush = "flush",
        /// Stores bans that could not be stored immediately.
        Bans = "bans",
        /// Deletes old records.
        Sweep = "sweep",
        /// Reads the certificate again when its files have changed.
        Certificate = "certificate",
        Backup = "backup",
        /// Reports that this node is alive.
        Heartbeat = "heartbeat",
    }
}

/// The bounds of the histograms of durations, in microseconds.
pub(crate) const DURATION_BOUNDS: [u64; 12] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 50_000, 250_000, 1_000_000, 5_000_000,
];

/// The counters of one worker. Only its thread writes them, and they share no cache line with those of another worker.
#[repr(align(128))]
pub struct WorkerMetrics {
    requests: [[Counter; STATUSES.len()]; OperationLabel::COUNT],
    /// Microseconds from the request head to the response, by label.
    pub(crate) durations: [Histogram<12>; OperationLabel::COUNT],
    rejected: [Counter; RejectedBy::ALL.len()],
    rejected_connections: [Counter; ReachedLimit::ALL.len()],
    /// Requests over HTTP/2 that were rejected because too many were in flight, in total or from one address.
    pub(crate) rejected_streams: Counter,
    /// TLS handshakes that failed or took too long.
    pub(crate) failed_handshakes: Counter,
    pub(crate) bans: Counter,
    /// Accepted connections.
    pub(crate) connections: Counter,
    pub(crate) open_connections: Gauge,
    /// Shared by all workers.
    pub(crate) watched: Arc<WatchedKeys>,
}

impl Default for WorkerMetrics {
    fn default() -> Self {
        Self {
            requests: Default::default(),
            durations: std::array::from_fn(|_| Histogram::new(DURATION_BOUNDS)),
            rejected: Default::default(),
            rejected_connections: Default::default(),
            rejected_streams: Counter::default(),
            failed_handshakes: Counter::default(),
            bans: Counter::default(),
            connections: Counter::default(),
            open_connections: Gauge::default(),
            watched: Arc::default(),
        }
    }
}

impl WorkerMetrics {
    pub fn count(&self, label: OperationLabel, status: u16, took: Duration) {
        let index = STATUSES
            .iter()
            .position(|known| *known == status)
            .unwrap_or(STATUSES.len() - 1);
        self.requests[label.index()][index].add(1);
        self.durations[label.index()].record(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    }

    pub(crate) fn count_rejection(&self, by: RejectedBy) {
        self.rejected[by as usize].add(1);
    }

    pub fn count_rejected_connection(&self, by: ReachedLimit) {
        self.rejected_connections[by as usize].add(1);
    }

    pub fn rejected_connections(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let limits = ReachedLimit::ALL.into_iter();
        limits.map(|by| (by.as_str(), self.rejected_connections[by as usize].get()))
    }

    /// Requests by label and status, without those that have not occurred, except for failures of operations.
    pub(crate) fn requests(&self) -> impl Iterator<Item = (OperationLabel, u16, u64)> {
        OperationLabel::all().flat_map(move |label| {
            let counts = self.requests[label.index()].iter().map(Counter::get);
            let is_operation = matches!(label, OperationLabel::Operation(_));
            let known = STATUSES
                .into_iter()
                .zip(counts)
                .filter(move |(status, count)| {
                    *count > 0 || (is_operation && ALWAYS_SHOWN.contains(status))
                });
            known.map(move |(status, count)| (label, status, count))
        })
    }

    pub(crate) fn rejections(&self) -> [(&'static str, u64); RejectedBy::ALL.len()] {
        RejectedBy::ALL.map(|by| (by.as_str(), self.rejected[by as usize].get()))
    }

    fn counters(&self) -> impl Iterator<Item = &Counter> {
        let requests = self.requests.as_flattened().iter();
        let others = [
            &self.bans,
            &self.connections,
            &self.rejected_streams,
            &self.failed_handshakes,
        ];
        let rejected = self.rejected.iter().chain(&self.rejected_connections);
        requests.chain(rejected).chain(others)
    }

    /// Adds the counts of another worker.
    fn add(&self, other: &Self) {
        for (counter, more) in self.counters().zip(other.counters()) {
            counter.add(more.get());
        }
        for (durations, more) in self.durations.iter().zip(&other.durations) {
            durations.add(more);
        }
        self.open_connections.add(other.open_connections.get());
    }
}

pub struct ServerMetrics {
    workers: Box<[Arc<WorkerMetrics>]>,
    /// The keys whose requests are counted separately.
    pub(crate) watched: Arc<WatchedKeys>,
    /// When the keys in memory were last known to be those of the store. The `Instant` is for their age, which does not depend on the
    /// system clock.
    keys_current_at: Mutex<(Timestamp, Instant)>,
    /// When the certificate in use expires, in milliseconds since the epoch. 0 without one.
    pub(crate) certificate_expires_at: Gauge,
    /// When the last backup was made, in milliseconds since the epoch. 0 before the first one.
    pub(crate) last_backup_at: Gauge,
    /// Runs of background tasks that failed, by task.
    pub(crate) background_failures: [Counter; BackgroundTask::ALL.len()],
}

impl ServerMetrics {
    /// The metrics of a server with this number of workers.
    pub fn new(workers: usize) -> Self {
        let watched: Arc<WatchedKeys> = Arc::default();
        let worker = |_| WorkerMetrics {
            watched: Arc::clone(&watched),
            ..WorkerMetrics::default()
        };
        Self {
            workers: (0..workers).map(worker).map(Arc::new).collect(),
            watched: Arc::clone(&watched),
            keys_current_at: Mutex::new((Timestamp::from_millis(0), Instant::now())),
            certificate_expires_at: Gauge::default(),
            last_backup_at: Gauge::default(),
            background_failures: Default::default(),
        }
    }

    pub fn worker(&self, number: usize) -> &Arc<WorkerMetrics> {
        &self.workers[number]
    }

    /// The sum of the counters of all workers.
    pub(crate) fn total(&self) -> WorkerMetrics {
        let total = WorkerMetrics::default();
        for worker in &self.workers {
            total.add(worker);
        }
        total
    }

    /// Records that the keys in memory are those that the store had at this time.
    pub(crate) fn set_keys_current(&self, at: (Timestamp, Instant)) {
        *lock(&self.keys_current_at) = at;
    }

    /// When the keys in memory were last known to be those of the store, and how long ago that is.
    pub(crate) fn keys_current(&self) -> (Timestamp, Duration) {
        let (at, instant) = *lock(&self.keys_current_at);
        (at, instant.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GET_PET: OperationLabel = OperationLabel::Operation(Operation::GetPet);

    #[test]
    fn every_label_has_separate_counters() {
        let indexes: Vec<_> = OperationLabel::all().map(OperationLabel::index).collect();
        assert_eq!(indexes, (0..OperationLabel::COUNT).collect::<Vec<_>>());
    }

    #[test]
    fn the_counters_of_all_workers_are_summed_when_they_are_read() {
        let metrics = ServerMetrics::new(2);
        for (number, micros) in [(0, 60), (1, 60), (1, 600)] {
            let worker = metrics.worker(number);
            worker.count(GET_PET, 200, Duration::from_micros(micros));
            worker.count_rejection(RejectedBy::Ban);
            worker.count_rejected_connection(ReachedLimit::Address);
            worker.bans.add(1);
            worker.connections.add(1);
            worker
                .open_connections
                .add(if number == 0 { -1 } else { 2 });
        }
        let total = metrics.total();
        let (zero, counted): (Vec<_>, Vec<_>) =
            total.requests().partition(|(_, _, count)| *count == 0);
        assert_eq!(counted, [(GET_PET, 200, 3)]);
        assert!(
            zero.contains(&(GET_PET, 503, 0)) && !zero.contains(&(OperationLabel::Docs, 503, 0))
        );
        let durations = &total.durations[GET_PET.index()];
        let counts: Vec<_> = durations
            .buckets()
            .filter(|(_, count)| *count > 0)
            .collect();
        assert_eq!(counts, [(Some(100), 2), (Some(1_000), 1)]);
        assert_eq!(durations.sum(), 720);
        assert_eq!(total.rejections()[1], ("ban", 3));
        let connections: Vec<_> = total.rejected_connections().collect();
        assert_eq!(connections, [("total", 0), ("address", 3)]);
        assert_eq!((total.bans.get(), total.connections.get()), (3, 3));
        assert_eq!(total.open_connections.get(), 3);
    }
}
