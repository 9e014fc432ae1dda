//! The threads of the server: each has a separate runtime, and reports its end.

use std::io;
use std::thread::JoinHandle;

use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::mpsc;

/// Starts a thread with a separate runtime. Its end is reported to `ended`, with the reason: it panicked, it failed, or the server
/// shuts down.
pub(super) fn spawn(
    name: &str,
    ended: mpsc::UnboundedSender<String>,
    work: impl AsyncFnOnce() -> io::Result<()> + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let end = EndReport {
        ended,
        reason: format!("the thread {name} has panicked; see the log"),
    };
    let thread = std::thread::Builder::new().name(name.into());
    let name = name.to_owned();
    thread.spawn(move || {
        let mut end = end;
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build_local(LocalOptions::default());
        let done = runtime.and_then(|runtime| runtime.block_on(work()));
        end.reason = match done {
            Ok(()) => format!("the thread {name} has ended"),
            Err(error) => format!("the thread {name} has failed: {error}"),
        };
    })
}

/// Reports the end of a thread when it is dropped, so that a panic is reported too.
struct EndReport {
    ended: mpsc::UnboundedSender<String>,
    reason: String,
}

impl Drop for EndReport {
    fn drop(&mut self) {
        // The receiver is gone when the server has shut down.
        let _ = self.ended.send(std::mem::take(&mut self.reason));
    }
}
