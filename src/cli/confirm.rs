//! Confirmation of changes that cannot be undone. Scripts give it with `--yes`.

use std::io::{self, IsTerminal, Write};

use anyhow::Context;

use super::outcome::{Failure, Outcome};

/// Fails if there is no terminal: there would be nobody to ask, which is wrong usage. For commands that take long before they ask.
pub(super) fn require_terminal(consequence: &str) -> Outcome {
    match io::stdin().is_terminal() && io::stderr().is_terminal() {
        true => Ok(()),
        false => Err(Failure::Usage(format!(
            "{consequence}: use --yes to confirm"
        ))),
    }
}

/// Asks for confirmation.
pub(super) fn confirm(consequence: &str) -> Outcome {
    require_terminal(consequence)?;
    write!(io::stderr(), "{consequence}. Continue? [y/N] ")
        .and_then(|()| io::stderr().flush())
        .context("cannot ask for confirmation")?;
    let mut reply = String::new();
    io::stdin()
        .read_line(&mut reply)
        .context("cannot read the reply")?;
    match reply.trim().to_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Failure::Failed("nothing was changed".into())),
    }
}
