//! The counters of all nodes together, in Redis: one script decides about ban, minute and day in one step, on Redis's own
//! clock. Redis may be slow or unavailable at any moment; each worker has a circuit breaker, which opens when it is. While any breaker
//! is open, all workers of the node use the node's own counters, which are as current as Redis's last response. If only some did, the
//! requests that they count would be lost when another worker adopts the counters of Redis.

mod cluster_node;
mod connection;
mod faulty;
mod health;
mod script;
mod socket;
mod timer;
mod url;

pub use health::RedisHealth;
pub use url::{RedisClient, RedisUrl};

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redis::RedisResult;
use tokio::time::{sleep, timeout};

use super::decision::SharedDecision;
use super::{BanPolicy, Decision, Meter};
use crate::clock::Clock;
use crate::key::{KeyId, KeyIdentity};
use crate::mutex::lock;
use crate::plan::Limits;
use crate::trace::{DatabaseSystem, QuerySpan};
use connection::RedisConnection;
use health::ThreadHealth;
use script::{DecisionRequest, Script};
use timer::TimerWheel;

/// The timeout for connecting, while no request waits for it: to a cluster it is several steps.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// The timeout for Redis before a thread serves its first request: without Redis, it would have to count alone.
const START_TIMEOUT: Duration = Duration::from_millis(500);

/// The timeout of the probe after connecting, before requests are sent to Redis again. Less than the timeout of a
/// request, so that a slow Redis does not open and close the breaker all the time.
const PROBE_TIMEOUT: Duration = Duration::from_millis(40);

/// The timeout of a probe of an open connection, for which no request waits.
const PING_TIMEOUT: Duration = Duration::from_secs(1);

const PROBE_INTERVAL: Duration = Duration::from_millis(250);

/// The limiter of one thread. It has one connection, which all requests of the thread share.
pub struct RedisLimiter {
    client: RedisClient,
    script: Script,
    bans: BanPolicy,
    clock: Clock,
    /// Shared by all threads of the node.
    health: Arc<RedisHealth>,
    thread_health: ThreadHealth,
    /// None while the breaker is open.
    connection: Mutex<Option<RedisConnection>>,
    /// On a Redis Cluster, the Redis node that holds this key is probed.
    last_failed_key: AtomicI64,
    timers: TimerWheel,
}

impl RedisLimiter {
    /// A limiter that bans by this policy. All threads of a node share its `health`. It uses Redis's clock, unless this one
    /// is manual. Its keys in Redis have `deployment` in their names, so that deployments can share a Redis.
    pub fn new(
        client: RedisClient,
        deployment: &str,
        bans: BanPolicy,
        clock: Clock,
        health: Arc<RedisHealth>,
    ) -> Arc<Self> {
        Arc::new(Self {
            client,
            script: Script::new(deployment, bans),
            bans,
            clock,
            health,
            thread_health: ThreadHealth::default(),
            connection: Mutex::default(),
            last_failed_key: AtomicI64::default(),
            timers: TimerWheel::default(),
        })
    }

    /// Connects, before the first request needs it, and maintains the connection from then on.
    pub async fn begin(self: &Arc<Self>) {
        if let Err(cause) = within(START_TIMEOUT, self.connect(START_TIMEOUT)).await {
            self.open_breaker(&cause);
        }
        tokio::task::spawn_local(Arc::clone(self).run_probes());
        tokio::task::spawn_local(Arc::clone(self).enforce_timeout());
    }

    pub async fn decide(&self, key: KeyIdentity, meter: &Meter, limits: Limits) -> Decision {
        let connection = match self.health.is_healthy() {
            true => lock(&self.connection).clone(),
            false => None,
        };
        if let Some(connection) = connection {
            let span = QuerySpan::start(DatabaseSystem::Redis, "EVALSHA", "");
            let timer = self.timers.start();
            let decided = self.request(connection, key, meter, limits).await;
            span.end(decided.as_ref().err().map(|_| "unavailable"));
            match decided {
                Ok(decided) if self.health.is_healthy() => return meter.adopt(limits, &decided),
                // Another worker has lost Redis meanwhile, and may have counted already.
                Ok(_) => {}
                // Requests for keys on other nodes of a Redis Cluster fail too, because the connection is closed: they are not the
                // cause.
                Err(error) => {
                    if self.open_breaker(&error.to_string()) || timer.is_late() {
                        self.last_failed_key.store(key.id.0, Ordering::Relaxed);
                    }
                }
            }
        }
        meter.decide(limits, &self.bans, self.clock.now())
    }

    /// Requests a decision from Redis.
    async fn request(
        &self,
        mut connection: RedisConnection,
        key: KeyIdentity,
        meter: &Meter,
        limits: Limits,
    ) -> RedisResult<SharedDecision> {
        let request = DecisionRequest {
            key: key.id,
            created_at: Some(key.created_at),
            limits,
            node: meter.node_state(),
            now: self.clock.manual_time(),
        };
        let decided = self.script.decide(&mut connection, &request).await;
        decided.map(|decided| SharedDecision {
            unban_known: request.node.unbanned_at,
            ..decided
        })
    }

    /// Lets this node decide alone until Redis responds in time again. Requests that still wait for Redis continue immediately.
    /// Returns whether there was a connection.
    fn open_breaker(&self, cause: &str) -> bool {
        let connection = lock(&self.connection).take();
        let was_connected = connection.is_some();
        if let Some(connection) = connection {
            connection.close();
        }
        if self.thread_health.mark_unhealthy(&self.health) {
            tracing::warn!(
                cause,
                "Redis is slow or unavailable: this node enforces limits without it"
            );
        }
        was_connected
    }

    /// Connects, and checks that Redis decides within this time.
    async fn connect(&self, probe_timeout: Duration) -> Result<(), String> {
        let mut connection =
            within(CONNECT_TIMEOUT, RedisConnection::connect(&self.client)).await?;
        // A Redis that responds but cannot write, because it is full or a replica, would fail the next request.
        let request = DecisionRequest::probe(KeyId(self.last_failed_key.load(Ordering::Relaxed)));
        within(probe_timeout, self.script.decide(&mut connection, &request)).await?;
        *lock(&self.connection) = Some(connection);
        if self.thread_health.mark_healthy(&self.health) {
            tracing::info!("Redis is available again: limits are shared by all nodes");
        }
        Ok(())
    }

    /// Probes Redis, so that requests find a connection that works: a thread without requests would otherwise notice an outage
    /// only with its next one.
    async fn run_probes(self: Arc<Self>) {
        let ping = redis::cmd("PING");
        loop {
            sleep(PROBE_INTERVAL).await;
            let connection = lock(&self.connection).clone();
            let probed = match connection {
                Some(mut connection) => within(PING_TIMEOUT, connection.query(&ping)).await,
                None => self.connect(PROBE_TIMEOUT).await,
            };
            if let Err(cause) = probed {
                self.open_breaker(&cause);
            }
        }
    }

    /// Opens the breaker when a request has waited too long.
    async fn enforce_timeout(self: Arc<Self>) {
        loop {
            self.timers.expired().await;
            self.open_breaker(&timed_out(timer::RESPONSE_TIMEOUT));
        }
    }
}

/// Waits for Redis, up to this time. The error is the cause to log.
async fn within<T, E: ToString>(
    time: Duration,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, String> {
    match timeout(time, work).await {
        Ok(response) => response.map_err(|error| error.to_string()),
        Err(_) => Err(timed_out(time)),
    }
}

fn timed_out(time: Duration) -> String {
    format!("no response within {time:?}")
}
