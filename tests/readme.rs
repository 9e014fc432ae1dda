//! The commands in README.md and docs/api.md, run as they are written, in their order, in the folder of the project, on data of
//! their own. A block of text or JSON behind a block of commands is what a terminal shows of them, byte for byte. Only what
//! differs from run to run may differ: keys, times, and how many connections the system allows.
//!
//! Whoever reads the pages has a server running where they say, so ours is elsewhere: its ports are exchanged on the way in and
//! on the way out.

#![expect(clippy::expect_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

const PAGES: [&str; 2] = ["README.md", "docs/api.md"];

/// Not run from within itself.
const OURSELVES: &str = "./test";

/// Started, and left running for the commands after it.
const SERVER: &str = "cargo run --release";

/// Where the pages say that a server is: its API, and its admin listener.
const WRITTEN: [&str; 2] = ["127.0.0.1:8080", "127.0.0.1:9090"];

#[derive(Debug)]
struct Example {
    place: String,
    commands: String,
    prints: Option<String>,
}

/// The blocks of commands on a page, each with the output behind it.
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
                "json" | "text" => {
                    let example = found.last_mut().expect("commands before it");
                    assert_eq!(example.prints, None, "{name}:{number}: a second output");
                    example.prints = Some(block);
                }
                _ => {}
            }
        }
    }
    found
}

/// A text in which everything that differs from run to run is the same.
fn settled(text: &str) -> String {
    let mut settled = String::new();
    for line in text.trim_end().lines() {
        let line = match line.strip_prefix("  limit     ") {
            Some(_) => "  limit     N connections",
            None => line,
        };
        settled.push_str(&without_times(&without_keys(line)));
        settled.push('\n');
    }
    settled
}

fn without_keys(line: &str) -> String {
    let mut parts = line.split("as_");
    let mut settled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let key = part.bytes().take_while(u8::is_ascii_alphanumeric).count();
        let rest = if key == 38 { &part[38..] } else { part };
        settled.push_str(if key == 38 { "KEY" } else { "as_" });
        settled.push_str(rest);
    }
    settled
}

fn without_times(line: &str) -> String {
    const FORM: &[u8] = b"2026-11-15T08:00:00Z";
    let is_time = |place: usize| {
        let text = line.as_bytes().get(place..place + FORM.len());
        text.is_some_and(|text| {
            let same = |(one, form): (&u8, &u8)| {
                one == form || (one.is_ascii_digit() && form.is_ascii_digit())
            };
            text.iter().zip(FORM).all(same)
        })
    };
    match (0..line.len()).find(|place| is_time(*place)) {
        Some(place) => format!(
            "{}TIME{}",
            &line[..place],
            without_times(&line[place + FORM.len()..])
        ),
        None => line.to_owned(),
    }
}

/// The ports of the server, and the folder with its data, as the pages write them and as they are.
struct Stage {
    folder: TempDir,
    addresses: [SocketAddr; 2],
    /// Whoever reads the pages has a server there already.
    _taken: Vec<TcpListener>,
}

impl Stage {
    fn new() -> Self {
        let free = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("a port"));
        Self {
            folder: TempDir::new().expect("a folder"),
            addresses: free.map(|socket| socket.local_addr().expect("an address")),
            // Where that fails, somebody is there.
            _taken: WRITTEN
                .into_iter()
                .filter_map(|address| TcpListener::bind(address).ok())
                .collect(),
        }
    }

    fn shell(&self, commands: &str) -> Command {
        let mut commands = commands.to_owned();
        for (written, address) in WRITTEN.into_iter().zip(self.addresses) {
            commands = commands.replace(written, &address.to_string());
        }
        let [api, admin] = self.addresses.map(|address| address.to_string());
        // Whoever develops here may have animals in this folder.
        let database = format!("sqlite:{}/animal-store.db", self.folder.path().display());
        let mut shell = Command::new("bash");
        shell
            .args(["-e", "-o", "pipefail", "-c", &commands])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .env("ANIMAL_STORE_DATABASE", &database)
            .env("ANIMAL_STORE_LISTEN", api)
            .env("ANIMAL_STORE_ADMIN_LISTEN", admin)
            .env_remove("CARGO_TARGET_DIR")
            .stdin(Stdio::null());
        shell
    }

    /// What was printed, as a reader would see it.
    fn seen(&self, output: &str) -> String {
        let mut seen = output.replace(&format!("{}/", self.folder.path().display()), "");
        for (written, address) in WRITTEN.into_iter().zip(self.addresses) {
            seen = seen.replace(&address.to_string(), written);
        }
        seen
    }

    #[track_caller]
    fn check(&self, example: &Example, output: &str) {
        if let Some(expected) = &example.prints {
            let (printed, expected) = (settled(&self.seen(output)), settled(expected));
            assert_eq!(printed, expected, "{}: {}", example.place, example.commands);
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
fn the_commands_in_the_pages_do_and_print_what_the_pages_say() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let stage = Stage::new();
    let mut all = Vec::new();
    for name in PAGES {
        let page = fs::read_to_string(root.join(name)).expect("a page");
        all.extend(examples(name, &page));
    }
    let with_output = all.iter().filter(|example| example.prints.is_some());
    assert!(with_output.count() > 8, "{all:?}");

    let exported = stage.folder.path().join("key");
    let mut server = None;
    let mut key = String::new();
    for example in all {
        let commands = &example.commands;
        if commands == OURSELVES {
            continue;
        }
        if commands == SERVER {
            let mut child = stage
                .shell(&format!("exec {commands}"))
                .stdout(Stdio::piped())
                .spawn()
                .expect("bash");
            let mut lines = BufReader::new(child.stdout.take().expect("a pipe"))
                .lines()
                .map_while(Result::ok);
            server = Some(Server(child));
            let mut greeting = String::new();
            let line = lines
                .by_ref()
                .inspect(|line| greeting.push_str(&format!("{line}\n")))
                .find(|line| line.trim_start().starts_with("curl "))
                .expect("a curl line to paste");
            stage.check(&example, &greeting);
            let pasted = stage.shell(&line).output().expect("bash");
            assert!(
                pasted.status.success() && pasted.stdout == b"[]",
                "{line}: {pasted:?}"
            );
            continue;
        }
        // What one block exports is there for the next. A terminal shows both outputs.
        let shown = format!("exec 2>&1\n{commands}\nprintf '%s' \"$KEY\" > \"$EXPORTED\"");
        let output = stage
            .shell(&shown)
            .env("KEY", &key)
            .env("EXPORTED", &exported)
            .output()
            .expect("bash");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success(),
            "{}: {commands}\n{text}",
            example.place
        );
        key = fs::read_to_string(&exported).expect("a key");
        stage.check(&example, &text);
    }
    drop(server);
}

#[test]
fn what_differs_from_run_to_run_is_all_that_may_differ() {
    let key = |byte: &str| format!("Bearer as_{}' x", byte.repeat(38));
    assert_eq!(settled(&key("a")), settled(&key("B")));
    assert_ne!(settled("as_short"), settled("as_other"));
    let time = |second: u8| format!("until 2026-11-15T08:00:0{second}Z; then 2");
    assert_eq!(settled(&time(1)), settled(&time(2)));
    assert_ne!(settled("2026-11-15"), settled("2026-11-16"));
    assert_ne!(settled("{\"id\":1}"), settled("{\"id\": 1}"));
    assert_eq!(settled("a\n"), settled("a"));
}

#[test]
fn no_page_refers_to_a_design_that_is_not_part_of_the_project() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let pages = ["", "docs", "packaging"].into_iter().flat_map(|folder| {
        let files = fs::read_dir(root.join(folder)).expect("a folder");
        files.map(|file| file.expect("a file").path())
    });
    let pages: Vec<_> = pages
        .filter(|path| path.extension().is_some_and(|ending| ending == "md"))
        .collect();
    assert!(pages.len() > 7, "{pages:?}");
    for path in pages {
        let page = fs::read_to_string(&path).expect("a page");
        // A line break does not hide it.
        let words: Vec<&str> = page.split_whitespace().collect();
        let text = words.join(" ").to_lowercase();
        assert!(!text.contains("the design"), "{}", path.display());
    }
}
