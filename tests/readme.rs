//! The commands in README.md and docs/api.md, run as they are written, in their order, on a fresh copy of the project.
//! A block of JSON behind a block of commands is what those must print.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

const PAGES: [&str; 2] = ["README.md", "docs/api.md"];

/// Not run from within itself.
const OURSELVES: &str = "./test";

/// Started, and left running for the commands after it.
const SERVER: &str = "cargo run --release";

#[derive(Debug)]
struct Example {
    place: String,
    commands: String,
    prints: Option<Value>,
}

/// The blocks of commands on a page, each with the JSON behind it.
fn examples(name: &str, page: &str) -> Vec<Example> {
    let mut found: Vec<Example> = Vec::new();
    let mut lines = page.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        if let Some(kind) = line.strip_prefix("```").filter(|kind| !kind.is_empty()) {
            let block: Vec<&str> = lines
                .by_ref()
                .map(|(_, line)| line)
                .take_while(|line| *line != "```")
                .collect();
            let block = block.join("\n");
            match kind {
                "sh" => found.push(Example {
                    place: format!("{name}:{}", number + 1),
                    commands: block,
                    prints: None,
                }),
                "json" => {
                    let value = serde_json::from_str(&block)
                        .unwrap_or_else(|error| panic!("{name}:{number}: {error}"));
                    found.last_mut().expect("commands before it").prints = Some(value);
                }
                _ => {}
            }
        }
    }
    found
}

/// The tracked files and those about to be, in a folder of their own.
fn copy(to: &Path) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .expect("git");
    for file in String::from_utf8(listed.stdout).expect("text").lines() {
        let (from, to) = (root.join(file), to.join(file));
        if from.is_file() {
            fs::create_dir_all(to.parent().expect("a folder")).expect("a folder");
            fs::copy(&from, to).expect("a copy");
        }
    }
}

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_commands_in_the_pages_do_what_the_pages_say() {
    let folder = TempDir::new().expect("a folder");
    copy(folder.path());
    // One place for what is built: most of it has been built before.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .parent()
        .expect("the target folder");
    let mut all = Vec::new();
    for name in PAGES {
        let page = fs::read_to_string(folder.path().join(name)).expect("a page");
        all.extend(examples(name, &page));
    }
    assert!(
        all.iter().any(|example| example.commands == SERVER) && all.len() > 8,
        "{all:?}"
    );

    std::os::unix::fs::symlink(target, folder.path().join("target")).expect("a link");
    let shell = |commands: &str| {
        let mut shell = Command::new("bash");
        shell
            .args(["-e", "-o", "pipefail", "-c", commands])
            .current_dir(folder.path());
        shell.env_remove("CARGO_TARGET_DIR").stdin(Stdio::null());
        shell
    };
    let mut server = None;
    let mut key = String::new();
    for Example {
        place,
        commands,
        prints,
    } in all
    {
        if commands == OURSELVES {
            continue;
        }
        if commands == SERVER {
            let mut child = shell(&format!("exec {commands}"))
                .stdout(Stdio::piped())
                .spawn()
                .expect("bash");
            let mut greeting = BufReader::new(child.stdout.take().expect("a pipe"))
                .lines()
                .map_while(Result::ok);
            server = Some(Server(child));
            let line = greeting
                .find(|line| line.trim_start().starts_with("curl "))
                .expect("a curl line to paste");
            let pasted = shell(&line).output().expect("bash");
            assert!(
                pasted.status.success() && pasted.stdout == b"[]",
                "{line}: {pasted:?}"
            );
            continue;
        }
        // What one block exports is there for the next.
        let output = shell(&format!("{commands}\nprintf '%s' \"$KEY\" > .key"))
            .env("KEY", &key)
            .output()
            .expect("bash");
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "{place}: {commands}\n{text}\n{errors}"
        );
        key = fs::read_to_string(folder.path().join(".key")).expect("a key");
        if let Some(expected) = prints {
            let printed: Value =
                serde_json::from_str(&text).unwrap_or_else(|_| panic!("{place}: no JSON: {text}"));
            assert_eq!(printed, expected, "{place}: {commands}");
        }
    }
    drop(server);
}
