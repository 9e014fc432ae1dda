//! What the server counts, for the metrics page. Each worker has counters of its own, which are summed when the page is read:
//! a counter that all cores write costs each of them a cache miss for each request.

use std::sync::Arc;
use std::time::Duration;

use crate::api::operation::OpenPage;
use crate::api::{Operation, Route};
use crate::clock::Timestamp;
use crate::counter::{Counter, Gauge, Histogram};

/// What a request was about, in the log and in metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// An operation.
    Operation(Operation),
    /// A path or method that is no operation.
    Unknown,
    /// The docs and the OpenAPI document.
    Docs,
    /// Health checks, which are not logged.
    Health,
    /// No request: a connection that was refused, or whose request head never ended.
    Connection,
}

impl Subject {
    /// How many there are.
    pub const COUNT: usize = Self::OTHERS.len() + Operation::ALL.len();

    const OTHERS: [Self; 4] = [Self::Unknown, Self::Docs, Self::Health, Self::Connection];

    /// Every subject, in the order of their counters.
    pub fn all() -> impl Iterator<Item = Self> {
        let operations = Operation::ALL.map(Self::Operation);
        operations.into_iter().chain(Self::OTHERS)
    }

    /// Its place among all.
    pub const fn index(self) -> usize {
        let others = Operation::ALL.len();
        match self {
            Self::Operation(operation) => operation as usize,
            Self::Unknown => others,
            Self::Docs => others + 1,
            Self::Health => others + 2,
            Self::Connection => others + 3,
        }
    }

    /// The subject of a route.
    pub const fn of(route: &Route<'_>) -> Self {
        match route {
            Route::Operation(call) => Self::Operation(call.operation),
            Route::Open(OpenPage::Live | OpenPage::Ready) => Self::Health,
            Route::Open(_) => Self::Docs,
            Route::WrongMethod { .. }
            | Route::Unknown
            | Route::OpenWrongMethod
            | Route::OpenUnknown => Self::Unknown,
        }
    }

    /// Its name: the `operationId`, where there is one.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Operation(operation) => operation.name(),
            Self::Unknown => "unknown",
            Self::Docs => "docs",
            Self::Health => "health",
            Self::Connection => "connection",
        }
    }
}

/// The status counted for a request that was cancelled before its response was ready.
pub const CANCELLED: u16 = 499;

/// Every status the server can send. One that is missing here would be counted as the last.
pub const STATUSES: [u16; 19] = [
    200, 201, 302, 400, 401, 404, 405, 408, 409, 410, 413, 414, 415, 422, 429, 500, 503, CANCELLED,
    0,
];

/// Why a request was refused with a 429.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// A window of the key was exhausted.
    Window,
    /// The key was banned.
    Ban,
    /// The address had failed to authenticate too often.
    Address,
}

/// A background task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Polls the store for changes that others made.
    Poll,
    /// Stores what was counted.
    Flush,
    /// Deletes what is too old.
    Sweep,
    /// Checks whether the server can serve.
    Check,
}

impl Task {
    /// Every task, in the order of their counters.
    pub const ALL: [Self; 4] = [Self::Poll, Self::Flush, Self::Sweep, Self::Check];

    /// Its name in the log and in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Poll => "poll",
            Self::Flush => "flush",
            Self::Sweep => "sweep",
            Self::Check => "check",
        }
    }
}

/// The counters of one worker. Only its thread writes them, and they share no cache line with another's.
#[derive(Debug)]
#[repr(align(128))]
pub struct RequestMetrics {
    requests: [[Counter; STATUSES.len()]; Subject::COUNT],
    /// Microseconds from the request head to the response, by subject.
    pub durations: [Histogram<12>; Subject::COUNT],
    refused: [Counter; 3],
    /// Bans begun.
    pub bans: Counter,
    /// Connections accepted.
    pub connections: Counter,
    /// Connections that are open.
    pub open_connections: Gauge,
}

impl Default for RequestMetrics {
    fn default() -> Self {
        const BOUNDS: [u64; 12] = [
            50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 50_000, 250_000, 1_000_000, 5_000_000,
        ];
        Self {
            requests: Default::default(),
            durations: std::array::from_fn(|_| Histogram::new(BOUNDS)),
            refused: Default::default(),
            bans: Counter::default(),
            connections: Counter::default(),
            open_connections: Gauge::default(),
        }
    }
}

impl RequestMetrics {
    /// Counts a request.
    pub fn count(&self, subject: Subject, status: u16, took: Duration) {
        let index = STATUSES
            .iter()
            .position(|known| *known == status)
            .unwrap_or(STATUSES.len() - 1);
        self.requests[subject.index()][index].add(1);
        self.durations[subject.index()].record(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    }

    /// Counts a refusal.
    pub fn refuse(&self, why: Refused) {
        self.refused[why as usize].add(1);
    }

    /// Requests by subject and status, those that occurred.
    pub fn requests(&self) -> impl Iterator<Item = (Subject, u16, u64)> {
        Subject::all().flat_map(move |subject| {
            let counts = self.requests[subject.index()].iter().map(Counter::get);
            let known = STATUSES
                .into_iter()
                .zip(counts)
                .filter(|(_, count)| *count > 0);
            known.map(move |(status, count)| (subject, status, count))
        })
    }

    /// Refusals by reason.
    pub fn refusals(&self) -> [(&'static str, u64); 3] {
        let count = |why: Refused| self.refused[why as usize].get();
        [
            ("window", count(Refused::Window)),
            ("ban", count(Refused::Ban)),
            ("address", count(Refused::Address)),
        ]
    }

    fn counters(&self) -> impl Iterator<Item = &Counter> {
        let requests = self.requests.as_flattened().iter();
        let connections = [&self.bans, &self.connections];
        requests.chain(&self.refused).chain(connections)
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

/// The metrics of a server.
#[derive(Debug)]
pub struct ServerMetrics {
    workers: Box<[Arc<RequestMetrics>]>,
    /// When the keys in memory were last known to be those of the store, in milliseconds since the epoch.
    pub keys_current_at: Gauge,
    /// Runs of background tasks that failed, by task.
    pub background_failures: [Counter; Task::ALL.len()],
}

impl ServerMetrics {
    /// The metrics of a server with so many workers.
    pub fn new(workers: usize) -> Self {
        Self {
            workers: (0..workers).map(|_| Arc::default()).collect(),
            keys_current_at: Gauge::default(),
            background_failures: Default::default(),
        }
    }

    /// The counters of the worker with this number.
    pub fn worker(&self, number: usize) -> &Arc<RequestMetrics> {
        &self.workers[number]
    }

    /// What all workers have counted together.
    pub fn requests(&self) -> RequestMetrics {
        let total = RequestMetrics::default();
        for worker in &self.workers {
            total.add(worker);
        }
        total
    }

    /// How long ago the keys in memory were last known to be those of the store.
    pub fn keys_age(&self, now: Timestamp) -> Duration {
        let millis = now.as_millis() - self.keys_current_at.get();
        Duration::from_millis(u64::try_from(millis).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GET_PET: Subject = Subject::Operation(Operation::GetPet);

    #[test]
    fn every_subject_has_counters_of_its_own() {
        let indexes: Vec<_> = Subject::all().map(Subject::index).collect();
        assert_eq!(indexes, (0..Subject::COUNT).collect::<Vec<_>>());
    }

    #[test]
    fn what_workers_count_is_summed_when_it_is_read() {
        let metrics = ServerMetrics::new(2);
        for (number, micros) in [(0, 60), (1, 60), (1, 600)] {
            let worker = metrics.worker(number);
            worker.count(GET_PET, 200, Duration::from_micros(micros));
            worker.refuse(Refused::Ban);
            worker.bans.add(1);
            worker.connections.add(1);
            worker
                .open_connections
                .add(if number == 0 { -1 } else { 2 });
        }
        let total = metrics.requests();
        assert_eq!(total.requests().collect::<Vec<_>>(), [(GET_PET, 200, 3)]);
        let durations = &total.durations[GET_PET.index()];
        let counts: Vec<_> = durations
            .buckets()
            .filter(|(_, count)| *count > 0)
            .collect();
        assert_eq!(counts, [(Some(100), 2), (Some(1_000), 1)]);
        assert_eq!(durations.sum(), 720);
        assert_eq!(total.refusals()[1], ("ban", 3));
        assert_eq!((total.bans.get(), total.connections.get()), (3, 3));
        assert_eq!(total.open_connections.get(), 3);
    }
}
