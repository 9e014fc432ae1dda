//! One SQLite commit for each row, in the service's own tables: what a service without group commit could do at most.

use std::time::{Duration, Instant};

use anyhow::Result;
use rusqlite::Connection;

use crate::cores::Place;
use crate::data::Data;
use crate::load::Round;

/// Writes animals for so long, each on disk before the next.
pub(crate) fn round(data: &Data, length: Duration) -> Result<Round> {
    let file: Connection = data.connect()?;
    file.pragma_update(None, "journal_mode", "WAL")?;
    file.pragma_update(None, "synchronous", "FULL")?;
    let mut insert =
        file.prepare("INSERT INTO pets (name, category_id, status) VALUES (?1, ?2, 'available')")?;
    Place::Anywhere.enter()?;
    let began = Instant::now();
    let mut rows = 0_u32;
    while began.elapsed() < length {
        insert.execute(rusqlite::params![format!("pet {rows}"), rows % 10])?;
        rows += 1;
    }
    let rate = f64::from(rows) / began.elapsed().as_secs_f64();
    Place::Load.enter()?;
    // Its CPU time is this program's own, and nobody is compared with it.
    Ok(Round {
        rate,
        cpu: f64::NAN,
    })
}
