//! `animal-store serve`: starts a server, prints its addresses, and runs until a signal shuts it down.

use std::time::Duration;

use anyhow::{Context, anyhow};

use super::keys::secret_lost;
use super::outcome::{Failure, Outcome};
use super::signals::Signals;
use super::{database, print};
use crate::clock::Clock;
use crate::config::{Config, ServeOptions};
use crate::key::Secret;
use crate::keys::{self, KeyName};
use crate::log::{self, LogFormat, Sink};
use crate::plan::Plan;
use crate::server::{self, Running, Traces};
use crate::systemd::ServiceManager;

/// How long the handling of a signal or a failure waits for the startup message to be printed: it may contain the secret of the
/// first key.
const PRINT_TIMEOUT: Duration = Duration::from_secs(1);

pub(super) fn run(options: ServeOptions) -> Outcome {
    let config = Config::try_from(options.clone())?;
    let traces = Traces::from_environment().map_err(|error| Failure::Usage(error.to_string()))?;
    let manager = ServiceManager::from_env()?;
    database::run(async |clock| Ok(serve(config, &options, manager, traces, clock.clone()).await?))
}

/// Logs which options are accepted, but probably unintended.
fn log_warnings(options: &ServeOptions) {
    if !options.secret_flags.is_empty() {
        tracing::warn!(
            options = options.secret_flags.join(", "),
            "secrets in flags are visible in the list of processes: use files or environment variables"
        );
    }
    if options.has_unused_ca() {
        tracing::warn!(
            "--ca-cert has no effect: add sslmode=verify-full to the URL of PostgreSQL, or use rediss://"
        );
    }
}

async fn serve(
    config: Config,
    options: &ServeOptions,
    manager: ServiceManager,
    traces: Traces,
    clock: Clock,
) -> anyhow::Result<()> {
    // Before anything else: a signal during startup must not be missed.
    let mut signals =
        Signals::of_server(config.tls.is_some()).context("cannot listen for signals")?;
    let sink = Sink::stderr(config.log, clock.clone()).context("cannot start the log")?;
    std::panic::set_hook(Box::new(
        |panic| tracing::error!(%panic, "a thread panicked"),
    ));
    log::init(&sink, config.log, config.log_level, clock.clone());
    if config.log == LogFormat::Json {
        print::errors_as_json(clock.clone());
    }
    traces.start()?;

    let mut running = tokio::select! {
        started = server::start(&config, clock.clone(), manager, sink) => started?,
        signal = signals.first() => return Err(anyhow!("stopped by {signal} before startup was complete")),
    };
    let store = running.store();
    let first_key = match store.format_change().created() && config.first_key {
        // The last step, which no signal cancels: if startup failed after it, the secret would be lost.
        true => {
            let issued = keys::create(store, KeyName::first(), Plan::Free, None, clock.now()).await;
            Some(issued.context("cannot issue the first key")?)
        }
        false => None,
    };
    let secret = first_key.as_ref().map(|issued| &issued.secret);
    let startup_message = startup_message(&config, &running, secret);
    let first_key = first_key.map(|issued| issued.record.id);
    // Not before: a failed startup prints one line.
    running.report_ready();
    log_warnings(options);
    // Standard output may be closed, or a pipe that nobody reads: neither prevents serving.
    let warn_of_lost_secret = move || {
        if let Some(id) = first_key {
            tracing::warn!("{}", secret_lost(id, "created"));
        }
    };
    let mut printing = tokio::task::spawn_blocking(move || {
        if print::bytes(startup_message.as_bytes()).is_err() {
            warn_of_lost_secret();
        }
    });
    let _ = tokio::time::timeout(PRINT_TIMEOUT, &mut printing).await;

    let ended = tokio::select! {
        reason = running.failed() => Err(anyhow!(reason)),
        signal = signals.first() => Ok(signal),
    };
    if !printing.is_finished() {
        warn_of_lost_secret();
    }
    // No drain after a failure: nothing can be stored any more, or a thread has ended, and its connections with it.
    tracing::info!(signal = ended?, "shutting down");
    running.shut_down().await
}

/// The startup lines: addresses, and a first request to try.
fn startup_message(config: &Config, running: &Running, first_key: Option<&Secret>) -> String {
    let Running {
        local_url: api,
        admin_url: admin,
        max_connections: connections,
        ..
    } = running;
    let (root, data) = (api.root(), &config.database);
    let mut text = format!(
        "Animal Store {version}\n  API       {api}\n  docs      {root}/docs\n  admin     {admin}\n  limit     {connections} connections\n  database  {data}\n",
        version = env!("CARGO_PKG_VERSION"),
    );
    if let Some(key) = first_key {
        let key = key.reveal();
        text.push_str(&format!(
            "\nFirst API key (plan free), shown only once:\n  {key}\n\
             Try it:\n  curl -H 'Authorization: Bearer {key}' '{api}/pets?limit=5'\n"
        ));
    }
    text
}
