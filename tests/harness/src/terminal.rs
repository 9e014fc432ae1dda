//! A terminal, for commands that are interactive on one.

use std::io::{Read, Write};
use std::path::Path;
use std::process::Stdio;

use crate::process::command_in;

/// Runs a line of shell on a pseudo-terminal, types something, and returns the exit code and what was shown.
pub fn run(folder: &Path, line: &str, vars: &[(&str, &str)], typed: &str) -> (Option<i32>, String) {
    // The terminal is that of script (util-linux). Its exit code is that of the command; its log is discarded.
    let mut terminal = command_in(folder, "script", &["-qec", line, "/dev/null"]);
    let mut child = terminal
        .envs(vars.iter().copied())
        .env("TERM", "xterm")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("script runs");
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(typed.as_bytes()).expect("it can be typed");
    let mut shown = String::new();
    let mut output = child.stdout.take().expect("a pipe");
    output.read_to_string(&mut shown).expect("text");
    drop(input);
    let status = child.wait().expect("an end");
    (status.code(), shown.replace("\r\n", "\n"))
}
