//! Chromium, headless, driven through chromedriver's HTTP interface.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use harness::Connection;
use serde_json::{Value, json};

use crate::{TIMEOUT, eventually};

pub(crate) struct Browser {
    driver: Child,
    address: SocketAddr,
    session: String,
}

/// Keys that are not characters, in the notation of WebDriver.
pub(crate) const TAB: &str = "\u{e004}";
pub(crate) const ENTER: &str = "\u{e007}";
pub(crate) const ESCAPE: &str = "\u{e00c}";
pub(crate) const RIGHT: &str = "\u{e014}";
pub(crate) const UP: &str = "\u{e013}";
pub(crate) const DOWN: &str = "\u{e015}";
pub(crate) const SPACE: &str = " ";

/// Starts the driver. Returns it with its port, or nothing if it exits instead.
fn start_driver() -> Option<(Child, u16)> {
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
    match lines.into_iter().find_map(port) {
        Some(port) => Some((driver, port)),
        None => {
            driver.wait().expect("an end");
            None
        }
    }
}

impl Browser {
    /// A new browser with an empty profile. It is Chromium's headless shell: the same engine without the windows of the browser,
    /// and without its preferences. It starts in a fifth of the processor time.
    pub(crate) fn start(folder: &Path) -> Self {
        // The driver expects a browser that has a page.
        let shell = folder.join("chromium");
        let script = "#!/bin/sh\nexec chromium-headless-shell \"$@\" about:blank\n";
        fs::write(&shell, script).expect("a file");
        let executable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(&shell, executable).expect("a file of this test");
        let browser = Self::start_with(folder, json!({"binary": shell}));
        // Where Chromium would allow it after a click, the shell denies it.
        let clipboard = json!({"permissions": ["clipboardSanitizedWrite"]});
        browser.devtools("Browser.grantPermissions", clipboard);
        browser
    }

    /// A browser with JavaScript disabled.
    pub(crate) fn start_without_scripts(folder: &Path) -> Self {
        let preferences = json!({"profile.managed_default_content_settings.javascript": 2});
        Self::start_with(folder, json!({"prefs": preferences}))
    }

    /// A browser that stores no cookies.
    pub(crate) fn start_without_cookies(folder: &Path) -> Self {
        let preferences = json!({"profile.default_content_setting_values.cookies": 2});
        Self::start_with(folder, json!({"prefs": preferences}))
    }

    fn start_with(folder: &Path, mut options: Value) -> Self {
        // It exits if another process takes the port that it has chosen.
        let started = (0..3).find_map(|_| start_driver());
        let (driver, port) = started.expect("a port");
        let mut browser = Self {
            driver,
            address: ([127, 0, 0, 1], port).into(),
            session: String::new(),
        };
        let profile = format!("--user-data-dir={}", folder.join("browser").display());
        options["args"] = json!([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-sync",
            "--disable-background-networking",
            "--disable-component-update",
            "--window-size=1440,1000",
            profile
        ]);
        let capabilities =
            json!({"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}});
        let session = browser.request(
            "POST",
            "/session",
            &json!({"capabilities": {"alwaysMatch": capabilities}}),
        );
        browser.session = format!(
            "/session/{}",
            session["sessionId"].as_str().expect("a session")
        );
        let longest = u64::try_from(TIMEOUT.as_millis()).expect("a number");
        browser.post("/timeouts", &json!({ "pageLoad": longest }));
        browser
    }

    pub(crate) fn open(&self, url: &str) {
        self.post("/url", &json!({"url": url}));
    }

    /// The tab that is driven.
    pub(crate) fn tab(&self) -> Value {
        self.request("GET", &format!("{}/window", self.session), &json!({}))
    }

    /// Opens another tab, and drives it from now on.
    pub(crate) fn open_tab(&self) -> Value {
        let tab = self.post("/window/new", &json!({"type": "tab"}))["handle"].clone();
        self.show_tab(&tab);
        tab
    }

    /// Drives this tab from now on.
    pub(crate) fn show_tab(&self, tab: &Value) {
        self.post("/window", &json!({ "handle": tab }));
    }

    /// Runs a script in the page.
    pub(crate) fn run(&self, script: &str, args: Value) -> Value {
        self.post("/execute/sync", &json!({"script": script, "args": args}))
    }

    /// Clicks in the middle of what the selector finds, as a mouse does.
    pub(crate) fn click(&self, selector: &str) {
        // The header would cover what is at the edge.
        let script = "document.querySelector(arguments[0]).scrollIntoView({block: 'center'})";
        self.run(script, json!([selector]));
        let found = self.post(
            "/element",
            &json!({"using": "css selector", "value": selector}),
        );
        let id = found
            .as_object()
            .and_then(|element| element.values().next()?.as_str())
            .expect("an element");
        self.post(&format!("/element/{id}/click"), &json!({}));
    }

    /// Presses keys, one after the other, wherever the focus is.
    pub(crate) fn press(&self, keys: &str) {
        let strokes = keys.chars().flat_map(|key| {
            ["keyDown", "keyUp"].map(|kind| json!({"type": kind, "value": key.to_string()}))
        });
        let strokes: Vec<Value> = strokes.collect();
        let actions = json!([{"type": "key", "id": "keyboard", "actions": strokes}]);
        self.post("/actions", &json!({ "actions": actions }));
    }

    /// Clicks into a field and types.
    pub(crate) fn fill(&self, selector: &str, text: &str) {
        self.click(selector);
        self.press(text);
    }

    /// The text of what the selector finds; empty if there is none.
    pub(crate) fn text(&self, selector: &str) -> String {
        let script = "return document.querySelector(arguments[0])?.textContent.trim() ?? ''";
        let text = self.run(script, json!([selector]));
        text.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until what the selector finds contains a text, and returns all of its text.
    pub(crate) fn wait_for(&self, selector: &str, text: &str) -> String {
        let mut seen = String::new();
        eventually(&format!("{text} in {selector}"), || {
            seen = self.text(selector);
            seen.contains(text)
        });
        seen
    }

    /// Sends a command of the DevTools protocol.
    pub(crate) fn devtools(&self, command: &str, parameters: Value) {
        let body = json!({"cmd": command, "params": parameters});
        self.post("/goog/cdp/execute", &body);
    }

    /// Sets the size of the viewport, and the light or dark color scheme.
    pub(crate) fn set_viewport(&self, width: u32, height: u32, scheme: &str) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500});
        self.devtools("Emulation.setDeviceMetricsOverride", size);
        let scheme = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.devtools("Emulation.setEmulatedMedia", scheme);
    }

    /// What the page wrote to its console, including violations of its policy. A response with a status of 400 or more is not an
    /// error of the page.
    pub(crate) fn console_errors(&self) -> Vec<String> {
        let log = self.post("/se/log", &json!({"type": "browser"}));
        let entries = log.as_array().expect("a list").iter();
        let messages = entries.map(|entry| entry["message"].to_string());
        messages
            .filter(|message| !message.contains("the server responded with a status of 4"))
            .collect()
    }

    /// Writes a screenshot of the page.
    pub(crate) fn screenshot(&self, path: &Path) {
        let screenshot = self.request("GET", &format!("{}/screenshot", self.session), &json!({}));
        let mut decoder = Command::new("base64")
            .arg("-d")
            .stdin(Stdio::piped())
            .stdout(fs::File::create(path).expect("a file"))
            .spawn()
            .expect("base64");
        let screenshot = screenshot.as_str().expect("base64").as_bytes();
        let mut input = decoder.stdin.take().expect("a pipe");
        input.write_all(screenshot).expect("all of it");
        drop(input);
        assert!(decoder.wait().expect("base64").success());
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        self.request("POST", &format!("{}{path}", self.session), body)
    }

    fn request(&self, method: &str, path: &str, body: &Value) -> Value {
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
    /// Closes the browser too, which the driver would leave running. This runs after a failure as well, so nothing here may panic.
    fn drop(&mut self) {
        let (session, address) = (&self.session, self.address);
        let head =
            format!("DELETE {session} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        if !session.is_empty()
            && let Ok(mut driver) = TcpStream::connect(address)
        {
            let _ = driver.set_read_timeout(Some(TIMEOUT));
            let _ = driver.write_all(head.as_bytes());
            // It responds when the browser has exited.
            let _ = driver.read(&mut [0; 1]);
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

#[test]
fn a_failed_test_leaves_no_browser_behind() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let path = folder.path().to_owned();
    let test = std::thread::spawn(move || {
        let browser = Browser::start(&path);
        browser.run("throw new Error('as in a test that fails')", json!([]));
    });
    assert!(test.join().is_err());
    let profile = folder.path().join("browser").display().to_string();
    let is_left = |process: fs::DirEntry| {
        let command = fs::read(process.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&command).contains(&profile)
    };
    // Its helper processes may exit a moment later.
    harness::eventually(Duration::from_secs(5), "no browser", || {
        let mut processes = fs::read_dir("/proc").expect("processes").flatten();
        !processes.any(is_left)
    });
}
