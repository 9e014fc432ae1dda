//! The configuration file. Its values become the defaults of the options of the command line, so that each value is parsed in one
//! place, wherever it came from.

use std::fs::File;
use std::path::Path;

use clap::builder::Resettable::Reset;
use clap::{Arg, ArgAction, Command};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::usage_error;
use crate::files;

/// Makes the file's values the defaults of every subcommand. `source` is the option or variable that named the file. The error is a
/// message with the line number.
pub(crate) fn apply(mut command: Command, source: &str, path: &Path) -> Result<Command, String> {
    let shown = path.display();
    // Not `files::read`, which rejects pipes.
    let bytes = File::open(path).map_err(files::described);
    let bytes = bytes
        .and_then(files::content)
        .map_err(|problem| format!("{source} {shown}: {problem}"))?;
    let at = |offset: usize, problem: &str| {
        let lines = bytes.iter().take(offset).filter(|byte| **byte == b'\n');
        format!("{shown}:{}: {problem}", 1 + lines.count())
    };
    let text =
        str::from_utf8(&bytes).map_err(|error| at(error.valid_up_to(), "not valid UTF-8"))?;
    let table = DeTable::parse(text).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        at(offset, &error.message().replace('\n', ", "))
    })?;

    for (name, value) in table.get_ref() {
        let start = name.span().start;
        let name = name.get_ref().as_ref();
        let known = usage_error::find(&command, name).filter(|_| name != "config");
        let Some(option) = known else {
            let hint = suggestion(&command, name).map(|meant| format!(": did you mean {meant}?"));
            let problem = format!("unknown option {name}{}", hint.unwrap_or_default());
            return Err(at(start, &problem));
        };
        let values = values(value).ok_or_else(|| {
            let problem = format!(
                "{name} must be a string, a decimal integer, true or false, or a list of strings"
            );
            at(start, &problem)
        })?;
        if values.len() != 1 && !matches!(option.get_action(), ArgAction::Append) {
            return Err(at(start, &format!("{name} must be a single value")));
        }
        for (offset, value) in &values {
            check(option, name, value).map_err(|problem| at(*offset, &problem))?;
        }
        let values: Vec<String> = values.into_iter().map(|(_, value)| value).collect();
        let set = |option: Arg| option.default_values(values.clone());
        command = command.mut_subcommands(|sub| with_changed(sub, name, &set));
    }
    Ok(command)
}

/// The same command, which ignores the value of this option in the file and in the environment.
pub(crate) fn without(command: Command, name: &str) -> Command {
    let unset = |option: Arg| option.default_value(Reset).env(Reset);
    command.mut_subcommands(|sub| with_changed(sub, name, &unset))
}

/// The option that was probably meant.
fn suggestion(command: &Command, name: &str) -> Option<String> {
    let serve = command.find_subcommand("serve")?.clone();
    let error = serve
        .try_get_matches_from(["serve", &format!("--{name}")])
        .err()?;
    let meant = usage_error::suggestion(&error)?;
    meant.strip_prefix("--").map(str::to_owned)
}

/// The values, each with its offset in the file.
fn values(value: &Spanned<DeValue<'_>>) -> Option<Vec<(usize, String)>> {
    match value.get_ref() {
        DeValue::Array(values) => values.iter().map(scalar).collect(),
        _ => scalar(value).map(|value| vec![value]),
    }
}

fn scalar(value: &Spanned<DeValue<'_>>) -> Option<(usize, String)> {
    let text = match value.get_ref() {
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(number) if number.radix() == 10 => number.as_str().to_owned(),
        DeValue::Boolean(yes) => yes.to_string(),
        _ => return None,
    };
    Some((value.span().start, text))
}

/// Parses a value as the command line would.
fn check(option: &Arg, name: &str, value: &str) -> Result<(), String> {
    if matches!(option.get_action(), ArgAction::SetTrue) {
        return match value {
            "true" | "false" => Ok(()),
            _ => Err(format!("{name} must be true or false")),
        };
    }
    let parsed = Command::new("file")
        .arg(option.clone())
        .try_get_matches_from(["file", &format!("--{name}={value}")]);
    parsed
        .map(drop)
        .map_err(|error| usage_error::one_line(&error, Some(option)))
}

/// Changes the option of this name, in subcommands too.
fn with_changed(command: Command, name: &str, change: &dyn Fn(Arg) -> Arg) -> Command {
    let id = command
        .get_arguments()
        .find(|option| option.get_long() == Some(name))
        .map(|option| option.get_id().clone());
    let command = match id {
        Some(id) => command.mut_arg(id, change),
        None => command,
    };
    command.mut_subcommands(|sub| with_changed(sub, name, change))
}
