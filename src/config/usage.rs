//! Errors of usage in one line.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};

/// Options whose values are not repeated: a mistyped token is still sensitive, and a URL may contain a password.
const SECRET: [&str; 3] = ["--admin-token", "--database", "--redis"];

/// Returns an error of the command line in one line. A value from the environment is named by its variable.
pub fn one_line_about(error: &clap::Error, command: &Command, words: &[OsString]) -> String {
    let line = one_line(error);
    match (named(error), variable(error, command, words)) {
        (Some(option), Some(variable)) => line.replace(&format!("'{option}'"), &variable),
        _ => line,
    }
}

/// Returns the first paragraph of clap's message in one line, with a suggestion or the possible values.
pub fn one_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let usage = text
            .lines()
            .find_map(|line| line.strip_prefix("Usage: "))
            .unwrap_or_default();
        return format!("missing subcommand: use {usage}");
    }
    let first = text.split("\n\n").next().unwrap_or_default();
    let words: Vec<&str> = first
        .trim_start_matches("error: ")
        .split_whitespace()
        .collect();
    let mut line = words.join(" ");
    if let (Some(option), Some(ContextValue::String(value))) =
        (named(error), error.get(ContextKind::InvalidValue))
        && SECRET.iter().any(|secret| option.starts_with(secret))
    {
        line = line.replace(&format!("'{value}'"), "(not shown)");
    }
    // "-5d": to clap this looks like an option.
    let looks_negative = |option: &str| {
        let digits = option.strip_prefix('-');
        digits.is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
    };
    if error.kind() == ErrorKind::UnknownArgument && named(error).is_some_and(looks_negative) {
        line.push_str(": a value cannot be negative");
    } else if let Some((start, _)) = line.split_once(" [possible values: ") {
        line = format!("{start}: use {}", possible_values(error));
    } else if let Some(meant) = suggestion(error) {
        line.push_str(&format!(": did you mean {meant}?"));
    }
    line
}

/// The possible values of an option, as in `free, pro or business`.
fn possible_values(error: &clap::Error) -> String {
    match error.get(ContextKind::ValidValue) {
        Some(ContextValue::Strings(values)) => match &values[..] {
            [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
            values => values.join(", "),
        },
        _ => String::new(),
    }
}

/// The argument of an error, as clap writes it: `--listen <IP:PORT>`.
fn named(error: &clap::Error) -> Option<&str> {
    match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(option)) => Some(option),
        _ => None,
    }
}

/// The word that was probably meant.
pub(super) fn suggestion(error: &clap::Error) -> Option<&str> {
    let kinds = [
        ContextKind::SuggestedArg,
        ContextKind::SuggestedSubcommand,
        ContextKind::SuggestedValue,
    ];
    kinds.into_iter().find_map(|kind| match error.get(kind) {
        Some(ContextValue::String(meant)) => Some(meant.as_str()),
        Some(ContextValue::Strings(meant)) => meant.first().map(String::as_str),
        _ => None,
    })
}

/// The environment variable of a wrong value, if the option was not on the command line.
fn variable(error: &clap::Error, command: &Command, words: &[OsString]) -> Option<String> {
    let long = named(error)?.strip_prefix("--")?;
    let long = long.split(' ').next()?;
    let typed = words.iter().filter_map(|word| word.to_str()).any(|word| {
        let option = word
            .strip_prefix("--")
            .and_then(|word| word.split('=').next());
        option == Some(long)
    });
    if typed {
        return None;
    }
    let name = find(command, long)?.get_env()?;
    std::env::var_os(name).map(|_| name.to_string_lossy().into_owned())
}

/// The option with this name that has an environment variable, and so can be set in a file.
pub(super) fn find<'a>(command: &'a Command, long: &str) -> Option<&'a Arg> {
    let here = command
        .get_arguments()
        .find(|option| option.get_long() == Some(long) && option.get_env().is_some());
    here.or_else(|| command.get_subcommands().find_map(|sub| find(sub, long)))
}
