//! The files of the limiter as they are, but for the lock.

#[path = "../../src/limit/ban.rs"]
mod ban;
#[path = "../../src/limit/decision.rs"]
mod decision;
#[path = "../../src/limit/memory.rs"]
mod memory;
#[path = "../../src/limit/usage.rs"]
mod usage;
#[path = "../../src/limit/window.rs"]
mod window;

pub use ban::{Ban, BanChange, BanPolicy};
pub use decision::{Admission, Decision};
pub use memory::Meter;
pub use usage::DayUsage;
pub use window::{Period, Quota};

#[cfg(not(test))]
use shuttle::sync;
// The tests next to the code, which `--lib` compiles here too, choose no interleaving.
#[cfg(test)]
use std::sync;
