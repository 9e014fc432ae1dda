//! Streams of rows, in bounded memory.

use std::fmt;
use std::pin::Pin;
use std::vec;

use super::contract::{CHUNK, Result};

type Chunk<'a, T> = Pin<Box<dyn Future<Output = Result<Vec<T>>> + 'a>>;

/// Rows that are read in chunks, as they are consumed. Between two chunks the stream holds neither a transaction nor a
/// connection, so a slow reader, or one that stops early, delays no writer. A row that exists from the first chunk to the last is
/// seen exactly once; one that is added meanwhile is seen if it comes after those already read.
pub struct RowStream<'a, T> {
    /// Reads the chunk that follows this row, or the first one.
    read: Box<dyn Fn(Option<T>) -> Chunk<'a, T> + 'a>,
    chunk: vec::IntoIter<T>,
    last: Option<T>,
    is_at_end: bool,
}

impl<'a, T: Clone> RowStream<'a, T> {
    /// A stream of what `read` returns: the at most [`CHUNK`] rows that follow a row.
    pub(super) fn new<F>(read: impl Fn(Option<T>) -> F + 'a) -> Self
    where
        F: Future<Output = Result<Vec<T>>> + 'a,
    {
        Self {
            read: Box::new(move |last| Box::pin(read(last))),
            chunk: Vec::new().into_iter(),
            last: None,
            is_at_end: false,
        }
    }

    /// The next row; none at the end. After an error, or if the future was dropped, the same row comes next.
    pub async fn next(&mut self) -> Result<Option<T>> {
        if let Some(row) = self.chunk.next() {
            return Ok(Some(row));
        }
        if self.is_at_end {
            return Ok(None);
        }
        let chunk = (self.read)(self.last.clone()).await?;
        self.is_at_end = chunk.len() < usize::from(CHUNK);
        self.last = chunk.last().cloned();
        self.chunk = chunk.into_iter();
        Ok(self.chunk.next())
    }

    /// All rows at once, for when they are few.
    pub async fn collect(mut self) -> Result<Vec<T>> {
        let mut rows = Vec::new();
        while let Some(row) = self.next().await? {
            rows.push(row);
        }
        Ok(rows)
    }
}

impl<T> fmt::Debug for RowStream<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RowStream")
    }
}
