//! The accept loop of one thread: accepts connections until the server shuts down, and then drains them. Connections of a listener
//! with TLS begin with a handshake; the others are served directly.

use std::cell::Cell;
use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::connection;
use super::connections::{Connections, Slot};
use super::outage::Outage;
use super::request_id::RequestIds;
use super::service::ThreadState;
use super::tls::{HTTP_2, Handshake, perform_handshake};
use super::{Listener, ReachedLimit, Rejection, Service, Timeouts, Tls, http2, listen, raw};
use crate::fault::Fault;

/// How long requests in flight may take during shutdown, from its beginning.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// The pause after a failed accept, for example with too many open files.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// How long an accept loop waits at a time for evicted connections to close.
const CLOSING_WAIT: Duration = Duration::from_millis(1);

/// The maximum number of waits in a row, so that a connection that does not close does not block others.
const MAX_CLOSING_WAITS: u32 = 50;

/// How long connections whose TCP handshake had begun before the shutdown are still accepted: the round trip to a distant client.
const FINAL_ACCEPT_TIMEOUT: Duration = Duration::from_millis(300);

/// How long a client may take to read the response to a rejected connection.
const REJECTION_TIMEOUT: Duration = Duration::from_millis(500);

/// Accepts connections until `shutdown` is true or its sender is dropped; then waits for the responses in flight, but not longer than
/// the timeout for draining. With `tls`, connections are encrypted.
pub async fn accept<S: Service + 'static>(
    Listener { socket, stays_open }: Listener,
    tls: Option<Tls>,
    service: S,
    connections: Connections,
    timeouts: Timeouts,
    mut shutdown: watch::Receiver<bool>,
) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(socket)?;
    service.start().await;
    let acceptor = Acceptor {
        connections,
        tls,
        thread: Rc::new(ThreadState {
            service,
            ids: RequestIds::new().map_err(io::Error::other)?,
            timeouts,
            draining: Rc::default(),
            lingering: Cell::new(0),
            tasks: TaskTracker::new(),
        }),
    };
    tokio::select! {
        () = acceptor.accept_all(&listener) => {}
        _ = shutdown.wait_for(|shutdown| *shutdown) => {}
    }
    let deadline = Instant::now() + DRAIN_TIMEOUT;
    acceptor.thread.draining.set(true);
    acceptor.connections.wake_all();
    // Connections in the queue would be reset. So new SYNs are dropped first, and then the queue is accepted. The queue of a
    // socket that stays open is left to the next server, and a filter would stay on the socket.
    if (!stays_open || Fault::FiltersPassedSocket.is_enabled()) && !Fault::DropsQueue.is_enabled() {
        listen::drop_new_syns(&listener);
        let _ = tokio::time::timeout(FINAL_ACCEPT_TIMEOUT, acceptor.accept_all(&listener)).await;
    }
    drop(listener);
    let tasks = &acceptor.thread.tasks;
    tasks.close();
    if tokio::time::timeout_at(deadline, tasks.wait())
        .await
        .is_err()
    {
        tracing::warn!(
            open = tasks.len(),
            "shutdown deadline passed with connections or requests still open"
        );
    }
    Ok(())
}

struct Acceptor<S> {
    connections: Connections,
    tls: Option<Tls>,
    thread: Rc<ThreadState<S>>,
}

/// A connection that its service counts as open until this is dropped, also by a panic.
struct CountedConnection<S: Service>(Rc<ThreadState<S>>);

impl<S: Service> CountedConnection<S> {
    fn begin(thread: &Rc<ThreadState<S>>) -> Self {
        thread.service.opened();
        Self(Rc::clone(thread))
    }
}

impl<S: Service> Drop for CountedConnection<S> {
    fn drop(&mut self) {
        self.0.service.closed();
    }
}

impl<S: Service + 'static> Acceptor<S> {
    /// Accepts connections until this is cancelled.
    async fn accept_all(&self, listener: &tokio::net::TcpListener) {
        let mut outage = Outage::default();
        loop {
            for _ in 0..MAX_CLOSING_WAITS {
                if !self.connections.too_many_closing() {
                    break;
                }
                tokio::time::sleep(CLOSING_WAIT).await;
            }
            let (tcp, peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Clients that disconnected are harmless, and an exhausted file limit resolves itself when connections close.
                    if outage.fail() {
                        tracing::warn!(%error, "cannot accept connections");
                    }
                    tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                    continue;
                }
            };
            if let Some(failures) = outage.succeed() {
                tracing::info!(failures, "accepting connections again");
            }
            Fault::WorkerDies.panic_if(|| true);
            match self.connections.enter(peer.ip()) {
                Ok(slot) => self.serve(tcp, slot, peer.ip()),
                Err(full) => self.reject(tcp, peer.ip(), full),
            }
        }
    }

    fn serve(&self, tcp: TcpStream, slot: Slot, peer: IpAddr) {
        let counted = CountedConnection::begin(&self.thread);
        match &self.tls {
            None => self.thread.tasks.spawn_local(async move {
                connection::serve(tcp, slot, peer, &counted.0).await;
            }),
            Some(tls) => {
                let tls = tls.clone();
                self.thread.tasks.spawn_local(async move {
                    serve_encrypted(&tls, tcp, slot, peer, &counted.0).await;
                })
            }
        };
    }

    fn reject(&self, tcp: TcpStream, peer: IpAddr, full: ReachedLimit) {
        let ThreadState { service, ids, .. } = &*self.thread;
        let response = raw::rejection(service, ids, Rejection::TooManyConnections(full), peer);
        match (self.connections.rejection_permit(), &self.tls) {
            (Some(permit), tls) => {
                let rejecting = send_rejection(tls.clone(), tcp, response, permit);
                drop(tokio::task::spawn_local(rejecting));
            }
            // Sends what fits into the buffer of the socket, and closes the connection.
            (None, None) => drop(tcp.try_write(&response)),
            // Without a handshake the client could not read it.
            (None, Some(_)) => {}
        }
    }
}

/// Serves a connection that begins with a TLS handshake.
async fn serve_encrypted<S: Service + 'static>(
    tls: &Tls,
    tcp: TcpStream,
    slot: Slot,
    peer: IpAddr,
    thread: &Rc<ThreadState<S>>,
) {
    match perform_handshake(tls, tcp, slot.activity(), thread).await {
        Handshake::Done(stream) => match stream.get_ref().1.alpn_protocol() {
            Some(HTTP_2) => http2::serve(stream, slot, peer, thread).await,
            _ => connection::serve(stream, slot, peer, thread).await,
        },
        Handshake::PlainHttp(tcp) => {
            let ThreadState { service, ids, .. } = &**thread;
            let response = raw::rejection(service, ids, Rejection::PlainHttp, peer);
            write_rejection(tcp, &response).await;
        }
        Handshake::Failed => thread.service.handshake_failed(),
        Handshake::Ended => {}
    }
}

/// Sends the response to a rejected connection, after a handshake if the listener has TLS.
async fn send_rejection(
    tls: Option<Tls>,
    tcp: TcpStream,
    response: Vec<u8>,
    _permit: OwnedSemaphorePermit,
) {
    let Some(tls) = tls else {
        return write_rejection(tcp, &response).await;
    };
    let exchange = async {
        if let Ok(stream) = tls.0.http1_acceptor.accept(tcp).await {
            write_rejection(stream, &response).await;
        }
    };
    let _ = tokio::time::timeout(REJECTION_TIMEOUT, exchange).await;
}

/// Sends the response to a rejected connection. Reads what the client sends meanwhile, or the client would lose the response.
async fn write_rejection(mut io: impl AsyncRead + AsyncWrite + Unpin, response: &[u8]) {
    let exchange = async {
        let _ = io.write_all(response).await;
        let _ = io.shutdown().await;
        let mut rest = [0; 1024];
        while io.read(&mut rest).await.is_ok_and(|n| n > 0) {}
    };
    let _ = tokio::time::timeout(REJECTION_TIMEOUT, exchange).await;
}
