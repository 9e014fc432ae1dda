//! A TCP proxy that breaks connections when a test asks for it.

mod forwarding;
mod state;

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use forwarding::Shared;
use state::{ProxyMode, State, Trigger};

/// A proxy on a port of its own. It closes all connections when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Listens on a free port of 127.0.0.1, and forwards to this address.
    pub fn to(target: SocketAddr) -> Self {
        Self::at(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), target)
    }

    /// Listens on this address, and forwards to the other one.
    pub fn at(address: SocketAddr, target: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).expect("a port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                target,
                mode: ProxyMode::Open,
                delay: Duration::ZERO,
                cut_after: None,
                cut_when: None,
                cuts: 0,
                connections: HashMap::new(),
            }),
            changed: Condvar::new(),
        });
        let accepting = Some(thread::spawn({
            let shared = Arc::clone(&shared);
            move || shared.accept(&listener)
        }));
        Self {
            address,
            shared,
            accepting,
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Forwards new connections to another address; those that are open stay where they are.
    pub fn retarget(&self, target: SocketAddr) {
        self.shared.state().target = target;
    }

    /// Closes all connections, and closes new ones at once, until [`restore`](Self::restore).
    pub fn cut(&self) {
        self.shared.enter(ProxyMode::Cut);
        self.cut_now();
    }

    /// Closes all connections. New ones are forwarded as before.
    pub fn cut_now(&self) {
        let mut state = self.shared.state();
        state.connections.clear();
        self.shared.changed.notify_all();
    }

    /// Accepts connections but forwards nothing, either way, until [`restore`](Self::restore).
    pub fn stall(&self) {
        self.shared.enter(ProxyMode::Stalled);
    }

    /// Ends [`cut`](Self::cut) and [`stall`](Self::stall). What was held is forwarded.
    pub fn restore(&self) {
        self.shared.enter(ProxyMode::Open);
    }

    /// Delays each chunk that goes to a client by this time.
    pub fn delay(&self, delay: Duration) {
        self.shared.state().delay = delay;
    }

    /// Cuts the first connection that has passed this many bytes to its client from now on, after exactly that many. With zero it
    /// is the first that has something to pass. The others continue.
    pub fn cut_after(&self, bytes: usize) {
        let mut state = self.shared.state();
        state.cut_after = Some(bytes);
        for connection in state.connections.values_mut() {
            connection.passed = 0;
        }
    }

    /// Cuts a connection whose client sends these bytes, in one chunk or in several: the server gets them and has a
    /// moment to process them, the client gets no response. It does so this many times.
    pub fn cut_when_client_sends(&self, pattern: &[u8], times: usize) {
        assert!(
            !pattern.is_empty(),
            "an empty pattern would match every client"
        );
        let pattern = pattern.to_vec();
        self.shared.state().cut_when = Some(Trigger { pattern, times });
    }

    /// How many connections [`cut_after`](Self::cut_after) and [`cut_when_client_sends`](Self::cut_when_client_sends)
    /// have cut so far.
    pub fn cuts(&self) -> usize {
        self.shared.state().cuts
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.enter(ProxyMode::Ended);
        self.cut_now();
        // It reads the mode when a client connects.
        let _ = TcpStream::connect(self.address);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read, Write};
    use std::time::Instant;

    use super::*;
    use crate::eventually;

    /// Sends back all it gets, and keeps it.
    fn echo() -> (SocketAddr, Arc<Mutex<Vec<u8>>>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let got = Arc::new(Mutex::new(Vec::new()));
        thread::spawn({
            let got = Arc::clone(&got);
            move || {
                for mut stream in listener.incoming().flatten() {
                    let got = Arc::clone(&got);
                    thread::spawn(move || {
                        let mut buffer = [0; 1024];
                        while let Ok(length @ 1..) = stream.read(&mut buffer) {
                            got.lock().unwrap().extend_from_slice(&buffer[..length]);
                            let _ = stream.write_all(&buffer[..length]);
                        }
                    });
                }
            }
        });
        (address, got)
    }

    fn connect(proxy: &Proxy) -> TcpStream {
        let stream = TcpStream::connect(proxy.address()).unwrap();
        let timeout = Some(Duration::from_secs(10));
        stream.set_read_timeout(timeout).unwrap();
        stream
    }

    /// The response to these bytes; none if the connection ends.
    fn ask(stream: &mut TcpStream, bytes: &[u8]) -> Option<Vec<u8>> {
        stream.write_all(bytes).ok()?;
        let mut response = vec![0; bytes.len()];
        stream.read_exact(&mut response).ok()?;
        Some(response)
    }

    /// All that comes before the end.
    fn rest(stream: &mut TcpStream) -> Vec<u8> {
        let mut bytes = Vec::new();
        match stream.read_to_end(&mut bytes) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
        }
        bytes
    }

    #[test]
    fn it_forwards_unless_it_is_cut_or_stalled() {
        let (target, _) = echo();
        let proxy = Proxy::to(target);
        let mut stream = connect(&proxy);
        assert_eq!(ask(&mut stream, b"one").unwrap(), b"one");
        proxy.cut_now();
        assert_eq!(rest(&mut stream), b"");

        let mut stream = connect(&proxy);
        assert_eq!(ask(&mut stream, b"two").unwrap(), b"two");
        proxy.cut();
        assert_eq!(rest(&mut stream), b"");
        assert_eq!(rest(&mut connect(&proxy)), b"");
        proxy.restore();

        let mut stream = connect(&proxy);
        assert_eq!(ask(&mut stream, b"three").unwrap(), b"three");
        proxy.stall();
        let mut new = connect(&proxy);
        for stream in [&mut stream, &mut new] {
            stream.write_all(b"four").unwrap();
            stream
                .set_read_timeout(Some(Duration::from_millis(100)))
                .unwrap();
            let error = stream.read(&mut [0; 4]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
        }
        proxy.restore();
        for stream in [&mut stream, &mut new] {
            stream
                .set_read_timeout(Some(Duration::from_secs(10)))
                .unwrap();
            let mut response = [0; 4];
            stream.read_exact(&mut response).unwrap();
            assert_eq!(&response, b"four");
        }

        proxy.delay(Duration::from_millis(100));
        let began = Instant::now();
        assert_eq!(ask(&mut stream, b"five").unwrap(), b"five");
        assert!(began.elapsed() >= Duration::from_millis(100));
        proxy.delay(Duration::ZERO);

        let (other, got) = echo();
        proxy.retarget(other);
        assert_eq!(ask(&mut connect(&proxy), b"six").unwrap(), b"six");
        assert_eq!(*got.lock().unwrap(), b"six");
        drop(proxy);
        assert_eq!(rest(&mut stream), b"");
    }

    #[test]
    fn it_cuts_at_the_byte_it_is_given() {
        let (target, _) = echo();
        let proxy = Proxy::to(target);
        for bytes in 0..=6 {
            let mut stream = connect(&proxy);
            assert_eq!(ask(&mut stream, b"before").unwrap(), b"before");
            proxy.cut_after(bytes);
            stream.write_all(b"abcdef").unwrap();
            assert_eq!(rest(&mut stream), b"abcdef"[..bytes]);
        }
        eventually(Duration::from_secs(10), "it counts", || proxy.cuts() == 7);
        assert_eq!(ask(&mut connect(&proxy), b"after").unwrap(), b"after");
    }

    #[test]
    fn a_server_gets_the_pattern_and_its_client_no_response() {
        let (target, got) = echo();
        let proxy = Proxy::to(target);
        proxy.cut_when_client_sends(b"COMMIT", 2);
        for _ in 0..2 {
            let mut stream = connect(&proxy);
            assert_eq!(ask(&mut stream, b"BEGIN; COM").unwrap(), b"BEGIN; COM");
            stream.write_all(b"MIT;").unwrap();
            assert_eq!(rest(&mut stream), b"");
        }
        eventually(Duration::from_secs(10), "it counts", || proxy.cuts() == 2);
        assert_eq!(ask(&mut connect(&proxy), b"COMMIT").unwrap(), b"COMMIT");
        let all = [&b"BEGIN; COMMIT;"[..]; 2].concat();
        assert_eq!(*got.lock().unwrap(), [&all[..], b"COMMIT"].concat());
        assert_eq!(proxy.cuts(), 2);
    }
}
