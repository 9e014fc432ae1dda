//! What a request costs animal-store, beside what it costs others: `./bench`.
//!
//! `rows` are what is measured, `load` is who asks, `report` is what is said of it.

mod anchors;
mod bench;
mod commits;
mod contender;
mod cores;
mod data;
mod exchange;
mod figure;
mod load;
mod machine;
mod options;
mod process;
mod progress;
mod report;
mod results;
mod rows;
mod stop;

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use bench::Bench;
use cores::Place;
use machine::{Machine, Ticks};
use options::Options;

// The load runs here: it must cost as little as it can.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The part of the machine that others may take before a run is worth a warning.
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
    let cores = cores::look()?;
    Place::Load.enter()?;
    let bench = Bench::new(options.pace())?;
    let machine = Machine::look(&bench, cores);
    if machine.busy > QUIET {
        let busy = machine.busy * 100.0;
        eprintln!(
            "The machine is {busy:.0} % busy with other things: figures will be worse than they are."
        );
    }
    let begin = Ticks::now();
    let results = rows::run(&bench, options, machine);
    let end = Ticks::now();
    bench.progress.finish();
    // Ctrl-c reaches the servers too: what failed because they went is not what to tell.
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
