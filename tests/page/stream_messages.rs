//! What the dashboard makes of the messages of its stream, and of their absence.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::dashboard::Dashboard;
use crate::eventually;
use crate::slow::{HANG, RESTORE};

/// A dashboard with at least three samples. No message arrives while a script runs.
fn with_samples() -> Dashboard {
    let dashboard = Dashboard::logged_in();
    eventually("there are samples", || {
        let script = "return live.samples.length >= 3 && live.plots.length > 0";
        dashboard.browser.run(script, json!([])) == true
    });
    dashboard
}

impl Dashboard {
    /// Runs a script that can `send` the page messages as the server does, and `change` numbers of a sample.
    fn with_messages(&self, script: &str) -> Value {
        let helpers = "
            const send = (name, data) => live.source.dispatchEvent(new MessageEvent(name, { data: JSON.stringify(data) }));
            const change = (sample, numbers) => live.names.map((name, index) => numbers[name] ?? sample[index]);";
        self.browser.run(&format!("{helpers} {script}"), json!([]))
    }

    #[track_caller]
    fn is_lost_within(&self, longest: Duration) {
        let began = Instant::now();
        self.browser.wait_for("#lost:not([hidden])", "is lost");
        assert!(began.elapsed() < longest, "{:?}", began.elapsed());
    }

    fn is_no_longer_lost(&self) {
        eventually("the connection is back", || !self.shows("#lost"));
    }
}

#[test]
fn the_state_of_a_server_that_hangs_is_unknown_until_it_continues() {
    let dashboard = with_samples();
    let browser = &dashboard.browser;
    browser.wait_for("#ready.good", "ready");
    dashboard.server.signal("STOP");
    dashboard.is_lost_within(Duration::from_secs(10));
    let badges = "return [...document.querySelectorAll('#ready, #checks .badge')].map(badge => `${badge.className} ${badge.textContent}`)";
    let badges = browser.run(badges, json!([]));
    let badges = badges.as_array().expect("a list");
    assert!(badges.len() > 1, "{badges:?}");
    assert!(
        badges.iter().all(|one| one == "badge unknown"),
        "{badges:?}"
    );
    dashboard.server.signal("CONT");
    browser.wait_for("#ready.good", "ready");
    dashboard.is_no_longer_lost();
    browser.wait_for("#checks .badge.good", "ready");
    let last = || browser.run("return live.samples.at(-1)?.[0] ?? 0", json!([]));
    let before = last();
    eventually("samples arrive", || last() != before);
    dashboard.has_no_console_errors();
}

#[test]
fn a_page_whose_live_data_moved_asks_for_the_token_when_the_session_has_ended() {
    let dashboard = with_samples();
    dashboard.with_messages("send('replaced', null)");
    assert!(dashboard.shows("#moved"));
    dashboard.run("return fetch('api/session', { method: 'DELETE' }).then(() => null)");
    let message = "#view-login:not([hidden]) .problem";
    let expected = "Your session has ended. Log in again.";
    dashboard.browser.wait_for(message, expected);
    assert_eq!(dashboard.browser.text("#plots"), "");
}

#[test]
fn a_read_that_hangs_fails_and_the_next_one_is_made() {
    let dashboard = with_samples();
    let browser = &dashboard.browser;
    dashboard.show("#keys");
    browser.wait_for("#keys-range", "of 1");
    dashboard.run(HANG);
    // Read every 5 s.
    dashboard.is_lost_within(Duration::from_secs(20));
    dashboard.run(RESTORE);
    browser.click("nav [href='#keys']");
    dashboard.is_no_longer_lost();
    dashboard.has_no_console_errors();
}

#[test]
fn the_page_of_an_earlier_version_is_loaded_again_but_not_while_a_dialog_is_open() {
    let dashboard = with_samples();
    let browser = &dashboard.browser;
    let mark = "window.isOld = true; version = 'earlier'; document.querySelector('#create-key').click(); loseStream()";
    browser.run(mark, json!([]));
    dashboard.is_no_longer_lost();
    browser.wait_for("#dialog-title", "Create a key");
    browser.run(
        "document.querySelector('#dialog').close(); loseStream()",
        json!([]),
    );
    eventually("the page is loaded again", || {
        browser.run("return window.isOld ?? null", json!([])) == Value::Null
    });
    browser.wait_for("#ready.good", "ready");
    dashboard.has_no_console_errors();
}

#[test]
fn the_requests_of_a_key_are_counted_on_after_a_lost_connection() {
    let dashboard = with_samples();
    let browser = &dashboard.browser;
    let client = dashboard.client(&dashboard.create_key("shop"));
    dashboard.show("#keys/2");
    eventually("its requests are counted", || {
        client.get("/v1/pets/0");
        browser.text("#key-live").contains("404")
    });
    browser.run("loseStream()", json!([]));
    dashboard.is_no_longer_lost();
    eventually("the stream is open again", || {
        client.get("/v1/pets");
        browser.text("#key-live").contains("200")
    });
    assert!(browser.text("#key-live").contains("404"));
    // The next visit counts from zero, even if the list between the two was not read to its end.
    dashboard.hold("GET api/keys?");
    dashboard.show("#keys");
    dashboard.show("#keys/2");
    dashboard.release();
    browser.wait_for("#key-title", "shop");
    browser.wait_for("#key-live", "none yet");
    eventually("the new requests are counted", || {
        client.get("/v1/orders");
        browser.text("#key-live").contains("404")
    });
    assert!(!browser.text("#key-live").contains("200"));
    // The page of another key counts from zero.
    dashboard.show("#keys/1");
    browser.wait_for("#key-title", "first");
    browser.wait_for("#key-live", "none yet");
}

#[test]
fn plots_continue_after_the_clock_of_the_server_was_set_back() {
    let dashboard = with_samples();
    let script = "
        const [first, second] = live.samples;
        send('sample', change(live.samples.at(-1), { time: second[0] }));
        return [live.plots[0].plot.data[0], [first[0], second[0]]]";
    let times = dashboard.with_messages(script);
    assert_eq!(times[0], times[1]);
}

#[test]
fn a_stream_that_begins_again_repeats_nothing() {
    let dashboard = with_samples();
    dashboard.browser.wait_for("#events", "logged in");
    let script = "
        const shown = () => [live.samples.length, $('events').children.length, document.querySelectorAll('#plots figure').length];
        const [{ names, samples }, before] = [live, shown()];
        const events = before[1];
        send('history', { names, samples });
        send('events', Array.from({ length: events }, (_, number) => ({ level: 'INFO', message: `event ${number}`, fields: '', count: 1 })));
        return [before, shown()]";
    let shown = dashboard.with_messages(script);
    assert_eq!(shown[0], shown[1]);
}

#[test]
fn animals_per_commit_are_those_of_commits_that_create_animals() {
    let dashboard = with_samples();
    let script = "
        const [last] = live.samples.slice(-1);
        const texts = [0, 2].map((creatingCommits) => {
            send('sample', change(last, { time: last[0] + 0.001 + creatingCommits / 1e3, commits: 5, creatingCommits, rows: 3 * creatingCommits }));
            return $('tiles').textContent.match(/Animals per commit *([^ A-Z]*)/)[1];
        });
        return texts";
    assert_eq!(dashboard.with_messages(script), json!(["–", "3"]));
}
