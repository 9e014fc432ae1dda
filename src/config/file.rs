//! The configuration file: its values become the defaults of the command line's own options, so that each value is parsed
//! and checked in one place, wherever it came from.

use std::fs;
use std::path::Path;

use clap::{Arg, ArgAction, Command};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::usage;

/// What is wrong with a file, in one line with its line number.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BadFile(String);

/// Gives every subcommand of `command` the file's values as defaults.
pub fn apply(mut command: Command, path: &Path) -> Result<Command, BadFile> {
    let shown = path.display();
    let text =
        fs::read_to_string(path).map_err(|error| BadFile(format!("--config {shown}: {error}")))?;
    let line = |offset: usize| {
        1 + text
            .bytes()
            .take(offset)
            .filter(|byte| *byte == b'\n')
            .count()
    };
    let table = DeTable::parse(&text).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        BadFile(format!(
            "{shown}:{}: {}",
            line(offset),
            error.message().replace('\n', ", ")
        ))
    })?;

    for (name, value) in table.get_ref() {
        let wrong = |what: String| BadFile(format!("{shown}:{}: {what}", line(name.span().start)));
        let name = name.get_ref().as_ref();
        let option =
            known(&command, name).ok_or_else(|| wrong(format!("there is no option {name}")))?;
        let values = values(value)
            .ok_or_else(|| wrong(format!("{name} takes a text, a number or a list of texts")))?;
        check(option, name, &values).map_err(wrong)?;
        command = command.mut_subcommands(|sub| with_default(sub, name, &values));
    }
    Ok(command)
}

/// The option of this name, if it is one that a file may set: those that the environment may set too.
fn known<'a>(command: &'a Command, name: &str) -> Option<&'a Arg> {
    command
        .get_subcommands()
        .flat_map(Command::get_arguments)
        .find(|option| {
            option.get_long() == Some(name) && option.get_env().is_some() && name != "config"
        })
}

fn values(value: &Spanned<DeValue<'_>>) -> Option<Vec<String>> {
    match value.get_ref() {
        DeValue::Array(values) => values.iter().map(one).collect(),
        _ => one(value).map(|value| vec![value]),
    }
}

fn one(value: &Spanned<DeValue<'_>>) -> Option<String> {
    match value.get_ref() {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) if number.radix() == 10 => Some(number.as_str().to_owned()),
        DeValue::Boolean(yes) => Some(yes.to_string()),
        _ => None,
    }
}

/// Parses a value as the command line would.
fn check(option: &Arg, name: &str, values: &[String]) -> Result<(), String> {
    let is_flag = matches!(option.get_action(), ArgAction::SetTrue);
    if is_flag {
        return match values {
            [yes] if yes == "true" || yes == "false" => Ok(()),
            _ => Err(format!("{name} takes true or false")),
        };
    }
    if values.len() != 1 && !matches!(option.get_action(), ArgAction::Append) {
        return Err(format!("{name} takes one value"));
    }
    let words = values.iter().map(|value| format!("--{name}={value}"));
    let words = std::iter::once("file".to_owned()).chain(words);
    let parsed = Command::new("file")
        .arg(option.clone())
        .try_get_matches_from(words);
    parsed.map(drop).map_err(|error| usage::one_line(&error))
}

fn with_default(command: Command, name: &str, values: &[String]) -> Command {
    let id = command
        .get_arguments()
        .find(|option| option.get_long() == Some(name))
        .map(|option| option.get_id().clone());
    let command = match id {
        Some(id) => command.mut_arg(id, |option| option.default_values(values.to_vec())),
        None => command,
    };
    command.mut_subcommands(|sub| with_default(sub, name, values))
}
