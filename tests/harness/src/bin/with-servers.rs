//! Runs a command with a PostgreSQL and a Redis of its own, which stop with it: so the tests of the service, which read only an
//! address from their environment, run on either engine.

use std::process::{Command, ExitCode};

use harness::{Postgres, Redis};

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    let Some(program) = args.next() else {
        eprintln!("usage: with-servers COMMAND [ARGUMENTS]");
        return ExitCode::from(2);
    };
    let (postgres, redis) = (Postgres::start(), Redis::start());
    let server = postgres.url().trim_end_matches("/postgres").to_owned();
    let status = Command::new(program)
        .args(args)
        .env("ANIMAL_STORE_TEST_POSTGRES", server)
        .env("ANIMAL_STORE_TEST_REDIS", redis.url())
        .status();
    match status {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
