//! The commands in README.md and docs/api.md, run as they are written, in their order, in the folder of the project, on data of
//! their own.
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

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_commands_in_the_pages_do_what_the_pages_say() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = TempDir::new().expect("a folder");
    // The one thing that is not as a reader has it: whoever develops here may have animals in this folder.
    let database = format!("sqlite:{}/animal-store.db", folder.path().display());
    let mut all = Vec::new();
    for name in PAGES {
        let page = fs::read_to_string(root.join(name)).expect("a page");
        all.extend(examples(name, &page));
    }
    assert!(
        all.iter().any(|example| example.commands == SERVER) && all.len() > 8,
        "{all:?}"
    );

    let exported = folder.path().join("key");
    let shell = |commands: &str| {
        let mut shell = Command::new("bash");
        shell
            .args(["-e", "-o", "pipefail", "-c", commands])
            .current_dir(root)
            .env("ANIMAL_STORE_DATABASE", &database)
            .env_remove("CARGO_TARGET_DIR")
            .stdin(Stdio::null());
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
        let output = shell(&format!("{commands}\nprintf '%s' \"$KEY\" > \"$EXPORTED\""))
            .env("KEY", &key)
            .env("EXPORTED", &exported)
            .output()
            .expect("bash");
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "{place}: {commands}\n{text}\n{errors}"
        );
        key = fs::read_to_string(&exported).expect("a key");
        if let Some(expected) = prints {
            let printed: Value =
                serde_json::from_str(&text).unwrap_or_else(|_| panic!("{place}: no JSON: {text}"));
            assert_eq!(printed, expected, "{place}: {commands}");
        }
    }
    drop(server);
}
