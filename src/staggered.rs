//! Attempts to reach one of several servers, or one of the addresses of a name.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::sleep;

/// Makes these attempts, and returns the first success, otherwise the last error. One without a result after `delay` does not hold up
/// the next, and is still awaited: its server may just be far away. Returns None if no attempt has a result.
pub(crate) async fn first_success<T, E>(
    attempts: impl Iterator<Item = impl Future<Output = Option<Result<T, E>>>>,
    delay: Duration,
) -> Option<Result<T, E>> {
    let mut attempts = attempts.peekable();
    let mut begun = FuturesUnordered::new();
    let mut error = None;
    loop {
        if let Some(attempt) = attempts.next() {
            begun.push(attempt);
        }
        tokio::select! {
            Some(ended) = begun.next() => match ended {
                Some(Err(failed)) => error = Some(failed),
                Some(success) => return Some(success),
                None => {}
            },
            () = sleep(delay), if attempts.peek().is_some() => {}
            else => return error.map(Err),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const DELAY: Duration = Duration::from_millis(20);

    /// An attempt: its result, and after how many delays it has it.
    type Attempt = (Result<char, char>, u32);

    /// The result of these attempts, and how many of them were begun.
    async fn result(attempts: &[Attempt]) -> (Option<Result<char, char>>, usize) {
        let begun = Cell::new(0);
        let attempts = attempts.iter().map(async |&(result, delays)| {
            begun.set(begun.get() + 1);
            sleep(DELAY * delays).await;
            Some(result)
        });
        let result = first_success(attempts, DELAY).await;
        (result, begun.get())
    }

    #[tokio::test]
    async fn the_first_success_is_the_result_and_an_attempt_that_hangs_delays_the_next_one_only() {
        const HANGS: u32 = 1_000;
        assert_eq!(
            result(&[(Ok('a'), 0), (Ok('b'), 0)]).await,
            (Some(Ok('a')), 1)
        );
        assert_eq!(
            result(&[(Err('a'), 0), (Ok('b'), 0)]).await,
            (Some(Ok('b')), 2)
        );
        let two_hang = [(Ok('a'), HANGS), (Ok('b'), HANGS), (Ok('c'), 0)];
        assert_eq!(result(&two_hang).await, (Some(Ok('c')), 3));
        let slow = [(Ok('a'), 5), (Ok('b'), HANGS)];
        assert_eq!(result(&slow).await, (Some(Ok('a')), 2));
        assert_eq!(
            result(&[(Err('a'), 0), (Err('b'), 0)]).await,
            (Some(Err('b')), 2)
        );
        assert_eq!(result(&[]).await, (None, 0));
    }
}
