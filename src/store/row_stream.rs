//! Streams of rows, in bounded memory.

use futures_util::stream::{self, LocalBoxStream, StreamExt, TryStreamExt};

use super::contract::{CHUNK_ROWS, Result};

/// Rows that are read in chunks, as they are consumed.
pub type RowStream<'a, T> = LocalBoxStream<'a, Result<T>>;

/// A stream of the rows that `read` returns in chunks: the first [`CHUNK_ROWS`] rows after the row that it is passed or, for
/// `None`, the first ones of the table. If `read` keeps neither a transaction nor a connection, none is held between two chunks, so
/// a slow reader, or one that stops early, delays no writer. In that case a row that exists from the first chunk to the last is
/// seen exactly once; one that is added meanwhile is seen if it comes after those already read.
pub(super) fn row_stream<'a, T: Clone + 'a>(
    read: impl AsyncFn(Option<T>) -> Result<Vec<T>> + 'a,
) -> RowStream<'a, T> {
    let chunks = stream::try_unfold((read, Some(None)), |(read, last)| async move {
        let Some(last) = last else {
            return Result::Ok(None);
        };
        let chunk = read(last).await?;
        let is_full = chunk.len() == usize::from(CHUNK_ROWS);
        let last = is_full.then(|| chunk.last().cloned());
        Ok(Some((
            stream::iter(chunk.into_iter().map(Ok)),
            (read, last),
        )))
    });
    chunks.try_flatten().boxed_local()
}
