//! What was typed wrongly, told in one line.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Options whose values are not repeated: a mistyped secret is still one, and an address may hold a password.
const SECRET: [&str; 3] = ["--admin-token", "--database", "--redis"];

/// The first paragraph of what clap has to say, on one line.
pub fn one_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let usage = text
            .lines()
            .find_map(|line| line.strip_prefix("Usage: "))
            .unwrap_or_default();
        return format!("a subcommand is missing: {usage}");
    }
    let first = text.split("\n\n").next().unwrap_or_default();
    let words: Vec<&str> = first
        .trim_start_matches("error: ")
        .split_whitespace()
        .collect();
    let line = words.join(" ");
    match (
        error.get(ContextKind::InvalidArg),
        error.get(ContextKind::InvalidValue),
    ) {
        (Some(ContextValue::String(option)), Some(ContextValue::String(value)))
            if SECRET.iter().any(|secret| option.starts_with(secret)) =>
        {
            line.replace(&format!("'{value}'"), "(not shown)")
        }
        _ => line,
    }
}
