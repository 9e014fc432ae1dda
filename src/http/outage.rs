//! Failures to accept connections. While files are exhausted, an accept loop fails many times a second, and now and then succeeds:
//! that is one line in the log when it starts, and one when it ends.

use std::time::Duration;

use tokio::time::Instant;

/// How long no accept must have failed for an outage to have ended.
const SETTLED: Duration = Duration::from_secs(5);

/// The current outage of an accept loop, if there is one.
#[derive(Default)]
pub(super) struct Outage(Option<FailedAccepts>);

struct FailedAccepts {
    count: u64,
    last: Instant,
}

impl Outage {
    /// Records a failed accept. Returns true if an outage starts with it.
    pub(super) fn fail(&mut self) -> bool {
        let last = Instant::now();
        let count = self.0.as_ref().map_or(0, |failures| failures.count) + 1;
        self.0 = Some(FailedAccepts { count, last });
        count == 1
    }

    /// Records an accepted connection. Returns how many accepts have failed, if an outage ends with it.
    pub(super) fn succeed(&mut self) -> Option<u64> {
        let ended = self
            .0
            .take_if(|failures| failures.last.elapsed() >= SETTLED)?;
        Some(ended.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_starts_with_the_first_failure_and_ends_when_none_has_followed_for_a_while() {
        let mut outage = Outage::default();
        assert_eq!(outage.succeed(), None);
        assert!(outage.fail());
        assert_eq!(outage.succeed(), None, "another may follow");
        assert!(!outage.fail());
        if let Some(failures) = &mut outage.0 {
            failures.last -= SETTLED;
        }
        assert_eq!(outage.succeed(), Some(2));
        assert_eq!(outage.succeed(), None);
        assert!(outage.fail());
    }
}
