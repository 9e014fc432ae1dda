//! Orders and the life of an animal: the state machine against a model, the operator's commands, many at once, and what a
//! running server shows of it.

#![expect(clippy::expect_used, reason = "a test that cannot go on has failed")]

mod command;
mod freshness;
mod life;
mod listing;
mod race;

use animal_store::store::Store;
use animal_store::store::sqlite::{Mode, Sqlite};
use harness::App;

/// The program.
const PROGRAM: &str = env!("CARGO_BIN_EXE_animal-store");

/// The store under a server, opened a second time, as the command line opens it.
fn second_store(app: &App) -> Store {
    Store::new(Sqlite::open(&app.database(), Mode::MustExist, 1).expect("the data opens"))
}
