//! `kill -9` under write load: what was acknowledged is stored, and no ID is assigned twice.

use std::collections::{BTreeMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::thread::JoinHandle;
use std::time::Duration;

use harness::{Client, Connection, Process, Stopwatch, eventually};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{PROGRAM, large_key};

/// The number of concurrent connections that write.
const WRITERS: usize = 6;

/// Where a walk over everything begins.
const FIRST_PAGE: &str = "/v1/pets?limit=100";

/// How soon after its start a server must be ready, whatever the last one left behind.
const READY: Duration = Duration::from_secs(1);

#[test]
fn every_acknowledged_animal_survives_kill_9_and_no_id_is_assigned_twice() {
    let cycles = if harness::is_long() { 1_000 } else { 25 };
    let run = Run::new("none").run(cycles, Process::kill);
    assert!(run.violations.is_empty(), "{:#?}", run.violations);
    let acknowledged = run.acknowledged.len();
    assert!(
        acknowledged > 10 * cycles,
        "hardly any load: {acknowledged} animals"
    );
}

#[test]
fn every_acknowledged_animal_is_there_after_a_server_was_stopped_under_load() {
    let run = Run::new("none").run(3, |process| {
        process.signal("TERM");
        assert_eq!(process.ends_within(Duration::from_secs(5)), Some(0));
    });
    assert!(run.violations.is_empty(), "{:#?}", run.violations);
}

#[test]
fn the_same_check_catches_a_server_that_acknowledges_before_the_commit() {
    let run = Run::new("ack-before-commit").run(5, Process::kill);
    let caught = |what: &str| {
        run.violations
            .iter()
            .any(|violation| violation.contains(what))
    };
    assert!(
        caught("is lost") && caught("was assigned twice"),
        "{:#?}",
        run.violations
    );
}

/// One folder, and the violations by the servers that used it.
struct Run {
    fault: String,
    folder: TempDir,
    key: String,
    /// Every animal that was acknowledged, by its ID.
    acknowledged: BTreeMap<i64, Value>,
    /// Creations with an `Idempotency-Key` that got no response when the last server ended.
    unacknowledged: Vec<Creation>,
    /// The first page of the next walk: the last one of the previous walk.
    page: String,
    /// The last ID before that page.
    checked: i64,
    violations: Vec<String>,
}

/// An animal to create. Its name is unique.
#[derive(Clone)]
struct Creation {
    animal: Value,
    retry: Option<String>,
}

/// What a writer has seen until the server ended.
#[derive(Default)]
struct WriterOutcome {
    acknowledged: Vec<Value>,
    unacknowledged: Option<Creation>,
}

impl Run {
    fn new(fault: &str) -> Self {
        let folder = TempDir::new().expect("a folder");
        Self {
            fault: fault.into(),
            key: large_key(folder.path()),
            folder,
            acknowledged: BTreeMap::new(),
            unacknowledged: Vec::new(),
            page: FIRST_PAGE.into(),
            checked: 0,
            violations: Vec::new(),
        }
    }

    /// Starts a server, checks, writes and ends it, this many times; then checks everything once more.
    fn run(mut self, cycles: usize, end: impl Fn(&mut Process)) -> Self {
        for cycle in 0..cycles {
            let (mut process, client) = self.start();
            self.check_new(&client);
            self.retry(&client);
            let before = self.acknowledged.last_key_value().map_or(0, |(id, _)| *id);
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| write(&client, cycle, writer))
                .collect();
            std::thread::sleep(random_moment());
            end(&mut process);
            for writer in writers {
                let seen = writer.join().expect("a writer");
                self.unacknowledged.extend(
                    seen.unacknowledged
                        .filter(|creation| creation.retry.is_some()),
                );
                for animal in seen.acknowledged {
                    let id = animal["id"].as_i64().expect("an id");
                    if id <= before {
                        self.violations
                            .push(format!("{id} came after {before}, in cycle {cycle}"));
                    }
                    self.acknowledge(animal);
                }
            }
        }
        let (_process, client) = self.start();
        self.retry(&client);
        (self.page, self.checked) = (FIRST_PAGE.into(), 0);
        let stored = self.check_new(&client);
        if stored < self.acknowledged.len() {
            self.violations
                .push(format!("{stored} of {}", self.acknowledged.len()));
        }
        self
    }

    fn start(&mut self) -> (Process, Client) {
        let began = Stopwatch::start();
        let vars = [("ANIMAL_STORE_FAULT", &*self.fault)];
        let args = ["--no-first-key", "--log-level", "warn"];
        let process = Process::serve_with(PROGRAM, self.folder.path(), &args, &vars);
        let client = process.client(Some(&self.key));
        eventually(Duration::from_secs(10), "ready", || {
            client.get("/readyz").status == 200
        });
        let took = began.elapsed();
        if took > READY {
            self.violations.push(format!("ready only after {took:?}"));
        }
        (process, client)
    }

    fn acknowledge(&mut self, animal: Value) {
        let id = animal["id"].as_i64().expect("an id");
        if let Some(other) = self.acknowledged.insert(id, animal.clone()) {
            self.violations
                .push(format!("{id} was assigned twice: {other} {animal}"));
        }
    }

    /// Sends again what got no response. Whether the first attempt was stored or not, there is one animal afterwards.
    fn retry(&mut self, client: &Client) {
        let mut connection = client.connect();
        for creation in std::mem::take(&mut self.unacknowledged) {
            let response = creation.send(client, &mut connection).expect("a response");
            self.acknowledge(response);
        }
    }

    /// Walks over what is stored, from where the last walk ended, and compares it with what was acknowledged.
    fn check_new(&mut self, client: &Client) -> usize {
        let from = self.checked;
        let mut stored: Vec<(i64, Value)> = Vec::new();
        let mut connection = client.connect();
        loop {
            let page = client.request("GET", &self.page).send_on(&mut connection);
            assert_eq!(page.status, 200, "{page}");
            let animals = page.json().as_array().expect("a list").clone();
            stored.extend(page.ids().into_iter().zip(animals));
            let (Some(next), Some((last, _))) = (page.next(), stored.last()) else {
                break;
            };
            let path = next.find("/v1/").expect("a path");
            (self.page, self.checked) = (next[path..].to_owned(), *last);
        }
        if !stored.is_sorted_by(|(one, _), (next, _)| one < next) {
            self.violations.push("IDs do not ascend".into());
        }
        let names: HashSet<&str> = stored
            .iter()
            .filter_map(|(_, animal)| animal["name"].as_str())
            .collect();
        if names.len() < stored.len() {
            self.violations.push("an animal was stored twice".into());
        }
        let count = stored.len();
        let stored: BTreeMap<i64, Value> = stored.into_iter().collect();
        for (id, animal) in self.acknowledged.range(from + 1..) {
            match stored.get(id) {
                Some(stored) if stored == animal => {}
                Some(stored) => self.violations.push(format!("{animal} became {stored}")),
                None => self.violations.push(format!("{animal} is lost")),
            }
        }
        count
    }
}

impl Creation {
    fn new(cycle: usize, writer: usize, number: usize) -> Self {
        let name = format!("{cycle}-{writer}-{number}");
        let status = ["available", "pending", "sold"][number % 3];
        Self {
            // Every other writer makes its creations safe to retry.
            retry: writer.is_multiple_of(2).then(|| format!("try-{name}")),
            animal: json!({"name": name, "categoryId": number, "status": status}),
        }
    }

    /// The animal as acknowledged; none if the server ended first.
    fn send(&self, client: &Client, connection: &mut Connection) -> Option<Value> {
        let mut request = client.request("POST", "/v1/pets").json(&self.animal);
        if let Some(retry) = &self.retry {
            request = request.header("Idempotency-Key", retry);
        }
        let response = request.try_send_on(connection).ok()?;
        assert_eq!(response.status, 201, "{response}");
        let mut sent = response.json();
        sent.as_object_mut().expect("an animal").remove("id");
        assert_eq!(sent, self.animal, "{response}");
        Some(response.json())
    }
}

/// Adds animals as fast as it can until the server ends.
fn write(client: &Client, cycle: usize, writer: usize) -> JoinHandle<WriterOutcome> {
    let client = client.clone();
    // Before the server may be killed.
    let mut connection = client.connect();
    std::thread::spawn(move || {
        let mut seen = WriterOutcome::default();
        for number in 0.. {
            let creation = Creation::new(cycle, writer, number);
            match creation.send(&client, &mut connection) {
                Some(animal) => seen.acknowledged.push(animal),
                None => {
                    seen.unacknowledged = Some(creation);
                    break;
                }
            }
        }
        seen
    })
}

/// Some time from 10 to 110 milliseconds.
fn random_moment() -> Duration {
    Duration::from_micros(10_000 + RandomState::new().hash_one(0) % 100_000)
}
