//! The examples, run as the page shows them.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use harness::{App, enterprise};
use tempfile::TempDir;

use crate::Docs;

const LANGUAGES: [&str; 4] = ["sh", "python", "javascript", "rust"];

/// The Rust crates that the examples use. Without TLS, which a server on this machine does not need.
const MANIFEST: &str = "[package]\nname = \"examples\"\nedition = \"2024\"\n\n[dependencies]\n\
    ureq = { version = \"3.3\", default-features = false, features = [\"json\"] }\nserde_json = \"1\"\n\n[workspace]\n";

/// Runs programs of all languages. Those in Rust are compiled together, once.
struct Programs {
    folder: TempDir,
    rust: PathBuf,
}

impl Programs {
    /// With these programs in Rust, by name.
    fn new(rust: &[(String, String)]) -> Self {
        let folder = TempDir::new().expect("a folder");
        // Where its dependencies stay compiled.
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("examples");
        let package = target.join("package");
        let programs = package.join("src/bin");
        let _ = fs::remove_dir_all(&programs);
        fs::create_dir_all(&programs).expect("a folder");
        fs::write(package.join("Cargo.toml"), MANIFEST).expect("a file");
        for (name, code) in rust {
            fs::write(programs.join(format!("{name}.rs")), code).expect("a file");
        }
        let output = Command::new(env!("CARGO"))
            .args(["build", "--quiet"])
            .current_dir(&package)
            .env("CARGO_TARGET_DIR", &target)
            .output()
            .expect("cargo");
        assert!(output.status.success(), "{output:?}");
        Self {
            folder,
            rust: target.join("debug"),
        }
    }

    fn run(&self, language: &str, name: &str, code: &str, key: &str) -> String {
        let tool =
            |variable: &str, or: &str| std::env::var(variable).unwrap_or_else(|_| or.to_owned());
        let (program, file) = match language {
            "sh" => ("bash".to_owned(), format!("{name}.sh")),
            "python" => (tool("ANIMAL_STORE_PYTHON", "python3"), format!("{name}.py")),
            "javascript" => (tool("ANIMAL_STORE_NODE", "node"), format!("{name}.mjs")),
            _ => (self.rust.join(name).display().to_string(), String::new()),
        };
        let mut command = Command::new(program);
        if !file.is_empty() {
            fs::write(self.folder.path().join(&file), code).expect("a file");
            command.arg(file);
        }
        let output = command
            .current_dir(self.folder.path())
            .env("KEY", key)
            .output()
            .expect("run this through ./test page, which installs the languages");
        let shown = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success(),
            "{name} in {language}: {shown}{output:?}\n{code}"
        );
        shown
    }
}

#[test]
fn the_example_of_every_operation_does_in_every_language_what_it_says() {
    let docs = Docs::open(1000);
    docs.enter_key();
    let operations = [
        ("createPet", "\"name\":\"Rex\""),
        ("listPets", "\"name\":\"Rex\""),
        ("getPet", "\"name\":\"Rex\""),
        ("listOrders", "[]"),
    ];
    let code = |operation: &str, language: &str| {
        docs.browser
            .text(&format!("#{operation}-example-{language} code"))
    };
    let rust = operations.map(|(operation, _)| (operation.to_lowercase(), code(operation, "rust")));
    let programs = Programs::new(&rust);
    for (operation, expected) in operations {
        for language in LANGUAGES {
            let code = code(operation, language);
            let shown = programs.run(language, &operation.to_lowercase(), &code, "");
            // Each language prints objects in its own way.
            let plain: String = shown.chars().filter(|c| !c.is_whitespace()).collect();
            let plain = plain
                .replace('\'', "\"")
                .replace("{id", "{\"id\"")
                .replace("name:", "\"name\":");
            assert!(
                plain.contains(expected),
                "{operation} in {language}: {shown}"
            );
        }
    }
    // The same Idempotency-Key in all languages: one animal.
    let pets = docs.server.client(Some(&docs.key)).get("/v1/pets");
    assert_eq!(pets.ids(), [1], "{pets}");
}

/// A server whose clock follows the real one, six seconds before the end of a minute: a client that runs out of requests waits a few
/// seconds, not a minute.
fn before_a_minute_ends<T>(app: &App, run: impl FnOnce() -> T) -> T {
    // A busy machine takes some of the six seconds to start an interpreter.
    app.clock.advance(Duration::from_secs(44));
    let clock = app.clock.clone();
    let (stop, stopped) = mpsc::channel::<()>();
    std::thread::scope(|threads| {
        threads.spawn(move || {
            let mut last = Instant::now();
            let tick = Duration::from_millis(20);
            while stopped.recv_timeout(tick) == Err(RecvTimeoutError::Timeout) {
                // Never behind the clock of the client.
                clock.advance(last.elapsed().mul_f64(1.1));
                last = Instant::now();
            }
        });
        // Dropped at the end, also of a test that fails.
        let _stop = stop;
        run()
    })
}

/// The client on the page, for the server at this origin.
fn client(language: &str, origin: &str) -> String {
    let page = include_str!("../../docs/api.md");
    let (_, rest) = page
        .split_once(&format!("```{language} client\n"))
        .expect("a client");
    let (code, _) = rest.split_once("```\n").expect("an end");
    // Small pages, so that five animals are more requests than the key has.
    code.replace("limit=100", "limit=1")
        .replace("http://127.0.0.1:8080", origin)
}

#[test]
fn the_client_in_every_language_waits_as_long_as_it_is_told_and_lists_every_animal() {
    // The address is in the program, so it is compiled for the server that it will talk to.
    let apps = LANGUAGES.map(|language| {
        let (app, _, key) = App::start();
        key.create_many(5);
        (language, client(language, &app.origin()), app)
    });
    let programs = Programs::new(&[("client".to_owned(), apps[3].1.clone())]);
    for (language, code, mut app) in apps {
        let limited = app.key(enterprise(3, 1000));
        let key = limited.key.clone().expect("a key");
        let began = Instant::now();
        let shown = before_a_minute_ends(&app, || programs.run(language, "client", &code, &key));
        for number in 1..=5 {
            let name = format!("pet {number}");
            assert_eq!(shown.matches(&name).count(), 1, "{language}: {shown}");
        }
        assert!(
            began.elapsed() > Duration::from_secs(1),
            "{language} did not wait"
        );
        app.stop();
        let log = app.log();
        let rejected = log
            .lines()
            .filter(|line| line.contains(" 429 ") || line.contains("status=429"));
        assert_eq!(rejected.count(), 1, "{language} retried too early:\n{log}");
    }
}

/// What a proxy responds by itself, a response that breaks off, and a complete one: a status, the declared length, and a body.
const RESPONSES: [(&str, usize, &str); 4] = [
    ("502 Bad Gateway", 6, "<html>"),
    ("504 Gateway Timeout", 6, "<html>"),
    ("200 OK", 23, "[{\"id\":1"),
    ("200 OK", 23, "[{\"id\":1,\"name\":\"Rex\"}]"),
];

/// Serves these responses, one on each connection.
fn unreliable() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let origin = format!("http://{}", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        for (status, length, body) in RESPONSES {
            let (mut stream, _) = listener.accept().expect("a client");
            let _ = stream.read(&mut [0; 4096]);
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n");
            let _ = write!(stream, "{head}Connection: close\r\n\r\n{body}");
        }
    });
    origin
}

#[test]
fn the_client_in_every_language_retries_after_an_error_of_a_proxy_and_a_broken_response() {
    let codes = LANGUAGES.map(|language| (language, client(language, &unreliable())));
    let programs = &Programs::new(&[("client".to_owned(), codes[3].1.clone())]);
    std::thread::scope(|threads| {
        for (language, code) in &codes {
            threads.spawn(move || {
                let shown = programs.run(language, "client", code, "key");
                assert_eq!(shown.matches("Rex").count(), 1, "{language}: {shown}");
            });
        }
    });
}
