//! Animals that move between engines in files: each arrives as it left, with its ID.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use harness::{Postgres, Process, eventually, load_during_imports, run};
use rusqlite::{Connection, params};
use tempfile::TempDir;

use crate::{Cluster, PROGRAM};

const ANIMALS: i64 = 100_000;

/// Pseudorandom numbers, the same each time.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: u32) -> u32 {
        u32::try_from(self.next() >> 32).expect("32 bits") % bound
    }

    /// A name of any characters that names may have.
    fn name(&mut self, number: i64) -> String {
        // A name without visible characters, which earlier versions accepted.
        if number % 50 == 0 {
            return [
                "\u{200b}",
                "\u{2800}\u{fe0f}",
                "\u{ad}",
                "\u{e0001}\u{3164}",
            ][number as usize / 50 % 4]
                .into();
        }
        let length = if number % 100 == 1 {
            255
        } else {
            1 + self.below(12)
        };
        let mut name: String = (0..length)
            .map(|_| match self.below(4) {
                0 => {
                    [',', '"', '\'', '\\', ' ', ';', '\u{2028}', '\u{feff}'][self.below(8) as usize]
                }
                1 => char::from(b'!' + self.below(90) as u8),
                _ => loop {
                    let character = char::from_u32(self.below(0x11_0000));
                    if let Some(character) = character.filter(|it| !it.is_control()) {
                        break character;
                    }
                },
            })
            .collect();
        if name.chars().all(char::is_whitespace) {
            name.pop();
            name.push('x');
        }
        name
    }

    fn category(&mut self, number: i64) -> i64 {
        match number % 4 {
            0 => i64::MIN,
            1 => i64::MAX,
            _ => self.next().cast_signed(),
        }
    }
}

/// Fills a database with SQL. The IDs have gaps, and the last one is the largest that is allowed.
fn fill(path: &Path) {
    let mut numbers = Random(0x9E37_79B9_7F4A_7C15);
    let mut file = Connection::open(path).expect("a database");
    let transaction = file.transaction().expect("a transaction");
    let mut id = 0;
    for number in 1..=ANIMALS {
        id = match number {
            ANIMALS => 1 << 62,
            _ => id + 1 + i64::from(numbers.below(3)),
        };
        let status = ["available", "pending", "sold"][numbers.below(3) as usize];
        let (name, category) = (numbers.name(number), numbers.category(number));
        transaction
            .prepare_cached(
                "INSERT INTO pets (id, name, category_id, status) VALUES (?1, ?2, ?3, ?4)",
            )
            .and_then(|mut insert| insert.execute(params![id, name, category, status]))
            .expect("an animal");
    }
    transaction.commit().expect("a commit");
}

#[test]
fn a_hundred_thousand_random_animals_are_the_same_in_both_formats_and_on_both_engines() {
    let folder = TempDir::new().expect("a folder");
    let postgres = Postgres::start();
    let pets = |args: &[&str]| {
        run(PROGRAM, folder.path(), &[&["pets"], args].concat()).exits(0);
    };
    let source = "sqlite:source.db";
    run(PROGRAM, folder.path(), &["migrate", "--database", source]).exits(0);
    fill(&folder.path().join("source.db"));
    pets(&["export", "source.ndjson", "--database", source]);
    let read = |name: &str| fs::read(folder.path().join(name)).expect("a file");
    let expected = read("source.ndjson");
    assert_eq!(
        expected.iter().filter(|byte| **byte == b'\n').count() as i64,
        ANIMALS
    );
    for (way, (there, back)) in [
        ("there.ndjson.zst", "back.csv"),
        ("there.csv.gz", "back.ndjson"),
    ]
    .into_iter()
    .enumerate()
    {
        let nodes = postgres.create_database(&format!("transfer{way}"));
        let other = format!("sqlite:other{way}.db");
        pets(&["export", there, "--database", source]);
        pets(&["import", there, "--keep-ids", "--database", &nodes]);
        pets(&["export", "nodes.ndjson", "--force", "--database", &nodes]);
        assert!(read("nodes.ndjson") == expected, "{there}");
        pets(&["export", back, "--database", &nodes]);
        pets(&["import", back, "--keep-ids", "--database", &other]);
        pets(&["export", "other.ndjson", "--force", "--database", &other]);
        assert!(read("other.ndjson") == expected, "{back}");
    }
}

/// A line of NDJSON: an animal with this ID.
fn line(id: i64) -> String {
    format!("{{\"id\":{id},\"name\":\"Rex\",\"categoryId\":1}}\n")
}

#[test]
fn a_small_import_that_fails_uses_up_no_ids_and_names_one_that_is_in_use() {
    let folder = TempDir::new().expect("a folder");
    let postgres = Postgres::start();
    let database = postgres.create_database("kept");
    let command = |words: &[&str]| {
        let words = [words, &["--database", &database]].concat();
        run(PROGRAM, folder.path(), &words)
    };
    let last_id = || postgres.psql("kept", "SELECT number FROM counters WHERE what = 'pets'");
    command(&["migrate"]).exits(0);
    fs::write(folder.path().join("a.ndjson"), line(5) + &line(20)).expect("a file");
    let import = ["pets", "import", "a.ndjson", "--keep-ids"];
    // It fails when they are copied.
    let constraint = "ALTER TABLE pets ADD CONSTRAINT small CHECK (id < 10)";
    postgres.psql("kept", constraint);
    command(&import).fails_with(1);
    assert_eq!(last_id().trim(), "0");
    postgres.psql("kept", "ALTER TABLE pets DROP CONSTRAINT small");
    command(&import).exits(0);
    assert_eq!(last_id().trim(), "20");
    // An animal that was added by SQL, above the counter.
    postgres.psql("kept", "INSERT INTO pets VALUES (22, 'Tom', 1, 'sold')");
    let failure = command(&import[..3]).fails_with(1);
    assert!(
        failure.contains("Key (id)=(22) already exists"),
        "{failure}"
    );
    assert_eq!(last_id().trim(), "20");
}

/// Makes the transaction that inserts the animal with this ID wait until [`open_gate`]. `at` is when.
fn close_gate(postgres: &Postgres, database: &str, id: i64, at: &str) {
    let sql = format!(
        "CREATE TABLE gate ();
         INSERT INTO gate DEFAULT VALUES;
         CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS
           'BEGIN WHILE EXISTS (SELECT FROM gate) LOOP PERFORM pg_sleep(0.02); END LOOP; RETURN new; END';
         CREATE {at} FOR EACH ROW WHEN (new.id = {id}) EXECUTE FUNCTION wait()"
    );
    postgres.psql(database, &sql);
}

fn open_gate(postgres: &Postgres, database: &str) {
    postgres.psql(database, "DELETE FROM gate");
}

fn wait_for_activity(postgres: &Postgres, database: &str, condition: &str) {
    let sql = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = '{database}' AND {condition}"
    );
    eventually(Duration::from_secs(20), condition, || {
        postgres.psql(database, &sql).trim() == "1"
    });
}

#[test]
fn a_copy_that_has_waited_for_an_import_fails_instead_of_missing_its_animals() {
    let folder = TempDir::new().expect("a folder");
    let postgres = Postgres::start();
    let database = postgres.create_database("raced");
    let run = |words: &[&str]| run(PROGRAM, folder.path(), words);
    let import = |id: i64| {
        fs::write(folder.path().join("a.ndjson"), line(id)).expect("a file");
        run(&[
            "pets",
            "import",
            "a.ndjson",
            "--keep-ids",
            "--database",
            &database,
        ])
        .exits(0);
    };
    // The counter is high enough for the next import.
    import(100);
    let at_commit = "CONSTRAINT TRIGGER late AFTER INSERT ON pets DEFERRABLE INITIALLY DEFERRED";
    close_gate(&postgres, "raced", 50, at_commit);
    std::thread::scope(|scope| {
        let importing = scope.spawn(|| import(50));
        wait_for_activity(&postgres, "raced", "query = 'COMMIT' AND state = 'active'");
        let copying = scope.spawn(|| run(&["copy", "--from", &database, "--to", "sqlite:copy.db"]));
        wait_for_activity(&postgres, "raced", "wait_event_type = 'Lock'");
        open_gate(&postgres, "raced");
        importing.join().expect("an import");
        let line = copying.join().expect("a copy").fails_with(1);
        assert!(line.contains("another process is writing to it"), "{line}");
    });
}

#[test]
fn an_import_and_a_copy_to_the_same_database_do_not_write_at_the_same_time() {
    let folder = TempDir::new().expect("a folder");
    let postgres = Postgres::start();
    let run = |words: &[&str]| run(PROGRAM, folder.path(), words);
    for (name, ids) in [("source", 1..=12_000), ("many", 20_001..=26_000)] {
        let lines: String = ids.map(line).collect();
        fs::write(folder.path().join(format!("{name}.ndjson")), lines).expect("a file");
    }
    let import = |name, database| ["pets", "import", name, "--database", database];
    run(&import("source.ndjson", "sqlite:source.db")).exits(0);
    let create = |name, id| {
        let database = postgres.create_database(name);
        run(&["migrate", "--database", &database]).exits(0);
        close_gate(&postgres, name, id, "TRIGGER late BEFORE INSERT ON pets");
        database
    };
    let counts = |name| {
        let sql = "SELECT number >= (SELECT max(id) FROM pets), (SELECT count(*) FROM pets) FROM counters WHERE what = 'pets'";
        postgres.psql(name, sql)
    };
    let database = create("copied", 100);
    std::thread::scope(|scope| {
        let copy = ["copy", "--from", "sqlite:source.db", "--to", &database];
        let copying = scope.spawn(move || run(&copy));
        wait_for_activity(&postgres, "copied", "wait_event = 'PgSleep'");
        let import = import("many.ndjson", &database);
        let importing = scope.spawn(move || run(&import));
        // Longer than the deadlock_timeout: of two that wait for each other, PostgreSQL would end the copy.
        let waits =
            "wait_event_type = 'Lock' AND query_start < clock_timestamp() - interval '1500 ms'";
        wait_for_activity(&postgres, "copied", waits);
        open_gate(&postgres, "copied");
        copying.join().expect("a copy").exits(0);
        let imported = importing.join().expect("an import").exits(0);
        let notice = "animal-store: waiting for another import or a copy to finish";
        assert!(imported.stderr.contains(notice), "{imported:?}");
    });
    assert_eq!(counts("copied").trim(), "t|18000");

    let database = create("imported", 20_001);
    std::thread::scope(|scope| {
        let import = [&import("many.ndjson", &database)[..], &["--keep-ids"]].concat();
        let importing = scope.spawn(move || run(&import));
        wait_for_activity(&postgres, "imported", "wait_event = 'PgSleep'");
        let line = run(&["copy", "--from", "sqlite:source.db", "--to", &database]).fails_with(1);
        assert!(line.contains("another process is writing to it"), "{line}");
        open_gate(&postgres, "imported");
        importing.join().expect("an import").exits(0);
    });
    assert_eq!(counts("imported").trim(), "t|6000");
}

#[test]
fn an_import_waits_for_another_one_whose_gap_it_would_use_up() {
    let folder = TempDir::new().expect("a folder");
    let postgres = Postgres::start();
    let database = postgres.create_database("imports");
    let run = |words: &[&str]| {
        let words = [words, &["--database", &database]].concat();
        run(PROGRAM, folder.path(), &words)
    };
    run(&["migrate"]).exits(0);
    for (name, count) in [("large", 12_000), ("small", 6_000)] {
        let lines: String = (1..=count).map(line).collect();
        fs::write(folder.path().join(format!("{name}.ndjson")), lines).expect("a file");
    }
    let node = ["--no-first-key", "--database", &database];
    let node = Process::serve(PROGRAM, folder.path(), &node);
    let key = run(&["keys", "create", "--name", "a", "--plan", "pro"]).exits(0);
    let client = node.client(Some(key.stdout.trim_end()));
    // The large one gets the IDs from 12,001.
    let at_insert = "TRIGGER late BEFORE INSERT ON pets";
    close_gate(&postgres, "imports", 12_002, at_insert);
    std::thread::scope(|scope| {
        let large = scope.spawn(|| run(&["pets", "import", "large.ndjson"]));
        wait_for_activity(&postgres, "imports", "wait_event = 'PgSleep'");
        let small = scope.spawn(|| run(&["pets", "import", "small.ndjson"]));
        wait_for_activity(&postgres, "imports", "wait_event_type = 'Lock'");
        // The third creation would be after the small import, and wait for the large one.
        client.create_many(3);
        std::thread::sleep(Duration::from_millis(1_200));
        open_gate(&postgres, "imports");
        large.join().expect("an import").exits(0);
        let small = small.join().expect("an import").exits(0);
        let notice = "animal-store: waiting for another import or a copy to finish";
        assert!(small.stderr.contains(notice), "{}", small.stderr);
    });
    let count = postgres.psql("imports", "SELECT count(*), max(id) FROM pets");
    // The second one begins after the first one and a gap of its own.
    assert_eq!(count.trim(), "18003|36000");
}

#[test]
fn postgresql_does_not_continue_an_import_that_was_stopped_or_killed() {
    let folder = TempDir::new().expect("a folder");
    let postgres = Postgres::start();
    let database = postgres.create_database("stopped");
    run(
        PROGRAM,
        folder.path(),
        &["migrate", "--database", &database],
    )
    .exits(0);
    fs::write(folder.path().join("a.ndjson"), line(1)).expect("a file");
    close_gate(
        &postgres,
        "stopped",
        1,
        "TRIGGER late BEFORE INSERT ON pets",
    );
    for signal in ["INT", "KILL"] {
        let import = ["pets", "import", "a.ndjson", "--database", &database];
        let mut importing = harness::command(PROGRAM)
            .args(import)
            .current_dir(folder.path())
            .stderr(Stdio::null())
            .spawn()
            .expect("it runs");
        wait_for_activity(&postgres, "stopped", "wait_event = 'PgSleep'");
        let id = importing.id().to_string();
        run("kill", folder.path(), &["-s", signal, &id]).exits(0);
        importing.wait().expect("an end");
        eventually(Duration::from_secs(5), "its statement has ended", || {
            let sql = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'";
            postgres.psql("stopped", sql).trim() == "0"
        });
    }
}

#[test]
fn during_an_import_on_nodes_no_creation_is_rejected_and_the_99th_percentile_of_reads_stays_below_three_times_plus_20_ms()
 {
    let cluster = Cluster::start();
    let clients = cluster.clients(&cluster.large_key());
    let line = "{\"name\":\"a name of some length, as animals have\",\"categoryId\":1}\n";
    let file = cluster.folder.path().join("a.ndjson");
    fs::write(file, line.repeat(ANIMALS as usize)).expect("a file");
    let all = load_during_imports(ANIMALS, &clients[0], &clients[1], || {
        cluster.command(&["pets", "import", "a.ndjson"]);
    });
    let count = cluster
        .postgres
        .psql("postgres", "SELECT count(*) FROM pets");
    assert_eq!(count.trim(), all.to_string());
}
