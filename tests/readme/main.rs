//! The commands in README.md and docs/api.md, run as they are written, in their order, in the folder of the project, on separate
//! data; and those in docs/operating.md, in an empty folder, with the program in the path. A block of text or JSON after a
//! block of commands is their output, byte for byte. Only what differs from run to run may differ: keys, times,
//! and how many connections the system allows.
//!
//! A developer may have a server running on the ports of the pages, so the tests use other ports, and replace them in commands and
//! output.

#![expect(clippy::expect_used, reason = "a test that cannot continue has failed")]

mod release;

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// Not run from within itself.
const THIS_SCRIPT: &str = "./test";

/// Started as the last command of a block, and left running for the blocks after it.
const SERVERS: [&str; 2] = ["cargo run --release", "animal-store serve"];

/// Kinds of blocks that are not commands, or that need what a test does not have. Those for systemd and apt are run by
/// tests/package.
const NOT_RUN: [&str; 12] = [
    "toml",
    "yaml",
    "sh needs-systemd",
    "sh needs-apt",
    "sh needs-docker",
    "sh needs-kubernetes",
    "sh needs-operator",
    // Run by ./test page.
    "sh client",
    "python client",
    "javascript client",
    "rust client",
    // Run by tests/cluster/copy.rs.
    "sh needs-postgresql",
];

/// The addresses of a server on the pages: its API, and its admin listener.
const DOCUMENTED: [&str; 2] = ["127.0.0.1:8080", "127.0.0.1:9090"];

#[derive(Debug)]
struct Example {
    place: String,
    commands: String,
    prints: Option<String>,
}

/// The blocks of commands on a page, each with the output after it.
fn examples(name: &str, page: &str) -> Vec<Example> {
    let mut found: Vec<Example> = Vec::new();
    let mut lines = (1..).zip(page.lines());
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
                    place: format!("{name}:{number}"),
                    commands: block,
                    prints: None,
                }),
                "json" | "text" => {
                    let example = found.last_mut().expect("commands before it");
                    assert_eq!(example.prints, None, "{name}:{number}: a second output");
                    example.prints = Some(block);
                }
                // A misspelt kind would hide commands that do not work.
                _ => assert!(
                    NOT_RUN.contains(&kind),
                    "{name}:{number}: unknown kind {kind}"
                ),
            }
        }
    }
    found
}

/// A text with placeholders for everything that differs from run to run.
fn normalized(text: &str) -> String {
    let mut normalized = String::new();
    for line in text.trim_end().lines() {
        let line = match line.strip_prefix("  limit     ") {
            Some(_) => "  limit     N connections",
            None => line,
        };
        normalized.push_str(&without_times(&without_keys(line)));
        normalized.push('\n');
    }
    normalized
}

fn without_keys(line: &str) -> String {
    let mut parts = line.split("as_");
    let mut normalized = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let key = part.bytes().take_while(u8::is_ascii_alphanumeric).count();
        let rest = if key == 38 { &part[38..] } else { part };
        normalized.push_str(if key == 38 { "KEY" } else { "as_" });
        normalized.push_str(rest);
    }
    normalized
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

/// Where the commands of a page are run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In the folder of the project, with data elsewhere: a developer may have animals in this folder.
    Project,
    /// In an empty folder, with the program in the path, and no option in the environment except `ANIMAL_STORE_CONFIG`, which is
    /// `/dev/null`.
    Installed,
}

/// The ports of the server, and the folder with its data, as the pages write them and as they are.
struct Stage {
    place: Place,
    folder: TempDir,
    addresses: [SocketAddr; 2],
    /// Keeps the documented ports taken, so that a command that is not redirected fails.
    _taken: Vec<TcpListener>,
}

impl Stage {
    fn new(place: Place) -> Self {
        let free = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("a port"));
        Self {
            place,
            folder: TempDir::new().expect("a folder"),
            addresses: free.map(|socket| socket.local_addr().expect("an address")),
            // If that fails, another process has them.
            _taken: DOCUMENTED
                .into_iter()
                .filter_map(|address| TcpListener::bind(address).ok())
                .collect(),
        }
    }

    fn shell(&self, commands: &str) -> Command {
        let mut commands = commands.to_owned();
        for (written, address) in DOCUMENTED.into_iter().zip(self.addresses) {
            commands = commands.replace(written, &address.to_string());
        }
        let mut shell = Command::new("bash");
        shell
            .args(["-e", "-o", "pipefail", "-c", &commands])
            .env_remove("CARGO_TARGET_DIR")
            .stdin(Stdio::null());
        match self.place {
            Place::Project => {
                let [api, admin] = self.addresses.map(|address| address.to_string());
                let database = format!("sqlite:{}/animal-store.db", self.folder.path().display());
                shell
                    .current_dir(env!("CARGO_MANIFEST_DIR"))
                    .env("ANIMAL_STORE_DATABASE", &database)
                    .env("ANIMAL_STORE_LISTEN", api)
                    .env("ANIMAL_STORE_ADMIN_LISTEN", admin);
            }
            Place::Installed => {
                for (name, _) in std::env::vars_os() {
                    let name = name.to_string_lossy();
                    if name.starts_with("ANIMAL_STORE_") && name != "ANIMAL_STORE_CONFIG" {
                        shell.env_remove(&*name);
                    }
                }
                shell
                    .current_dir(self.folder.path())
                    .env("PATH", path_with_the_program());
            }
        }
        shell
    }

    /// The output, with the addresses and paths of the pages.
    fn seen(&self, output: &str) -> String {
        let mut seen = output.replace(&format!("{}/", self.folder.path().display()), "");
        for (written, address) in DOCUMENTED.into_iter().zip(self.addresses) {
            seen = seen.replace(&address.to_string(), written);
        }
        seen
    }

    #[track_caller]
    fn check(&self, example: &Example, output: &str) {
        if let Some(expected) = &example.prints {
            let (printed, expected) = (normalized(&self.seen(output)), normalized(expected));
            assert_eq!(printed, expected, "{}: {}", example.place, example.commands);
        }
    }
}

/// The program as users build it.
fn program() -> String {
    std::env::var("ANIMAL_STORE_RELEASE_BIN")
        .expect("run this through ./test readme, which builds the program")
}

/// The PATH of this process, with the folder of the program first.
fn path_with_the_program() -> String {
    let program = program();
    let folder = Path::new(&program).parent().expect("a folder").display();
    format!("{folder}:{}", std::env::var("PATH").unwrap_or_default())
}

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_commands_for_users_work_and_print_what_the_pages_show() {
    run_pages(Place::Project, &["README.md", "docs/api.md"], 8);
}

#[test]
fn the_commands_for_operators_work_and_print_what_the_page_shows() {
    run_pages(Place::Installed, &["docs/operating.md"], 5);
}

/// Runs the commands of these pages. At least this many blocks have an output.
fn run_pages(place: Place, pages: &[&str], outputs: usize) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let stage = Stage::new(place);
    let mut all = Vec::new();
    for name in pages {
        let page = fs::read_to_string(root.join(name)).expect("a page");
        all.extend(examples(name, &page));
    }
    let with_output = all.iter().filter(|example| example.prints.is_some());
    assert!(with_output.count() >= outputs, "{all:?}");

    let exported = stage.folder.path().join("key");
    let mut server = None;
    let mut key = String::new();
    for example in all {
        let commands = &example.commands;
        if commands == THIS_SCRIPT {
            continue;
        }
        let (before, last) = commands.rsplit_once('\n').unwrap_or(("", commands));
        if SERVERS.iter().any(|server| last.starts_with(server)) {
            // A page may start another one in its place.
            drop(server.take());
            let mut child = stage
                .shell(&format!("{before}\nexec {last}"))
                .stdout(Stdio::piped())
                .spawn()
                .expect("bash");
            let mut lines = BufReader::new(child.stdout.take().expect("a pipe"))
                .lines()
                .map_while(Result::ok);
            server = Some(Server(child));
            let mut startup_message = String::new();
            let shows_a_key = |text: &String| text.contains("curl ");
            let end = match example.prints.as_ref().is_some_and(shows_a_key) {
                true => "curl ",
                false => "database ",
            };
            let line = lines
                .by_ref()
                .inspect(|line| startup_message.push_str(&format!("{line}\n")))
                .find(|line| line.trim_start().starts_with(end))
                .expect("the start of a server");
            stage.check(&example, &startup_message);
            if end == "curl " {
                let pasted = stage.shell(&line).output().expect("bash");
                assert!(
                    pasted.status.success() && pasted.stdout == b"[]",
                    "{line}: {pasted:?}"
                );
            }
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
fn only_what_differs_from_run_to_run_may_differ() {
    let key = |byte: &str| format!("Bearer as_{}' x", byte.repeat(38));
    assert_eq!(normalized(&key("a")), normalized(&key("B")));
    assert_ne!(normalized("as_short"), normalized("as_other"));
    let time = |second: u8| format!("until 2026-11-15T08:00:0{second}Z; then 2");
    assert_eq!(normalized(&time(1)), normalized(&time(2)));
    assert_ne!(normalized("2026-11-15"), normalized("2026-11-16"));
    assert_ne!(normalized("{\"id\":1}"), normalized("{\"id\": 1}"));
    assert_eq!(normalized("a\n"), normalized("a"));
}

#[test]
fn the_figures_for_sizing_are_those_that_the_benchmark_wrote() {
    let measured = include_str!("../../docs/performance.md");
    let sizing = include_str!("../../docs/operating.md");
    for (row, text) in [
        ("| list | animal-store | ", "about N cached reads"),
        ("| post, one core | ", "about N creations"),
        ("| post, all cores | ", "on one core, N on two"),
        ("| idle memory | ", "| memory | N with"),
        ("| memory under load | ", "keys, N under load"),
        ("| startup to ready | ", "| start | N with"),
    ] {
        let figure = measured.lines().find_map(|line| line.strip_prefix(row));
        let figure = figure.and_then(|rest| rest.split(" |").next()).expect(row);
        let figure = match figure.replace(',', "").parse::<f64>() {
            Ok(rate) => format!("{:.0},000", rate / 1_000.0),
            Err(_) => figure.to_owned(),
        };
        let text = text.replace('N', &figure);
        assert!(sizing.contains(&text), "not in Sizing: {text}");
    }
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
