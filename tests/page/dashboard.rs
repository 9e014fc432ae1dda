//! The dashboard in a real browser: logging in and out, curves that move, keys from their creation to their revocation, animals and
//! orders.

use std::path::Path;
use std::time::{Duration, Instant};

use harness::{Client, Process, run};
use serde_json::json;
use tempfile::TempDir;

use crate::browser::{Browser, DOWN, ENTER, ESCAPE};
use crate::cors::shop;
use crate::{PROGRAM, eventually};

pub(crate) const TOKEN: &str = "0123456789abcdef";

/// A server with a token, and a browser that shows its dashboard.
pub(crate) struct Dashboard {
    pub(crate) browser: Browser,
    pub(crate) server: Process,
    pub(crate) folder: TempDir,
}

impl Dashboard {
    pub(crate) fn open(options: &[&str]) -> Self {
        Self::open_in(options, Browser::start)
    }

    pub(crate) fn open_in(options: &[&str], start: impl FnOnce(&Path) -> Browser) -> Self {
        let folder = TempDir::new().expect("a folder");
        let server = Process::serve(PROGRAM, folder.path(), options);
        let dashboard = Self {
            browser: start(folder.path()),
            server,
            folder,
        };
        dashboard.browser.open(&dashboard.origin());
        dashboard
    }

    /// One that has logged in, by keyboard.
    pub(crate) fn logged_in() -> Self {
        let dashboard = Self::open(&["--admin-token", TOKEN]);
        dashboard.log_in(TOKEN);
        dashboard.browser.wait_for(".top nav [aria-current]", "Now");
        dashboard
    }

    pub(crate) fn origin(&self) -> String {
        format!("http://{}", self.server.admin)
    }

    pub(crate) fn log_in(&self, token: &str) {
        self.browser.wait_for("#login-title", "Log in");
        eventually("the field has the focus", || self.focus() == "token");
        self.browser.press(&format!("{token}{ENTER}"));
    }

    fn focus(&self) -> String {
        let focus = self
            .browser
            .run("return document.activeElement.id", json!([]));
        focus.as_str().unwrap_or_default().to_owned()
    }

    pub(crate) fn show(&self, view: &str) {
        self.browser
            .run("location.hash = arguments[0]", json!([view]));
    }

    /// Whether the element that the selector finds is visible.
    pub(crate) fn shows(&self, selector: &str) -> bool {
        let script = "return document.querySelector(arguments[0])?.checkVisibility() ?? false";
        self.browser.run(script, json!([selector])) == json!(true)
    }

    /// Creates a key in the page, and returns its secret.
    pub(crate) fn create_key(&self, name: &str) -> String {
        self.show("#keys");
        eventually("the keys are listed", || {
            !self.browser.text("#keys-range").is_empty()
        });
        self.browser.click("#create-key");
        self.browser.fill("#field-name", name);
        self.browser.press(ENTER);
        let secret = self.browser.wait_for("#secret", "as_");
        self.browser.click("#dialog-cancel");
        eventually("the secret is no longer in the page", || {
            let script = "return document.documentElement.outerHTML.includes(arguments[0])";
            self.browser.run(script, json!([secret])) == json!(false)
        });
        secret
    }

    /// Clicks a button of the key's page, and confirms.
    fn change_key(&self, button: &str) {
        self.browser.click(button);
        self.browser.click("#dialog-submit");
    }

    pub(crate) fn client(&self, key: &str) -> Client {
        Client::new(self.server.address, Some(key.to_owned()))
    }

    #[track_caller]
    pub(crate) fn has_no_console_errors(&self) {
        assert_eq!(self.browser.console_errors(), Vec::<String>::new());
    }
}

/// Sends requests with a key of plan free until it is banned. If a minute ends meanwhile, its rejections no longer count.
pub(crate) fn get_banned(client: &Client) {
    let is_banned = |_| client.get("/v1/pets").json()["code"] == "key_banned";
    assert!((0..400).any(is_banned));
}

/// Orders animal 1, is not allowed to set its status, and completes the order. `activate` activates a control, by mouse or by
/// keyboard; `focus_is_on` checks where the focus is afterwards.
pub(crate) fn sell_animal(browser: &Browser, activate: impl Fn(&str), focus_is_on: impl Fn(&str)) {
    let status = "[aria-label='Set status of animal 1']";
    activate("[aria-label='Place order for animal 1']");
    focus_is_on("#field-shipDate");
    browser.press(ENTER);
    browser.wait_for("#animal-1", "pending");
    focus_is_on(status);
    // What is rejected leaves the dialog open, and the focus in it.
    activate(status);
    focus_is_on("#field-status");
    browser.press(DOWN);
    activate("#dialog-submit");
    browser.wait_for("#dialog .problem", "order");
    focus_is_on("#dialog-submit");
    browser.press(ESCAPE);
    focus_is_on(status);

    activate("nav [href='#orders']");
    browser.wait_for("#orders", "open");
    activate("[aria-label='Complete order 1']");
    focus_is_on("#dialog-cancel");
    activate("#dialog-submit");
    browser.wait_for("#order-1", "complete");
    focus_is_on("#view-orders .scroll");
}

/// The largest value of a plotted line.
fn largest(dashboard: &Dashboard, plot: usize) -> f64 {
    let script = "return Math.max(...live.plots[arguments[0]].plot.data[1])";
    dashboard
        .browser
        .run(script, json!([plot]))
        .as_f64()
        .unwrap_or(0.0)
}

#[test]
fn an_operator_logs_in_sees_curves_move_and_logs_out() {
    let dashboard = Dashboard::open(&["--admin-token", TOKEN]);
    dashboard.browser.wait_for("#login-title", "Log in");
    dashboard.has_no_console_errors();
    dashboard.log_in("wrong");
    dashboard.browser.wait_for("#login .problem", "invalid");
    assert!(!dashboard.shows("#view-now"));
    dashboard
        .browser
        .run("document.querySelector('#token').value = ''", json!([]));
    dashboard.browser.console_errors();
    dashboard.log_in(TOKEN);
    dashboard.browser.wait_for(".top nav [aria-current]", "Now");
    let key = dashboard.create_key("load");
    dashboard.show("#now");
    let client = dashboard.client(&key);
    eventually("the curves move", || {
        for _ in 0..3 {
            assert!([200, 429].contains(&client.get("/v1/pets").status));
        }
        dashboard.shows("#plots canvas") && largest(&dashboard, 0) > 1.0
    });
    let plots = dashboard.browser.run(
        "return document.querySelectorAll('#plots canvas').length",
        json!([]),
    );
    assert!(plots.as_i64() >= Some(3), "{plots}");
    dashboard.browser.wait_for("#events", "key created");
    dashboard.browser.wait_for("#counts", "available");

    // The past is there at once after a reload.
    let before = largest(&dashboard, 0);
    dashboard.browser.open("about:blank");
    dashboard.browser.open(&dashboard.origin());
    eventually("the past is there", || {
        dashboard.shows("#plots canvas") && largest(&dashboard, 0) >= before
    });
    dashboard.browser.wait_for("#events", "logged in");
    dashboard.has_no_console_errors();

    dashboard.browser.click("#log-out");
    dashboard.browser.wait_for("#login-title", "Log in");
    eventually("the session has ended", || dashboard.shows("#view-login"));
    dashboard.browser.open("about:blank");
    dashboard.browser.open(&dashboard.origin());
    eventually("the token is required again", || {
        dashboard.shows("#view-login")
    });
    dashboard.has_no_console_errors();
}

#[test]
fn a_key_is_created_used_banned_unbanned_rotated_and_revoked() {
    let dashboard = Dashboard::logged_in();
    let browser = &dashboard.browser;
    let secret = dashboard.create_key("shop <b>1</b>");
    let client = dashboard.client(&secret);
    assert_eq!(client.get("/v1/pets").status, 200);
    browser.fill("#keys-search", "shop");
    browser.wait_for("#keys-range", "1 to 1 of 1");
    browser.wait_for("#keys", "shop <b>1</b>");
    browser.click("#keys a");
    browser.wait_for("#key-title", "shop <b>1</b>");
    get_banned(&client);
    // Recorded while the page is open.
    browser.wait_for("#key-live", "429");
    browser.wait_for("#key-details", "banned");
    browser.wait_for("#key-days", "Day (UTC)");
    dashboard.change_key("#key-unban");
    browser.wait_for("#key-details", "active");
    dashboard.change_key("#key-plan");
    browser.wait_for("#key-details", "free");
    // An invalid limit of a plan that is no longer selected does not matter.
    browser.click("#key-plan");
    let select = "const plan = document.querySelector('#field-plan'); plan.value = arguments[0]; plan.dispatchEvent(new Event('change'))";
    browser.run(select, json!(["enterprise"]));
    browser.fill("#field-perDay", "-");
    browser.run(select, json!(["pro"]));
    browser.click("#dialog-submit");
    browser.wait_for("#key-details", "pro");

    dashboard.change_key("#key-rotate");
    let rotated = browser.wait_for("#secret", "as_");
    browser.click("#dialog-cancel");
    assert_ne!(rotated, secret);
    let rotated = dashboard.client(&rotated);
    eventually("the new secret works", || {
        rotated.get("/v1/pets").status != 401
    });
    dashboard.change_key("#key-revoke");
    browser.wait_for("#key-details", "revoked");
    eventually("the key is revoked", || {
        rotated.get("/v1/pets").status == 401
    });
    dashboard.has_no_console_errors();
}

#[test]
fn animals_are_ordered_and_sold() {
    let dashboard = Dashboard::logged_in();
    let browser = &dashboard.browser;
    let client = dashboard.client(&dashboard.create_key("shop"));
    client.create_many(2);
    dashboard.show("#animals");
    browser.wait_for("#animals", "pet 2");
    sell_animal(browser, |control| browser.click(control), |_| {});
    dashboard.show("#animals");
    browser.wait_for("#animal-1", "sold");
    dashboard.has_no_console_errors();
}

#[test]
fn without_a_token_everything_is_shown_and_nothing_can_be_changed() {
    let dashboard = Dashboard::open(&["--no-first-key"]);
    let browser = &dashboard.browser;
    browser.wait_for("#read-only", "--admin-token-file");
    eventually("the plots are drawn", || dashboard.shows("#plots canvas"));
    for (view, command) in [("keys", "keys create"), ("orders", "orders place")] {
        dashboard.show(&format!("#{view}"));
        let advice = format!("one with animal-store {command}.");
        browser.wait_for(&format!("#{view}-range"), &advice);
    }
    let args = ["keys", "create", "--name", "shop", "--plan", "free"];
    run(PROGRAM, dashboard.folder.path(), &args).exits(0);
    dashboard.show("#keys/1");
    browser.wait_for("#key-title", "shop");
    for change in [
        "#key-revoke",
        "#key-rotate",
        "#key-plan",
        "#create-key",
        "#log-out",
    ] {
        assert!(!dashboard.shows(change), "{change}");
    }
    assert!(dashboard.shows("#read-only"));
    dashboard.has_no_console_errors();

    // An unknown key is reported, and nothing else.
    dashboard.show("#keys/9");
    browser.wait_for("#key-note", "There is no key with this ID.");
    dashboard.show("#now");
    browser.wait_for("#tiles", "Memory");
    dashboard.show("#keys/9");
    browser.wait_for("#key-note", "There is no key with this ID.");
    std::thread::sleep(Duration::from_secs(3));
    assert!(!dashboard.shows("#problem") && !dashboard.shows("#lost"));
}

#[test]
fn the_page_of_a_server_that_has_a_token_after_a_restart_asks_for_it_and_is_not_read_only() {
    let mut dashboard = Dashboard::open(&[]);
    let shown = "#read-only:not([hidden])";
    dashboard.browser.wait_for(shown, "--admin-token-file");
    let admin = dashboard.server.admin.to_string();
    dashboard.server.kill();
    let listen = ["serve", "--listen", "127.0.0.1:0", "--admin-listen", &admin];
    let args = [&listen[..], &["--admin-token", TOKEN]].concat();
    dashboard.server = Process::start(PROGRAM, dashboard.folder.path(), &args, &[]);
    let login = "#view-login:not([hidden])";
    dashboard.browser.wait_for(login, "The server now requires");
    assert!(!dashboard.shows("#read-only"));
}

#[test]
fn other_sites_cannot_use_a_session() {
    let dashboard = Dashboard::logged_in();
    let browser = &dashboard.browser;
    let path = format!("{}/api/keys/1/revoke", dashboard.origin());
    let form = "const form = document.createElement('form'); form.method = 'POST'; form.action = arguments[0]; \
                document.body.append(form); form.submit()";
    let fetch = "return fetch(arguments[0], {method: 'POST', credentials: 'include', mode: 'no-cors'}).then(() => 'sent')";
    // Ports of one host are one site: the cookie is sent, and the origin is rejected. To another site it is not sent.
    let neighbour = shop();
    let other_site = neighbour.replace("127.0.0.1", "localhost");
    for (origin, code) in [
        (neighbour, "forbidden"),
        (other_site, "missing_admin_token"),
    ] {
        browser.open(&origin);
        assert_eq!(browser.run(fetch, json!([path])), "sent", "{origin}");
        browser.run(form, json!([path]));
        // The browser shows the response.
        browser.wait_for("body", code);
    }
    let operator = Client::new(dashboard.server.admin, Some(TOKEN.into()));
    assert_eq!(operator.get("/api/keys/1").json()["state"], "active");
}

/// Writes pictures for the documentation.
#[test]
fn the_pictures_of_the_dashboard_can_be_made() {
    let dashboard = Dashboard::logged_in();
    let browser = &dashboard.browser;
    let operator = Client::new(dashboard.server.admin, Some(TOKEN.into()));
    let body =
        json!({"name": "Shelter", "plan": "enterprise", "perMinute": 100_000, "perDay": 1_000_000});
    let created = operator
        .request("POST", "/api/keys")
        .json(&body)
        .send()
        .json();
    let client = dashboard.client(created["key"].as_str().expect("a secret"));
    let until = Instant::now() + Duration::from_secs(if is_writing() { 60 } else { 2 });
    let mut round = 0_u32;
    while Instant::now() < until {
        round += 1;
        for _ in 0..round % 7 {
            client.create(&json!({"name": "Rex", "categoryId": 7}));
        }
        for _ in 0..20 + round % 23 {
            client.get("/v1/pets");
        }
        client.get("/v1/pets/0");
        if round.is_multiple_of(5) {
            client.with_key(None).get("/v1/pets");
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let pictures = tempfile::tempdir().expect("a folder");
    for (view, width, scheme, name) in [
        ("#now", 1280, "light", "dashboard-desktop"),
        ("#now", 390, "dark", "dashboard-phone"),
    ] {
        browser.set_viewport(width, 860, scheme);
        dashboard.show("#keys");
        browser.wait_for("#keys", "Shelter");
        dashboard.show(view);
        browser.wait_for("#tiles", "Memory");
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
        let folder = if is_writing() { &docs } else { pictures.path() };
        browser.screenshot(&folder.join(format!("{name}.png")));
    }
}

fn is_writing() -> bool {
    std::env::var_os("ANIMAL_STORE_TEST_WRITE").is_some()
}
