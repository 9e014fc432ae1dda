//! `animal-store serve`: starts a server, says where it is, and waits until it is told to stop.

use std::io::Write;

use anyhow::{Context, anyhow};

use super::{Failure, Outcome};
use crate::clock::Clock;
use crate::config::{Config, ServeOptions};
use crate::key::Secret;
use crate::keys;
use crate::log::{self, Sink};
use crate::plan::Plan;
use crate::server::{Running, Server};

/// Serve the API.
#[derive(Debug, clap::Args)]
pub(super) struct Serve {
    #[command(flatten)]
    options: ServeOptions,
}

impl Serve {
    pub(super) fn run(self) -> Outcome {
        let config =
            Config::try_from(self.options).map_err(|error| Failure::Usage(error.to_string()))?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start")?;
        let outcome = runtime.block_on(serve(config));
        // One who asks twice does not wait for what is still being drained.
        runtime.shutdown_background();
        outcome.map_err(Failure::from)
    }
}

async fn serve(config: Config) -> anyhow::Result<()> {
    // Listened to from the first moment: one who stops us while we start must not be missed.
    let mut stop = Stop::new()?;
    let clock = Clock::system();
    let sink = Sink::stderr().context("cannot start the log")?;
    std::panic::set_hook(Box::new(
        |panic| tracing::error!(%panic, "a thread panicked"),
    ));
    log::init(&sink, config.log, config.log_level, clock.clone());

    let server = Server::open(&config, clock.clone()).await?;
    let first_key = match server.store().migration().is_new() && config.first_key {
        true => Some(first_key(&server, &clock).await?),
        false => None,
    };
    let mut running = server.start(&config, sink).await?;
    // Whoever started us may have closed standard output. That is no reason not to serve.
    let _ = std::io::stdout()
        .lock()
        .write_all(greeting(&config, &running, first_key.as_ref()).as_bytes());
    drop(first_key);

    tokio::select! {
        // There is nothing to drain for: what cannot be stored cannot be answered.
        why = running.failed() => return Err(anyhow!("{why}; see the log")),
        signal = stop.wait() => tracing::info!(signal, "stopping"),
    }
    tokio::select! {
        stopped = running.stop() => stopped,
        signal = stop.wait() => Err(anyhow!("stopped by a second {signal}, with requests still open")),
    }
}

async fn first_key(server: &Server, clock: &Clock) -> anyhow::Result<Secret> {
    let name = "first".parse()?;
    let issued = keys::create(server.store(), name, Plan::Free, None, clock.now())
        .await
        .context("cannot issue the first key")?;
    Ok(issued.secret)
}

/// What is shown at the start: where everything is, and how to try it.
fn greeting(config: &Config, running: &Running, first_key: Option<&Secret>) -> String {
    let api = running.local_url();
    let (root, admin) = (api.root(), running.admin_address());
    let data = &config.database;
    let mut text = format!(
        "Animal Store {version}\n  API       {api}\n  docs      {root}/docs\n  admin     http://{admin}\n  database  {data}\n",
        version = env!("CARGO_PKG_VERSION"),
    );
    if let Some(key) = first_key {
        let key = key.reveal();
        text.push_str(&format!(
            "\nA first API key, plan free. It is shown only this once:\n  {key}\n\
             Try it:\n  curl -H 'Authorization: Bearer {key}' '{api}/pets?limit=5'\n"
        ));
    }
    text
}

/// SIGTERM and ctrl-c.
struct Stop {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl Stop {
    fn new() -> anyhow::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn wait(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
