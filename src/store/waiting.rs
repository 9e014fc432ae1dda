//! The creations that wait for a writer, and how many may.
//!
//! What the server itself has to write is little, and always taken: nobody asks here for it.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Commits, Result, StoreError};

/// How many wait. Those who create enter, and the writer lets them go when it takes them into a transaction.
#[derive(Debug)]
pub(super) struct Waiting {
    now: AtomicUsize,
    most: usize,
}

impl Waiting {
    /// Nobody yet, and at most so many.
    pub(super) fn at_most(most: usize) -> Self {
        Self {
            now: AtomicUsize::new(0),
            most,
        }
    }

    /// One more waits, or is refused, and counted as such, because too many do.
    pub(super) fn enter(&self, commits: &Commits) -> Result<()> {
        // Raised first and looked at then: two callers can never both take the last place.
        if self.now.fetch_add(1, Ordering::Relaxed) >= self.most {
            self.leave(1);
            commits.refused.add(1);
            return Err(StoreError::Unavailable(
                "too many writes are waiting".into(),
            ));
        }
        Ok(())
    }

    /// How many wait.
    pub(super) fn count(&self) -> usize {
        self.now.load(Ordering::Relaxed)
    }

    /// So many wait no longer.
    pub(super) fn leave(&self, count: usize) {
        self.now.fetch_sub(count, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_when_all_places_are_taken_is_refused_and_counted_and_takes_none() {
        let (waiting, commits) = (Waiting::at_most(2), Commits::default());
        for _ in 0..2 {
            waiting.enter(&commits).expect("a place");
        }
        for _ in 0..3 {
            let refused = waiting.enter(&commits);
            assert!(matches!(refused, Err(StoreError::Unavailable(_))));
        }
        assert_eq!(commits.refused.get(), 3);
        waiting.leave(2);
        for _ in 0..2 {
            waiting.enter(&commits).expect("a place");
        }
        assert!(waiting.enter(&commits).is_err());
    }
}
