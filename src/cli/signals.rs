//! SIGTERM and ctrl-c, on a separate thread. The first starts a graceful shutdown; the second ends the process immediately. For a
//! command, the loss of its terminal (SIGHUP) is one, too; a server reloads its certificate then.

use std::io;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::time::Instant;

use super::print;

/// The same signal again within this time is a duplicate, not a second one.
const DUPLICATE_WITHIN: Duration = Duration::from_millis(50);

const HANGUP: &str = "SIGHUP";

/// Makes a write beyond the limit on the size of files (`ulimit -f`) fail. By default a signal ends the process, without a message.
pub(super) fn survive_file_size_limit() -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let _context = runtime.enter();
    let too_large = SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw());
    // The handler stays for the life of the process.
    signal(too_large).map(drop)
}

pub(super) struct Signals(watch::Receiver<Option<&'static str>>);

impl Signals {
    /// Listens to the signals that end a command, from now on.
    pub(super) fn of_command() -> io::Result<Self> {
        Self::listen(!ignores_hangups())
    }

    /// Listens to the signals that end a server, from now on.
    pub(super) fn of_server() -> io::Result<Self> {
        Self::listen(false)
    }

    fn listen(with_hangups: bool) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (sender, receiver) = watch::channel(None);
        let mut ends = {
            let _context = runtime.enter();
            Ends {
                terminate: signal(SignalKind::terminate())?,
                interrupt: signal(SignalKind::interrupt())?,
                hangup: match with_hangups {
                    true => Some(signal(SignalKind::hangup())?),
                    false => None,
                },
            }
        };
        let listen = async move {
            let name = ends.next().await;
            sender.send_replace(Some(name));
            // Some programs signal both the process and its group, which is one request to shut down.
            let distinct_from = Instant::now() + DUPLICATE_WITHIN;
            let second = loop {
                let second = ends.next().await;
                // A terminal that is lost may send several, and nobody is there who asks for anything.
                if second != HANGUP && (second != name || Instant::now() >= distinct_from) {
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

struct Ends {
    terminate: Signal,
    interrupt: Signal,
    hangup: Option<Signal>,
}

impl Ends {
    /// Waits for the next one and returns its name.
    async fn next(&mut self) -> &'static str {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => drop(hangup.recv().await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
            () = hangup => HANGUP,
        }
    }
}

/// Whether the process was started such that it survives the loss of its terminal, as with `nohup`.
fn ignores_hangups() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // SIGHUP is the first signal.
    ignored.is_some_and(|mask| mask & 1 != 0)
}
