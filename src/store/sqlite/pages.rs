//! A page of rows as finished JSON, whatever the rows are.

use bytes::Bytes;
use rusqlite::{Row, Rows};

use crate::page::{Cursor, PageSize};
use crate::store::Page;

/// Writes a page of `limit` rows. One more has been asked for, to know whether there is a next page. `write` appends a row's
/// JSON and gives its identifier.
pub(super) fn write(
    mut rows: Rows<'_>,
    limit: PageSize,
    write: impl Fn(&mut Vec<u8>, &Row<'_>) -> rusqlite::Result<i64>,
) -> rusqlite::Result<Page> {
    let size = limit.get();
    let mut json = Vec::with_capacity(2 + 80 * size);
    let mut last = 0;
    let mut count = 0;
    let mut next = None;
    json.push(b'[');
    while let Some(row) = rows.next()? {
        if count == size {
            next = Some(Cursor::after(last));
            break;
        }
        if count > 0 {
            json.push(b',');
        }
        last = write(&mut json, row)?;
        count += 1;
    }
    json.push(b']');
    Ok(Page {
        json: Bytes::from(json),
        next,
    })
}

/// How many rows to ask for.
pub(super) const fn asked_for(limit: PageSize) -> i64 {
    limit.get() as i64 + 1
}
