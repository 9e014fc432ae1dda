//! The body of a request over HTTP/2, as it arrives.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::RecvStream;
use hyper::body::{Body, Frame, SizeHint};

pub(in crate::http) struct ReceivedBody {
    pub(super) stream: RecvStream,
    /// The bytes still to arrive, if the client has announced a length. h2 resets a stream with more or fewer.
    pub(super) remaining: Option<u64>,
}

impl Body for ReceivedBody {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        let Some(data) = ready!(self.stream.poll_data(cx)) else {
            // Trailers are ignored. h2 would keep them until the response has been sent, and the client decides how long that takes.
            let _ = self.stream.poll_trailers(cx);
            return Poll::Ready(None);
        };
        let data = data?;
        let length = data.len();
        // The client may send that much more. It fails only if the stream was reset.
        let _ = self.stream.flow_control().release_capacity(length);
        if let Some(remaining) = &mut self.remaining {
            *remaining = remaining.saturating_sub(length as u64);
        }
        Poll::Ready(Some(Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        self.stream.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match self.remaining {
            Some(length) => SizeHint::with_exact(length),
            None => SizeHint::default(),
        }
    }
}
