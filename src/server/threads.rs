//! The threads of the server: each has a separate runtime, and reports its end.

use std::io;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::mpsc;

/// How long the end of a thread waits for blocking work. A read for the dashboard has to end, or SQLite would leave its write-ahead
/// log.
const BLOCKING_TIMEOUT: Duration = Duration::from_secs(1);

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
        let done = runtime.and_then(|runtime| {
            let done = runtime.block_on(work());
            // Blocking work may hang: the lookup of a host, or a read on a network file system.
            runtime.shutdown_timeout(BLOCKING_TIMEOUT);
            done
        });
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_thread_ends_although_blocking_work_hangs() {
        let (release, hangs) = channel::<()>();
        let (ended, _reasons) = mpsc::unbounded_channel();
        let began = Instant::now();
        let thread = spawn("test", ended, async move || {
            let (started, has_started) = tokio::sync::oneshot::channel();
            drop(tokio::task::spawn_blocking(move || {
                let _ = started.send(());
                // Ends when the test does.
                hangs.recv_timeout(Duration::from_secs(60))
            }));
            has_started.await.map_err(io::Error::other)
        });
        thread.unwrap().join().unwrap();
        assert!(began.elapsed() < Duration::from_secs(30));
        drop(release);
    }
}
