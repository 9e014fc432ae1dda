//! The command line: one file for each command. Errors are one line: usage errors with exit code 2, failures with exit code 1.

mod allocator;
mod backup;
mod completions;
mod confirm;
mod copy;
mod database;
mod healthcheck;
mod keys;
mod list;
mod migrate;
mod openapi;
mod orders;
mod outcome;
#[cfg(test)]
mod package_config;
mod pets;
mod print;
mod progress;
mod restore;
mod serve;
mod signals;
mod table;
mod version;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::parser::ValueSource;
use clap::{Arg, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;

use crate::config::{ServeOptions, file, usage_error};
use crate::store::Database;
use database::CommandOptions;
use outcome::{Failure, Outcome};

/// The configuration file that is read if no other is named, so that on a machine with the package every command finds the data.
const DEFAULT_CONFIG_FILE: &str = "/etc/animal-store/config.toml";

/// An HTTP JSON API for animals offered for adoption.
///
/// Without a command it runs `serve`. Every option of the server can also be set by its environment variable, or in the file given by
/// --config. Without --config, /etc/animal-store/config.toml is read if it exists.
#[derive(Debug, Parser)]
#[command(
    name = "animal-store",
    version,
    disable_help_subcommand = true,
    override_usage = "animal-store [COMMAND]",
    after_help = "`--version --verbose` also prints the commit, the features, the version of SQLite and the formats of the databases."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the API (the default command)
    Serve(Box<ServeOptions>),
    /// Manage API keys
    #[command(subcommand)]
    Keys(keys::Command),
    /// List, change, remove, import and export animals
    #[command(subcommand)]
    Pets(pets::Command),
    /// Place, complete, cancel and list orders
    #[command(subcommand)]
    Orders(orders::Command),
    Backup(backup::BackupCommand),
    Restore(restore::RestoreCommand),
    Copy(copy::CopyCommand),
    /// Create the database, or migrate it to the database format (schema version) of this release
    Migrate(CommandOptions),
    /// Print the OpenAPI document
    Openapi(openapi::OpenapiCommand),
    /// Exit with 0 if the server is ready, for containers
    Healthcheck(healthcheck::HealthcheckCommand),
    /// Write a man page for each command into a folder
    #[command(hide = true)]
    Man {
        /// Folder to write to
        folder: PathBuf,
    },
    /// Print a completion script for a shell
    Completions {
        /// Shell to complete for
        shell: Shell,
    },
}

/// Parses and runs a command, and prints why it failed.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    // If this fails, a write beyond `ulimit -f` terminates the process (SIGXFSZ), as by default.
    let _ = signals::survive_file_size_limit();
    let outcome = match version::is_requested(&args) {
        true => version::run(),
        false => {
            let args = with_default_command(args);
            if args.get(1).is_some_and(|command| command == "serve") {
                // This may execute the program again, so it comes before anything is read: a configuration from a pipe can be read
                // only once, and a socket can be taken only once.
                allocator::reexec_with_immediate_purge();
            }
            parse(args).and_then(|cli| dispatch(cli.command))
        }
    };
    let (message, code) = match outcome {
        Ok(()) | Err(Failure::BrokenPipe) => return ExitCode::SUCCESS,
        Err(Failure::Usage(message)) => (message, 2),
        Err(Failure::Failed(message)) => (message, 1),
    };
    print::error(&message);
    ExitCode::from(code)
}

fn dispatch(command: Command) -> Outcome {
    match command {
        Command::Serve(options) => serve::run(*options),
        Command::Keys(command) => database::run(async |clock| command.run(clock).await),
        Command::Pets(command) => database::run(async |clock| command.run(clock).await),
        Command::Orders(command) => database::run(async |clock| command.run(clock).await),
        Command::Backup(backup) => database::run(async |_| backup.run().await),
        Command::Restore(restore) => database::run(async |clock| restore.run(clock).await),
        Command::Copy(copy) => database::run(async |_| copy.run().await),
        Command::Migrate(options) => {
            database::run(async |clock| migrate::run(&options, clock).await)
        }
        Command::Openapi(openapi) => openapi.run(),
        Command::Healthcheck(healthcheck) => healthcheck.run(),
        Command::Man { folder } => {
            let written = clap_mangen::generate_to(self::command(), &folder);
            let failure = || format!("cannot write man pages to {}", folder.display());
            Ok(written.with_context(failure)?)
        }
        Command::Completions { shell } => completions::run(shell, &self::command()),
    }
}

/// Without a command, options are those of `serve`.
fn with_default_command(mut args: Vec<OsString>) -> Vec<OsString> {
    let serves = match args.get(1).map(|arg| arg.to_string_lossy()) {
        None => true,
        Some(arg) => arg.starts_with('-') && !["-h", "--help", "-V", "--version"].contains(&&*arg),
    };
    if serves {
        args.insert(args.len().min(1), "serve".into());
    }
    args
}

/// Parses the arguments. If there is a configuration file, parses them again with its values as defaults. If options override others,
/// parses them once more without those.
fn parse(args: Vec<OsString>) -> Result<Cli, Failure> {
    let read = |command: &clap::Command| {
        let matches = command.clone().try_get_matches_from(&args);
        matches.map_err(|error| help_or_failure(&error, command, &args))
    };
    let mut command = command();
    let mut matches = read(&command)?;
    if let Some((source, path)) = config_file(&matches) {
        command = file::apply(command, source, &path).map_err(Failure::Usage)?;
        matches = read(&command)?;
    }
    let overridden = overridden(&matches);
    if !overridden.is_empty() {
        command = overridden.into_iter().fold(command, file::without);
        matches = read(&command)?;
    }
    let cli = Cli::from_arg_matches(&matches);
    let mut cli = cli.map_err(|error| help_or_failure(&error, &command, &args))?;
    if let (Command::Serve(options), Some((_, matches))) = (&mut cli.command, matches.subcommand())
    {
        let is_flag = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
        options.record_secret_flags(is_flag);
        // To clap, a value in the file is a default. It counts as given if it is not the built-in one.
        let own = ServeOptions::augment_args(clap::Command::new("serve"));
        let is_given = |id: &str| {
            let default = own.get_arguments().find(|arg| arg.get_id() == id);
            let default = default.map(|arg| arg.get_default_values());
            let raw = matches.get_raw(id).map(Iterator::collect::<Vec<_>>);
            matches.value_source(id) != Some(ValueSource::DefaultValue)
                || raw.is_some_and(|raw| default.is_none_or(|default| raw != default))
        };
        options.record_backup_options(is_given);
    }
    Ok(cli)
}

/// The configuration file, and its source: the option or variable that names it, or `configuration file` if none does.
fn config_file(matches: &clap::ArgMatches) -> Option<(&'static str, PathBuf)> {
    if let Some((_, matches)) = matches.subcommand() {
        return config_file(matches);
    }
    // A command without the option reads no file.
    let Some(path) = matches.try_get_one::<PathBuf>("config").ok()? else {
        let path = Path::new(DEFAULT_CONFIG_FILE);
        // One that cannot be read is reported: without it, commands would use other data.
        let is_missing = matches!(path.try_exists(), Ok(false));
        return (!is_missing).then(|| ("configuration file", path.into()));
    };
    let source = match matches.value_source("config")? {
        ValueSource::EnvVariable => "ANIMAL_STORE_CONFIG",
        _ => "--config",
    };
    Some((source, path.clone()))
}

/// The options that another one overrides, because its source takes precedence: the admin token or its file; and the password file,
/// if sources that take precedence over it name all databases of this command, and each of them has a password or needs none. The
/// file is then meant for another database.
fn overridden(matches: &clap::ArgMatches) -> Vec<&'static str> {
    if let Some((_, matches)) = matches.subcommand() {
        return overridden(matches);
    }
    // None if the command has no such option, or it has no value. A value in the file is a default.
    let source = |option: &str| {
        let id = option.replace('-', "_");
        matches.try_contains_id(&id).ok()?;
        matches.value_source(&id)
    };
    let named = |option: &&str| {
        let database = matches.try_get_one::<Database>(option).ok()??;
        Some((source(option), database))
    };
    let is_overridden = |option: &&str| match *option {
        "admin-token" => source("admin-token-file") > source(option),
        "admin-token-file" => source("admin-token") > source(option),
        _ => ["database", "from", "to"]
            .iter()
            .filter_map(named)
            .all(|(named, database)| named > source(option) && !database.lacks_password()),
    };
    ["admin-token", "admin-token-file", "database-password-file"]
        .into_iter()
        .filter(|option| source(option).is_some() && is_overridden(option))
        .collect()
}

/// The definition of the command line. Every option of `serve` has an environment variable, in other commands too.
fn command() -> clap::Command {
    let serve = ServeOptions::augment_args(clap::Command::new("serve"));
    let with_variable: Vec<&str> = serve.get_arguments().filter_map(Arg::get_long).collect();
    let command = Cli::command().mut_subcommands(|command| match command.get_name() {
        "backup" | "restore" => database::with_embedded_help(command),
        _ => command,
    });
    configure_args(command, &with_variable)
}

fn configure_args(command: clap::Command, with_variable: &[&str]) -> clap::Command {
    let configure_arg = |arg: Arg| {
        let arg = match arg.get_long() {
            Some(long) if with_variable.contains(&long) => {
                let name = long.replace('-', "_").to_uppercase();
                arg.env(format!("ANIMAL_STORE_{name}"))
            }
            _ => arg,
        };
        // A negative number is a wrong value, not an unknown option.
        match arg.get_action().takes_values() {
            true => arg.allow_negative_numbers(true),
            false => arg,
        }
    };
    command
        .mut_args(configure_arg)
        .mut_subcommands(|sub| configure_args(sub, with_variable))
}

/// Prints help or the version and exits, if that was requested; otherwise returns the failure.
fn help_or_failure(error: &clap::Error, command: &clap::Command, args: &[OsString]) -> Failure {
    if error.use_stderr() {
        let line = usage_error::one_line_about(error, command, args);
        return Failure::Usage(format!("{line} (see --help)"));
    }
    // Help and version go to standard output.
    match error.print().and_then(|()| io::stdout().flush()) {
        Ok(()) => std::process::exit(0),
        Err(error) => print::write_failed(error),
    }
}
