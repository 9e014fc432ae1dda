//! `animal-store completions`: prints a completion script.

use clap_complete::Shell;

use super::outcome::Outcome;
use super::print;

/// Prints the script with which a shell completes the words of this command.
pub(super) fn run(shell: Shell, command: &clap::Command) -> Outcome {
    // Not directly to standard output: clap_complete panics if a write fails.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut visible(command), "animal-store", &mut script);
    // If the name of the program has a hyphen, the script for bash has two names for each subcommand, and never finds its words
    // (https://github.com/clap-rs/clap/issues/6421).
    let script = String::from_utf8_lossy(&script).replace("animal__subcmd__store", "animal__store");
    print::bytes(script.as_bytes())
}

/// The command without hidden subcommands and options: clap_complete does not leave them out.
fn visible(command: &clap::Command) -> clap::Command {
    let args = command.get_arguments().filter(|arg| !arg.is_hide_set());
    let subcommands = command.get_subcommands();
    let subcommands = subcommands.filter(|command| !command.is_hide_set());
    let visible = clap::Command::new(command.get_name().to_owned())
        .about(command.get_about().cloned().unwrap_or_default())
        .disable_help_subcommand(true)
        .args(args.cloned())
        .subcommands(subcommands.map(visible));
    match command.get_version() {
        Some(_) => visible.version(env!("CARGO_PKG_VERSION")),
        None => visible,
    }
}
