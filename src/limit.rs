//! How many requests a key may make, decided for each request: both windows together, and the ban.
//! Knows keys only by their meters and time only as it is told; knows nothing of HTTP.

pub mod ban;
pub mod memory;
pub mod window;

pub use ban::{Ban, BanPolicy};
pub use memory::{DayUse, Meter};
pub use window::Rate;

use crate::clock::Timestamp;
use crate::plan::Limits;

/// What was decided about one request, and what its headers say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// May it go on?
    pub verdict: Verdict,
    /// The window its headers show.
    pub rate: Rate,
    /// Whether this is the first thing the meter has to tell since it was last read out.
    pub first_unread: bool,
}

/// May a request go on?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Yes, and it has been counted in both windows.
    Admitted,
    /// No: a window is used up until then.
    RateLimited {
        /// When a request will be served again.
        until: Timestamp,
    },
    /// No: the key is banned until then.
    Banned {
        /// When the ban ends.
        until: Timestamp,
        /// The ban, if it was this very request that brought it on.
        new: Option<Ban>,
    },
}

/// The engine that decides. The counters live in this process, in the meter each key carries.
#[derive(Debug)]
pub struct Limiter {
    bans: BanPolicy,
}

impl Limiter {
    /// A limiter that bans by this policy.
    pub const fn new(bans: BanPolicy) -> Self {
        Self { bans }
    }

    /// Decides about one request of the key with this meter. Exact under concurrency: never one more than the limit.
    pub fn decide(&self, meter: &Meter, limits: Limits, now: Timestamp) -> Decision {
        meter.decide(limits, &self.bans, now)
    }
}
