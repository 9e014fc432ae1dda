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

/// The command without hidden subcommands: clap_complete does not leave them out.
fn visible(command: &clap::Command) -> clap::Command {
    let commands = command.get_subcommands();
    clap::Command::new("animal-store")
        .long_about(command.get_long_about().cloned().unwrap_or_default())
        .version(env!("CARGO_PKG_VERSION"))
        .disable_help_subcommand(true)
        .args(command.get_arguments().cloned())
        .subcommands(commands.filter(|command| !command.is_hide_set()).cloned())
}
