//! One SQLite commit per row, in the tables of the service: the upper bound for a service without group commit.

use std::time::{Duration, Instant};

use anyhow::Result;
use rusqlite::Connection;

use crate::cores::Affinity;
use crate::data::Data;
use crate::load::Round;

/// Inserts animals for this time, one commit each.
pub(crate) fn round(data: &Data, length: Duration) -> Result<Round> {
    let file: Connection = data.connect()?;
    file.pragma_update(None, "journal_mode", "WAL")?;
    file.pragma_update(None, "synchronous", "FULL")?;
    let mut insert =
        file.prepare("INSERT INTO pets (name, category_id, status) VALUES (?1, ?2, 'available')")?;
    Affinity::Anywhere.enter()?;
    let began = Instant::now();
    let mut rows = 0_u32;
    while began.elapsed() < length {
        insert.execute(rusqlite::params![format!("pet {rows}"), rows % 10])?;
        rows += 1;
    }
    let rate = f64::from(rows) / began.elapsed().as_secs_f64();
    Affinity::Load.enter()?;
    // The CPU time is that of this program, and is not compared.
    Ok(Round {
        rate,
        cpu: f64::NAN,
    })
}
