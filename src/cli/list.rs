//! Lists that are printed as their rows are read, so that a million of them need no more memory than a few.

use anyhow::Context;

use super::print::Array;
use super::table::{Column, Rows};
use crate::store::RowStream;

/// Prints all rows of a stream: as a JSON array, to which `element` adds a row, or as a table. `failure` is the message of a failed read.
pub(super) async fn list<T: Clone, const N: usize>(
    mut stream: RowStream<'_, T>,
    failure: &'static str,
    json: bool,
    element: impl Fn(&mut Array, &T) -> anyhow::Result<()>,
    columns: [Column; N],
    row: impl Fn(T) -> [String; N],
) -> anyhow::Result<()> {
    if json {
        let mut array = Array::new()?;
        while let Some(read) = stream.next().await.context(failure)? {
            element(&mut array, &read)?;
        }
        return array.finish();
    }
    let mut rows = Rows::new(columns)?;
    while let Some(read) = stream.next().await.context(failure)? {
        rows.add(row(read))?;
    }
    rows.finish()
}
