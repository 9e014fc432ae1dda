//! Streams of rows, in bounded memory.

use futures_util::stream::{self, LocalBoxStream, StreamExt, TryStreamExt};

use super::contract::{CHUNK, Result};

/// Rows that are read in chunks, as they are consumed. Between two chunks the stream holds neither a transaction nor a
/// connection, so a slow reader, or one that stops early, delays no writer. A row that exists from the first chunk to the last is
/// seen exactly once; one that is added meanwhile is seen if it comes after those already read.
pub type RowStream<'a, T> = LocalBoxStream<'a, Result<T>>;

/// A stream of what `read` returns: the first [`CHUNK`] rows that follow a row, or the first ones of all.
pub(super) fn row_stream<'a, T: Clone + 'a, F>(
    read: impl Fn(Option<T>) -> F + 'a,
) -> RowStream<'a, T>
where
    F: Future<Output = Result<Vec<T>>> + 'a,
{
    let chunks = stream::try_unfold(Some(None), move |last: Option<Option<T>>| {
        let reading = last.map(&read);
        async move {
            let Some(reading) = reading else {
                return Result::Ok(None);
            };
            let chunk = reading.await?;
            let is_full = chunk.len() == usize::from(CHUNK);
            let last = is_full.then(|| chunk.last().cloned());
            Ok(Some((stream::iter(chunk.into_iter().map(Ok)), last)))
        }
    });
    chunks.try_flatten().boxed_local()
}
