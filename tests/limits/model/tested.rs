//! The limiter that is compared with the model.

use std::cell::Cell;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use animal_store::clock::{Clock, Timestamp};
use animal_store::key::{KeyId, KeyIdentity};
use animal_store::limit::redis::{RedisHealth, RedisLimiter, RedisUrl};
use animal_store::limit::{BanPolicy, Decision, Limiter, Meter};
use animal_store::plan::Limits;
use harness::Proxy;
use tokio::runtime::{Builder, Runtime};
use tokio::task::LocalSet;

use super::lists::Decider;

/// The limiter that is tested: the one in memory, or, if `ANIMAL_STORE_TEST_REDIS` is set, the one in Redis.
pub(super) struct Tested {
    limiter: Limiter,
    clock: Clock,
    runtime: Runtime,
    /// The tasks that maintain the connection of the limiter.
    tasks: LocalSet,
    redis: Option<Wire>,
    /// Whether Redis was unavailable or lost something since the last call of `may_differ`.
    may_differ: Cell<bool>,
}

/// The connection to Redis.
struct Wire {
    health: Arc<RedisHealth>,
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
        let configured = REDIS.get_or_init(harness::redis_behind_proxy).as_ref();
        let redis = configured.map(|(_, proxy)| Wire {
            health: Arc::clone(&health),
            proxy,
            is_cut: Cell::new(false),
        });
        let limiter = match configured {
            Some((url, _)) => Limiter::Redis(RedisLimiter::new(
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

    /// Makes Redis unavailable.
    pub(super) fn redis_fails(&self) {
        if let Some(wire) = &self.redis {
            wire.proxy.cut();
            wire.is_cut.set(true);
            self.may_differ.set(true);
        }
    }

    /// Makes Redis available again, and waits until the limiter has detected that.
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

    /// Whether the windows of the node may differ from those of Redis, which was unavailable since the last call.
    pub(super) fn may_differ(&self) -> bool {
        self.may_differ.take()
    }

    /// Whether Redis was available, but did not decide in time. If so, waits until it responds again.
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
        let key = KeyIdentity {
            id: key,
            created_at: Timestamp::default(),
        };
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
