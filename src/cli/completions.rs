//! `animal-store completions SHELL`

use std::io;

use clap_complete::Shell;

use super::outcome::Outcome;

/// Prints a completion script.
#[derive(Debug, clap::Args)]
pub(super) struct Completions {
    /// Shell
    shell: Shell,
}

impl Completions {
    pub(super) fn run(self, command: &mut clap::Command) -> Outcome {
        clap_complete::generate(self.shell, command, "animal-store", &mut io::stdout());
        Ok(())
    }
}
