//! Clients that create animals, and what became of the animals.

use std::collections::HashMap;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use harness::{Client, Connection, Postgres, Response, StopOnDrop, eventually};
use serde_json::json;

use super::NODES;

/// How long one creation may be retried.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Clients that create animals continuously. Each animal has its own name and `Idempotency-Key`, and a creation that fails is
/// retried with the same key on the next node until it succeeds: so every name belongs to exactly one animal.
pub(crate) struct Load {
    /// A client is replaced with its node: the new one has another address.
    pub(crate) nodes: Mutex<Vec<Client>>,
    /// Animals that each node has acknowledged so far.
    pub(crate) created: [AtomicUsize; NODES],
    /// Animals that each client has created so far.
    completed: Mutex<Vec<usize>>,
    done: AtomicBool,
}

/// An animal that was acknowledged.
pub(crate) struct Made {
    pub(crate) name: String,
    pub(crate) id: i64,
    /// The failed attempts before.
    pub(crate) failures: Vec<String>,
    /// Whether it was created by an earlier attempt, which had failed for the client.
    pub(crate) replayed: bool,
}

impl Load {
    pub(crate) fn new(nodes: Vec<Client>) -> Self {
        Self {
            nodes: Mutex::new(nodes),
            created: Default::default(),
            completed: Mutex::default(),
            done: AtomicBool::new(false),
        }
    }

    /// Lets this many clients create animals while something else happens, and returns what they have created.
    pub(crate) fn during(&self, clients: usize, happens: impl FnOnce()) -> Vec<Made> {
        *self.completed() = vec![0; clients];
        std::thread::scope(|scope| {
            let creating: Vec<_> = (0..clients)
                .map(|client| scope.spawn(move || self.create(client)))
                .collect();
            let end = StopOnDrop(&self.done);
            happens();
            drop(end);
            let made = creating
                .into_iter()
                .map(|client| client.join().expect("a client"));
            made.flatten().collect()
        })
    }

    /// Waits until every creation that is in flight now has ended, with its retries.
    pub(crate) fn settle(&self) {
        let before = self.completed().clone();
        eventually(TIMEOUT, "each client has created another animal", || {
            let now = self.completed();
            before.iter().zip(&*now).all(|(before, now)| now > before)
        });
    }

    fn completed(&self) -> MutexGuard<'_, Vec<usize>> {
        let completed = self.completed.lock();
        completed.unwrap_or_else(PoisonError::into_inner)
    }

    fn create(&self, client: usize) -> Vec<Made> {
        let mut open: Option<(SocketAddr, Connection)> = None;
        let mut made = Vec::new();
        for number in 0.. {
            let name = format!("{client}-{number}");
            let began = Instant::now();
            let mut failures = Vec::new();
            let response = loop {
                let node = (client + failures.len()) % NODES;
                let to = self.nodes.lock().unwrap_or_else(PoisonError::into_inner)[node].clone();
                match try_create(&to, &name, &mut open) {
                    Ok(response) if response.status == 201 => {
                        self.created[node].fetch_add(1, Ordering::Relaxed);
                        break response;
                    }
                    Ok(response) => {
                        response.is_error(503, "unavailable");
                        failures.push("503".to_owned());
                    }
                    Err(error) => failures.push(error),
                }
                assert!(began.elapsed() < TIMEOUT, "{name}: {failures:?}");
                // The first retry is immediate, the next ones leave the node time to recover.
                if failures.len() > 1 {
                    std::thread::sleep(Duration::from_millis(20));
                }
            };
            made.push(Made {
                id: response.json()["id"].as_i64().expect("an ID"),
                replayed: response.header("idempotent-replayed").is_some(),
                name,
                failures,
            });
            self.completed()[client] += 1;
            if self.done.load(Ordering::Relaxed) {
                break;
            }
        }
        made
    }
}

/// One attempt, on the open connection if it is one to this node.
fn try_create(
    node: &Client,
    name: &str,
    open: &mut Option<(SocketAddr, Connection)>,
) -> Result<Response, String> {
    let mut connection = match open.take() {
        Some((address, connection)) if address == node.address => connection,
        _ => TcpStream::connect(node.address)
            .map_err(|error| format!("no connection: {error}"))?
            .into(),
    };
    let response = node
        .request("POST", "/v1/pets")
        .header("Idempotency-Key", name)
        .json(&json!({"name": name, "categoryId": 1}))
        .try_send_on(&mut connection)?;
    *open = Some((node.address, connection));
    Ok(response)
}

/// Compares the acknowledged animals with the database. Returns the names that are lost, and those that are there twice or were not
/// acknowledged.
pub(crate) fn lost_and_duplicated(
    postgres: &Postgres,
    made: &[Made],
) -> (Vec<String>, Vec<String>) {
    let rows = postgres.psql("postgres", "select name, id from pets order by id");
    let mut stored: HashMap<&str, Vec<i64>> = HashMap::new();
    for row in rows.lines() {
        let (name, id) = row.split_once('|').expect("two columns");
        let id = id.parse().expect("a number");
        stored.entry(name).or_default().push(id);
    }
    let (mut lost, mut duplicated) = (Vec::new(), Vec::new());
    for animal in made {
        let ids = stored.remove(&*animal.name).unwrap_or_default();
        if !ids.contains(&animal.id) {
            lost.push(format!("{} as {}, not in {ids:?}", animal.name, animal.id));
        } else if ids.len() > 1 {
            duplicated.push(format!("{} as {ids:?}", animal.name));
        }
    }
    duplicated.extend(
        stored
            .keys()
            .map(|name| format!("{name}, never acknowledged")),
    );
    (lost, duplicated)
}
