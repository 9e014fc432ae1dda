//! The server: opens the store and runs the services on threads, each with a single-threaded runtime: one thread for each core,
//! with its own listening socket unless the service manager passes one, which all share; one for the admin listener; and one for
//! background tasks.

mod background;
mod error_log_limiter;
mod listeners;
mod pace;
mod pipeline;
mod public;
mod record;
mod request_span;
mod running;
mod shared;
mod startup;
mod threads;
mod traces;
mod watchdog;
mod write_behind;

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use tokio::sync::{mpsc, watch};

use crate::admin::{Admin, AdminSources};
use crate::api::BaseUrls;
use crate::clock::Clock;
use crate::config::{Config, reachable};
use crate::http::{ConnectionLimits, Connections, Maximum, Timeouts, Tls, accept};
use crate::limit::{Limiter, RedisClient, RedisLimiter, RedisUrl};
use crate::log::{RequestLog, Sink};
use crate::store::{Mode, Store};
use crate::systemd::ServiceManager;
use background::certificate;
use listeners::Listeners;
use pipeline::Pipeline;
use shared::Shared;
use watchdog::Watchdog;

pub use running::Running;
pub(crate) use traces::Traces;

/// Connections to the admin listener: a few scrapers and people.
const MAX_ADMIN_CONNECTIONS: usize = 64;

/// Streams of HTTP/2 on the admin listener: a dashboard has one open all the time, and loads several files at once.
/// Sixteen for each connection, of which one address gets at most three quarters.
const MAX_ADMIN_STREAMS: Maximum = Maximum {
    total: 16 * MAX_ADMIN_CONNECTIONS,
    per_address: 12 * MAX_ADMIN_CONNECTIONS,
};

/// Reads the TLS files, checks the folder of backups and binds the sockets before it opens the store: a first startup that fails
/// there creates no files. If opening it or reading the keys takes long, health checks get responses meanwhile, and the service
/// manager waits. Then starts all threads.
pub async fn start(
    config: &Config,
    clock: Clock,
    manager: ServiceManager,
    sink: Sink,
) -> anyhow::Result<Running> {
    let tls = config.tls.as_ref().map(certificate::load).transpose()?;
    let redis = config.redis.as_ref().map(RedisUrl::client).transpose();
    let redis = redis.context("--redis")?;
    if let Some(backups) = &config.backups {
        background::backups::check(backups).await?;
    }
    let listeners = Listeners::open(config, manager.sockets)?;
    let (address, admin_address) = listeners.addresses()?;
    let base_urls = base_urls(config, address, tls.as_ref())?;
    let local_url = base_urls.local.clone();
    let log = RequestLog::new(&sink, config.log, config.log_level);
    let startup = startup::begin(config, &listeners, tls.as_ref(), &base_urls, &clock, log)?;
    let waiting = config.max_waiting_writes;
    let mode = Mode::Serve {
        migrate: config.migrate,
    };
    let (shutdown, shutdown_receiver) = watch::channel(false);
    let workers = listeners.api.len();
    let loading = async {
        let store = Store::open(&config.database, mode, waiting).await?;
        startup.store_opened();
        let corrected = store.correct(&clock).await;
        corrected.context("cannot read the database's clock")?;
        let shared = Shared::new(
            config,
            Arc::new(store),
            clock,
            tls,
            base_urls,
            workers,
            shutdown_receiver,
        )?;
        // Before the keys: if a copy replaces the content of the database meanwhile, a heartbeat detects that by this ID.
        let deployment = shared.store.deployment().await;
        let deployment = deployment.context("cannot read the ID of the deployment")?;
        let loaded = background::load(&shared).await;
        let loaded = loaded.context("cannot read the keys")?;
        anyhow::Ok((Arc::new(shared), loaded, deployment))
    };
    let loading = startup::with_extended_start_timeout(&manager.notifier, loading);
    let (shared, loaded, deployment) = loading.await?;
    drop(startup);
    if let Some(tls) = &shared.tls {
        certificate::publish_expiry(tls, &shared);
    }
    let max_connections = listeners.limit_connections(config);
    let connections = connections(config, max_connections);
    let timeouts = Timeouts {
        request: config.request_timeout,
        idle: config.idle_timeout,
    };
    let (ended, end_reasons) = mpsc::unbounded_channel();
    let mut threads = Vec::new();
    let notifier = manager.notifier;
    let new_watchdog = |time| Watchdog::new(time, notifier.clone());
    let mut watchdog = manager.watchdog.map(new_watchdog);
    for (number, socket) in listeners.api.into_iter().enumerate() {
        let log = RequestLog::new(&sink, config.log, config.log_level);
        let limiter = limiter(config, redis.as_ref(), &shared, &deployment.0);
        let pipeline = Pipeline::new(Arc::clone(&shared), number, limiter, log);
        let (connections, shutdown_receiver) = (connections.clone(), shared.shutdown.clone());
        let tls = shared.tls.clone();
        let name = format!("http-{number}");
        let echo = watchdog.as_mut().map(Watchdog::echo);
        threads.push(threads::spawn(&name, ended.clone(), async move || {
            if let Some(echo) = echo {
                drop(tokio::task::spawn_local(echo));
            }
            accept(
                socket,
                tls,
                pipeline,
                connections,
                timeouts,
                shutdown_receiver,
            )
            .await
        })?);
    }
    let shutdown_receiver = shared.shutdown.clone();
    let admin_tls = config.admin_tls(admin_address).and(shared.tls.clone());
    let admin = admin(config, &shared, &sink, max_connections, admin_tls.is_some());
    let admin_url = format!(
        "{}://{}",
        scheme(admin_tls.as_ref()),
        reachable(admin_address)
    );
    threads.push(threads::spawn("admin", ended.clone(), async move || {
        accept(
            listeners.admin,
            admin_tls,
            admin,
            admin_connections(),
            timeouts,
            shutdown_receiver,
        )
        .await
    })?);
    let for_background = Arc::clone(&shared);
    threads.push(threads::spawn("background", ended, async move || {
        background::run(&for_background, loaded, deployment, watchdog).await
    })?);
    if shared.store.is_shared() && shared.redis.is_none() {
        tracing::warn!(
            "without --redis each node counts separately: a key can use its full limit on every node"
        );
    }
    Ok(Running {
        shared,
        end_reasons,
        shutdown,
        threads,
        local_url,
        address,
        admin_address,
        admin_url,
        max_connections,
        notifier,
        _sink: sink,
    })
}

/// The connections and streams of the API.
fn connections(config: &Config, total: usize) -> Connections {
    let exempt = config.trusted_proxies.clone();
    let maximum = Maximum {
        total,
        per_address: config.max_connections_per_address,
    };
    Connections::new(ConnectionLimits {
        connections: maximum,
        streams: maximum,
        is_exempt: Box::new(move |address| exempt.trusts(address)),
    })
}

fn admin(
    config: &Config,
    shared: &Shared,
    sink: &Sink,
    max_connections: usize,
    https: bool,
) -> Admin {
    let sources = AdminSources {
        store: Arc::clone(&shared.store),
        metrics: Arc::clone(&shared.metrics),
        redis: shared.redis.clone(),
        readiness: Arc::clone(&shared.readiness),
        max_connections,
        backup_interval: config.backups.as_ref().map(|backups| backups.every),
        lost_lines: sink.lost(),
        clock: shared.clock.clone(),
        started: shared.clock.now(),
    };
    let access = Arc::clone(&shared.access);
    Admin::new(sources, access, sink.events(), config, https)
}

fn admin_connections() -> Connections {
    Connections::new(ConnectionLimits {
        connections: Maximum {
            total: MAX_ADMIN_CONNECTIONS,
            // At the total limit, the connection that has waited longest for its client is closed to make room, so that health
            // checks get through. A limit per address would reject them instead.
            per_address: usize::MAX,
        },
        streams: MAX_ADMIN_STREAMS,
        is_exempt: Box::new(|_| false),
    })
}

fn base_urls(config: &Config, address: SocketAddr, tls: Option<&Tls>) -> anyhow::Result<BaseUrls> {
    let local = format!("{}://{}/v1", scheme(tls), reachable(address));
    Ok(BaseUrls {
        public: config.public_url.clone(),
        local: local.parse().map_err(anyhow::Error::msg)?,
    })
}

fn scheme(tls: Option<&Tls>) -> &'static str {
    if tls.is_some() { "https" } else { "http" }
}

fn limiter(
    config: &Config,
    redis: Option<&RedisClient>,
    shared: &Shared,
    deployment: &str,
) -> Limiter {
    let (Some(client), Some(health)) = (redis, &shared.redis) else {
        return Limiter::Memory(config.bans);
    };
    let (client, clock, health) = (client.clone(), shared.clock.clone(), Arc::clone(health));
    Limiter::Redis(RedisLimiter::new(
        client,
        deployment,
        config.bans,
        clock,
        health,
    ))
}
