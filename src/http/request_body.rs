//! The body of a request, read while it arrives, and the handling of a body that no handler has read.

use std::cell::Cell;
use std::future::pending;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use http::header::{EXPECT, HeaderMap};
use http_body_util::{BodyExt, Either, Full};
use hyper::body::{Body, Frame, Incoming};

use super::http2::ReceivedBody;
use super::progress::Progress;

/// The maximum number of bytes of a body that are read only to reuse the connection.
const MAX_REMAINDER_BYTES: usize = 64 * 1024;

/// The maximum number of parts of such a remainder: with one byte in each there would be 65,536 of them.
const MAX_REMAINDER_PARTS: usize = 1_000;

/// How long such a remainder may take to arrive. A client may send head and body in two packets.
const REMAINDER_TIMEOUT: Duration = Duration::from_millis(250);

pub struct RequestBody {
    incoming: AnyBody,
    /// Whether the client waits for `100 Continue`, which the first read sends.
    awaits_continue: bool,
    /// Over HTTP/2, if the client waits for `100 Continue`: set when a read waits for it. `http2/request.rs` then sends it; hyper sends
    /// it itself.
    pub(super) continue_needed: Option<Rc<Cell<bool>>>,
    ended: bool,
    broken: bool,
    /// The progress of its connection. None if the body was empty or complete from the beginning.
    progress: Option<Rc<Progress>>,
    /// hyper treats everything up to the next empty line as trailers, even after a line break that it should reject, and so may swallow
    /// the next request. So nothing can be read after trailers, and the connection has to be closed.
    has_trailers: bool,
}

fn expects_continue(headers: &HeaderMap) -> bool {
    let expect = headers.get(EXPECT);
    expect.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}

/// A body over HTTP/1 or HTTP/2, or one without a connection.
type AnyBody = Either<Incoming, Either<ReceivedBody, Full<Bytes>>>;
type FrameError = <AnyBody as Body>::Error;

/// A body that was aborted by the client, or whose chunks are malformed.
#[derive(Debug, thiserror::Error)]
#[error("the body ended before it was complete")]
pub struct Incomplete;

impl RequestBody {
    /// The body of a request with these headers.
    pub(super) fn new(incoming: Incoming, headers: &HeaderMap, progress: &Rc<Progress>) -> Self {
        Self::arriving(Either::Left(incoming), headers, progress)
    }

    /// The body of a request over HTTP/2 with these headers.
    pub(super) fn over_http2(
        received: ReceivedBody,
        headers: &HeaderMap,
        progress: &Rc<Progress>,
    ) -> Self {
        let mut body = Self::arriving(Either::Right(Either::Left(received)), headers, progress);
        body.continue_needed = body.awaits_continue.then(Rc::default);
        body
    }

    fn arriving(incoming: AnyBody, headers: &HeaderMap, progress: &Rc<Progress>) -> Self {
        let ended = incoming.is_end_stream();
        Self {
            awaits_continue: !ended && expects_continue(headers),
            continue_needed: None,
            progress: (!ended).then(|| Rc::clone(progress)),
            ended,
            broken: false,
            has_trailers: false,
            incoming,
        }
    }

    /// A body without a connection, for a service that is called directly.
    pub fn whole(bytes: Bytes) -> Self {
        Self {
            awaits_continue: false,
            continue_needed: None,
            ended: bytes.is_empty(),
            broken: false,
            progress: None,
            has_trailers: false,
            incoming: Either::Right(Either::Right(Full::new(bytes))),
        }
    }

    /// The least number of bytes that are still to arrive. Exact if the client sent a `Content-Length`.
    pub fn min_remaining(&self) -> u64 {
        self.incoming.size_hint().lower()
    }

    /// Whether all of it has been read, so that the next request can be.
    pub fn is_read(&self) -> bool {
        !self.broken && !self.has_trailers && (self.ended || self.incoming.is_end_stream())
    }

    /// The next part. `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Incomplete> {
        self.awaits_continue = false;
        loop {
            if self.broken {
                return Err(Incomplete);
            }
            match self.frame().await {
                None => {
                    self.ended = true;
                    return Ok(None);
                }
                Some(Err(_)) => {
                    self.broken = true;
                    // Over HTTP/2 the stream has been reset: the request is cancelled here, before it fails.
                    tokio::task::yield_now().await;
                }
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => return Ok(Some(data)),
                    Err(_) => self.has_trailers = true,
                },
            }
        }
    }

    /// The next frame. While it has not arrived, the connection can be evicted.
    async fn frame(&mut self) -> Option<Result<Frame<Bytes>, FrameError>> {
        let mut frame = self.incoming.frame();
        if let Some(frame) = (&mut frame).now_or_never() {
            return frame;
        }
        if let Some(needed) = self.continue_needed.take() {
            needed.set(true);
        }
        let Some(progress) = &self.progress else {
            return frame.await;
        };
        let _waiting = progress.begin_client_wait();
        frame.await
    }

    /// Reads the remainder, if it is small and arrives soon: the connection can then be reused. Otherwise it has to be closed. A body
    /// that waits for `100 Continue` is not requested.
    pub(super) async fn discard_rest(&mut self) {
        if self.is_read()
            || self.awaits_continue
            || self.min_remaining() > MAX_REMAINDER_BYTES as u64
        {
            return;
        }
        let all = async {
            let (mut length, mut parts) = (0, 0);
            while let Ok(Some(data)) = self.next().await {
                length += data.len();
                parts += 1;
                if length > MAX_REMAINDER_BYTES || parts > MAX_REMAINDER_PARTS {
                    return;
                }
            }
        };
        let _ = tokio::time::timeout(REMAINDER_TIMEOUT, all).await;
    }

    /// Reads and discards what arrives while the response is sent over HTTP/2. Each part that is not read keeps the whole buffer in
    /// which it arrived, and the client decides how long the response takes.
    pub(super) async fn discard_during(&mut self, sending: impl Future<Output = ()>) {
        // Reading does not count as waiting for the client here: sending may, and each request counts at most once.
        let progress = self.progress.take();
        let all = async {
            while let Ok(Some(_)) = self.next().await {}
            pending().await
        };
        tokio::select! {
            biased;
            () = sending => {}
            () = all => {}
        }
        self.progress = progress;
    }
}
