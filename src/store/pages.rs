//! The JSON of a page, for every kind of row and engine.

use bytes::Bytes;

use super::contract::Page;
use crate::page::{Cursor, PageSize};

pub(super) struct PageWriter {
    json: Vec<u8>,
    remaining: usize,
    last: i64,
    next: Option<Cursor>,
}

impl PageWriter {
    pub(super) fn new(limit: PageSize) -> Self {
        let mut json = Vec::with_capacity(2 + 80 * limit.get());
        json.push(b'[');
        Self {
            json,
            remaining: limit.get(),
            last: 0,
            next: None,
        }
    }

    /// Appends the row that `write` writes; `write` returns its ID. Returns false if the page is full: then there is a next page.
    pub(super) fn add<E>(
        &mut self,
        write: impl FnOnce(&mut Vec<u8>) -> Result<i64, E>,
    ) -> Result<bool, E> {
        if self.remaining == 0 {
            self.next = Some(Cursor::after(self.last));
            return Ok(false);
        }
        if self.json.len() > 1 {
            self.json.push(b',');
        }
        self.last = write(&mut self.json)?;
        self.remaining -= 1;
        Ok(true)
    }

    pub(super) fn finish(mut self) -> Page {
        self.json.push(b']');
        Page {
            json: Bytes::from(self.json),
            next: self.next,
        }
    }
}

/// How many rows to read: one more than fit, to know whether there is a next page.
pub(super) fn rows_to_read(limit: PageSize) -> i64 {
    limit.get() as i64 + 1
}
