//! `animal-store keys`: its output and its exit code.

mod change;
mod create;
mod rejection;
mod show;

use harness::{Operator, Output};
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_animal-store");

fn operator() -> Operator {
    Operator::new(PROGRAM)
}

/// Runs `animal-store keys …`, with arguments separated by spaces.
fn keys(operator: &Operator, args: &str) -> Output {
    operator.run_line(&format!("keys {args}"))
}

/// The only line of its standard output.
#[track_caller]
fn line(output: Output) -> String {
    let output = output.exits(0);
    assert_eq!(output.stdout.lines().count(), 1, "{output:#?}");
    output.stdout.trim_end().to_owned()
}

/// The JSON that it prints, on one line, and nothing else.
#[track_caller]
fn json_of(output: Output) -> Value {
    let output = output.exits(0);
    assert_eq!(output.stderr, "", "{output:#?}");
    serde_json::from_str(&line(output)).expect("JSON")
}

/// The rows that it prints without a terminal: values separated by tabs.
#[track_caller]
fn rows(output: Output) -> Vec<Vec<String>> {
    let output = output.exits(0);
    assert_eq!(output.stderr, "", "{output:#?}");
    let row = |line: &str| line.split('\t').map(str::to_owned).collect();
    output.stdout.lines().map(row).collect()
}

#[track_caller]
fn is_secret(text: &str) {
    let rest = text.strip_prefix("as_").expect("as_");
    assert_eq!(rest.len(), 38, "{text}");
    assert!(
        rest.bytes().all(|byte| byte.is_ascii_alphanumeric()),
        "{text}"
    );
}

/// An operator with key 1, `me`, plan free, and its secret.
fn with_a_key() -> (Operator, String) {
    let operator = operator();
    let secret = line(keys(&operator, "create --name me --plan free"));
    (operator, secret)
}
