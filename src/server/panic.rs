//! A panic in a request ends that request, and nothing else.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::Poll;

/// Runs a future, where it is; a panic inside becomes an error with its message.
pub(crate) async fn caught<T>(mut future: Pin<&mut impl Future<Output = T>>) -> Result<T, String> {
    // What the future has borrowed is either whole or behind a lock that can bear it; the future itself is not used again.
    poll_fn(
        |cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
            Ok(poll) => poll.map(Ok),
            Err(panic) => Poll::Ready(Err(message(&*panic))),
        },
    )
    .await
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("panic: {}", text.unwrap_or("of an unknown kind"))
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    #[tokio::test]
    async fn a_panic_becomes_its_message() {
        assert_eq!(caught(pin!(async { 7 })).await, Ok(7));
        assert_eq!(
            caught(pin!(async { panic!("no {}", 8) })).await,
            Err::<(), _>("panic: no 8".into())
        );
    }
}
