//! State shared by the threads of a server.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use futures_util::future::join;
use tokio::sync::watch;

use super::error_log_limiter::ErrorLogLimiter;
use super::public::PublicResources;
use super::write_behind::WriteBehind;
use crate::access::{Access, TrustedProxies};
use crate::api::cors::Cors;
use crate::api::{Api, BaseUrls};
use crate::clock::Clock;
use crate::config::{Backups, Config};
use crate::health::Readiness;
use crate::http::Tls;
use crate::limit::redis::RedisHealth;
use crate::metrics::ServerMetrics;
use crate::store::{self, Store};

pub(super) struct Shared {
    pub(super) store: Arc<Store>,
    pub(super) metrics: Arc<ServerMetrics>,
    pub(super) access: Arc<Access>,
    pub(super) redis: Option<Arc<RedisHealth>>,
    pub(super) api: Api,
    pub(super) public: PublicResources,
    pub(super) proxies: TrustedProxies,
    pub(super) cors: Cors,
    pub(super) clock: Clock,
    /// The certificate, if the API is served over HTTPS.
    pub(super) tls: Option<Tls>,
    pub(super) backups: Option<Backups>,
    pub(super) write_behind: WriteBehind,
    pub(super) keep_usage: Duration,
    pub(super) readiness: Arc<Readiness>,
    pub(super) error_log_limiter: ErrorLogLimiter,
    /// True when the server shuts down.
    pub(super) shutdown: watch::Receiver<bool>,
}

impl Shared {
    /// The state without the keys, which are loaded before the first request.
    pub(super) fn new(
        config: &Config,
        store: Arc<Store>,
        clock: Clock,
        tls: Option<Tls>,
        base_urls: BaseUrls,
        workers: usize,
        shutdown: watch::Receiver<bool>,
    ) -> anyhow::Result<Self> {
        let staging = config.staging_url.as_ref();
        Ok(Self {
            access: Arc::default(),
            redis: config.redis.is_some().then(Arc::default),
            public: PublicResources::new(base_urls.public.as_ref(), staging, &base_urls.local),
            api: Api::new(Arc::clone(&store), base_urls, config.request_timeout),
            proxies: config.trusted_proxies.clone(),
            cors: config.cors.clone(),
            metrics: Arc::new(ServerMetrics::new(workers)),
            keep_usage: config.keep_usage,
            backups: config.backups.clone(),
            write_behind: WriteBehind::new(workers)
                .context("the operating system provided no random numbers")?,
            readiness: Arc::default(),
            error_log_limiter: ErrorLogLimiter::default(),
            shutdown,
            store,
            clock,
            tls,
        })
    }

    /// Stores the usage and the bans that are not stored yet.
    pub(super) async fn flush(&self) -> store::Result<()> {
        let (usage, bans) = join(self.flush_usage(), self.flush_bans()).await;
        usage.and(bans)
    }

    pub(super) async fn flush_usage(&self) -> store::Result<()> {
        let (directory, now) = (&self.access.directory, self.clock.now());
        let write_behind = &self.write_behind;
        write_behind.flush_usage(&self.store, directory, now).await
    }

    pub(super) async fn flush_bans(&self) -> store::Result<()> {
        self.write_behind.flush_bans(&self.store).await
    }

    pub(super) async fn join_flush_of_bans(&self) -> store::Result<()> {
        self.write_behind.join_flush_of_bans(&self.store).await
    }
}
