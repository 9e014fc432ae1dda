//! Three nodes on PostgreSQL and Redis, beside one that has its data embedded: what sharing costs a node for each request.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use harness::{Postgres, Redis};

use super::{FEW, LIST};
use crate::bench::Bench;
use crate::contender::{Contender, compete};
use crate::cores::Place;
use crate::data::{Data, UNLIMITED, api_address};
use crate::load::Requests;
use crate::process::Process;
use crate::results::Nodes;

/// How many there are.
const NODES: usize = 3;

pub(super) fn run(bench: &Bench) -> Result<Option<Nodes>> {
    if !is_installed() {
        eprintln!("PostgreSQL or Redis is missing: ./test cluster installs them");
        return Ok(None);
    }
    let data = Data::new(bench, FEW)?;
    let embedded = data.serve(Place::Server, &[])?;
    let (postgres, redis) = (Postgres::start(), Redis::start());
    let (database, redis_url) = (postgres.url(), redis.url());
    let program = bench.program("animal-store");
    let key = add_key(&program, &database)?;
    postgres.psql(
        "postgres",
        &format!(
            "INSERT INTO pets SELECT i, 'pet ' || i, i % 10, 'available' FROM generate_series(1, {FEW}) AS i; \
             UPDATE counters SET number = {FEW} WHERE what = 'pets'"
        ),
    );
    let nodes = (0..NODES)
        .map(|_| {
            let mut command = Place::Server.command(&program);
            command
                .args(["serve", "--listen", "127.0.0.1:0"])
                .args(["--admin-listen", "127.0.0.1:0"])
                .args(["--database", &database, "--redis", &redis_url]);
            Process::announced(command, api_address)
        })
        .collect::<Result<Vec<_>>>()?;

    let figures = compete(
        bench,
        "nodes",
        vec![
            Contender::pinned("one, embedded", &embedded, Requests::get(LIST, &data.key)),
            Contender::several("three nodes", &nodes, Requests::get(LIST, &key)),
        ],
    )?;
    let [embedded, three] = super::take(figures)?;
    Ok(Some(Nodes {
        embedded,
        three,
        round_trips: round_trips(&redis)?,
    }))
}

/// Calls to Redis for each request that was admitted. The one key of this row has the number 1.
fn round_trips(redis: &Redis) -> Result<f64> {
    let stats = redis.cli(&["INFO", "commandstats"]);
    let calls = stats
        .lines()
        .filter(|line| line.starts_with("cmdstat_eval"))
        .filter_map(|line| {
            line.split_once("calls=")?
                .1
                .split(',')
                .next()?
                .parse::<f64>()
                .ok()
        })
        .sum::<f64>();
    // The fourth of the numbers that limit/decide.lua keeps: what was used of the day.
    let used = "return (select(4, struct.unpack('>i8i8i8i8', redis.call('GET', KEYS[1]))))";
    let requests: f64 = redis
        .cli(&["EVAL", used, "1", "animal-store:{1}"])
        .trim()
        .parse()
        .context("Redis does not know how many requests there were")?;
    Ok(calls / requests)
}

fn add_key(program: &Path, database: &str) -> Result<String> {
    let output = Command::new(program)
        .args(["keys", "create", "--name", "bench", "--plan", "enterprise"])
        .args(["--per-minute", UNLIMITED, "--per-day", UNLIMITED])
        .args(["--database", database])
        .output()?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "cannot make a key: {errors}");
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

fn is_installed() -> bool {
    let redis = Command::new("redis-server").arg("--version").output();
    redis.is_ok() && Path::new("/usr/lib/postgresql").exists()
}
