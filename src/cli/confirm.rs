//! Confirmation of removals, restores and repeated rotations. Scripts confirm with `--yes`.

use std::io::{self, IsTerminal, Write};

use anyhow::Context;
use tokio::sync::oneshot;

use super::outcome::{Failure, Outcome};
use super::print::escaped;
use super::signals::Signals;

/// The consequence of a refusal, or of a signal.
const NOTHING_CHANGED: &str = "nothing was changed";

/// Fails if there is no terminal to ask for confirmation, which is a usage error. For commands that take a long time before they ask.
pub(super) fn require_terminal(consequence: &str) -> Outcome {
    match io::stdin().is_terminal() && io::stderr().is_terminal() {
        true => Ok(()),
        false => Err(Failure::Usage(format!(
            "{consequence}: use --yes to confirm"
        ))),
    }
}

/// Asks for confirmation, and ends with an error if a signal comes instead of a reply.
pub(super) async fn confirm(consequence: String) -> Outcome {
    require_terminal(&consequence)?;
    let mut signals = Signals::of_command().context("cannot listen for signals")?;
    confirm_unless_stopped(consequence, &mut signals, NOTHING_CHANGED).await
}

fn ask(consequence: &str) -> Outcome {
    write!(io::stderr(), "{}. Continue? [y/N] ", escaped(consequence))
        .and_then(|()| io::stderr().flush())
        .context("cannot ask for confirmation")?;
    let mut reply = String::new();
    io::stdin()
        .read_line(&mut reply)
        .context("cannot read the reply")?;
    match reply.trim().to_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Failure::Failed(NOTHING_CHANGED.into())),
    }
}

/// Like [`confirm`], for a command that cleans up when a signal stops it, and has called [`require_terminal`] before. `stopped` is the
/// consequence of the signal, for the error.
pub(super) async fn confirm_unless_stopped(
    consequence: String,
    signals: &mut Signals,
    stopped: &str,
) -> Outcome {
    let (reply, replied) = oneshot::channel();
    // A thread that waits for a line does not keep the process from exiting.
    let asking = std::thread::Builder::new().name("confirm".into());
    asking
        .spawn(move || reply.send(ask(&consequence)))
        .context("cannot ask for confirmation")?;
    tokio::select! {
        replied = replied => replied.context("cannot ask for confirmation")?,
        signal = signals.first() => Err(Failure::Failed(format!("stopped by {signal}: {stopped}"))),
    }
}
