//! The body of a response: bytes that are whole, shared, and handed out in pieces.
//!
//! hyper copies what it is handed into the buffer of the connection. In pieces, it asks for the next one when the client has
//! taken the last: a client that reads nothing holds a few KiB, however large the body is.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

/// Bytes of a piece. Most bodies are one piece.
const PIECE: usize = 8 * 1024;

/// The body of a response.
#[derive(Clone, Debug, Default)]
pub struct Content(Bytes);

impl From<Bytes> for Content {
    fn from(bytes: Bytes) -> Self {
        Self(bytes)
    }
}

impl Body for Content {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = match self.0.len() {
            0 => return Poll::Ready(None),
            1..=PIECE => std::mem::take(&mut self.0),
            _ => self.0.split_to(PIECE),
        };
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.len() as u64)
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
}
