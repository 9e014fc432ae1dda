//! The decisions of a run, by kind.

use animal_store::limit::{Admission, BanPolicy};

/// How often each kind of decision occurred: a run that never bans would prove nothing about bans.
#[derive(Debug, Default)]
pub(super) struct DecisionCounts {
    pub(super) admitted: usize,
    pub(super) limited: usize,
    pub(super) banned: usize,
    pub(super) first_bans: usize,
    pub(super) further_bans: usize,
}

impl DecisionCounts {
    pub(super) fn count(&mut self, admission: Admission, policy: BanPolicy) {
        match admission {
            Admission::Admitted => self.admitted += 1,
            Admission::RateLimited { .. } => self.limited += 1,
            Admission::Banned { new: None, .. } => self.banned += 1,
            Admission::Banned { new: Some(ban), .. } => {
                match ban.until == ban.started_at.plus(policy.first_duration) {
                    true => self.first_bans += 1,
                    false => self.further_bans += 1,
                }
            }
        }
    }

    pub(super) fn all(&self) -> usize {
        self.admitted + self.limited + self.banned + self.first_bans + self.further_bans
    }
}
