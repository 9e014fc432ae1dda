//! `./bench`: measures the cost of requests, compared with baselines.
//!
//! `scenarios` define what is measured, `load` generates the load, `report` presents the results.

mod baselines;
mod bench;
mod commits;
mod contender;
mod cores;
mod data;
mod exchange;
mod load;
mod machine;
mod measurement;
mod options;
mod process;
mod report;
mod results;
mod scenarios;
mod stop;

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use bench::Bench;
use cores::Affinity;
use machine::{Machine, Ticks};
use options::Options;

// The load generator runs in this process and must be cheap.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The CPU use of other processes above which there is a warning.
const QUIET: f64 = 0.05;

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<()> {
    stop::listen()?;
    let cores = cores::detect()?;
    Affinity::Load.enter()?;
    let bench = Bench::new(options.scale())?;
    let machine = Machine::detect(&bench, cores);
    if machine.busy > QUIET {
        let busy = machine.busy * 100.0;
        eprintln!(
            "warning: other processes use {busy:.0} % of the CPU, so the figures will be unreliable"
        );
    }
    let begin = Ticks::now();
    let results = scenarios::run(&bench, options, machine);
    let end = Ticks::now();
    bench.progress.finish_and_clear();
    // Ctrl-C also stops the servers. Report the interruption, not the errors that follow from it.
    let mut results = results.map_err(|error| stop::check().err().unwrap_or(error))?;
    if let Some((begin, end)) = begin.zip(end) {
        results.machine.stolen = end.stolen_since(begin);
    }

    let mut stdout = std::io::stdout().lock();
    if options.json {
        serde_json::to_writer_pretty(&mut stdout, &results)?;
        writeln!(stdout)?;
    } else {
        writeln!(stdout, "{}", report::text(&results))?;
    }
    if options.writes() {
        report::write(&results, &options.out)?;
    }
    Ok(())
}
