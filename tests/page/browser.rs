//! Chromium, headless, driven through chromedriver's HTTP interface.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use harness::{Connection, eventually};
use serde_json::{Value, json};

use crate::TIMEOUT;

pub(crate) struct Browser {
    driver: Child,
    address: SocketAddr,
    session: String,
}

impl Browser {
    /// A new browser with nothing in its memory.
    pub(crate) fn start(folder: &Path) -> Self {
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("run this through ./test page, which installs chromedriver");
        let lines = BufReader::new(driver.stdout.take().expect("a pipe"))
            .lines()
            .map_while(Result::ok);
        let port = |line: String| {
            line.strip_prefix("ChromeDriver was started successfully on port ")?
                .strip_suffix('.')?
                .parse()
                .ok()
        };
        let port: u16 = lines.into_iter().find_map(port).expect("a port");
        let mut browser = Self {
            driver,
            address: ([127, 0, 0, 1], port).into(),
            session: String::new(),
        };
        let profile = format!("--user-data-dir={}", folder.join("browser").display());
        let options = json!({
            "args": [
                "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
                "--disable-background-networking", "--disable-component-update", "--window-size=1200,2400", profile
            ]
        });
        let capabilities =
            json!({"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}});
        let session = browser.ask(
            "POST",
            "/session",
            &json!({"capabilities": {"alwaysMatch": capabilities}}),
        );
        browser.session = format!(
            "/session/{}",
            session["sessionId"].as_str().expect("a session")
        );
        browser
    }

    pub(crate) fn open(&self, url: &str) {
        self.ask(
            "POST",
            &format!("{}/url", self.session),
            &json!({"url": url}),
        );
    }

    /// Runs a script in the page.
    pub(crate) fn run(&self, script: &str, args: Value) -> Value {
        self.ask(
            "POST",
            &format!("{}/execute/sync", self.session),
            &json!({"script": script, "args": args}),
        )
    }

    /// Clicks what the selector finds, once it is there.
    pub(crate) fn click(&self, selector: &str) {
        let script =
            "const found = document.querySelector(arguments[0]); found?.click(); return !!found";
        self.wait(selector, script, json!([selector]));
    }

    /// Types a value into a field, as React notices it.
    pub(crate) fn fill(&self, selector: &str, value: &str) {
        let script = "const field = document.querySelector(arguments[0]); if (!field) return false; \
                      Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set.call(field, arguments[1]); \
                      field.dispatchEvent(new Event('input', {bubbles: true})); return true";
        self.wait(selector, script, json!([selector, value]));
    }

    /// The text of what the selector finds; empty if there is none.
    pub(crate) fn text(&self, selector: &str) -> String {
        let script =
            "return document.querySelector(arguments[0])?.firstChild?.textContent?.trim() ?? ''";
        self.run(script, json!([selector]))
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// What the page wrote to its console, violations of its policy among it.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let log = self.ask(
            "POST",
            &format!("{}/se/log", self.session),
            &json!({"type": "browser"}),
        );
        log.as_array()
            .expect("a list")
            .iter()
            .map(|entry| entry["message"].to_string())
            .collect()
    }

    /// Writes a picture of the page to where ANIMAL_STORE_SCREENSHOT says, for people who want to look.
    pub(crate) fn screenshot(&self) {
        if let Ok(path) = std::env::var("ANIMAL_STORE_SCREENSHOT") {
            let picture = self.ask("GET", &format!("{}/screenshot", self.session), &json!({}));
            std::fs::write(path, picture.as_str().expect("base64")).expect("a file");
        }
    }

    fn wait(&self, what: &str, script: &str, args: Value) {
        eventually(TIMEOUT, what, || self.run(script, args.clone()) == true);
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = if method == "GET" {
            String::new()
        } else {
            body.to_string()
        };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\n\r\n",
            self.address,
            body.len()
        );
        let mut connection = Connection::new(self.address);
        connection.send((head + &body).as_bytes());
        let response = connection.response();
        assert_eq!(response.status, 200, "{method} {path}: {response}");
        response.json()["value"].clone()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.ask("DELETE", &self.session, &json!({}));
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
