//! Spans that no collector has received.

use crate::counter::Counter;

/// The number of spans for each reason to drop them.
#[derive(Debug, Default)]
pub(crate) struct Dropped {
    /// Too many spans waited for the collector.
    pub(crate) queue_full: Counter,
    /// The collector was not reached, or returned an error.
    pub(crate) export_failed: Counter,
    /// The collector accepted only the other spans of an export.
    pub(crate) rejected: Counter,
}

impl Dropped {
    pub(crate) fn by_reason(&self) -> [(&'static str, u64); 3] {
        [
            ("queue_full", self.queue_full.get()),
            ("export_failed", self.export_failed.get()),
            ("rejected", self.rejected.get()),
        ]
    }
}
