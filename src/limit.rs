//! Rate limits of keys, decided for each request: both windows together, and the ban. Knows nothing of HTTP.

mod ban;
mod decision;
mod memory;
mod meters;
pub mod redis;
mod usage;
pub(crate) mod window;

pub(crate) use ban::MAX_BAN_DURATION;
pub use ban::{Ban, BanChange, BanPolicy};
pub use decision::{Admission, Decision};
pub use memory::Meter;
pub use meters::{MeterIndex, Meters};
pub use redis::{RedisClient, RedisLimiter, RedisUrl};
pub use usage::DayUsage;
pub use window::{Period, Quota};

// The `sync` whose `Mutex` `memory` uses; `tests/interleavings` substitutes one that its scheduler controls.
use std::sync::{self, Arc};

use crate::clock::Timestamp;
use crate::key::KeyIdentity;
use crate::plan::Limits;

/// Where requests are counted and decided.
pub enum Limiter {
    /// The counters are in this process, in the meter of each key.
    Memory(BanPolicy),
    /// The counters are in Redis, for all nodes.
    Redis(Arc<RedisLimiter>),
}

impl Limiter {
    /// Prepares for decisions, on the thread that will request them.
    pub async fn begin(&self) {
        if let Self::Redis(redis) = self {
            redis.begin().await;
        }
    }

    /// Decides about one request of the key with this meter. Exact under concurrency, on all nodes together while
    /// Redis responds. Without it each node counts separately.
    pub async fn decide(
        &self,
        key: KeyIdentity,
        meter: &Meter,
        limits: Limits,
        now: Timestamp,
    ) -> Decision {
        match self {
            Self::Memory(bans) => meter.decide(limits, bans, now),
            // Boxed, so that the state of a request includes it only if Redis is used.
            Self::Redis(redis) => Box::pin(redis.decide(key, meter, limits)).await,
        }
    }
}
