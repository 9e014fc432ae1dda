//! Rows as a stream: each once and in order, in bounded memory, and without a transaction that outlives a chunk.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use animal_store::key::KeyId;
use animal_store::pet::{NewPet, PetId, PetStatus};
use animal_store::store::{CreationOutcome, Store, UsageRow};
use futures_util::TryStreamExt;
use harness::{App, START, SqlClient, eventually};

use crate::PROGRAM;

/// Rows of each kind: some chunks, and a part of one.
const ROWS: usize = 1_234;

/// Days with usage, each of them of all keys.
const DAYS: usize = 3;

/// Rows in a list that must not be held in memory.
const MANY: usize = 60_000;

/// The maximum memory of a list, in kB. It takes 22 to 34 MB; with all keys in memory it took 107 MB for 100,000.
const MAX_MEMORY: u64 = 40 * 1024;

/// The first ID of rows that are inserted here: larger than those that the store assigns.
const FIRST: usize = 1_000_001;

/// Inserts this many rows, each selected by `select` with another `i`.
fn insert(data: &SqlClient, rows: usize, into: &str, select: &str) {
    let numbers = format!("SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < {rows}");
    let sql =
        format!("INSERT INTO {into} WITH RECURSIVE n (i) AS ({numbers}) SELECT {select} FROM n");
    data.change(&sql).expect("rows");
}

/// Adds animals of every status, complete orders for them, keys, and usage of each key on several days.
fn fill(data: &SqlClient, rows: usize) {
    let pets = "pets (id, name, category_id, status)";
    let statuses = "CASE i % 3 WHEN 0 THEN 'available' WHEN 1 THEN 'pending' ELSE 'sold' END";
    insert(
        data,
        rows,
        pets,
        &format!("i + {FIRST}, 'pet ' || i, i, {statuses}"),
    );
    let orders = "orders (id, pet_id, status, placed_at, ended_at)";
    insert(
        data,
        rows,
        orders,
        &format!("i + {FIRST}, i + {FIRST}, 'complete', 0, 1"),
    );
    data.add_keys(u32::try_from(rows).expect("few"));
    for day in 1..=DAYS {
        let usage_of_all =
            format!("INSERT INTO usage_by_day SELECT '2026-11-0{day}', id, id, 0 FROM api_keys");
        data.change(&usage_of_all).expect("usage");
    }
}

async fn pets(store: &Store, status: Option<PetStatus>) -> Vec<i64> {
    let mut pets = store.pets(status);
    let mut ids = Vec::new();
    while let Some(pet) = pets.try_next().await.expect("an animal") {
        assert_eq!(pet.name, format!("pet {}", pet.category_id));
        assert!(status.is_none_or(|status| pet.status == status));
        ids.push(pet.id.0);
    }
    ids
}

fn place(row: &UsageRow) -> (String, i64) {
    (row.day.clone(), row.key.0)
}

#[test]
fn a_stream_has_every_row_once_and_in_order() {
    let (app, ..) = App::start();
    fill(&app.sql_client(), ROWS);
    let store = app.store();
    app.block_on(async {
        let ids: Vec<i64> = (FIRST..FIRST + ROWS).map(|id| id as i64).collect();
        assert_eq!(pets(store, None).await, ids);
        for (which, status) in PetStatus::ALL.into_iter().enumerate() {
            let of_status = ids.iter().copied().skip(which).step_by(3);
            assert_eq!(
                pets(store, Some(status)).await,
                of_status.collect::<Vec<_>>()
            );
        }
        let orders = store
            .orders(None)
            .try_collect::<Vec<_>>()
            .await
            .expect("orders");
        assert_eq!(
            orders.iter().map(|order| order.id.0).collect::<Vec<_>>(),
            ids
        );
        let keys = store.keys().try_collect::<Vec<_>>().await.expect("keys");
        let keys: Vec<i64> = keys.iter().map(|key| key.id.0).collect();
        // The client that every test has is one of them.
        assert_eq!(keys, (1..=ROWS as i64 + 1).collect::<Vec<_>>());
        let usage = store
            .usage(None)
            .try_collect::<Vec<_>>()
            .await
            .expect("usage");
        let wanted = (1..=DAYS).rev().flat_map(|day| {
            keys.iter()
                .map(move |key| (format!("2026-11-0{day}"), *key))
        });
        assert_eq!(
            usage.iter().map(place).collect::<Vec<_>>(),
            wanted.collect::<Vec<_>>()
        );
        let one = store
            .usage(Some(KeyId(7)))
            .try_collect::<Vec<_>>()
            .await
            .expect("usage");
        let wanted: Vec<_> = (1..=DAYS)
            .rev()
            .map(|day| (format!("2026-11-0{day}"), 7))
            .collect();
        assert_eq!(one.iter().map(place).collect::<Vec<_>>(), wanted);
    });
}

/// Whether something keeps a snapshot of the data, which prevents a checkpoint of the log, or a cleanup of old
/// rows.
fn has_open_transaction(data: &SqlClient) -> bool {
    match std::env::var_os("ANIMAL_STORE_TEST_POSTGRES") {
        None => data.query("PRAGMA wal_checkpoint(TRUNCATE)")[0][0] != "0",
        Some(_) => {
            let others = "datname = current_database() AND pid <> pg_backend_pid()";
            let open = format!(
                "SELECT count(*) FROM pg_stat_activity WHERE {others} AND xact_start IS NOT NULL AND state <> 'active'"
            );
            data.query(&open)[0][0] != "0"
        }
    }
}

#[test]
fn a_stream_that_is_not_read_further_holds_no_transaction_and_delays_no_writer() {
    let (app, ..) = App::start();
    let data = app.sql_client();
    fill(&data, ROWS);
    let store = app.store();
    let (mut pets, mut orders) = (store.pets(None), store.orders(None));
    let (mut keys, mut usage) = (store.keys(), store.usage(None));
    app.block_on(async {
        assert!(pets.try_next().await.expect("a store").is_some());
        assert!(orders.try_next().await.expect("a store").is_some());
        assert!(keys.try_next().await.expect("a store").is_some());
        assert!(usage.try_next().await.expect("a store").is_some());
        let pet = NewPet::from_json(br#"{"name":"new","categoryId":1}"#).expect("a body");
        assert!(matches!(
            store.create(pet, None).await,
            Ok(CreationOutcome::New(_))
        ));
        let last = PetId((FIRST + ROWS - 1) as i64);
        let set = store.set_status(last, PetStatus::Sold, true, START).await;
        set.expect("a store").expect("an animal");
    });
    // The server polls meanwhile, so one check may find its transaction.
    eventually(Duration::from_secs(2), "no open transaction", || {
        !has_open_transaction(&data)
    });
    app.block_on(async {
        // A chunk that was read stays as it was; what follows is as it is now.
        let rest = pets.try_collect::<Vec<_>>().await.expect("animals");
        let changed = rest
            .iter()
            .find(|pet| pet.id.0 == (FIRST + ROWS - 1) as i64);
        assert_eq!(changed.expect("the last one").status, PetStatus::Sold);
        assert_eq!(
            orders.try_collect::<Vec<_>>().await.expect("orders").len(),
            ROWS - 1
        );
        assert_eq!(
            keys.try_collect::<Vec<_>>().await.expect("keys").len(),
            ROWS
        );
        assert_eq!(
            usage.try_collect::<Vec<_>>().await.expect("usage").len(),
            (ROWS + 1) * DAYS - 1
        );
    });
}

/// The peak memory of a command, in kB, and what it prints.
fn peak(app: &App, args: &str) -> (u64, Vec<u8>) {
    let mut list = harness::command(PROGRAM);
    peak_of(app, list.args(args.split(' ')), |list| Some(list.id()))
}

/// The same on a terminal, which is that of script (util-linux). The command is its only child.
fn peak_on_terminal(app: &App, args: &str) -> (u64, Vec<u8>) {
    let line = format!("stty cols 100; exec {PROGRAM} {args}");
    let mut script = Command::new("script");
    script
        .args(["-qec", &line, "/dev/null"])
        .stdin(Stdio::piped());
    peak_of(app, &mut script, |script| {
        let id = script.id();
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
        children.ok()?.trim().parse().ok()
    })
}

/// Measures the process with the ID that `id` returns. It waits for its reader, so the last reading is at its end.
fn peak_of(app: &App, command: &mut Command, id: impl Fn(&Child) -> Option<u32>) -> (u64, Vec<u8>) {
    let mut child = command
        .env("ANIMAL_STORE_DATABASE", app.database_url())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut output = child.stdout.take().expect("a pipe");
    let (mut text, mut peak, mut some) = (Vec::new(), 0, vec![0; 64 * 1024]);
    loop {
        let status = id(&child).map(|id| std::fs::read_to_string(format!("/proc/{id}/status")));
        let status = status.and_then(Result::ok).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        // One that has ended has no memory any more.
        if let Some(kib) = line.and_then(|line| line.trim().strip_suffix(" kB")) {
            peak = kib.parse().expect("a number");
        }
        match output.read(&mut some).expect("text") {
            0 => break,
            read => text.extend_from_slice(&some[..read]),
        }
    }
    assert!(child.wait().expect("an end").success());
    (peak, text)
}

#[test]
fn lists_of_very_many_rows_are_printed_as_they_are_read() {
    let (app, ..) = App::start();
    fill(&app.sql_client(), MANY);
    for (args, rows) in [
        ("orders list", MANY),
        ("keys list", MANY + 1),
        ("keys usage", (MANY + 1) * DAYS),
    ] {
        let (lines_peak, lines) = peak(&app, args);
        assert_eq!(
            lines.split(|byte| *byte == b'\n').count(),
            rows + 2,
            "{args}"
        );
        let (json_peak, json) = peak(&app, &format!("{args} --json"));
        let json: Vec<serde::de::IgnoredAny> = serde_json::from_slice(&json).expect("an array");
        assert_eq!(json.len(), rows, "{args}");
        println!("{args}: {lines_peak} kB, {json_peak} kB as JSON");
        let most = lines_peak.max(json_peak);
        assert!((1..MAX_MEMORY).contains(&most), "{args}: {most} kB");
    }
}

#[test]
fn a_list_of_very_many_rows_on_a_terminal_is_a_table_for_each_thousand() {
    let (app, ..) = App::start();
    let listed = || {
        let (peak, text) = peak_on_terminal(&app, "orders list");
        let text = String::from_utf8(text).expect("text");
        let (tables, rows) = (text.matches('┌').count(), text.matches("complete").count());
        (peak, tables, rows)
    };
    let (_, tables, rows) = listed();
    assert_eq!((tables, rows), (1, 0));
    fill(&app.sql_client(), MANY);
    let (peak, tables, rows) = listed();
    println!("{peak} kB");
    assert_eq!((tables, rows), (MANY / 1_000, MANY));
    assert!((1..MAX_MEMORY).contains(&peak), "{peak} kB");
}
