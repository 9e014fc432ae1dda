//! The threads of a proxy: one that accepts, and three for each connection: one to the server, two to the
//! client, because each chunk is delayed from its own arrival, so that delays do not add up.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use super::state::{Connection, ProxyMode, State};

/// How long a server has to process what it got before its client is cut off.
const WORK: Duration = Duration::from_millis(20);

/// The maximum number of chunks of a connection in flight.
const MAX_CHUNKS: usize = 16;

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) state: Mutex<State>,
    pub(super) changed: Condvar,
}

impl Shared {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn enter(&self, mode: ProxyMode) {
        self.state().mode = mode;
        self.changed.notify_all();
    }

    pub(super) fn accept(self: &Arc<Self>, listener: &TcpListener) {
        for (id, client) in listener.incoming().enumerate() {
            let Ok(client) = client else { continue };
            let Ok(handle) = client.try_clone() else {
                continue;
            };
            let mut state = self.state();
            match state.mode {
                ProxyMode::Open | ProxyMode::Stalled => {
                    let connection = Connection {
                        streams: vec![handle],
                        passed: 0,
                        muted: false,
                    };
                    state.connections.insert(id, connection);
                    let shared = Arc::clone(self);
                    thread::spawn(move || {
                        let _ = shared.serve(id, client);
                        shared.state().connections.remove(&id);
                    });
                }
                ProxyMode::Cut => {}
                ProxyMode::Ended => return,
            }
        }
    }

    /// Forwards both ways until both sides have ended, or one breaks.
    fn serve(self: &Arc<Self>, id: usize, client: TcpStream) -> Option<()> {
        let target = self.when_open(id)?.target;
        let server = TcpStream::connect(target).ok()?;
        for stream in [&client, &server] {
            stream.set_nodelay(true).ok()?;
        }
        let (from_client, to_server) = (client.try_clone().ok()?, server.try_clone().ok()?);
        let handle = server.try_clone().ok()?;
        self.state().connections.get_mut(&id)?.streams.push(handle);
        let upload = thread::spawn({
            let shared = Arc::clone(self);
            move || {
                let whole = shared.to_server(id, from_client, to_server);
                if whole.is_none() {
                    shared.state().connections.remove(&id);
                }
            }
        });
        self.to_client(id, server, client)?;
        upload.join().ok()
    }

    fn to_server(&self, id: usize, mut client: TcpStream, mut server: TcpStream) -> Option<()> {
        let mut buffer = vec![0; 64 * 1024];
        // The last chunk, and as much of those before it as a pattern that spans chunks could begin in.
        let mut sent = Vec::new();
        loop {
            let length = client.read(&mut buffer).ok()?;
            let mut state = self.when_open(id)?;
            if length == 0 {
                return server.shutdown(Shutdown::Write).ok();
            }
            let reach = state.cut_when.as_ref().map_or(0, |it| it.pattern.len() - 1);
            sent.drain(..sent.len().saturating_sub(reach));
            sent.extend_from_slice(&buffer[..length]);
            let cut = state.is_triggered(&sent);
            if cut {
                // Before the server has the bytes: its response must not be forwarded.
                state.connections.get_mut(&id)?.muted = true;
            }
            drop(state);
            server.write_all(&buffer[..length]).ok()?;
            if cut {
                thread::sleep(WORK);
                self.state().cut(id);
            }
        }
    }

    fn to_client(&self, id: usize, server: TcpStream, mut client: TcpStream) -> Option<()> {
        let chunks = chunks(server);
        loop {
            let (arrived, chunk) = chunks.recv().ok()?;
            let length = chunk.len();
            let delay = self.state().delay;
            thread::sleep(delay.saturating_sub(arrived.elapsed()));
            let mut state = self.when_open(id)?;
            if state.connections.get(&id)?.muted {
                if length == 0 {
                    return Some(());
                }
                continue;
            }
            if length == 0 {
                client.shutdown(Shutdown::Write).ok()?;
                return Some(());
            }
            let (allowed, cut) = state.allow(id, length)?;
            drop(state);
            client.write_all(&chunk[..allowed]).ok()?;
            if cut {
                self.state().cut(id);
            }
        }
    }

    /// Waits while the proxy is stalled. None once the connection is cut.
    fn when_open(&self, id: usize) -> Option<MutexGuard<'_, State>> {
        let state = self
            .changed
            .wait_while(self.state(), |state| {
                state.mode == ProxyMode::Stalled && state.connections.contains_key(&id)
            })
            .unwrap_or_else(PoisonError::into_inner);
        state.connections.contains_key(&id).then_some(state)
    }
}

/// What a server sends, and when each chunk of it arrived; the last one is empty.
fn chunks(mut server: TcpStream) -> mpsc::Receiver<(Instant, Vec<u8>)> {
    let (send, chunks) = mpsc::sync_channel(MAX_CHUNKS);
    thread::spawn(move || {
        loop {
            let mut chunk = vec![0; 64 * 1024];
            let Ok(length) = server.read(&mut chunk) else {
                return;
            };
            chunk.truncate(length);
            if send.send((Instant::now(), chunk)).is_err() || length == 0 {
                return;
            }
        }
    });
    chunks
}
