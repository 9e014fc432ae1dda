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
            json: compact(self.json),
            next: self.next,
        }
    }
}

/// How many rows to read: one more than fit, to know whether there is a next page.
pub(super) fn rows_to_read(limit: PageSize) -> i64 {
    limit.get() as i64 + 1
}

/// Makes JSON cacheable. What is allocated beyond its length is counted neither in the cache nor in responses that are held for their
/// clients, so it is at most a quarter of the length, or 64 bytes.
pub(super) fn compact(json: Vec<u8>) -> Bytes {
    let unused = json.capacity() - json.len();
    match unused <= (json.len() / 4).max(64) {
        true => Bytes::from(json),
        false => Bytes::copy_from_slice(&json),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_takes_hardly_more_memory_than_is_counted() {
        for (length, is_copied) in [
            (32, false),
            (96, false),
            (97, true),
            (1_100, true),
            (1_300, false),
            (1_536, false),
            (1_537, true),
            (45_000, false),
            (50_000, true),
        ] {
            let mut json = Vec::with_capacity(96);
            // One at a time, so that it grows as that of an animal.
            (0..length).for_each(|_| json.push(b'1'));
            let address = json.as_ptr();
            let compact = compact(json);
            assert_eq!(compact.len(), length);
            assert_eq!(compact.as_ptr() != address, is_copied, "{length}");
        }
    }
}
