//! SIGTERM and ctrl-c, on a thread of their own. The first asks for a shutdown; the second ends the process at once, whatever the
//! rest of it waits for.

use std::io;

use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use super::print;

/// Whether a shutdown was asked for.
#[derive(Debug)]
pub(super) struct Signals(watch::Receiver<Option<&'static str>>);

impl Signals {
    /// Listens from now on.
    pub(super) fn listen() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (first, asked) = watch::channel(None);
        let (mut terminate, mut interrupt) = {
            let _context = runtime.enter();
            (
                signal(SignalKind::terminate())?,
                signal(SignalKind::interrupt())?,
            )
        };
        let both = async move {
            first.send_replace(Some(next(&mut terminate, &mut interrupt).await));
            let second = next(&mut terminate, &mut interrupt).await;
            print::error(&format!(
                "stopped by a second {second}, before the shutdown was complete"
            ));
            std::process::exit(1);
        };
        let thread = std::thread::Builder::new().name("signals".into());
        thread.spawn(move || runtime.block_on(both))?;
        Ok(Self(asked))
    }

    /// Returns the name of the first signal when it has come.
    pub(super) async fn first(&mut self) -> &'static str {
        match self.0.wait_for(Option::is_some).await.map(|name| *name) {
            Ok(Some(name)) => name,
            // The thread that would tell goes on until the process ends.
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
