//! Metrics of a writer.

use crate::counter::{Counter, Histogram};

/// Counts of transactions and creations.
#[derive(Debug)]
pub struct Commits {
    /// Transactions that wrote something.
    pub done: Counter,
    /// Transactions that failed: nothing in them was acknowledged.
    pub failed: Counter,
    /// Animals per transaction that created any.
    pub rows: Histogram<8>,
    /// Creations rejected because too many were waiting.
    pub rejected: Counter,
}

impl Default for Commits {
    fn default() -> Self {
        Self {
            done: Counter::default(),
            failed: Counter::default(),
            rows: Histogram::new([1, 4, 8, 16, 32, 64, 128, 256]),
            rejected: Counter::default(),
        }
    }
}
