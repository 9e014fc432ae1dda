//! How many requests a key may make, decided for each request: both windows together, and the ban.
//! Knows keys only by their meters and time only as it is told; knows nothing of HTTP.

pub mod ban;
pub mod memory;
mod meters;
pub mod redis;
pub mod ruling;
pub mod window;

pub use ban::{Ban, BanChange, BanPolicy};
pub use memory::{DayUse, Meter};
pub use meters::{MeterIndex, Meters};
pub use redis::{Redis, RedisUrl};
pub use window::{Period, Rate};

use crate::clock::Timestamp;
use crate::key::KeyId;
use crate::plan::Limits;

/// What was decided about one request, and what its headers say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// May it go on?
    pub verdict: Verdict,
    /// The window its headers show.
    pub rate: Rate,
    /// The time it was decided at, by the clock that counts.
    pub now: Timestamp,
    /// Whether this is the first thing the meter has to tell since it was last read out.
    pub first_unread: bool,
    /// The ban, if a clock that ran ahead had dated it into the future, and this request has set that right.
    pub moved: Option<BanChange>,
}

/// May a request go on?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Yes, and it has been counted in both windows.
    Admitted,
    /// No: a window is used up until then.
    RateLimited {
        /// The window.
        by: Period,
        /// When a request will be served again.
        until: Timestamp,
    },
    /// No: the key is banned.
    Banned {
        /// When a request will be served again: at the end of the ban, or of a used-up window that ends later.
        until: Timestamp,
        /// The ban, if it was this very request that brought it on.
        new: Option<Ban>,
    },
}

/// The engine that decides. The set is closed.
#[derive(Debug)]
pub enum Limiter {
    /// The counters live in this process, in the meter each key carries.
    Memory(BanPolicy),
    /// They live in Redis, for all nodes.
    Redis(Redis),
}

impl Limiter {
    /// Makes ready what decisions need, on the thread that will ask for them.
    pub async fn begin(&self) {
        if let Self::Redis(redis) = self {
            redis.begin().await;
        }
    }

    /// Decides about one request of the key with this meter. Exact under concurrency: never one more than the limit.
    pub async fn decide(
        &self,
        key: KeyId,
        meter: &Meter,
        limits: Limits,
        now: Timestamp,
    ) -> Decision {
        match self {
            Self::Memory(bans) => meter.decide(limits, bans, now),
            // In a box of its own, so that requests carry its state only where there is a Redis.
            Self::Redis(redis) => Box::pin(redis.decide(key, meter, limits)).await,
        }
    }
}
