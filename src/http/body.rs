//! The body of a response: shared bytes, or a stream.
//!
//! hyper copies what it gets into the buffer of the connection. So it gets bodies in chunks, and polls for the next one when the
//! client has read the last one: a client that reads nothing costs a few KiB, however large the body is.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::Stream;
use hyper::body::{Frame, SizeHint};

use super::held::BodyReservation;
use super::progress::{InFlightRequest, Phase};

/// The size of a chunk of a response, in bytes. Most bodies are one chunk.
pub(super) const CHUNK_BYTES: usize = 8 * 1024;

#[derive(Default)]
pub struct Body {
    /// Before `bytes`, because it must be dropped first.
    reservation: BodyReservation,
    /// The rest of a body that is not streamed.
    bytes: Bytes,
    stream: Option<Box<Streamed>>,
}

/// A body that is generated while it is sent.
struct Streamed {
    parts: Pin<Box<dyn Stream<Item = io::Result<Bytes>>>>,
    /// Over HTTP/1, the request, which stays in flight until this is dropped. Over HTTP/2 its task holds it.
    request: Option<InFlightRequest>,
}

impl Streamed {
    /// Whether the server is shutting down, over HTTP/1 (`http2/send.rs` checks this itself): it does not wait for a body that has no
    /// end.
    fn is_draining(&self) -> bool {
        let request = self.request.as_ref();
        request.is_some_and(|request| request.progress.draining.get())
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self {
            bytes,
            ..Self::default()
        }
    }
}

impl Body {
    /// A body that is generated while it is sent. It ends with its stream, or at shutdown after any part. An error aborts the
    /// connection, or over HTTP/2 the stream.
    pub fn streamed(parts: impl Stream<Item = io::Result<Bytes>> + 'static) -> Self {
        let parts = Box::pin(parts);
        let request = None;
        Self {
            stream: Some(Box::new(Streamed { parts, request })),
            ..Self::default()
        }
    }

    /// Counts a large body against the limits on unread responses, in total and of this owner, until it has been sent. Returns false if
    /// a limit is reached.
    pub fn count_against(&mut self, owner: i64) -> bool {
        let reservation = BodyReservation::new(&self.bytes, owner);
        let is_reserved = reservation.is_some();
        self.reservation = reservation.unwrap_or_default();
        is_reserved
    }

    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The next bytes of a body that is not streamed, at most `max`, and whether they are the last.
    pub(super) fn split(&mut self, max: usize) -> (Bytes, bool) {
        if max < self.bytes.len() {
            return (self.bytes.split_to(max), false);
        }
        let last = std::mem::take(&mut self.bytes);
        // The last bytes of a large body are copied: they may stay for long, and would keep all of it in memory, uncounted.
        let is_large = std::mem::take(&mut self.reservation).is_large();
        match is_large {
            true => (Bytes::copy_from_slice(&last), true),
            false => (last, true),
        }
    }

    /// Whether it is generated while it is sent.
    pub(super) fn is_streamed(&self) -> bool {
        self.stream.is_some()
    }

    /// Keeps the request in flight until the body has been sent.
    pub(super) fn hold_request(&mut self, request: InFlightRequest) {
        if let Some(stream) = &mut self.stream {
            request.progress.phase.set(Phase::Streaming);
            stream.request = Some(request);
        }
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let chunk = match self.bytes.len() {
            0 => {
                return match &mut self.stream {
                    Some(stream) if stream.is_draining() => Poll::Ready(None),
                    Some(stream) => {
                        let next = stream.parts.as_mut().poll_next(cx);
                        next.map(|part| part.map(|part| part.map(Frame::data)))
                    }
                    None => Poll::Ready(None),
                };
            }
            1..=CHUNK_BYTES => {
                self.reservation = BodyReservation::default();
                std::mem::take(&mut self.bytes)
            }
            _ => self.bytes.split_to(CHUNK_BYTES),
        };
        Poll::Ready(Some(Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_empty() && self.stream.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        match self.stream {
            Some(_) => SizeHint::default(),
            None => SizeHint::with_exact(self.bytes.len() as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use hyper::body::Body as _;

    use super::*;

    #[tokio::test]
    async fn a_body_is_sent_in_small_chunks_that_share_its_memory() {
        let bytes = Bytes::from(vec![b'x'; 3 * CHUNK_BYTES + 1]);
        let mut body = Body::from(bytes.clone());
        assert_eq!(body.size_hint().exact(), Some(bytes.len() as u64));
        let mut sent = 0;
        while let Some(frame) = body.frame().await {
            let chunk = frame.unwrap().into_data().unwrap();
            assert!((1..=CHUNK_BYTES).contains(&chunk.len()));
            assert_eq!(chunk.as_ptr(), bytes[sent..].as_ptr(), "a copy");
            sent += chunk.len();
        }
        assert_eq!(sent, bytes.len());
        assert!(body.is_end_stream());
    }
}
