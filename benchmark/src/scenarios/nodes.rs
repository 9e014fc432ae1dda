//! Three nodes on PostgreSQL and Redis, compared with one node with the embedded database.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use harness::{Postgres, Redis};

use super::{FEW, LIST};
use crate::bench::Bench;
use crate::contender::{Contender, compete};
use crate::cores::Affinity;
use crate::data::{Data, UNLIMITED, add_key, api_address, command};
use crate::load::Requests;
use crate::process::Process;
use crate::results::Nodes;

/// The number of nodes.
const NODES: usize = 3;

pub(super) fn run(bench: &Bench) -> Result<Option<Nodes>> {
    if !is_installed() {
        eprintln!("PostgreSQL or Redis is not installed: run ./test cluster to install them");
        return Ok(None);
    }
    let data = Data::new(bench, FEW)?;
    let (postgres, redis) = (Postgres::start(), Redis::start());
    let (database, redis_url) = (postgres.url(), redis.url());
    let program = bench.program("animal-store");
    let failure = "cannot create the tables";
    command(&program, &database, &["migrate"], failure)?;
    let key = add_key(&program, &database, UNLIMITED, UNLIMITED)?;
    postgres.psql(
        "postgres",
        &format!(
            "INSERT INTO pets SELECT i, 'pet ' || i, i % 10, 'available' FROM generate_series(1, {FEW}) AS i; \
             UPDATE counters SET number = {FEW} WHERE what = 'pets'"
        ),
    );
    let node = |_| {
        let mut command = Affinity::Server.command(&program);
        command
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(["--admin-listen", "127.0.0.1:0"])
            .args(["--database", &database, "--redis", &redis_url]);
        Process::announced(command, api_address)
    };
    let start = || {
        let embedded = data.serve(Affinity::Server, &[]);
        std::iter::once(embedded)
            .chain((0..NODES).map(node))
            .collect()
    };
    let contenders = vec![
        Contender::pinned("one, embedded", 0, Requests::get(LIST, &data.key)),
        Contender::several("three nodes", 1..=NODES, Requests::get(LIST, &key)),
    ];
    let measurements = compete(bench, "nodes", start, contenders)?;
    let [embedded, three] = super::take(measurements)?;
    let calls = calls(&redis);
    Ok(Some(Nodes {
        embedded,
        three,
        round_trips: calls / admitted(&redis)?,
        redis_micros: cpu_micros(&redis) / calls,
    }))
}

/// The number of calls of the script.
fn calls(redis: &Redis) -> f64 {
    let stats = redis.cli(&["INFO", "commandstats"]);
    let calls = |line: &str| {
        let count = line.strip_prefix("cmdstat_eval")?.split_once("calls=")?.1;
        count.split(',').next()?.parse::<f64>().ok()
    };
    stats.lines().filter_map(calls).sum()
}

/// The number of admitted requests. The key of this scenario has the ID 1, and the count of the day is the fourth number in the value
/// that `limit/decide.lua` stores.
fn admitted(redis: &Redis) -> Result<f64> {
    let used = "return (select(4, struct.unpack('>i8i8i8i8', redis.call('GET', KEYS[1]))))";
    let name = redis.cli(&["KEYS", "animal-store:*:{1}:[0-9]*"]);
    redis
        .cli(&["EVAL", used, "1", name.trim()])
        .trim()
        .parse()
        .context("Redis has no count of requests")
}

/// The CPU time of Redis.
fn cpu_micros(redis: &Redis) -> f64 {
    let stats = redis.cli(&["INFO", "cpu"]);
    let seconds = |line: &str| {
        let (name, value) = line.split_once(':')?;
        let counts = ["used_cpu_sys", "used_cpu_user"].contains(&name);
        counts.then(|| value.trim().parse::<f64>().ok())?
    };
    stats.lines().filter_map(seconds).sum::<f64>() * 1e6
}

fn is_installed() -> bool {
    let redis = Command::new("redis-server").arg("--version").output();
    redis.is_ok() && Path::new("/usr/lib/postgresql").exists()
}
