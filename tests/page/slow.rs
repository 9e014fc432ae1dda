//! The dashboard when the network is slow or fails: no secret is lost, no late response wins, and what is shown stays up to date.

use harness::Client;
use serde_json::{Value, json};

use crate::browser::{ENTER, ESCAPE, TAB};
use crate::dashboard::{Dashboard, TOKEN, get_banned};
use crate::eventually;

/// Holds back responses to requests, such as `GET api/keys/3`, until they are released.
pub(crate) const HOLD: &str = r"
    const [request] = arguments;
    const send = window.fetch;
    window.held = [];
    window.fetch = (path, options = {}) => {
        const response = send(path, options);
        if (!`${options.method} ${path}`.includes(request)) return response;
        return new Promise((resolve, reject) => held.push(() => response.then(resolve, reject)));
    }";
pub(crate) const RELEASE: &str = "for (const release of held) release(); held.length = 0";

/// Fails requests as a lost network does, until it is restored.
pub(crate) const FAIL: &str = "window.restore = window.fetch; window.fetch = () => Promise.reject(new TypeError('no network'))";
pub(crate) const RESTORE: &str = "window.fetch = window.restore";

/// Leaves requests without a response until they time out, after a tenth of their time limit, so that the test is short.
pub(crate) const HANG: &str = "const limited = AbortSignal.timeout.bind(AbortSignal);
    AbortSignal.timeout = (milliseconds) => limited(milliseconds / 10);
    window.restore = window.fetch;
    window.fetch = (_, { signal }) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))";

impl Dashboard {
    pub(crate) fn run(&self, script: &str) -> Value {
        self.browser.run(script, json!([]))
    }

    pub(crate) fn hold(&self, request: &str) {
        self.browser.run(HOLD, json!([request]));
    }

    /// Releases what is held, once something is.
    pub(crate) fn release(&self) {
        eventually("a request is held", || {
            self.run("return held.length > 0") == true
        });
        self.run(RELEASE);
        // When a later request is done, what was held is too.
        self.run("return fetch('api/session').then(() => new Promise(requestAnimationFrame))");
    }

    fn operator(&self) -> Client {
        Client::new(self.server.admin, Some(TOKEN.into()))
    }

    /// Creates keys, and returns the secret of the last one.
    pub(crate) fn with_keys(&self, names: &[&str]) -> String {
        let mut secret = String::new();
        for name in names {
            let body = json!({"name": name, "plan": "free"});
            let request = self.operator();
            let created = request.request("POST", "/api/keys").json(&body).send();
            let created = created.json();
            secret = created["key"].as_str().expect("a secret").to_owned();
        }
        secret
    }

    fn contains(&self, text: &str) -> bool {
        let script = "return document.documentElement.outerHTML.includes(arguments[0])";
        self.browser.run(script, json!([text])) == true
    }
}

#[test]
fn a_dialog_stays_until_its_request_is_done_and_a_secret_until_it_is_closed() {
    let dashboard = Dashboard::logged_in();
    let browser = &dashboard.browser;
    dashboard.show("#keys");
    browser.wait_for("#keys-range", "of 1");
    browser.click("#create-key");
    browser.fill("#field-name", "shop");
    browser.press(&format!("{TAB}{TAB}soon{ENTER}"));
    browser.wait_for("#dialog .problem", "Expires");
    dashboard.run("document.querySelector('#field-expires').value = ''");

    dashboard.hold("POST api/keys");
    browser.click("#dialog-submit");
    eventually("the dialog is busy", || {
        dashboard.shows("#dialog[aria-busy=true] #dialog-submit:disabled")
    });
    browser.wait_for("#dialog-wait", "wait");
    for _ in 0..3 {
        browser.press(ESCAPE);
        dashboard.run("return new Promise(requestAnimationFrame).then(() => null)");
        assert!(dashboard.shows("#dialog #dialog-cancel:disabled"));
    }
    dashboard.release();
    let secret = browser.wait_for("#secret", "as_");
    browser.wait_for("#keys", "shop");
    assert_eq!(browser.text("#dialog .problem"), "");
    // Whoever wanted to cancel the request may press it once too often.
    for _ in 0..3 {
        browser.press(ESCAPE);
        dashboard.run("return new Promise(requestAnimationFrame).then(() => null)");
        assert_eq!(browser.text("#secret"), secret);
    }

    // The session ends, and what could never be shown again stays.
    dashboard.run("fetch('api/session', {method: 'DELETE'})");
    eventually("the session has ended", || dashboard.shows("#view-login"));
    browser.wait_for("#login .problem", "Your session has ended. Log in again.");
    assert_eq!(browser.text("#secret"), secret);
    browser.click("#dialog-cancel");
    eventually("the secret is gone", || !dashboard.contains(&secret));
    assert!(!dashboard.contains("shop"), "what the session has shown");
    dashboard.log_in(TOKEN);
    browser.wait_for("#keys", "shop");
}

#[test]
fn a_change_to_which_the_server_does_not_respond_can_be_left_or_waited_for() {
    let dashboard = Dashboard::logged_in();
    let browser = &dashboard.browser;
    dashboard.show("#keys");
    browser.wait_for("#keys-range", "of 1");
    // A tenth of the time limit, so that the test is short.
    dashboard.run("const set = setTimeout; window.setTimeout = (act, time) => set(act, time / 10)");
    dashboard.hold("POST api/keys");
    let create = |name: &str| {
        browser.click("#create-key");
        browser.fill("#field-name", name);
        browser.click("#dialog-submit");
        browser.wait_for(
            "#dialog .problem",
            "The server does not respond. Before you try again, see whether the change was made.",
        );
        assert!(dashboard.shows("#dialog-submit:disabled"));
        assert_eq!(browser.text("#dialog-wait"), "");
    };
    create("waited for");
    assert_eq!(
        dashboard.run("return document.activeElement.id"),
        "dialog-cancel"
    );
    dashboard.release();
    browser.wait_for("#secret", "as_");
    assert_eq!(browser.text("#dialog .problem"), "");
    browser.click("#dialog-cancel");

    create("left");
    browser.press(ESCAPE);
    eventually("the dialog is closed", || !dashboard.shows("#dialog"));
    browser.click("#create-key");
    dashboard.release();
    assert_eq!(browser.text("#dialog-title"), "Create a key");
    assert!(!dashboard.contains("as_"), "a secret that nobody sees");
    browser.click("#dialog-cancel");
    browser.wait_for("#keys", "left");
    dashboard.has_no_console_errors();
}

#[test]
fn only_the_key_that_was_read_can_be_changed() {
    let dashboard = Dashboard::logged_in();
    let browser = &dashboard.browser;
    dashboard.with_keys(&["two", "three"]);
    dashboard.show("#keys/9");
    browser.wait_for("#key-note", "There is no key with this ID.");
    assert!(!dashboard.shows("#view-key .actions"));
    assert!(dashboard.shows("#key-note a[href='#keys']"));
    dashboard.show("#keys/2");
    browser.wait_for("#key-title", "two");
    assert!(dashboard.shows("#key-revoke"));

    dashboard.hold("GET api/keys/3");
    dashboard.show("#keys/3");
    browser.wait_for("#key-note", "Loading");
    assert!(!dashboard.shows("#view-key .actions"));
    assert!(!browser.text("#view-key").contains("two"));
    dashboard.show("#keys/2");
    browser.wait_for("#key-title", "two");
    dashboard.release();
    assert_eq!(browser.text("#key-title"), "two (key 2)");
    dashboard.show("#keys/4");
    browser.wait_for("#key-note", "There is no key with this ID.");
    assert!(!dashboard.shows("#view-key .actions"));
    // It is created while its page is open.
    dashboard.with_keys(&["four"]);
    browser.wait_for("#key-title", "four");
    assert_eq!(browser.text("#key-note"), "");
    dashboard.has_no_console_errors();
}

#[test]
fn a_response_after_logging_out_does_not_show_the_dashboard_again() {
    let dashboard = Dashboard::logged_in();
    let browser = &dashboard.browser;
    dashboard.hold("GET api/overview");
    dashboard.run("begin()");
    eventually("the request is held", || {
        dashboard.run("return held.length > 0") == true
    });
    // It was sent later than what is held, so that has its response.
    dashboard.run("return fetch('api/session').then(() => null)");
    browser.click("#log-out");
    browser.wait_for("#view-login:not([hidden])", "Log in");
    dashboard.release();
    assert!(!dashboard.shows(".top nav") && dashboard.shows("#view-login"));
    dashboard.has_no_console_errors();
}

#[test]
fn a_rotation_replaces_only_the_secret_that_the_question_is_about() {
    let dashboard = Dashboard::logged_in();
    let browser = &dashboard.browser;
    dashboard.with_keys(&["shop"]);
    let operator = dashboard.operator();
    let rotate = |grace: &str| {
        let request = operator.request("POST", "/api/keys/2/rotate");
        let body = json!({"confirm": true, "grace": grace});
        let rotated = request.json(&body).send().json();
        rotated["key"].as_str().expect("a secret").to_owned()
    };
    dashboard.show("#keys/2");
    browser.click("#key-rotate");
    browser.wait_for("#dialog-body", "The old one works until");
    let newer = rotate("0s");
    browser.click("#dialog-submit");
    let problem = browser.wait_for("#dialog .problem", "Key 2 was rotated in the meantime");
    assert!(problem.contains("close this dialog first"), "{problem}");
    browser.wait_for("#key-details", &newer[..8]);
    browser.click("#dialog-cancel");

    rotate("24h");
    dashboard.show("#keys");
    dashboard.show("#keys/2");
    browser.wait_for("#key-details", "Old secret");
    browser.click("#key-rotate");
    browser.wait_for("#dialog-body", "rotated recently");
    let newer = rotate("24h");
    browser.click("#dialog-submit");
    browser.wait_for("#dialog .problem", "Key 2 was rotated recently");
    assert_eq!(dashboard.client(&newer).get("/v1/pets").status, 200);
    browser.wait_for("#key-details", &newer[..8]);
    browser.click("#dialog-cancel");
    browser.click("#key-rotate");
    browser.click("#dialog-submit");
    browser.wait_for("#secret", "as_");
}

#[test]
fn a_late_response_never_replaces_a_newer_one() {
    let dashboard = Dashboard::logged_in();
    let browser = &dashboard.browser;
    dashboard.with_keys(&["shop", "sister", "tiny"]);
    dashboard.show("#keys");
    browser.wait_for("#keys-range", "1 to 4 of 4");
    dashboard.hold("q=s");
    browser.fill("#keys-search", "s");
    eventually("the search is sent", || {
        dashboard.run("return held.length > 0") == true
    });
    browser.wait_for("#view-keys[aria-busy=true] #keys-range", "Loading");
    dashboard.run("document.querySelector('#keys-search').value = ''");
    browser.fill("#keys-search", "tiny");
    browser.wait_for("#keys-range", "1 to 1 of 1");
    dashboard.release();
    assert_eq!(browser.text("#keys a"), "tiny");
    assert_eq!(browser.text("#keys-range"), "1 to 1 of 1");
    dashboard.has_no_console_errors();
}

#[test]
fn a_page_that_could_not_be_read_is_read_by_the_next_try() {
    let dashboard = Dashboard::logged_in();
    let browser = &dashboard.browser;
    let names: Vec<String> = (0..119).map(|number| format!("client {number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    dashboard.with_keys(&names);
    dashboard.show("#keys");
    browser.wait_for("#keys-range", "1 to 50 of 120");
    browser.click("#keys-next");
    browser.wait_for("#keys-range", "51 to 100 of 120");
    browser.click("#keys-previous");
    browser.wait_for("#keys-range", "1 to 50 of 120");
    dashboard.run(FAIL);
    browser.click("#keys-next");
    browser.wait_for("#problem:not([hidden])", "The server does not respond.");
    // It is seen at the end of a long list, too.
    let position = "const {top, bottom} = document.querySelector('#problem').getBoundingClientRect(); \
                    return scrollY > 500 && top >= 0 && bottom <= innerHeight";
    assert_eq!(dashboard.run(position), true);
    assert_eq!(browser.text("#keys-range"), "1 to 50 of 120");
    dashboard.run(RESTORE);
    browser.click("#keys-next");
    browser.wait_for("#keys-range", "51 to 100 of 120");
    assert!(!dashboard.shows("#problem"));
    dashboard.has_no_console_errors();
}

#[test]
fn a_failure_is_shown_until_the_view_is_read_again_even_if_nobody_asks_for_that() {
    let dashboard = Dashboard::logged_in();
    dashboard.run(FAIL);
    dashboard.show("#keys");
    let problem = "#problem:not([hidden])";
    dashboard.browser.wait_for(problem, "does not respond");
    dashboard.run(RESTORE);
    dashboard.browser.wait_for("#keys", "first");
    eventually("the problem is hidden", || !dashboard.shows("#problem"));
    dashboard.has_no_console_errors();
}

#[test]
fn what_is_shown_is_read_again_and_keeps_the_focus_and_the_selection() {
    let dashboard = Dashboard::logged_in();
    let browser = &dashboard.browser;
    let client = dashboard.client(&dashboard.with_keys(&["shop"]));
    dashboard.show("#keys");
    browser.wait_for("#keys-range", "1 to 2 of 2");
    let select = "document.querySelector('#key-2 a').focus(); \
                  getSelection().selectAllChildren(document.querySelector('#key-2 bdi'))";
    dashboard.run(select);
    let is_kept = || {
        let script = "return [document.activeElement.hash, getSelection().toString()]";
        assert_eq!(dashboard.run(script), json!(["#keys/2", "shop"]));
    };
    client.get("/v1/pets");
    browser.wait_for("#key-2", "1 of 1,000");
    is_kept();
    // A row that moves keeps the focus too.
    browser.click("[data-sort=today]");
    browser.wait_for("#keys tr", "shop");
    dashboard.run("document.querySelector('#key-1 a').focus()");
    dashboard.run("keysView.go({ offset: 0, sort: 'id', order: 'asc' })");
    browser.wait_for("#keys tr", "first");
    assert_eq!(
        dashboard.run("return document.activeElement.hash"),
        "#keys/1"
    );

    dashboard.show("#keys/2");
    browser.wait_for("#key-details", "active");
    get_banned(&client);
    browser.wait_for("#key-live", "429");
    browser.wait_for("#key-details", "banned");
    browser.wait_for("#key-details", "Last ban");
    assert!(dashboard.shows("#key-unban"));

    // But not while a dialog is open.
    browser.click("#key-plan");
    let set = json!({"plan": "pro"});
    let operator = dashboard.operator();
    operator
        .request("POST", "/api/keys/2/plan")
        .json(&set)
        .send();
    std::thread::sleep(std::time::Duration::from_secs(7));
    assert!(browser.text("#key-details").contains("free"));
    browser.press(ESCAPE);
    browser.wait_for("#key-details", "pro");
    dashboard.has_no_console_errors();
}

#[test]
fn logging_out_that_fails_is_reported_and_then_leaves_nothing_behind() {
    let dashboard = Dashboard::logged_in();
    let browser = &dashboard.browser;
    dashboard.show("#keys");
    browser.wait_for("#keys", "first");
    dashboard.show("#now");
    browser.wait_for("#tiles", "Memory");
    browser.wait_for("#events", "logged in");
    dashboard.run(FAIL);
    browser.click("#log-out");
    browser.wait_for("#problem:not([hidden])", "you may still be logged in");
    assert!(dashboard.shows("#view-now"));
    dashboard.run(RESTORE);
    browser.click("#log-out");
    eventually("the session has ended", || dashboard.shows("#view-login"));
    dashboard.run("history.back()");
    dashboard.run("history.forward()");
    assert!(dashboard.shows("#view-login"));
    let left = "return ['tiles', 'plots', 'events', 'checks', 'counts', 'keys'].map(id => document.getElementById(id).textContent).join('')";
    assert_eq!(dashboard.run(left), "");
    assert_eq!(dashboard.run("return live.samples.length"), 0);
    assert_eq!(
        dashboard.run("return document.title"),
        "Log in – Animal Store"
    );
    dashboard.has_no_console_errors();
}
