//! A connection that notices when the other side is too slow. hyper has no time-out for a first byte, for silence between
//! requests or for a caller that does not take its answer; this stream has, with one timer that is hardly ever re-armed.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until};

/// How long the other side may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timeouts {
    /// For a first byte, and for a head once it has begun.
    pub(super) request: Duration,
    /// Between requests, and to take some of an answer.
    pub(super) idle: Duration,
}

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The first byte of a request, since the last byte of the answer before.
    Silence,
    /// The rest of a head.
    Head,
    /// Us. A body has its own deadline, where it is read.
    Answer,
}

/// What a connection waits for, and since when. The clock is asked once for each step, and all who need the time of a step
/// look here.
#[derive(Clone, Debug)]
pub(super) struct Progress(Rc<Step>);

#[derive(Debug)]
struct Step {
    phase: Cell<Phase>,
    since: Cell<Instant>,
}

impl Progress {
    /// A head has arrived: we are at work until the work is said to be done.
    pub(super) fn begin(&self) -> Work<'_> {
        if self.0.phase.get() != Phase::Head {
            // It came in one piece with the request before.
            self.0.since.set(Instant::now());
        }
        self.0.phase.set(Phase::Answer);
        Work(&self.0)
    }

    fn phase(&self) -> Phase {
        self.0.phase.get()
    }

    fn since(&self) -> Instant {
        self.0.since.get()
    }

    fn enter(&self, phase: Phase) -> Instant {
        let now = Instant::now();
        self.0.phase.set(phase);
        self.0.since.set(now);
        now
    }
}

/// One request being answered.
#[derive(Debug)]
pub(crate) struct Work<'a>(&'a Step);

impl Work<'_> {
    /// The answer is made, and what follows is up to the other side. Says how long it took since the head came.
    pub(crate) fn done(&self) -> Duration {
        let now = Instant::now();
        self.0.phase.set(Phase::Silence);
        now.duration_since(self.0.since.replace(now))
    }
}

/// The stream.
pub(super) struct Stream<'a> {
    tcp: TcpStream,
    timeouts: Timeouts,
    progress: Progress,
    /// When patience ends, in a phase that has an end.
    deadline: Instant,
    /// Fires at or before the deadline: it is set again when it fires, not each time the deadline moves on.
    timer: Pin<Box<Sleep>>,
    /// The timer knows whom to wake: always the task of this connection.
    watched: bool,
    /// The other side has not taken all we had to say: nothing of ours may be put behind it.
    stalled: bool,
    /// What to say to one who sent only half a head.
    too_slow: &'a dyn Fn() -> Vec<u8>,
}

impl<'a> Stream<'a> {
    pub(super) fn new(
        tcp: TcpStream,
        timeouts: Timeouts,
        too_slow: &'a dyn Fn() -> Vec<u8>,
    ) -> Self {
        let now = Instant::now();
        let deadline = now + timeouts.request;
        Self {
            tcp,
            timeouts,
            progress: Progress(Rc::new(Step {
                phase: Cell::new(Phase::Silence),
                since: Cell::new(now),
            })),
            deadline,
            timer: Box::pin(sleep_until(deadline)),
            watched: false,
            stalled: false,
            too_slow,
        }
    }

    pub(super) fn progress(&self) -> Progress {
        self.progress.clone()
    }

    /// The other side lets us wait: is it too long?
    fn wait(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let phase = self.progress.phase();
        if phase == Phase::Answer {
            return Poll::Pending;
        }
        if self.timer.deadline() > self.deadline {
            self.timer.as_mut().reset(self.deadline);
        } else if self.watched && !self.timer.is_elapsed() {
            return Poll::Pending;
        }
        while self.timer.as_mut().poll(cx).is_ready() {
            if Instant::now() >= self.deadline {
                if phase == Phase::Head && !self.stalled {
                    // Half a request came: say why there is no answer. If that cannot be sent at once, it is not.
                    let _ = self.tcp.try_write(&(self.too_slow)());
                }
                return Poll::Ready(io::ErrorKind::TimedOut.into());
            }
            self.timer.as_mut().reset(self.deadline);
        }
        self.watched = true;
        Poll::Pending
    }

    fn wrote(
        &mut self,
        result: Poll<io::Result<usize>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let was_stalled = std::mem::replace(&mut self.stalled, result.is_pending());
        match result {
            Poll::Pending => self.wait(cx).map(Err),
            done => {
                // An answer that is taken at once is taken when it was made.
                let taken = if was_stalled {
                    Instant::now()
                } else {
                    self.progress.since()
                };
                self.deadline = taken + self.timeouts.idle;
                // Reading may be waiting since before the answer, when there was nothing to fear; from now on there is.
                let _ = self.wait(cx);
                done
            }
        }
    }
}

impl AsyncRead for Stream<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        match Pin::new(&mut self.tcp).poll_read(cx, buf) {
            Poll::Pending => self.wait(cx).map(Err),
            done => {
                if buf.filled().len() > before && self.progress.phase() == Phase::Silence {
                    self.deadline = self.progress.enter(Phase::Head) + self.timeouts.request;
                }
                done
            }
        }
    }
}

impl AsyncWrite for Stream<'_> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.tcp).poll_write(cx, bytes);
        self.wrote(result, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.tcp).poll_write_vectored(cx, slices);
        self.wrote(result, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }
}
