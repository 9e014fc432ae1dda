//! The limiter of one process, with a lock whose every interleaving a test can choose.

#[path = "../../src/clock.rs"]
pub mod clock;
pub mod limit;
#[path = "../../src/names.rs"]
mod names;
#[path = "../../src/plan.rs"]
pub mod plan;
