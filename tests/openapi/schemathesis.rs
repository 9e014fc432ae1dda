//! schemathesis reads the document and tries everything it allows and forbids.

use std::path::Path;
use std::process::Command;

use harness::{Process, run};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_animal-store");

/// For each operation.
const EXAMPLES: &str = "800";

#[test]
fn schemathesis_with_all_checks_finds_no_problems() {
    let tool = std::env::var("ANIMAL_STORE_SCHEMATHESIS")
        .expect("run this through ./test openapi, which installs it");
    let folder = TempDir::new().expect("a folder");
    let limits = ["--per-minute", "1000000000", "--per-day", "1000000000"];
    let create = [
        &["keys", "create", "--name", "all", "--plan", "enterprise"],
        &limits[..],
    ]
    .concat();
    run(PROGRAM, folder.path(), &["migrate"]).exits(0);
    let key = run(PROGRAM, folder.path(), &create).exits(0).stdout;
    let server = Process::serve(PROGRAM, folder.path(), &["--log-level", "warn"]);

    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/openapi");
    let output = Command::new(tool)
        .current_dir(folder.path())
        .env("SCHEMATHESIS_HOOKS", ours.join("hooks.py"))
        .arg("--config-file")
        .arg(ours.join("schemathesis.toml"))
        .args(["run", &format!("http://{}/openapi.json", server.address)])
        .args(["--header", &format!("Authorization: Bearer {}", key.trim())])
        .args(["--checks", "all", "--max-examples", EXAMPLES, "--seed", "1"])
        .args([
            "--generation-database",
            "none",
            "--continue-on-failure",
            "--no-color",
        ])
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let cases = text
        .lines()
        .find_map(|line| line.split_once(" generated,")?.0.trim().parse::<u32>().ok());
    assert!(
        cases.is_some_and(|cases| cases >= 2_000),
        "only {cases:?} cases: {text}"
    );
    assert_eq!(
        server.log(),
        "",
        "nothing that schemathesis does is worth a warning"
    );
}
