//! Finds the commit that a release is built from, for `animal-store --version --verbose`.

use std::path::Path;
use std::process::Command;

/// Set by packages, whose sources need not be a checkout.
const COMMIT: &str = "ANIMAL_STORE_COMMIT";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed={COMMIT}");
    // Not for tests, which would be compiled again after each commit.
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    if !is_release || std::env::var_os(COMMIT).is_some() {
        return;
    }
    // The sources may also be a folder of another repository.
    if git(&["rev-parse", "--show-prefix"]).as_deref() != Some("") {
        return;
    }
    let Some(commit) = git(&["rev-parse", "HEAD"]) else {
        return;
    };
    println!("cargo:rustc-env={COMMIT}={commit}");
    // Both change with a commit or a checkout. Cargo would run this each time for a file that is missing.
    for file in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", file])
            && Path::new(&path).exists()
        {
            println!("cargo:rerun-if-changed={path}");
        }
    }
}

/// The output of git, unless it fails or is not installed.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let printed = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| printed.trim().to_owned())
}
