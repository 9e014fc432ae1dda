//! The release that the pages are run with.

use std::process::Command;

use crate::program;

#[test]
fn a_release_that_is_built_in_a_checkout_names_its_commit() {
    let git = |args: &[&str]| {
        let git = Command::new("git").args(args).output().ok();
        let git = git.filter(|git| git.status.success())?;
        Some(String::from_utf8_lossy(&git.stdout).trim().to_owned())
    };
    // Not in a folder of another repository.
    let checkout = git(&["rev-parse", "--show-prefix"]).filter(String::is_empty);
    let commit = checkout.and_then(|_| git(&["rev-parse", "HEAD"]));
    let commit = commit.as_deref().unwrap_or("unknown");
    let version = Command::new(program())
        .args(["--version", "--verbose"])
        .output()
        .expect("the program");
    let version = String::from_utf8_lossy(&version.stdout);
    let line = format!("\ncommit    {commit}\n");
    assert!(version.contains(&line), "{version}{line}");
}
