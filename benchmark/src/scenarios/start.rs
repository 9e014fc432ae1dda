//! Startup time and memory.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::{GET, LIST};
use crate::bench::Bench;
use crate::cores::Affinity;
use crate::data::Data;
use crate::exchange;
use crate::load::{self, Requests};
use crate::measurement::median;
use crate::results::Start;
use crate::stop;

/// How long a server is idle before its memory is measured.
const IDLE: Duration = Duration::from_secs(1);

pub(super) fn run(bench: &Bench, data: &Data) -> Result<Start> {
    bench.progress.set_message("start: keys");
    let secrets = data.add_keys(bench.scale.keys - 1)?;
    bench.progress.inc_length(bench.scale.starts as u64);

    let mut times = Vec::new();
    for _ in 0..bench.scale.starts {
        stop::check()?;
        bench.progress.set_message("start: to ready");
        let began = Instant::now();
        let server = data.serve(Affinity::Anywhere, &[])?;
        while exchange::status_of(server.address, "/readyz")? != 200 {
            ensure!(
                began.elapsed() < Duration::from_secs(60),
                "the server does not become ready"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
        times.push(began.elapsed().as_secs_f64() * 1e3);
        bench.progress.inc(1);
    }

    bench.progress.set_message("start: memory");
    let server = data.serve(Affinity::Server, &[])?;
    std::thread::sleep(IDLE);
    let idle_memory = server.memory("VmRSS")?;
    for mut requests in [
        Requests::get(LIST, &data.key),
        Requests::by_keys(GET, &secrets),
        Requests::random_pages(data.animals, &data.key),
        Requests::creations(&data.key),
    ] {
        load::round(&server, &mut requests, bench.scale.round)?;
    }
    Ok(Start {
        animals: data.animals,
        keys: bench.scale.keys,
        milliseconds: median(times.into_iter()),
        idle_memory,
        memory_under_load: server.memory("VmHWM")?,
    })
}
