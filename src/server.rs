//! The server: sockets, threads, time, and the way of a request through the layers below.
//! One single-threaded runtime for each core, each with its own listening socket; one for the admin listener, and one for
//! background work.

mod background;
mod failure_log;
mod pace;
mod pages;
mod pipeline;
mod record;
mod shared;
mod threads;
mod write_behind;

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::sync::{mpsc, watch};

use crate::access::Access;
use crate::admin::Admin;
use crate::api::url::BaseUrl;
use crate::api::{Addresses, Api};
use crate::clock::Clock;
use crate::config::{Config, reachable};
use crate::http::{self, Caps, Connections, DRAIN, Timeouts};
use crate::limit::{Limiter, Redis};
use crate::log::{RequestLog, Sink};
use crate::metrics::ServerMetrics;
use crate::store::{self, Mode, Store};
use background::Background;
use failure_log::FailureLog;
use pages::Pages;
use pipeline::Pipeline;
use shared::Shared;
use write_behind::WriteBehind;

/// Connections to the admin listener: a few scrapers and people.
const ADMIN_CONNECTIONS: usize = 64;

/// How long after a failure the last flush is tried again.
const AGAIN: Duration = Duration::from_millis(200);

/// A server that has its addresses and its data, and does not answer yet.
#[derive(Debug)]
pub struct Server {
    store: Arc<Store>,
    clock: Clock,
    sockets: Vec<TcpListener>,
    admin_socket: TcpListener,
}

impl Server {
    /// Takes the addresses and opens the data, in this order: a first start that finds its port taken leaves nothing behind.
    pub async fn open(config: &Config, clock: Clock) -> anyhow::Result<Self> {
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        let sockets = http::listen_for_each(config.listen, workers)
            .with_context(|| format!("--listen {}: cannot listen there", config.listen))?;
        let admin_socket = http::listen(config.admin_listen).with_context(|| {
            format!(
                "--admin-listen {}: cannot listen there",
                config.admin_listen
            )
        })?;
        let waiting = config.max_waiting_writes;
        let mode = Mode::Serve {
            migrate: config.migrate,
        };
        let store = Store::open(&config.database, mode, waiting).await?;
        store
            .correct(&clock)
            .await
            .context("cannot ask the database for its time")?;
        Ok(Self {
            store: Arc::new(store),
            clock,
            sockets,
            admin_socket,
        })
    }

    /// The data.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Serves from now on.
    pub async fn start(self, config: &Config, sink: Sink) -> anyhow::Result<Running> {
        let Self {
            store,
            clock,
            sockets,
            admin_socket,
            ..
        } = self;
        let address = sockets.first().context("no socket")?.local_addr()?;
        let admin_address = admin_socket.local_addr()?;
        let local: BaseUrl = format!("http://{}/v1", reachable(address)).parse()?;
        let addresses = Addresses {
            public: config.public_url.clone(),
            local: local.clone(),
        };

        let (stop, stopping) = watch::channel(false);
        let shared = Arc::new(Shared {
            access: Access::default(),
            redis: config.redis.is_some().then(Arc::default),
            api: Api::new(Arc::clone(&store), addresses, config.request_timeout),
            pages: Pages::new(config.public_url.as_ref(), config.staging_url.as_ref()),
            proxies: config.trusted_proxies.clone(),
            metrics: Arc::new(ServerMetrics::new(sockets.len())),
            keep_usage: config.keep_usage,
            write_behind: WriteBehind::new(sockets.len()).context("no random numbers")?,
            readiness: Arc::default(),
            failure_log: FailureLog::default(),
            stopping,
            store,
            clock,
        });
        let background = Background::load(Arc::clone(&shared))
            .await
            .context("cannot read the keys")?;

        let deployment = shared.store.deployment().await;
        let deployment = deployment.context("cannot read the ID of the deployment")?;
        let max_connections = http::max_connections(config.max_connections);
        let exempt = config.trusted_proxies.clone();
        let connections = Connections::new(Caps {
            total: max_connections,
            per_address: config.max_connections_per_address,
            is_exempt: Box::new(move |address| exempt.trusts(address)),
        });
        let timeouts = Timeouts {
            request: config.request_timeout,
            idle: config.idle_timeout,
        };
        let (ended, endings) = mpsc::unbounded_channel();
        let mut threads = Vec::new();
        for (number, socket) in sockets.into_iter().enumerate() {
            let log = RequestLog::new(&sink, config.log, config.log_level);
            let limiter = match (&config.redis, &shared.redis) {
                (Some(url), Some(health)) => {
                    let (clock, health) = (shared.clock.clone(), Arc::clone(health));
                    let deployment = deployment.as_str();
                    Limiter::Redis(Redis::new(
                        url.clone(),
                        deployment,
                        config.bans,
                        clock,
                        health,
                    ))
                }
                _ => Limiter::Memory(config.bans),
            };
            let pipeline = Pipeline {
                metrics: Arc::clone(shared.metrics.worker(number)),
                shared: Arc::clone(&shared),
                worker: number,
                limiter,
                log,
            };
            let (connections, stopping) = (connections.clone(), shared.stopping.clone());
            let name = format!("http-{number}");
            threads.push(threads::spawn(&name, ended.clone(), async move || {
                http::accept(socket, pipeline, connections, timeouts, stopping).await
            })?);
        }
        let admin = Admin::new(
            Arc::clone(&shared.store),
            Arc::clone(&shared.metrics),
            shared.redis.clone(),
            Arc::clone(&shared.readiness),
            shared.clock.clone(),
            config.admin_token.clone(),
            sink.lost(),
        );
        let (admin_connections, stopping) = (
            Connections::new(Caps {
                total: ADMIN_CONNECTIONS,
                per_address: ADMIN_CONNECTIONS,
                is_exempt: Box::new(|_| false),
            }),
            shared.stopping.clone(),
        );
        threads.push(threads::spawn("admin", ended.clone(), async move || {
            http::accept(admin_socket, admin, admin_connections, timeouts, stopping).await
        })?);
        threads.push(threads::spawn("background", ended, async move || {
            background.run().await;
            Ok(())
        })?);
        if shared.store.is_shared() && shared.redis.is_none() {
            tracing::warn!(
                "without --redis, limits hold for each node only: a key may use them up on every one"
            );
        }
        tracing::info!(%address, %admin_address, max_connections, "ready");
        Ok(Running {
            shared,
            endings,
            stop,
            threads,
            local,
            address,
            admin_address,
            max_connections,
            _sink: sink,
        })
    }
}

/// A server that serves.
#[derive(Debug)]
pub struct Running {
    shared: Arc<Shared>,
    /// Why threads have ended.
    endings: mpsc::UnboundedReceiver<String>,
    stop: watch::Sender<bool>,
    threads: Vec<JoinHandle<()>>,
    local: BaseUrl,
    address: SocketAddr,
    admin_address: SocketAddr,
    max_connections: usize,
    // Dropped last: what was logged on the way out is still written.
    _sink: Sink,
}

impl Running {
    /// Where the API can be reached from this machine.
    pub fn local_url(&self) -> &BaseUrl {
        &self.local
    }

    /// Where the API listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where the admin listener is.
    pub fn admin_address(&self) -> SocketAddr {
        self.admin_address
    }

    /// How many connections the API takes at once: as many as were asked for, or as the system allows.
    pub fn max_connections(&self) -> usize {
        self.max_connections
    }

    /// The data.
    pub fn store(&self) -> &Arc<Store> {
        &self.shared.store
    }

    /// Returns, with the reason, when the server cannot keep its promises any more.
    pub async fn failed(&mut self) -> String {
        tokio::select! {
            () = self.shared.store.writer_died() => "the writer has stopped: nothing can be stored".into(),
            // The last sender goes with the last thread, which has told its end by then.
            Some(reason) = self.endings.recv() => reason,
        }
    }

    /// Drains and stops: no new connection, what runs is answered, and what was counted is stored.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + DRAIN;
        self.shared.readiness.shut_down();
        self.stop.send_replace(true);
        for thread in self.threads.drain(..) {
            // A worker that panicked has said so; the others still have their work to end.
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
        self.last_flush(deadline)
            .await
            .context("cannot store the last second of usage")
    }

    /// Stores what was counted last. A store that fails for a moment must not cost it, so it is tried until the deadline.
    async fn last_flush(&self, deadline: Instant) -> store::Result<()> {
        let Shared {
            write_behind,
            store,
            access,
            clock,
            ..
        } = &*self.shared;
        loop {
            let flushed = write_behind
                .flush(store, &access.directory, clock.now())
                .await;
            if flushed.is_ok() || Instant::now() + AGAIN >= deadline {
                return flushed;
            }
            tokio::time::sleep(AGAIN).await;
        }
    }
}
