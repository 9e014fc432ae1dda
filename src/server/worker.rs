//! The threads of the server: each has a runtime of its own, and its end is noticed. Those that listen have an accept loop.

use std::cell::Cell;
use std::io;
use std::net::TcpListener;
use std::rc::Rc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{Notify, mpsc, watch};

use super::answers::Answers;
use super::connection;
use super::connections::{Connections, Entered, Refusing};
use super::stream::Timeouts;
use super::{DRAIN, listen, raw};
use crate::api::ApiError;
use crate::fault::Fault;

/// How often at most: one that does not close must not keep others out.
const WAITS: u32 = 50;

/// How long an accept loop waits when the system cannot give it another connection.
const PAUSE: Duration = Duration::from_millis(50);

/// How long an accept loop waits for connections that make room.
const ROOM: Duration = Duration::from_millis(1);

/// How long connections that were being made when the server began to shut down are still accepted: the round trip to a client
/// that is far away.
const LAST_CALL: Duration = Duration::from_millis(300);

/// Starts a thread with a runtime of its own. Its end is told to `ended`, with the reason: it panicked, it failed, or it was
/// done because the server shuts down.
pub(super) fn spawn(
    name: &str,
    ended: mpsc::UnboundedSender<String>,
    work: impl AsyncFnOnce() -> io::Result<()> + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let end = End {
        ended,
        reason: format!("the thread {name} has panicked"),
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

/// Tells the end of a thread when it is dropped, so that a panic tells it too.
struct End {
    ended: mpsc::UnboundedSender<String>,
    reason: String,
}

impl Drop for End {
    fn drop(&mut self) {
        // Nobody listens any more when the server has shut down.
        let _ = self.ended.send(std::mem::take(&mut self.reason));
    }
}

/// Accepts until the server shuts down; then waits until what runs is answered.
pub(super) async fn accept<A: Answers + 'static>(
    socket: TcpListener,
    answers: A,
    connections: Connections,
    timeouts: Timeouts,
    mut stopping: watch::Receiver<bool>,
) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(socket)?;
    answers.begin().await;
    let worker = Rc::new(Worker {
        answers,
        connections,
        timeouts,
        draining: Rc::default(),
        open: Rc::default(),
        lingering: Cell::new(0),
    });
    tokio::select! {
        () = worker.accept_all(&listener) => {}
        _ = stopping.wait_for(|stop| *stop) => {}
    }
    worker.draining.set(true);
    worker.connections.wake_all();
    // A connection that waits to be accepted would be reset. None is added to them, and then they are taken.
    if !Fault::DropsQueue.is_on() {
        listen::refuse_new(&listener);
        let _ = tokio::time::timeout(LAST_CALL, worker.accept_all(&listener)).await;
    }
    drop(listener);
    let open = &worker.open;
    if tokio::time::timeout(DRAIN, open.all_closed())
        .await
        .is_err()
    {
        tracing::warn!(open = open.count(), "stopped with connections still open");
    }
    Ok(())
}

/// What the connections of one thread have in common.
struct Worker<A> {
    answers: A,
    connections: Connections,
    timeouts: Timeouts,
    /// Whether the server shuts down.
    draining: Rc<Cell<bool>>,
    open: Rc<Open>,
    /// How many connections linger.
    lingering: Cell<usize>,
}

impl<A: Answers + 'static> Worker<A> {
    async fn accept_all(self: &Rc<Self>, listener: &tokio::net::TcpListener) {
        loop {
            for _ in 0..WAITS {
                if !self.connections.are_closing() {
                    break;
                }
                tokio::time::sleep(ROOM).await;
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
            #[expect(clippy::panic, reason = "a death that a test asked for")]
            if Fault::WorkerDies.is_on() {
                panic!("the worker dies");
            }
            match self.connections.enter(peer.ip()) {
                Ok(entered) => self.serve(tcp, entered, peer.ip()),
                Err(_) => self.refuse(tcp, peer.ip()),
            }
        }
    }

    fn serve(self: &Rc<Self>, tcp: TcpStream, entered: Entered, peer: std::net::IpAddr) {
        self.answers.accepted();
        let (worker, mark) = (Rc::clone(self), self.open.enter());
        tokio::task::spawn_local(async move {
            let Worker {
                answers,
                timeouts,
                draining,
                lingering,
                ..
            } = &*worker;
            connection::serve(tcp, entered, peer, answers, *timeouts, lingering, draining).await;
            answers.closed();
            drop(mark);
        });
    }

    fn refuse(&self, tcp: TcpStream, peer: std::net::IpAddr) {
        let error = ApiError::Unavailable {
            cause: "too many connections".into(),
        };
        let answer = raw::unasked(&self.answers, &error, peer);
        match self.connections.refuse() {
            Some(refusing) => drop(tokio::task::spawn_local(refuse(tcp, answer, refusing))),
            // What fits is sent, and the connection ends.
            None => drop(tcp.try_write(&answer)),
        }
    }
}

/// Says that there are too many connections. What the client sends meanwhile is read, or it would lose the response.
async fn refuse(tcp: TcpStream, answer: Vec<u8>, _until_done: Refusing) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let (mut read, mut write) = tcp.into_split();
    let talk = async {
        let _ = write.write_all(&answer).await;
        let _ = write.shutdown().await;
        let mut rest = [0; 1024];
        while read.read(&mut rest).await.is_ok_and(|n| n > 0) {}
    };
    let _ = tokio::time::timeout(Duration::from_millis(500), talk).await;
}
/// The open connections of one thread.
#[derive(Debug, Default)]
struct Open {
    count: Cell<usize>,
    closed: Notify,
}

/// One of them.
struct Mark(Rc<Open>);

impl Open {
    fn enter(self: &Rc<Self>) -> Mark {
        self.count.set(self.count.get() + 1);
        Mark(Rc::clone(self))
    }

    fn count(&self) -> usize {
        self.count.get()
    }

    async fn all_closed(&self) {
        while self.count.get() > 0 {
            self.closed.notified().await;
        }
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        self.0.count.set(self.0.count.get() - 1);
        self.0.closed.notify_one();
    }
}
