//! The limiter beside the model.

use std::sync::{Arc, OnceLock};

use animal_store::clock::{Clock, Timestamp};
use animal_store::key::KeyId;
use animal_store::limit::redis::{Health, Redis, RedisUrl};
use animal_store::limit::{BanPolicy, Decision, Limiter, Meter};
use animal_store::plan::Limits;
use proptest::prelude::*;
use tokio::runtime::{Builder, Runtime};
use tokio::task::LocalSet;

/// The limiter that is tested: the one in memory or, where `ANIMAL_STORE_TEST_REDIS` names one, that in Redis.
pub(super) struct Tested {
    limiter: Limiter,
    clock: Clock,
    runtime: Runtime,
    /// Where the limiter looks after its connection.
    tasks: LocalSet,
    pub(super) redis: Option<Arc<Health>>,
}

impl Tested {
    pub(super) fn new(policy: BanPolicy) -> Self {
        let clock = Clock::manual(Timestamp::default());
        let health = Arc::default();
        static REDIS: OnceLock<Option<RedisUrl>> = OnceLock::new();
        let url = REDIS.get_or_init(harness::redis_url).clone();
        let redis = url.is_some().then(|| Arc::clone(&health));
        let limiter = match url {
            Some(url) => Limiter::Redis(Redis::new(url, policy, clock.clone(), health)),
            None => Limiter::Memory(policy),
        };
        let runtime = Builder::new_current_thread().enable_all().build();
        let (runtime, tasks) = (runtime.expect("a runtime"), LocalSet::new());
        tasks.block_on(&runtime, limiter.begin());
        Self {
            limiter,
            clock,
            runtime,
            tasks,
            redis,
        }
    }

    /// A case in which Redis was late proves nothing about it, and is replaced by another.
    pub(super) fn decide(
        &self,
        key: KeyId,
        meter: &Meter,
        limits: Limits,
        now: i64,
    ) -> Result<Decision, TestCaseError> {
        let now = Timestamp::from_millis(now);
        self.clock.set(now);
        let decided = self.limiter.decide(key, meter, limits, now);
        let decision = self.tasks.block_on(&self.runtime, decided);
        let is_well = self.redis.as_ref().is_none_or(|redis| redis.is_well());
        match is_well {
            true => Ok(decision),
            false => Err(TestCaseError::reject("Redis was late")),
        }
    }
}
