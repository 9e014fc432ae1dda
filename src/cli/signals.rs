//! SIGTERM and ctrl-c, on a separate thread. The first starts a graceful shutdown; the second ends the process immediately.

use std::io;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::time::Instant;

use super::print;

/// The same signal again within this time is a duplicate, not a second one.
const DUPLICATE_WITHIN: Duration = Duration::from_millis(50);

/// Makes a write beyond the limit on the size of files (`ulimit -f`) fail. By default a signal ends the process, without a message.
pub(super) fn survive_file_size_limit() -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let _context = runtime.enter();
    let too_large = SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw());
    // The handler stays for the life of the process.
    signal(too_large).map(drop)
}

/// The signals of a process.
pub(super) struct Signals(watch::Receiver<Option<&'static str>>);

impl Signals {
    /// Listens from now on.
    pub(super) fn listen() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (sender, receiver) = watch::channel(None);
        let (mut terminate, mut interrupt) = {
            let _context = runtime.enter();
            (
                signal(SignalKind::terminate())?,
                signal(SignalKind::interrupt())?,
            )
        };
        let listen = async move {
            let name = next(&mut terminate, &mut interrupt).await;
            sender.send_replace(Some(name));
            // Some programs signal both the process and its group, which is one request to shut down.
            let distinct_from = Instant::now() + DUPLICATE_WITHIN;
            let second = loop {
                let second = next(&mut terminate, &mut interrupt).await;
                if second != name || Instant::now() >= distinct_from {
                    break second;
                }
            };
            print::error(&format!(
                "stopped by a second {second}, before the shutdown was complete"
            ));
            std::process::exit(1);
        };
        let thread = std::thread::Builder::new().name("signals".into());
        thread.spawn(move || runtime.block_on(listen))?;
        Ok(Self(receiver))
    }

    /// The name of the first signal, if there was one.
    pub(super) fn received(&self) -> Option<&'static str> {
        *self.0.borrow()
    }

    /// Waits for the first signal and returns its name.
    pub(super) async fn first(&mut self) -> &'static str {
        match self.0.wait_for(Option::is_some).await.map(|name| *name) {
            Ok(Some(name)) => name,
            // The thread that sends it runs until the process ends.
            _ => std::future::pending().await,
        }
    }
}

async fn next(terminate: &mut Signal, interrupt: &mut Signal) -> &'static str {
    tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    }
}
