//! Output of commands as JSON or lines.

use std::io::{self, ErrorKind, Write};
use std::sync::{OnceLock, mpsc};
use std::time::Duration;

use serde_json::Value;

use super::outcome::{Failure, Outcome};
use crate::clock::Clock;
use crate::log;

/// Timeout for standard error, which may be a pipe that nobody reads.
const TIMEOUT: Duration = Duration::from_secs(1);

/// The clock of a server whose log is JSON: an error is then a line of that log, for whoever parses it.
static JSON_LOG: OnceLock<Clock> = OnceLock::new();

/// From now on, prints errors as lines of a JSON log.
pub(super) fn errors_as_json(clock: Clock) {
    let _ = JSON_LOG.set(clock);
}

/// Prints an error as one line to standard error.
pub(super) fn error(message: &str) {
    let message = escaped(&message.replace('\n', " "));
    let line = match JSON_LOG.get() {
        // Not by `tracing`: when a server has failed, nothing writes the log any more.
        Some(clock) => log::json_error(&message, clock.now()),
        None => format!("animal-store: {message}\n"),
    };
    let (printed, done) = mpsc::channel();
    let print = move || {
        let _ = io::stderr().write_all(line.as_bytes());
        let _ = printed.send(());
    };
    if std::thread::Builder::new().spawn(print).is_ok() {
        let _ = done.recv_timeout(TIMEOUT);
    }
}

/// Prints a notice to standard error. If that is full or closed, the command succeeds without it.
pub(super) fn notice(text: &str) {
    let _ = writeln!(io::stderr(), "{}", escaped(text));
}

pub(super) fn write_failed(error: io::Error) -> Failure {
    failed_with("cannot write to standard output", error)
}

/// A reader that has closed standard output has seen enough: that is no failure.
fn failed_with(problem: &str, error: io::Error) -> Failure {
    match error.kind() {
        ErrorKind::BrokenPipe => Failure::BrokenPipe,
        _ => Failure::Failed(format!("{problem}: {error}")),
    }
}

pub(super) fn bytes(output: &[u8]) -> Outcome {
    write(output).map_err(write_failed)
}

fn write(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush())
}

/// Seconds, rounded to three decimal places.
pub(super) fn rounded(seconds: f64) -> f64 {
    (seconds * 1e3).round() / 1e3
}

/// A count with its noun, in the singular or the plural.
pub(super) fn counted(count: u64, name: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {name}{plural}")
}

/// A line in which every control character is visible, those that change the direction of text included: names come from clients,
/// backups and other users, and could end the line, be commands to the terminal, or reorder what is next to them.
pub(super) fn escaped(line: &str) -> String {
    let mut escaped = String::with_capacity(line.len());
    for character in line.chars() {
        match character.is_control() || is_bidi_control(character) {
            true => escaped.extend(character.escape_default()),
            false => escaped.push(character),
        }
    }
    escaped
}

/// `Bidi_Control` in PropList.txt of Unicode 17.
fn is_bidi_control(character: char) -> bool {
    matches!(
        character,
        '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
}

/// Prints what was read: as one line of JSON, or as `text`, in which the caller has escaped names.
pub(super) fn value(json: bool, json_value: &Value, text: &str) -> Outcome {
    bytes(&line(json, json_value, text))
}

/// Prints what was done: as one line of JSON, or as this line. If that fails, the message says that it was done: a script that runs the
/// command again would do it twice.
pub(super) fn result(json: bool, json_value: &Value, text: &str) -> Outcome {
    result_lines(json, json_value, &[text])
}

/// The same, with several lines.
pub(super) fn result_lines(json: bool, json_value: &Value, lines: &[impl AsRef<str>]) -> Outcome {
    let problem = "the command succeeded, but its result could not be written to standard output";
    let lines: Vec<String> = lines.iter().map(|line| escaped(line.as_ref())).collect();
    write(&line(json, json_value, &lines.join("\n"))).map_err(|error| failed_with(problem, error))
}

fn line(json: bool, json_value: &Value, text: &str) -> Vec<u8> {
    match json {
        true => format!("{json_value}\n").into_bytes(),
        false => format!("{text}\n").into_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_character_that_changes_the_direction_of_text_is_escaped() {
        let characters = [0x61c, 0x200e, 0x200f].into_iter();
        for number in characters.chain(0x202a..=0x202e).chain(0x2066..=0x2069) {
            let character = char::from_u32(number).unwrap();
            let shown = escaped(&format!("a{character}b"));
            assert_eq!(shown, format!("a\\u{{{number:x}}}b"));
        }
        // Others that are not visible join or separate letters, which scripts and emoji need.
        assert_eq!(escaped("a\u{200d}\u{200c}é犬"), "a\u{200d}\u{200c}é犬");
    }
}
