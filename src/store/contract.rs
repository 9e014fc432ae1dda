//! The types of the contract between a store and the rest of the service. Of the store, the engines import only these, `row`,
//! `pages` and `writer`.

mod creation;
mod database;
mod error;
mod format;
mod import;
mod key;
mod key_list;
mod key_state;
mod postgres_url;
mod tables;
mod usage;

pub use creation::{Creation, CreationOutcome, IdempotencyRecord};
pub use database::Database;
pub use error::{Result, StoreError};
pub(crate) use format::WrongFormat;
pub use format::{FormatChange, Heartbeat, Mode};
pub use import::{ImportConflict, ImportError, ImportRow, TakenBy};
pub use key::{ChangedKey, KeyChange, KeyChangeResult, KeyRecord, NewKey};
pub use key_list::{KeyList, KeyListQuery, KeySort};
pub use key_state::KeyState;
pub use postgres_url::PostgresUrl;
pub use tables::TableDigest;
pub(crate) use tables::{ColumnType, LastIds, Row, TABLES, TABLES_WITH_COUNTER, Table, Value};
pub use usage::{UsageBatch, UsageRecorder, UsageRow};

use std::time::Instant;

use bytes::Bytes;

use crate::clock::ClockSample;
use crate::order::action::ActionRejection;
use crate::page::Cursor;

/// How many rows are read from an engine at a time: enough that the statement is a small part of the cost, few enough to be held
/// in memory and applied without delaying other work on the thread.
pub(crate) const CHUNK_ROWS: u16 = 500;

/// A page of rows as finished JSON.
#[derive(Clone, Debug)]
pub struct Page {
    /// The array.
    pub json: Bytes,
    /// Where the next page begins, if there is one.
    pub next: Option<Cursor>,
}

/// Distinguishes this deployment from others that share a Redis with it, or a folder of backups. A copy of the database has the
/// same ID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeploymentId(pub String);

/// What a poll reads: counters that rise when this process or another one changes data that is cached or held in memory, and, where
/// several nodes share the database, its clock and the connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Revisions {
    /// Raised by every change of an animal that exists.
    pub pets: i64,
    /// Raised by every change of a key that a server must apply.
    pub keys: i64,
    /// The time of the database, where several nodes share it: its clock is the reference clock.
    pub time: Option<ClockSample>,
    /// When the connection that they were read on was opened, where several nodes share the database. Another connection may be to
    /// another server.
    pub connected_at: Option<Instant>,
}

/// The result of an action on orders, or why it is rejected.
pub type ActionResult<T> = Result<std::result::Result<T, ActionRejection>>;
