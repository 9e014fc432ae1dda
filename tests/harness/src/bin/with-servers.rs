//! Runs a command with a PostgreSQL and a Redis of its own, which end with it: so the tests of the service, which know only an
//! address in their environment, run on either engine.

use std::process::{Command, ExitCode};

use harness::{Postgres, Redis};

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    let Some(program) = words.next() else {
        eprintln!("with-servers: takes a command");
        return ExitCode::from(2);
    };
    let (postgres, redis) = (Postgres::start(), Redis::start());
    let server = postgres.url().trim_end_matches("/postgres").to_owned();
    let status = Command::new(program)
        .args(words)
        .env("ANIMAL_STORE_TEST_POSTGRES", server)
        .env("ANIMAL_STORE_TEST_REDIS", redis.url())
        .status();
    match status {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
