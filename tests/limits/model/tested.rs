//! The limiter beside the model.

use std::cell::Cell;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use animal_store::clock::{Clock, Timestamp};
use animal_store::key::KeyId;
use animal_store::limit::redis::{Health, Redis, RedisUrl};
use animal_store::limit::{BanPolicy, Decision, Limiter, Meter};
use animal_store::plan::Limits;
use harness::Proxy;
use tokio::runtime::{Builder, Runtime};
use tokio::task::LocalSet;

use super::lists::Decider;

/// The limiter that is tested: the one in memory or, where `ANIMAL_STORE_TEST_REDIS` names one, that in Redis.
pub(super) struct Tested {
    limiter: Limiter,
    clock: Clock,
    runtime: Runtime,
    /// Where the limiter looks after its connection.
    tasks: LocalSet,
    redis: Option<Wire>,
    /// Whether Redis was away or lost something since that was last asked.
    may_differ: Cell<bool>,
}

/// The way to Redis.
struct Wire {
    health: Arc<Health>,
    proxy: &'static Proxy,
    is_cut: Cell<bool>,
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.proxy.restore();
    }
}

impl Tested {
    pub(super) fn new(policy: BanPolicy) -> Self {
        let clock = Clock::manual(Timestamp::default());
        let health = Arc::default();
        static REDIS: OnceLock<Option<(RedisUrl, Proxy)>> = OnceLock::new();
        let there = REDIS.get_or_init(harness::redis_behind_proxy).as_ref();
        let redis = there.map(|(_, proxy)| Wire {
            health: Arc::clone(&health),
            proxy,
            is_cut: Cell::new(false),
        });
        let limiter = match there {
            Some((url, _)) => Limiter::Redis(Redis::new(
                url.client().expect("no files"),
                "model",
                policy,
                clock.clone(),
                health,
            )),
            None => Limiter::Memory(policy),
        };
        let runtime = Builder::new_current_thread().enable_all().build();
        let (runtime, tasks) = (runtime.expect("a runtime"), LocalSet::new());
        tasks.block_on(&runtime, limiter.begin());
        let tested = Self {
            limiter,
            clock,
            runtime,
            tasks,
            redis,
            may_differ: Cell::new(false),
        };
        tested.redis_returns();
        tested
    }

    pub(super) fn has_redis(&self) -> bool {
        self.redis.is_some()
    }

    /// Redis cannot be reached any more.
    pub(super) fn redis_goes(&self) {
        if let Some(wire) = &self.redis {
            wire.proxy.cut();
            wire.is_cut.set(true);
            self.may_differ.set(true);
        }
    }

    /// Redis can be reached again, and the limiter has noticed.
    pub(super) fn redis_returns(&self) {
        if let Some(wire) = &self.redis {
            wire.proxy.restore();
            wire.is_cut.set(false);
            self.may_differ.set(true);
            self.tasks.block_on(&self.runtime, async {
                while !wire.health.is_healthy() {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            });
        }
    }

    /// Whether the node may know of other windows than Redis does: that was away, since this was last asked.
    pub(super) fn may_differ(&self) -> bool {
        self.may_differ.take()
    }

    /// Whether Redis was there, and yet did not decide in time. If so, returns when it can be asked again.
    pub(super) fn is_late(&self, decider: Decider) -> bool {
        let wire = self.redis.as_ref();
        let is_late = decider == Decider::Node && wire.is_some_and(|wire| !wire.is_cut.get());
        if is_late {
            self.redis_returns();
        }
        is_late
    }

    /// Decides, and returns who did.
    pub(super) fn decide(
        &self,
        key: KeyId,
        meter: &Meter,
        limits: Limits,
        now: i64,
    ) -> (Decision, Decider) {
        let now = Timestamp::from_millis(now);
        self.clock.set(now);
        let decided = self.limiter.decide(key, meter, limits, now);
        let decision = self.tasks.block_on(&self.runtime, decided);
        let decider = match &self.redis {
            Some(wire) if wire.health.is_healthy() => Decider::Redis,
            _ => Decider::Node,
        };
        if self.has_redis() && decider == Decider::Node {
            self.may_differ.set(true);
        }
        (decision, decider)
    }
}
