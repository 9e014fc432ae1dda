//! The cost of the log line of a request for the thread that serves it: `cargo bench --bench log`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use animal_store::clock::{Clock, Timestamp};
use animal_store::key::KeyId;
use animal_store::log::{LogFormat, LogLevel, RequestLine, RequestLog, Sink};

/// Few enough that all of them fit into the buffer: a line that is dropped costs nothing.
const LINES: u32 = 20_000;
const ROUNDS: usize = 101;

fn main() -> std::io::Result<()> {
    for (name, format) in [("text", LogFormat::Text), ("json", LogFormat::Json)] {
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            rounds.push(round(format)?);
        }
        rounds.sort();
        println!(
            "{name}: {} ns a line (median of {ROUNDS} rounds)",
            rounds[ROUNDS / 2].as_nanos() / u128::from(LINES)
        );
    }
    Ok(())
}

fn round(format: LogFormat) -> std::io::Result<Duration> {
    let sink = Sink::to(std::io::sink(), format, Clock::system())?;
    let log = RequestLog::new(&sink, format, LogLevel::INFO);
    let began = Instant::now();
    for number in 0..LINES {
        log.write(black_box(&RequestLine {
            at: Timestamp::from_millis(1_794_700_800_000 + i64::from(number) / 50),
            id: b"kLfWTmop-123456",
            method: Some("GET"),
            operation: "listPets",
            client: std::net::Ipv4Addr::LOCALHOST.into(),
            status: 200,
            took: Duration::from_micros(u64::from(number % 1_000)),
            key: Some(KeyId(7)),
            reason: None,
            cause: None,
        }));
    }
    Ok(began.elapsed())
}
