//! SIGTERM and SIGINT (Ctrl-C), on a separate thread. The first one starts a graceful shutdown, the second one exits immediately.
//! SIGHUP (a lost terminal) also stops a command, and a server that has a terminal and no certificate. A server with a
//! certificate reads it again; any other ignores the signal, because service managers send it to reload a server.

use std::fs::{self, File};
use std::future::poll_fn;
use std::io;
use std::sync::OnceLock;
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::time::Instant;

use super::print;

/// The same signal again within this time is a duplicate, not a second one.
const DUPLICATE_WITHIN: Duration = Duration::from_millis(50);

const HANGUP: &str = "SIGHUP";

/// Makes a write beyond the limit on the size of files (`ulimit -f`) fail. By default a signal terminates the process without a
/// message.
pub(super) fn survive_file_size_limit() -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let _context = runtime.enter();
    let too_large = SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw());
    // The handler stays for the life of the process.
    signal(too_large).map(drop)
}

static SENDER: OnceLock<watch::Sender<Option<&'static str>>> = OnceLock::new();

pub(super) struct Signals(watch::Receiver<Option<&'static str>>);

impl Signals {
    /// Listens for the signals that end a command, from now on.
    pub(super) fn of_command() -> io::Result<Self> {
        Self::listen(!ignores_hangups())
    }

    /// Listens for the signals that end a server, from now on. `reloads` is whether SIGHUP makes it read its certificate again.
    pub(super) fn of_server(reloads: bool) -> io::Result<Self> {
        Self::listen(!reloads && has_terminal() && !ignores_hangups())
    }

    fn listen(ends_on_hangup: bool) -> io::Result<Self> {
        // One thread per process: if a command prompts twice, both prompts use it.
        if let Some(sender) = SENDER.get() {
            return Ok(Self(sender.subscribe()));
        }
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (sender, receiver) = watch::channel(None);
        let sender = SENDER.get_or_init(|| sender);
        let mut signals = {
            let _context = runtime.enter();
            let mut signals = vec![
                ("SIGTERM", signal(SignalKind::terminate())?),
                ("SIGINT", signal(SignalKind::interrupt())?),
            ];
            // Handled in any case: by default it terminates the process.
            let hangup = signal(SignalKind::hangup())?;
            if ends_on_hangup {
                signals.push((HANGUP, hangup));
            }
            signals
        };
        let listen = async move {
            let name = next(&mut signals).await;
            if sender.send(Some(name)).is_err() {
                // Nobody waits for a signal any more: it was only for a prompt, which has been confirmed.
                print::error(&format!("stopped by {name}: the change may have been made"));
                std::process::exit(1);
            }
            // Some programs signal both the process and its group, which is one request to shut down.
            let distinct_from = Instant::now() + DUPLICATE_WITHIN;
            let second = loop {
                let second = next(&mut signals).await;
                // A lost terminal may send several, and they are not a second request by a user.
                if second != HANGUP && (second != name || Instant::now() >= distinct_from) {
                    break second;
                }
            };
            print::error(&format!(
                "stopped by a second signal ({second}) before it had finished; its last changes may have been made"
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

/// Waits for the next of these signals and returns its name.
async fn next(signals: &mut [(&'static str, Signal)]) -> &'static str {
    poll_fn(|cx| {
        let mut signals = signals.iter_mut();
        let ready =
            signals.find_map(|(name, signal)| signal.poll_recv(cx).is_ready().then_some(*name));
        ready.map_or(Poll::Pending, Poll::Ready)
    })
    .await
}

/// Whether the process belongs to a terminal, wherever its output goes.
fn has_terminal() -> bool {
    File::open("/dev/tty").is_ok()
}

/// Whether the process was started such that it survives the loss of its terminal, as with `nohup`.
fn ignores_hangups() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // SIGHUP is the first signal.
    ignored.is_some_and(|mask| mask & 1 != 0)
}
