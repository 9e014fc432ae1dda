//! Redocly and Spectral find no problems in the document.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use harness::run;
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_animal-store");

/// The document as it is printed with these options, in a folder of its own.
fn document(options: &[&str]) -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let args = [&["openapi", "--yaml"], options].concat();
    let path = folder.path().join("openapi.yaml");
    fs::write(&path, run(PROGRAM, folder.path(), &args).exits(0).stdout).unwrap();
    (folder, path)
}

/// Whether a linter has succeeded, and its output.
fn lint(tool: &str, args: &[&str], rules: &str, document: &Path) -> (bool, String) {
    // Run this through ./test openapi, which installs both and says where they are.
    let node = std::env::var("ANIMAL_STORE_NODE").unwrap();
    let modules = std::env::var("ANIMAL_STORE_NODE_MODULES").unwrap();
    let rules = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/openapi")
        .join(rules);
    let output = Command::new(node)
        .arg(Path::new(&modules).join(".bin").join(tool))
        .args(args)
        .arg(rules)
        .arg(document)
        // No telemetry.
        .env("REDOCLY_TELEMETRY", "off")
        .env("REDOCLY_SUPPRESS_UPDATE_NOTICE", "true")
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    let printed = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8_lossy(&printed).into_owned(),
    )
}

fn redocly(document: &Path) -> (bool, String) {
    lint("redocly", &["lint", "--config"], "redocly.yaml", document)
}

fn spectral(document: &Path) -> (bool, String) {
    let args = ["lint", "--fail-severity=hint", "--ruleset"];
    lint("spectral", &args, "spectral.yaml", document)
}

#[test]
fn redocly_and_spectral_find_no_problems() {
    let urls = [
        "--public-url",
        "https://animals.example/v1",
        "--staging-url",
        "https://staging.animals.example/v1",
    ];
    for options in [&[][..], &urls] {
        let (_folder, document) = document(options);
        for (succeeded, printed) in [redocly(&document), spectral(&document)] {
            assert!(succeeded && !printed.contains("warning"), "{printed}");
        }
    }
}

#[test]
fn each_of_them_finds_a_missing_licence_or_contact() {
    let (_folder, path) = document(&[]);
    let text = fs::read_to_string(&path).unwrap();
    let broken = text.replacen("    identifier: MIT OR Apache-2.0\n", "", 1);
    fs::write(&path, &broken).unwrap();
    assert!(!redocly(&path).0);
    let broken = text.replacen(
        "  contact:\n    name: The operator of this deployment\n",
        "",
        1,
    );
    assert_ne!(broken, text);
    fs::write(&path, &broken).unwrap();
    assert!(!spectral(&path).0);
}
