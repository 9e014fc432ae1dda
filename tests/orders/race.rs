//! Many at once.

use std::thread;

use harness::run;
use tempfile::TempDir;

use crate::PROGRAM;

#[test]
fn of_32_processes_that_place_an_order_for_the_same_animal_exactly_one_succeeds() {
    let folder = TempDir::new().expect("a folder");
    run(
        PROGRAM,
        folder.path(),
        &["keys", "create", "--name", "a", "--plan", "free"],
    )
    .exits(0);
    let file = rusqlite::Connection::open(folder.path().join("animal-store.db")).expect("a file");
    for round in 1..=3_i64 {
        file.execute_batch(
            "INSERT INTO pets (name, category_id, status) VALUES ('a', 1, 'available')",
        )
        .expect("a pet");
        let pet = round.to_string();
        let outputs: Vec<_> = thread::scope(|scope| {
            let place = || run(PROGRAM, folder.path(), &["orders", "place", "--pet", &pet]);
            let placing: Vec<_> = (0..32).map(|_| scope.spawn(place)).collect();
            placing
                .into_iter()
                .map(|one| one.join().expect("a process"))
                .collect()
        });
        let (placed, refused): (Vec<_>, Vec<_>) = outputs
            .into_iter()
            .partition(|output| output.code == Some(0));
        assert_eq!(placed.len(), 1, "{placed:?}");
        assert_eq!(
            placed[0].stdout,
            format!("order {round} is placed: animal {round} is pending\n")
        );
        for output in refused {
            let line = output.refuses(1);
            assert_eq!(
                line,
                "animal-store: the animal is not available: it is pending"
            );
        }
        let open: i64 = file
            .query_row(
                "SELECT count(*) FROM orders WHERE pet_id = ?1",
                [round],
                |row| row.get(0),
            )
            .expect("a count");
        assert_eq!(open, 1);
    }
}
