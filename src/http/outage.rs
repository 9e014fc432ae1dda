//! Failures to accept connections. While file descriptors are exhausted, an accept loop fails many times a second, and now and then
//! succeeds: that is one line in the log when it starts, and one when it ends.

use std::time::Duration;

use tokio::time::Instant;

/// The time without a failed accept after which an outage has ended.
const SETTLE_TIME: Duration = Duration::from_secs(5);

/// The current outage of an accept loop, if there is one: how many accepts have failed, and when the last one did.
#[derive(Default)]
pub(super) struct Outage {
    failures: u64,
    last: Option<Instant>,
}

impl Outage {
    /// Records a failed accept. Returns true if an outage starts with it.
    pub(super) fn fail(&mut self) -> bool {
        self.last = Some(Instant::now());
        self.failures += 1;
        self.failures == 1
    }

    /// Records an accepted connection. Returns how many accepts have failed, if an outage ends with it.
    pub(super) fn succeed(&mut self) -> Option<u64> {
        self.last.take_if(|last| last.elapsed() >= SETTLE_TIME)?;
        Some(std::mem::take(&mut self.failures))
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
        outage.last = outage.last.map(|last| last - SETTLE_TIME);
        assert_eq!(outage.succeed(), Some(2));
        assert_eq!(outage.succeed(), None);
        assert!(outage.fail());
    }
}
