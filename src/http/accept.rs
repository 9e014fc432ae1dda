//! The accept loop of one thread: takes connections in until the server shuts down, and then drains them.

use std::cell::Cell;
use std::io;
use std::net::{IpAddr, TcpListener};
use std::rc::Rc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio_util::task::TaskTracker;

use super::connection;
use super::connections::{Connections, Slot};
use super::request_id::RequestIds;
use super::worker::Worker;
use super::{Rejection, Service, Timeouts, listen, raw};
use crate::fault::Fault;

/// How long requests may still take when the server shuts down.
pub const DRAIN: Duration = Duration::from_secs(10);

/// How long an accept loop waits when the system cannot give it another connection.
const PAUSE: Duration = Duration::from_millis(50);

/// How long an accept loop waits for evicted connections to close.
const CLOSING: Duration = Duration::from_millis(1);

/// How often at most: one that does not close must not keep others out.
const WAITS: u32 = 50;

/// How long connections that were being made when the server began to shut down are still accepted: the round trip to a client
/// that is far away.
const LAST_CALL: Duration = Duration::from_millis(300);

/// How long a client may take to read why its connection is refused.
const REFUSAL: Duration = Duration::from_millis(500);

/// Accepts connections until `shutdown` is true; then waits until every request has its response.
pub async fn accept<S: Service + 'static>(
    socket: TcpListener,
    service: S,
    connections: Connections,
    timeouts: Timeouts,
    mut shutdown: watch::Receiver<bool>,
) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(socket)?;
    service.start().await;
    let acceptor = Acceptor {
        connections,
        worker: Rc::new(Worker {
            service,
            ids: RequestIds::new().map_err(io::Error::other)?,
            timeouts,
            draining: Rc::default(),
            lingering: Cell::new(0),
        }),
        tasks: TaskTracker::new(),
    };
    tokio::select! {
        () = acceptor.accept_all(&listener) => {}
        _ = shutdown.wait_for(|shutdown| *shutdown) => {}
    }
    acceptor.worker.draining.set(true);
    acceptor.connections.wake_all();
    // A connection that waits to be accepted would be reset. None is added to them, and then they are taken.
    if !Fault::DropsQueue.is_on() {
        listen::refuse_new(&listener);
        let _ = tokio::time::timeout(LAST_CALL, acceptor.accept_all(&listener)).await;
    }
    drop(listener);
    let tasks = &acceptor.tasks;
    tasks.close();
    if tokio::time::timeout(DRAIN, tasks.wait()).await.is_err() {
        tracing::warn!(open = tasks.len(), "stopped with connections still open");
    }
    Ok(())
}

struct Acceptor<S> {
    connections: Connections,
    worker: Rc<Worker<S>>,
    /// The connections of this thread.
    tasks: TaskTracker,
}

impl<S: Service + 'static> Acceptor<S> {
    async fn accept_all(&self, listener: &tokio::net::TcpListener) {
        loop {
            for _ in 0..WAITS {
                if !self.connections.are_closing() {
                    break;
                }
                tokio::time::sleep(CLOSING).await;
            }
            let (tcp, peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    // A client that went away is nothing; too many open files passes when connections end.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            Fault::WorkerDies.panic_if(|| true);
            match self.connections.enter(peer.ip()) {
                Ok(slot) => self.serve(tcp, slot, peer.ip()),
                Err(_) => self.refuse(tcp, peer.ip()),
            }
        }
    }

    fn serve(&self, tcp: TcpStream, slot: Slot, peer: IpAddr) {
        let worker = Rc::clone(&self.worker);
        worker.service.opened();
        self.tasks.spawn_local(async move {
            connection::serve(tcp, slot, peer, &worker).await;
            worker.service.closed();
        });
    }

    fn refuse(&self, tcp: TcpStream, peer: IpAddr) {
        let Worker { service, ids, .. } = &*self.worker;
        let response = raw::reject(service, ids, Rejection::TooManyConnections, peer);
        match self.connections.refuse() {
            Some(permit) => drop(tokio::task::spawn_local(refuse(tcp, response, permit))),
            // What fits is sent, and the connection ends.
            None => drop(tcp.try_write(&response)),
        }
    }
}

/// Sends a response to a connection that is refused. What the client sends meanwhile is read, or it would lose the response.
async fn refuse(mut tcp: TcpStream, response: Vec<u8>, _permit: OwnedSemaphorePermit) {
    let exchange = async {
        let _ = tcp.write_all(&response).await;
        let _ = tcp.shutdown().await;
        let mut rest = [0; 1024];
        while tcp.read(&mut rest).await.is_ok_and(|n| n > 0) {}
    };
    let _ = tokio::time::timeout(REFUSAL, exchange).await;
}
