//! The body of a response: shared bytes, or a stream.
//!
//! hyper copies what it gets into the buffer of the connection. So it gets bodies in pieces, and polls for the next one when the
//! client has read the last one: a client that reads nothing costs a few KiB, however large the body is.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::Stream;
use hyper::body::{Frame, SizeHint};

use super::progress::OpenRequest;

/// Bytes of a piece. Most bodies are one piece.
const PIECE: usize = 8 * 1024;

/// The most bytes of large bodies that are held for clients that have not read them: a client with a key can request many large
/// pages that no other client needs.
const MAX_HELD: usize = 64 * 1024 * 1024;

/// Bodies up to this size are small: the buffers of a connection are larger.
const SMALL: usize = 16 * 1024;

/// The bytes of large bodies that are held.
static HELD: AtomicUsize = AtomicUsize::new(0);

/// The body of a response.
#[derive(Debug, Default)]
pub struct Body {
    /// The rest of a body that is not streamed.
    bytes: Bytes,
    held: Held,
    stream: Option<Box<Streamed>>,
}

/// Bytes of a large body, until they are dropped.
#[derive(Debug, Default)]
struct Held(usize);

/// A body that is generated while it is sent. Its request stays in flight until it ends.
struct Streamed {
    parts: Pin<Box<dyn Stream<Item = io::Result<Bytes>>>>,
    request: Option<OpenRequest>,
}

impl fmt::Debug for Streamed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Streamed")
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.0 > 0 {
            HELD.fetch_sub(self.0, Ordering::Relaxed);
        }
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
    /// A body that is generated while it is sent. An error aborts the connection, so that the client notices the missing rest.
    pub fn streamed(parts: impl Stream<Item = io::Result<Bytes>> + 'static) -> Self {
        Self {
            stream: Some(Box::new(Streamed {
                parts: Box::pin(parts),
                request: None,
            })),
            ..Self::default()
        }
    }

    /// Counts the body of one response among those that are held, if it is large. Returns false if the limit is reached.
    pub fn hold(&mut self) -> bool {
        let size = self.bytes.len();
        if size <= SMALL {
            return true;
        }
        let before = HELD.fetch_add(size, Ordering::Relaxed);
        self.held = Held(size);
        before + size <= MAX_HELD
    }

    /// The bytes of a body that is not streamed.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Whether it is generated while it is sent.
    pub(super) fn is_streamed(&self) -> bool {
        self.stream.is_some()
    }

    /// Keeps the request in flight until the body has been sent.
    pub(super) fn keep(&mut self, request: OpenRequest) {
        if let Some(stream) = &mut self.stream {
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
        let piece = match self.bytes.len() {
            0 => {
                return match &mut self.stream {
                    Some(stream) => {
                        let next = stream.parts.as_mut().poll_next(cx);
                        next.map(|part| part.map(|part| part.map(Frame::data)))
                    }
                    None => Poll::Ready(None),
                };
            }
            1..=PIECE => std::mem::take(&mut self.bytes),
            _ => self.bytes.split_to(PIECE),
        };
        Poll::Ready(Some(Ok(Frame::data(piece))))
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
    async fn a_body_is_sent_in_small_pieces_that_share_its_memory() {
        let bytes = Bytes::from(vec![b'x'; 3 * PIECE + 1]);
        let mut body = Body::from(bytes.clone());
        assert_eq!(body.size_hint().exact(), Some(bytes.len() as u64));
        let mut sent = 0;
        while let Some(frame) = body.frame().await {
            let piece = frame.unwrap().into_data().unwrap();
            assert!((1..=PIECE).contains(&piece.len()));
            assert_eq!(piece.as_ptr(), bytes[sent..].as_ptr(), "a copy");
            sent += piece.len();
        }
        assert_eq!(sent, bytes.len());
        assert!(body.is_end_stream());
    }

    #[test]
    fn large_bodies_are_held_up_to_a_limit_and_small_ones_always() {
        let large = Bytes::from(vec![b'x'; 1 << 20]);
        let hold = |bytes: &Bytes| {
            let mut body = Body::from(bytes.clone());
            body.hold().then_some(body)
        };
        let held: Vec<_> = (0..64).map(|_| hold(&large).unwrap()).collect();
        assert!(hold(&large).is_none() && hold(&large).is_none());
        assert!(hold(&large.slice(..SMALL)).is_some());
        drop(held);
        assert!(hold(&large).is_some());
    }
}
