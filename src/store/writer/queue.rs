//! The limit of creations that wait for a writer. Writes of the server itself are few, and always accepted.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::Commits;
use crate::store::contract::{Result, StoreError};

/// The number of creations that wait. Each enters before it is queued, and leaves when the writer adds it to a transaction.
#[derive(Debug)]
pub(crate) struct QueueLimit {
    now: AtomicUsize,
    most: usize,
}

impl QueueLimit {
    /// An empty queue with this limit.
    pub(crate) fn at_most(most: usize) -> Self {
        Self {
            now: AtomicUsize::new(0),
            most,
        }
    }

    /// Admits one more, or rejects it and counts the rejection.
    pub(crate) fn enter(&self, commits: &Commits) -> Result<()> {
        // Raised before it is compared, so that no two creations get the last place.
        if self.now.fetch_add(1, Ordering::Relaxed) >= self.most {
            self.leave(1);
            commits.rejected.add(1);
            return Err(StoreError::Unavailable(
                "too many writes are waiting".into(),
            ));
        }
        Ok(())
    }

    /// The number that wait.
    pub(crate) fn len(&self) -> usize {
        self.now.load(Ordering::Relaxed)
    }

    /// Removes this number of creations.
    pub(crate) fn leave(&self, count: usize) {
        self.now.fetch_sub(count, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_creation_beyond_the_limit_is_rejected_and_counted_and_takes_no_place() {
        let (queue, commits) = (QueueLimit::at_most(2), Commits::default());
        for _ in 0..2 {
            queue.enter(&commits).expect("a place");
        }
        for _ in 0..3 {
            let rejected = queue.enter(&commits);
            assert!(matches!(rejected, Err(StoreError::Unavailable(_))));
        }
        assert_eq!(commits.rejected.get(), 3);
        queue.leave(2);
        for _ in 0..2 {
            queue.enter(&commits).expect("a place");
        }
        assert!(queue.enter(&commits).is_err());
    }
}
