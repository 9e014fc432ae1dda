//! Isolation of panics: one fails its request, and nothing else.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;

use futures_util::FutureExt;

/// Runs a future in place. Returns a panic as an error with its message.
pub async fn catch_panic<T>(future: Pin<&mut impl Future<Output = T>>) -> Result<T, String> {
    // The values that the future has borrowed are consistent, or behind a lock that tolerates poisoning. The future is not used again.
    AssertUnwindSafe(future)
        .catch_unwind()
        .await
        .map_err(|panic| {
            let text = panic.downcast_ref::<&str>().copied();
            let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
            format!("panic: {}", text.unwrap_or("no message"))
        })
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    #[tokio::test]
    async fn a_panic_becomes_its_message() {
        assert_eq!(catch_panic(pin!(async { 7 })).await, Ok(7));
        assert_eq!(
            catch_panic(pin!(async { panic!("no {}", 8) })).await,
            Err::<(), _>("panic: no 8".into())
        );
    }
}
