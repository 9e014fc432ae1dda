//! The mode of a proxy, and its connections.

use std::collections::HashMap;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

#[derive(Debug)]
pub(super) struct State {
    pub(super) target: SocketAddr,
    pub(super) mode: ProxyMode,
    pub(super) delay: Duration,
    pub(super) cut_after: Option<usize>,
    pub(super) cut_when: Option<Trigger>,
    pub(super) cuts: usize,
    pub(super) connections: HashMap<usize, Connection>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ProxyMode {
    Open,
    Stalled,
    Cut,
    Ended,
}

/// What a client sends before it is cut off, and how many times more.
#[derive(Debug)]
pub(super) struct Trigger {
    pub(super) pattern: Vec<u8>,
    pub(super) times: usize,
}

#[derive(Debug)]
pub(super) struct Connection {
    /// The client's, and the server's once there is one.
    pub(super) streams: Vec<TcpStream>,
    /// Bytes that went to the client since `cut_after` was last called.
    pub(super) passed: usize,
    /// Nothing goes to the client any more.
    pub(super) muted: bool,
}

impl Drop for Connection {
    /// The threads that forward have handles of their own, and may be waiting for bytes.
    fn drop(&mut self) {
        for stream in &self.streams {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl State {
    pub(super) fn is_triggered(&mut self, sent: &[u8]) -> bool {
        let Some(Trigger { pattern, times }) = &mut self.cut_when else {
            return false;
        };
        let found = *times > 0 && sent.windows(pattern.len()).any(|window| window == pattern);
        *times -= usize::from(found);
        found
    }

    /// How many of these bytes may go to the client, and whether that is the end.
    pub(super) fn allow(&mut self, id: usize, length: usize) -> Option<(usize, bool)> {
        let connection = self.connections.get_mut(&id)?;
        let left = self
            .cut_after
            .map_or(usize::MAX, |bytes| bytes - connection.passed);
        let allowed = length.min(left);
        connection.passed += allowed;
        let cut = allowed == left;
        if cut {
            self.cut_after = None;
        }
        Some((allowed, cut))
    }

    pub(super) fn cut(&mut self, id: usize) {
        self.connections.remove(&id);
        self.cuts += 1;
    }
}
