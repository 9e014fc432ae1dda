//! What the server counts of requests, for the metrics page.

use std::time::Duration;

use crate::api::operation::OpenPage;
use crate::api::{Operation, Route};
use crate::clock::Timestamp;
use crate::tally::{Counter, Gauge, Histogram};

/// What a request was about, in the log and in metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// `listPets`
    ListPets,
    /// `createPet`
    CreatePet,
    /// `getPet`
    GetPet,
    /// `listOrders`
    ListOrders,
    /// A path or method that is no operation.
    Unknown,
    /// The docs and the document.
    Docs,
    /// Health checks, which are not logged.
    Health,
    /// None: a connection for which there was no place, or whose head never ended.
    Connection,
}

impl Subject {
    /// Every subject, in the order of their counters.
    pub const ALL: [Self; 8] = [
        Self::ListPets,
        Self::CreatePet,
        Self::GetPet,
        Self::ListOrders,
        Self::Unknown,
        Self::Docs,
        Self::Health,
        Self::Connection,
    ];

    /// The subject of a route.
    pub const fn of(route: &Route<'_>) -> Self {
        match route {
            Route::Operation(Operation::ListPets) => Self::ListPets,
            Route::Operation(Operation::CreatePet) => Self::CreatePet,
            Route::Operation(Operation::GetPet { .. }) => Self::GetPet,
            Route::Operation(Operation::ListOrders) => Self::ListOrders,
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
            Self::ListPets => "listPets",
            Self::CreatePet => "createPet",
            Self::GetPet => "getPet",
            Self::ListOrders => "listOrders",
            Self::Unknown => "unknown",
            Self::Docs => "docs",
            Self::Health => "health",
            Self::Connection => "connection",
        }
    }
}

/// The status told of a request that was given up before it was answered.
pub const GIVEN_UP: u16 = 499;

/// Every status the server can give. One that is missing here would be counted as the last.
pub const STATUSES: [u16; 19] = [
    200, 201, 302, 400, 401, 404, 405, 408, 409, 410, 413, 414, 415, 422, 429, 500, 503, GIVEN_UP,
    0,
];

/// Why a request was answered 429.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// A window of the key was used up.
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

/// The counters.
#[derive(Debug)]
pub struct Tallies {
    requests: [[Counter; STATUSES.len()]; Subject::ALL.len()],
    /// Microseconds from head to answer, by subject.
    pub durations: [Histogram<12>; Subject::ALL.len()],
    refused: [Counter; 3],
    /// Bans begun.
    pub bans: Counter,
    /// Connections accepted.
    pub connections: Counter,
    /// Connections that are open.
    pub open_connections: Gauge,
    /// When the keys in memory were last known to be those of the store, in milliseconds since the epoch.
    pub keys_current_at: Gauge,
    /// Runs of background tasks that failed, by task.
    pub background_failures: [Counter; Task::ALL.len()],
}

impl Default for Tallies {
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
            keys_current_at: Gauge::default(),
            background_failures: Default::default(),
        }
    }
}

impl Tallies {
    /// Counts a request.
    pub fn count(&self, subject: Subject, status: u16, took: Duration) {
        let place = STATUSES
            .iter()
            .position(|known| *known == status)
            .unwrap_or(STATUSES.len() - 1);
        self.requests[subject as usize][place].add(1);
        self.durations[subject as usize]
            .record(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    }

    /// Counts a refusal.
    pub fn refuse(&self, why: Refused) {
        self.refused[why as usize].add(1);
    }

    /// How long ago the keys in memory were last known to be those of the store.
    pub fn keys_age(&self, now: Timestamp) -> Duration {
        let millis = now.as_millis() - self.keys_current_at.get();
        Duration::from_millis(u64::try_from(millis).unwrap_or(0))
    }

    /// Requests by subject and status, those that occurred.
    pub fn requests(&self) -> impl Iterator<Item = (Subject, u16, u64)> {
        Subject::ALL.into_iter().flat_map(move |subject| {
            let counts = self.requests[subject as usize].iter().map(Counter::get);
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
}
