//! Failures of the server: a 5xx is an `Error` like any other, and never reveals the cause.

use std::time::Duration;

use harness::App;

use crate::rex;

#[test]
fn while_another_process_holds_the_lock_a_creation_is_503_with_retry_after_and_reads_succeed() {
    let (app, _, key) = App::start();
    key.create(&rex());
    let other = app.sql_client();
    other.lock_all();
    let rejected = std::thread::scope(|scope| {
        let creation = scope.spawn(|| key.create(&rex()));
        assert_eq!(key.get("/v1/pets?limit=7").ids(), [1]);
        assert_eq!(key.get("/v1/pets/1").status, 200);
        creation.join().unwrap()
    });
    let message = rejected.is_error(503, "unavailable").message();
    assert!(rejected.number("retry-after") >= 1);
    assert!(
        !message.contains("lock") && !message.contains("busy"),
        "{message}"
    );

    other.unlock();
    assert_eq!(key.create(&rex()).status, 201);
    assert_eq!(key.get("/v1/pets").ids(), [1, 2]);
}

#[test]
fn a_creation_whose_client_got_503_is_not_stored_when_the_lock_is_released_though_others_still_wait()
 {
    let (app, _, key) = App::start();
    let other = app.sql_client();
    other.lock_all();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| key.create(&rex()));
        // The second creation, which is sent below, reaches PostgreSQL only when the first has failed. It would still be waiting
        // for the lock when its own client gets a 503.
        std::thread::sleep(Duration::from_millis(700));
        // PostgreSQL gets the third together with the second.
        let third = scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(600));
            key.create(&rex())
        });
        key.create(&rex()).is_error(503, "unavailable");
        other.unlock();
        let first = first.join().expect("a response");
        first.is_error(503, "unavailable");
        let third = third.join().expect("a response");
        assert_eq!(key.create(&rex()).status, 201);
        let stored = key.get("/v1/pets").ids().len();
        assert_eq!(stored, 1 + usize::from(third.status == 201), "{third}");
    });
}

#[test]
fn an_internal_error_is_500_and_does_not_reveal_the_cause() {
    let (app, _, key) = App::start();
    let other = app.sql_client();
    other.change("ALTER TABLE pets RENAME TO away").unwrap();
    for failed in [
        key.get("/v1/pets"),
        key.get("/v1/pets?status=sold"),
        key.get("/v1/pets/1"),
        key.create(&rex()),
    ] {
        let message = failed.is_error(500, "internal_error").message();
        assert!(
            !message.contains("pets") && !message.contains("table"),
            "{message}"
        );
    }
    other.change("ALTER TABLE away RENAME TO pets").unwrap();
    assert_eq!(key.create(&rex()).status, 201);
    assert_eq!(key.get("/v1/pets").status, 200);
}
