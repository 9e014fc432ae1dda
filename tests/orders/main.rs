//! Orders and the lifecycle of an animal: the state machine against a model, the operator's commands, concurrent orders, and what a
//! running server shows of it.

#![expect(clippy::expect_used, reason = "a test that cannot continue has failed")]

mod command;
mod export;
mod freshness;
mod import;
mod import_file;
mod import_running;
mod lifecycle;
mod listing;
mod pets;
mod race;
mod streaming;

/// The program.
const PROGRAM: &str = env!("CARGO_BIN_EXE_animal-store");
