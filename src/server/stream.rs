//! A connection that notices when its client is too slow. hyper has no timeout for a first byte, for silence between requests
//! or for a client that does not take its response; this stream has, with one timer that is hardly ever re-armed.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::header::{CONNECTION, HeaderValue};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until};

use super::connections::Entered;
use super::linger::Linger;
use crate::api::Answer;
use crate::http::RequestBody;

/// Bytes a second that a client has to take of a response, measured over the idle timeout. Only one that lets us wait is measured.
const SLOWEST: u64 = 1024;

/// How long a client may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timeouts {
    /// For a first byte, and for a head once it has begun.
    pub(super) request: Duration,
    /// Between requests, and to take some of a response.
    pub(super) idle: Duration,
}

impl Timeouts {
    /// Bytes that a client has to take within the idle timeout.
    fn quota(&self) -> usize {
        let millis = u64::try_from(self.idle.as_millis()).unwrap_or(u64::MAX);
        usize::try_from(millis.saturating_mul(SLOWEST) / 1000).unwrap_or(usize::MAX)
    }
}

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The first byte of its first request.
    New,
    /// The first byte of a request, since the last byte of the response before.
    Silence,
    /// The rest of a head.
    Head,
    /// Us. A body has its own deadline, where it is read.
    Answer,
}

/// What a connection waits for, and since when. The clock is asked once for each step, and all who need the time of a step
/// look here.
#[derive(Clone, Debug)]
pub(crate) struct Progress(Rc<Step>);

#[derive(Debug)]
struct Step {
    phase: Cell<Phase>,
    since: Cell<Instant>,
    /// The server shuts down: the connection ends with its next response.
    draining: Rc<Cell<bool>>,
    /// One without a request ends now.
    ending: Cell<bool>,
    /// The last response was sent before the body of its request was read.
    lingers: Cell<bool>,
    entered: Entered,
}

impl Progress {
    /// A head has arrived: we are at work until the work is said to be done.
    pub(crate) fn begin(&self) -> Work<'_> {
        if self.0.phase.get() != Phase::Head {
            // It came in one piece with the request before.
            self.0.since.set(Instant::now());
        }
        self.0.phase.set(Phase::Answer);
        self.0.entered.activity().is_busy();
        Work(&self.0)
    }

    /// From now on no first request is waited for.
    pub(super) fn end(&self) {
        self.0.ending.set(true);
    }

    /// The last step of an answer: it says whether it is the last one of the connection.
    pub(crate) fn finish(&self, answer: &mut Answer, body: &RequestBody) {
        let unread = !body.is_read();
        if unread {
            self.0.lingers.set(true);
        }
        if unread || self.0.draining.get() {
            let close = HeaderValue::from_static("close");
            answer.headers_mut().insert(CONNECTION, close);
        }
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
    /// The response is made, and what follows is up to the client. Says how long it took since the head came.
    pub(crate) fn done(&self) -> Duration {
        let now = Instant::now();
        self.0.phase.set(Phase::Silence);
        self.0.entered.activity().is_idle(now);
        now.duration_since(self.0.since.replace(now))
    }
}

/// The stream.
pub(super) struct Stream<'a> {
    tcp: TcpStream,
    timeouts: Timeouts,
    progress: Progress,
    /// When the time of the client is up, in a phase that has an end.
    deadline: Instant,
    /// Fires at or before the deadline: it is set again when it fires, not each time the deadline moves on.
    timer: Pin<Box<Sleep>>,
    /// The timer knows whom to wake: always the task of this connection.
    watched: bool,
    /// The client has not taken all that there was to send: nothing of ours may be put behind it.
    stalled: bool,
    /// The client has let us wait while it took this response.
    slow: bool,
    /// Bytes it took since the deadline was last moved on.
    taken: usize,
    /// When the response was made that is being written.
    made: Instant,
    /// What to send to a client that sent only half a head.
    too_slow: &'a dyn Fn() -> Vec<u8>,
    /// How many connections of this thread linger, and whether this one does.
    lingering: &'a Cell<usize>,
    linger: Option<Linger<'a>>,
}

impl<'a> Stream<'a> {
    pub(super) fn new(
        tcp: TcpStream,
        entered: Entered,
        timeouts: Timeouts,
        lingering: &'a Cell<usize>,
        draining: &Rc<Cell<bool>>,
        too_slow: &'a dyn Fn() -> Vec<u8>,
    ) -> Self {
        let now = Instant::now();
        let deadline = now + timeouts.request;
        Self {
            tcp,
            timeouts,
            progress: Progress(Rc::new(Step {
                phase: Cell::new(Phase::New),
                since: Cell::new(now),
                draining: Rc::clone(draining),
                ending: Cell::new(false),
                lingers: Cell::new(false),
                entered,
            })),
            deadline,
            timer: Box::pin(sleep_until(deadline)),
            watched: false,
            stalled: false,
            slow: false,
            taken: 0,
            made: now,
            too_slow,
            lingering,
            linger: None,
        }
    }

    pub(super) fn progress(&self) -> Progress {
        self.progress.clone()
    }

    /// The client lets us wait: is it too long?
    fn wait(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let (phase, step) = (self.progress.phase(), &*self.progress.0);
        if phase == Phase::Answer {
            return Poll::Pending;
        }
        let activity = step.entered.activity();
        if activity.is_evicted() || (phase == Phase::New && step.ending.get()) {
            return Poll::Ready(io::ErrorKind::ConnectionAborted.into());
        }
        if self.timer.deadline() > self.deadline {
            self.timer.as_mut().reset(self.deadline);
        } else if self.watched && !self.timer.is_elapsed() {
            return Poll::Pending;
        }
        while self.timer.as_mut().poll(cx).is_ready() {
            if Instant::now() >= self.deadline {
                if phase == Phase::Head && !self.stalled {
                    // Half a request came: say why there is no response. If that cannot be sent at once, it is not.
                    let _ = self.tcp.try_write(&(self.too_slow)());
                }
                return Poll::Ready(io::ErrorKind::TimedOut.into());
            }
            self.timer.as_mut().reset(self.deadline);
        }
        if !self.watched {
            self.watched = true;
            activity.watch(cx.waker());
            // It may have been evicted before anyone could be woken.
            if activity.is_evicted() {
                return Poll::Ready(io::ErrorKind::ConnectionAborted.into());
            }
        }
        Poll::Pending
    }

    fn wrote(
        &mut self,
        result: Poll<io::Result<usize>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        self.stalled = result.is_pending();
        let Poll::Ready(done) = result else {
            self.slow = true;
            return self.wait(cx).map(Err);
        };
        let made = self.progress.since();
        if made != self.made {
            // The first of a new response.
            self.made = made;
            self.slow = false;
            self.taken = 0;
            self.deadline = made + self.timeouts.idle;
        } else if self.slow {
            self.taken += done.as_ref().map_or(0, |taken| *taken);
            if self.taken >= self.timeouts.quota() {
                self.move_on();
            } else {
                // One that reads, however slowly, is not the one that has been idle longest.
                self.progress.0.entered.activity().is_idle(Instant::now());
            }
        }
        // Reading may be waiting since before the response, when there was no deadline; from now on there is.
        let _ = self.wait(cx);
        Poll::Ready(done)
    }

    /// The client has done what it had to: its time begins anew.
    fn move_on(&mut self) {
        let now = Instant::now();
        self.taken = 0;
        self.deadline = now + self.timeouts.idle;
        self.progress.0.entered.activity().is_idle(now);
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
            Poll::Pending => {
                if self.slow && self.progress.phase() == Phase::Silence {
                    // The next request is waited for, so the last of the response has been taken.
                    self.slow = false;
                    self.move_on();
                }
                self.wait(cx).map(Err)
            }
            done => {
                let waits = matches!(self.progress.phase(), Phase::New | Phase::Silence);
                if buf.filled().len() > before && waits {
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
        let this = &mut *self;
        if this.linger.is_none() {
            ready!(Pin::new(&mut this.tcp).poll_shutdown(cx))?;
            if this.progress.0.lingers.get() {
                this.linger = Linger::begin(this.lingering);
            }
        }
        let evicted = this.progress.0.entered.activity().is_evicted();
        match &mut this.linger {
            Some(linger) if !evicted => linger.poll(&mut this.tcp, &mut this.timer, cx).map(Ok),
            _ => Poll::Ready(Ok(())),
        }
    }
}
