//! Concurrent orders.

use std::thread;

use harness::Operator;

use crate::PROGRAM;

#[test]
fn of_32_processes_that_place_an_order_for_the_same_animal_exactly_one_succeeds() {
    let operator = Operator::new(PROGRAM);
    operator
        .run_line("keys create --name a --plan free")
        .exits(0);
    let data = operator.sql_client();
    for round in 1..=3_i64 {
        data.add_pet("a", 1, "available");
        let place = format!("orders place --pet {round}");
        let outputs: Vec<_> = thread::scope(|scope| {
            let place = || operator.run_line(&place);
            let placing: Vec<_> = (0..32).map(|_| scope.spawn(place)).collect();
            placing
                .into_iter()
                .map(|one| one.join().expect("a process"))
                .collect()
        });
        let (placed, rejected): (Vec<_>, Vec<_>) = outputs
            .into_iter()
            .partition(|output| output.code == Some(0));
        assert_eq!(placed.len(), 1, "{placed:?}");
        assert_eq!(
            placed[0].stdout,
            format!("order {round} is placed: animal {round} is pending\n")
        );
        for output in rejected {
            let line = output.fails_with(1);
            assert_eq!(
                line,
                "animal-store: only an available animal can be ordered, and this one is pending"
            );
        }
        let open = data.query(&format!("SELECT id FROM orders WHERE pet_id = {round}"));
        assert_eq!(open.len(), 1);
    }
}
