//! Notifications, as sd_notify(3) sends them: lines in a datagram to the socket that NOTIFY_SOCKET names.

use std::ffi::OsString;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::time::Duration;

/// How long a notification may wait for a service manager that does not read.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Sends notifications, if a service manager expects them.
#[derive(Clone, Default)]
pub struct Notifier(Option<Arc<NotifySocket>>);

struct NotifySocket {
    socket: UnixDatagram,
    /// The value of NOTIFY_SOCKET.
    name: OsString,
}

impl Notifier {
    /// Reads where to send notifications from NOTIFY_SOCKET.
    pub(super) fn from_env() -> io::Result<Self> {
        let Some(name) = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else {
            return Ok(Self(None));
        };
        let socket = UnixDatagram::unbound()?;
        socket.set_write_timeout(Some(TIMEOUT))?;
        Ok(Self(Some(Arc::new(NotifySocket { socket, name }))))
    }

    /// Sends these lines in one datagram. A server whose service manager does not listen, or whose variable is invalid, still
    /// serves, and logs it.
    pub fn send(&self, lines: &str) {
        let Some(to) = &self.0 else { return };
        if let Err(error) = to.send(lines) {
            tracing::warn!(%error, "cannot notify the service manager at NOTIFY_SOCKET");
        }
    }
}

impl NotifySocket {
    fn send(&self, lines: &str) -> io::Result<usize> {
        let address = match self.name.as_bytes().strip_prefix(b"@") {
            Some(name) => SocketAddr::from_abstract_name(name)?,
            None => SocketAddr::from_pathname(&self.name)?,
        };
        self.socket.send_to_addr(lines.as_bytes(), &address)
    }
}

/// The time that the watchdog allows between two keep-alives, if it is meant for this process.
pub(super) fn watchdog() -> Option<Duration> {
    let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
    let process = number("WATCHDOG_PID");
    if process.is_some_and(|process| process != u64::from(std::process::id())) {
        return None;
    }
    let time = number("WATCHDOG_USEC").filter(|time| *time > 0)?;
    Some(Duration::from_micros(time))
}
