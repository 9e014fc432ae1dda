//! The question a command asks before it does what cannot be undone. Scripts answer it beforehand, with `--yes`.

use std::io::{self, IsTerminal, Write};

use anyhow::Context;

use super::{Failure, Outcome};

/// Asks whether to go on, after saying what the matter is. Where nobody can be asked, that is a wrong usage.
pub(super) fn confirm(matter: &str) -> Outcome {
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Err(Failure::Usage(format!("{matter}: use --yes to go on")));
    }
    eprint!("{matter}. Go on? [y/N] ");
    io::stderr().flush().context("cannot ask")?;
    let mut reply = String::new();
    io::stdin()
        .read_line(&mut reply)
        .context("cannot read the reply")?;
    match reply.trim().to_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Failure::Failed("nothing was changed".into())),
    }
}
