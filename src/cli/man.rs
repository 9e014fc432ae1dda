//! `animal-store man`: writes a man page for each command. Packages contain them.

use std::path::Path;

use anyhow::Context;

use super::outcome::Outcome;

/// Writes the pages of this definition of the command line into a folder.
pub(super) fn run(definition: clap::Command, folder: &Path) -> Outcome {
    let written = clap_mangen::generate_to(definition, folder);
    let failure = || format!("cannot write man pages to {}", folder.display());
    Ok(written.with_context(failure)?)
}
