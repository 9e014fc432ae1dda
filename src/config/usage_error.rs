//! Usage errors in one line.

use std::error::Error;
use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};

use crate::key;

/// Returns an error of the command line in one line. A value from the environment is named by its variable.
pub(crate) fn one_line_about(error: &clap::Error, command: &Command, args: &[OsString]) -> String {
    if error.kind() == ErrorKind::InvalidUtf8
        && let Some(variable) = first(command, &is_set_without_utf8).and_then(Arg::get_env)
    {
        return format!("{} is not valid UTF-8", variable.display());
    }
    let argument = argument(error).unwrap_or_default();
    let long = long_name(argument);
    let option =
        find(command, long).or_else(|| first(command, &|option| option.get_long() == Some(long)));
    let line = one_line(error, option);
    match option.and_then(|option| variable(option, args)) {
        Some(variable) => line.replace(&format!("'{argument}'"), &variable),
        None => line,
    }
}

/// Returns the first paragraph of clap's message in one line, with a suggestion or the possible values. The value of a secret
/// option is left out, because a mistyped token is still sensitive; so are URLs with a user name, which may contain a password, and
/// API keys, which may have been typed in place of an ID.
pub(super) fn one_line(error: &clap::Error, option: Option<&Arg>) -> String {
    key::without_keys(&described(error, option))
}

fn described(error: &clap::Error, option: Option<&Arg>) -> String {
    let text = error.render().to_string();
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let usage = text
            .lines()
            .find_map(|line| line.strip_prefix("Usage: "))
            .unwrap_or_default();
        return format!("missing subcommand: use {usage}");
    }
    // Messages with what was typed are written here. In clap's text, a search for what may be secret could fail, because its white
    // space may be different, and a blank line would look like the end of the first paragraph.
    let value = string(error, ContextKind::InvalidValue);
    if let Some(value) = value.filter(|value| !value.is_empty()) {
        let shown = quoted(value, option.is_some_and(Arg::is_hide_env_values_set));
        let argument = argument(error).unwrap_or_default();
        let reason = match error.source() {
            Some(reason) => format!(": {reason}"),
            None if error.kind() == ErrorKind::TooManyValues => ": it takes no value".to_owned(),
            None => format!(": use {}", possible_values(error)),
        };
        return format!("invalid value {shown} for '{argument}'{reason}");
    }
    let unexpected = argument(error).filter(|_| error.kind() == ErrorKind::UnknownArgument);
    let unrecognized = string(error, ContextKind::InvalidSubcommand)
        .filter(|_| error.kind() == ErrorKind::InvalidSubcommand);
    let mut line = if let Some(argument) = unexpected {
        format!("unexpected argument {} found", quoted(argument, false))
    } else if let Some(subcommand) = unrecognized {
        format!("unrecognized subcommand {}", quoted(subcommand, false))
    } else {
        let first = text.split("\n\n").next().unwrap_or_default();
        let words = first.trim_start_matches("error: ").split_whitespace();
        words.collect::<Vec<_>>().join(" ")
    };
    // "-5d": to clap this looks like an option.
    let looks_negative = |option: &str| {
        let digits = option.strip_prefix('-');
        digits.is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
    };
    if unexpected.is_some_and(looks_negative) {
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
fn argument(error: &clap::Error) -> Option<&str> {
    string(error, ContextKind::InvalidArg)
}

fn string(error: &clap::Error, kind: ContextKind) -> Option<&str> {
    match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text),
        _ => None,
    }
}

/// What was typed, in one line and in quotes, unless it may be secret.
fn quoted(typed: &str, is_secret: bool) -> String {
    // It may be a URL with a user, and so with a password.
    match is_secret || typed.contains('@') {
        true => "(not shown)".to_owned(),
        false => format!("'{}'", typed.replace('\n', r"\n")),
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

/// The name in `--listen <IP:PORT>` or `--listen=127.0.0.1:80`, without its hyphens.
fn long_name(option: &str) -> &str {
    let name = option.strip_prefix("--").unwrap_or_default();
    name.split([' ', '=']).next().unwrap_or_default()
}

/// The environment variable that an option was set by, if it is not on the command line.
fn variable(option: &Arg, args: &[OsString]) -> Option<String> {
    let mut typed = args.iter().filter_map(|arg| arg.to_str()).map(long_name);
    if typed.any(|long| option.get_long() == Some(long)) {
        return None;
    }
    let name = option.get_env()?;
    std::env::var_os(name).map(|_| name.to_string_lossy().into_owned())
}

/// Whether an option is set by an environment variable that is not valid UTF-8 and must be: a path need not. clap's error does not name
/// the variable.
fn is_set_without_utf8(option: &Arg) -> bool {
    let is_set = option.get_env().and_then(std::env::var_os).is_some();
    let parse = || {
        let command = Command::new("variable").arg(option.clone());
        command.try_get_matches_from(["variable"])
    };
    is_set && parse().is_err_and(|error| error.kind() == ErrorKind::InvalidUtf8)
}

/// The option with this name that has an environment variable, and so can be set in a file.
pub(super) fn find<'a>(command: &'a Command, long: &str) -> Option<&'a Arg> {
    first(command, &|option| {
        option.get_long() == Some(long) && option.get_env().is_some()
    })
}

/// The first option of a command, or of one of its subcommands, that matches.
fn first<'a>(command: &'a Command, matches: &dyn Fn(&Arg) -> bool) -> Option<&'a Arg> {
    let here = command.get_arguments().find(|option| matches(option));
    here.or_else(|| {
        command
            .get_subcommands()
            .find_map(|sub| first(sub, matches))
    })
}
