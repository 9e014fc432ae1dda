//! How long writes wait for an import that is inserting its animals.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// A million animals are inserted and committed within seconds, even on a busy machine; an import that takes longer than this is
/// assumed to be suspended.
const IMPORT_TIMEOUT: Duration = Duration::from_secs(300);

/// Since when writes have waited for an import. Not for each batch alone: if the import is suspended, only the first waits long.
#[derive(Default)]
pub(super) struct ImportWait(Cell<Option<Instant>>);

impl ImportWait {
    /// Starts the wait, unless it has started, and returns whether to keep waiting.
    pub(super) fn may_continue(&self, now: Instant) -> bool {
        let since = self.0.get().unwrap_or(now);
        self.0.set(Some(since));
        now.duration_since(since) < IMPORT_TIMEOUT
    }

    pub(super) fn end(&self) {
        self.0.set(None);
    }

    /// Ends the wait unless an import is still inserting, so that the next import gets the full timeout.
    pub(super) fn end_unless(&self, is_importing: impl FnOnce() -> bool) {
        if self.0.get().is_some() && !is_importing() {
            self.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_batch_waits_for_an_import_that_is_suspended() {
        let wait = ImportWait::default();
        let began = Instant::now();
        let last = began + IMPORT_TIMEOUT;
        assert!(wait.may_continue(began));
        assert!(wait.may_continue(last - Duration::from_secs(1)));
        assert!(!wait.may_continue(last));
        assert!(!wait.may_continue(last + Duration::from_secs(2)));
        wait.end_unless(|| true);
        assert!(!wait.may_continue(last + Duration::from_secs(3)));
        wait.end_unless(|| false);
        assert!(wait.may_continue(last + Duration::from_secs(4)));
        wait.end();
        assert!(wait.may_continue(last + IMPORT_TIMEOUT + Duration::from_secs(5)));
    }
}
