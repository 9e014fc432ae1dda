//! The first steps of a request: whose it is, and whether it is within the limits of its key.

use std::sync::Arc;

use super::super::record::RequestState;
use super::super::shared::Shared;
use super::{Pipeline, Request};
use crate::access::{Authentication, Credentials, SecretGrant};
use crate::api::ApiError;
use crate::key::KeyIdentity;
use crate::limit::{Admission, Ban, BanChange};
use crate::metrics::RejectedBy;

impl Pipeline {
    /// Authenticates a request, and records its key.
    pub(super) async fn authenticate(
        &self,
        request: &Request<'_>,
        state: &RequestState,
    ) -> Result<SecretGrant, ApiError> {
        let Shared { access, store, .. } = &*self.shared;
        let (address, now) = (request.client.address, request.now);
        let credentials = Credentials::of(request.head.authorization);
        match access
            .authenticate(store, credentials, request.last_key, address, now)
            .await?
        {
            Authentication::Key(key) => {
                state.key.set(Some(key.identity.id));
                Ok(key)
            }
            Authentication::Failed(quota) => {
                state.quota.set(Some(quota));
                Err(match credentials {
                    Credentials::Missing => ApiError::MissingApiKey,
                    Credentials::Several => ApiError::SeveralApiKeys,
                    Credentials::Token(_) => ApiError::InvalidApiKey,
                })
            }
            Authentication::TooManyFailures(quota) => {
                state.quota.set(Some(quota));
                self.metrics.count_rejection(RejectedBy::Address);
                Err(ApiError::TooManyFailures {
                    retry_after: quota.reset.seconds_from(now),
                })
            }
        }
    }

    /// Counts a request against the limits of its key.
    pub(super) async fn limit(
        &self,
        key: &SecretGrant,
        request: &Request<'_>,
        state: &RequestState,
    ) -> Result<(), ApiError> {
        let Shared {
            access,
            write_behind,
            ..
        } = &*self.shared;
        let meter = access.directory.meter(key);
        let decided = self
            .limiter
            .decide(key.identity, meter, key.limits, request.now);
        // Redis may have counted the request, or banned the key.
        request.exchange.set_uncancellable(true);
        let decision = decided.await;
        request.exchange.set_uncancellable(false);
        let now = decision.now;
        state.quota.set(Some(decision.quota));
        if decision.first_unstored {
            write_behind.mark_used(self.worker, key);
        }
        if let Some(change) = decision.unstored_ban {
            // One that is only corrected was logged when it began. During an outage, the node that imposed it has logged it, but
            // cannot store it yet. Otherwise, most likely nobody has: that node was killed, or did not get the reply with the ban.
            if change.replaces.is_none() && !self.shared.readiness.in_outage() {
                self.log_ban(key.identity, &change.ban);
            }
            self.store_ban(key.identity, change);
        }
        match decision.admission {
            Admission::Admitted => Ok(()),
            Admission::RateLimited { by, until } => {
                self.metrics.count_rejection(RejectedBy::Window);
                Err(ApiError::RateLimited {
                    by,
                    retry_after: until.seconds_from(now),
                })
            }
            Admission::Banned { until, new } => {
                self.metrics.count_rejection(RejectedBy::Ban);
                if let Some(ban) = new {
                    self.log_ban(key.identity, &ban);
                    self.store_ban(key.identity, ban.into());
                }
                Err(ApiError::KeyBanned {
                    retry_after: until.seconds_from(now),
                })
            }
        }
    }

    /// Counts a new ban, and logs it.
    fn log_ban(&self, key: KeyIdentity, ban: &Ban) {
        self.metrics.bans.add(1);
        tracing::warn!(key = key.id.0, until = %ban.until, "key banned");
    }

    /// Stores a ban immediately, so that it survives a crash. If this fails, the next flush retries it.
    fn store_ban(&self, key: KeyIdentity, ban: BanChange) {
        let shared = Arc::clone(&self.shared);
        shared.write_behind.record_ban(key, ban);
        tokio::task::spawn_local(async move {
            if let Err(error) = shared.join_flush_of_bans().await {
                match shared.readiness.in_outage() {
                    true => tracing::debug!(%error, "a ban could not be stored yet"),
                    false => tracing::warn!(%error, "a ban could not be stored yet"),
                }
            }
        });
    }
}
