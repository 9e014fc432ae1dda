//! The body of a response: bytes that are whole, shared, and handed out in pieces.
//!
//! hyper copies what it is handed into the buffer of the connection. In pieces, it asks for the next one when the client has
//! taken the last: a client that reads nothing holds a few KiB, however large the body is.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

/// Bytes of a piece. Most bodies are one piece.
const PIECE: usize = 8 * 1024;

/// The most bytes of large bodies that are held at once for clients that have not taken them: a client with a key can ask for
/// many that nobody else needs.
const MOST_HELD: usize = 64 * 1024 * 1024;

/// Bodies up to this size are small: the buffers of a connection are larger.
const SMALL: usize = 16 * 1024;

/// How many are.
static HELD: AtomicUsize = AtomicUsize::new(0);

/// The body of a response.
#[derive(Debug, Default)]
pub struct Content {
    bytes: Bytes,
    held: Held,
}

/// Bytes of a large body, until they are dropped.
#[derive(Debug, Default)]
struct Held(usize);

impl Drop for Held {
    fn drop(&mut self) {
        if self.0 > 0 {
            HELD.fetch_sub(self.0, Ordering::Relaxed);
        }
    }
}

impl From<Bytes> for Content {
    fn from(bytes: Bytes) -> Self {
        Self {
            bytes,
            held: Held(0),
        }
    }
}

impl Content {
    /// Counts a body that was made for one response among those that are held, if it is large. False where there are too many.
    pub fn hold(&mut self) -> bool {
        let size = self.bytes.len();
        if size <= SMALL {
            return true;
        }
        let before = HELD.fetch_add(size, Ordering::Relaxed);
        self.held = Held(size);
        before + size <= MOST_HELD
    }
}

impl Body for Content {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = match self.bytes.len() {
            0 => return Poll::Ready(None),
            1..=PIECE => std::mem::take(&mut self.bytes),
            _ => self.bytes.split_to(PIECE),
        };
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn a_body_comes_in_small_pieces_that_share_its_memory() {
        let bytes = Bytes::from(vec![b'x'; 3 * PIECE + 1]);
        let mut content = Content::from(bytes.clone());
        assert_eq!(content.size_hint().exact(), Some(bytes.len() as u64));
        let mut taken = 0;
        while let Some(frame) = content.frame().await {
            let piece = frame.unwrap().into_data().unwrap();
            assert!((1..=PIECE).contains(&piece.len()));
            assert_eq!(piece.as_ptr(), bytes[taken..].as_ptr(), "a copy");
            taken += piece.len();
        }
        assert_eq!(taken, bytes.len());
        assert!(content.is_end_stream());
    }

    #[test]
    fn large_bodies_are_held_up_to_a_limit_and_small_ones_always() {
        let large = Bytes::from(vec![b'x'; 1 << 20]);
        let hold = |bytes: &Bytes| {
            let mut content = Content::from(bytes.clone());
            content.hold().then_some(content)
        };
        let held: Vec<_> = (0..64).map(|_| hold(&large).unwrap()).collect();
        assert!(hold(&large).is_none() && hold(&large).is_none());
        assert!(hold(&large.slice(..SMALL)).is_some());
        drop(held);
        assert!(hold(&large).is_some());
    }
}
