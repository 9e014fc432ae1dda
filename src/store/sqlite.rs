//! The embedded engine: one SQLite file in WAL mode, one writer thread, a few readers.
//! Writers and readers do not wait for each other.

mod connect;
mod creation;
mod engine;
mod error;
mod fault;
mod inspect;
mod job;
mod keys;
mod lock;
mod lock_wait;
mod migrations;
mod open;
mod open_error;
mod orders;
mod permission;
mod pets;
mod readers;
mod sweep;
mod usage;
mod writer;

pub(crate) use engine::Sqlite;
