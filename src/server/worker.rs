//! The threads that serve: each has a runtime of its own and an accept loop.

use std::cell::Cell;
use std::io;
use std::net::TcpListener;
use std::rc::Rc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{Notify, watch};

use super::answers::Answers;
use super::background::Background;
use super::connection::{self, Cap};
use super::gate::Gate;
use super::stream::Timeouts;
use super::{DRAIN, raw};
use crate::admin::Desk;
use crate::api::ApiError;

/// Connections to the admin listener: a few scrapers and people.
const ADMIN_CONNECTIONS: usize = 64;

/// Connections of one thread that are being refused politely at the same time.
const REFUSING: usize = 32;

/// How long an accept loop waits when the system cannot give it another connection.
const PAUSE: Duration = Duration::from_millis(50);

/// Starts a worker of the API.
pub(super) fn spawn(
    name: &str,
    socket: TcpListener,
    cap: Cap,
    timeouts: Timeouts,
    stopping: watch::Receiver<bool>,
    gate: Gate,
) -> io::Result<JoinHandle<()>> {
    thread(name, async move || {
        accept(socket, gate, cap, timeouts, stopping).await
    })
}

/// Starts the admin listener.
pub(super) fn spawn_admin(
    socket: TcpListener,
    timeouts: Timeouts,
    stopping: watch::Receiver<bool>,
    desk: Desk,
) -> io::Result<JoinHandle<()>> {
    thread("admin", async move || {
        let cap = Cap::new(ADMIN_CONNECTIONS);
        accept(socket, desk, cap, timeouts, stopping).await
    })
}

/// Starts the background work.
pub(super) fn spawn_background(background: Background) -> io::Result<JoinHandle<()>> {
    thread("background", async move || background.run().await)
}

fn thread(name: &str, work: impl AsyncFnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new()
        .name(name.into())
        .spawn(move || {
            match Builder::new_current_thread()
                .enable_all()
                .build_local(LocalOptions::default())
            {
                Ok(runtime) => runtime.block_on(work()),
                Err(error) => tracing::error!(%error, "a thread cannot serve"),
            }
        })
}

/// Accepts until the server stops; then waits until what runs is answered.
async fn accept<A: Answers + 'static>(
    socket: TcpListener,
    answers: A,
    cap: Cap,
    timeouts: Timeouts,
    mut stopping: watch::Receiver<bool>,
) {
    let listener = match tokio::net::TcpListener::from_std(socket) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "a thread cannot listen"),
    };
    answers.begin().await;
    let answers = Rc::new(answers);
    let open = Rc::new(Open::default());
    let refusing = Rc::new(Open::default());
    loop {
        let (tcp, peer) = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // A caller that gave up is nothing; too many open files passes when connections end.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            },
            _ = stopping.wait_for(|stop| *stop) => break,
        };
        let Some(place) = cap.enter() else {
            let error = ApiError::Unavailable {
                cause: "too many connections".into(),
            };
            let answer = raw::unasked(&*answers, &error, peer.ip());
            if refusing.count() < REFUSING {
                tokio::task::spawn_local(refuse(tcp, answer, refusing.enter()));
            } else {
                // No time for manners: what fits is said, and the connection ends.
                let _ = tcp.try_write(&answer);
            }
            continue;
        };
        answers.accepted();
        // An answer is written in one piece: waiting to fill a packet would only delay it.
        let _ = tcp.set_nodelay(true);
        let (answers, stopping) = (Rc::clone(&answers), stopping.clone());
        let mark = (open.enter(), place);
        tokio::task::spawn_local(async move {
            connection::serve(tcp, peer.ip(), &*answers, timeouts, stopping).await;
            drop(mark);
        });
    }
    drop(listener);
    if tokio::time::timeout(DRAIN, open.all_closed())
        .await
        .is_err()
    {
        tracing::warn!(open = open.count(), "stopped with connections still open");
    }
}

/// Says that there are too many connections. What the caller sends meanwhile is read, or it would lose the answer.
async fn refuse(tcp: TcpStream, answer: Vec<u8>, _mark: Mark) {
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
