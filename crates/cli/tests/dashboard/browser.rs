//! A browser: Chromium without a window, driven by the WebDriver protocol (W3C) of Debian's `chromedriver`.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use io::{Clock, Namespace, SpawnOptions};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::network::PATIENCE;

const SIGKILL: i32 = 9;

/// A browser with one page.
pub struct Browser {
    driver: Child,
    namespace: Namespace,
    session: String,
    profile: TempDir,
}

const PORT: u16 = 9515;

impl Browser {
    /// Starts one in a namespace, which needs `lo` to be up, with a window of that many pixels. Certificates that nobody
    /// vouches for are taken.
    pub fn start(namespace: &Namespace, (width, height): (u32, u32), is_dark: bool) -> Self {
        let profile = tempfile::tempdir().unwrap();
        let mut command = Command::new("chromedriver");
        command.arg(format!("--port={PORT}")).arg("--allowed-ips=127.0.0.1");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let options = SpawnOptions { death_signal: Some(SIGKILL), own_process_group: true };
        let driver = namespace.spawn(command, options);
        let driver = driver.unwrap_or_else(|error| panic!("chromedriver is needed: make chromium ({error})"));
        let namespace = Namespace::open(namespace.name()).unwrap();
        let mut browser = Self { driver, namespace, session: String::new(), profile };
        let mut arguments = vec![
            "--headless=new".to_owned(),
            "--no-sandbox".to_owned(),
            "--disable-gpu".to_owned(),
            "--disable-dev-shm-usage".to_owned(),
            "--hide-scrollbars".to_owned(),
            format!("--window-size={width},{height}"),
            format!("--user-data-dir={}", browser.profile.path().display()),
        ];
        if is_dark {
            arguments.push("--blink-settings=preferredColorScheme=0".to_owned());
        }
        let capabilities = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "acceptInsecureCerts": true,
            "goog:chromeOptions": { "args": arguments, "binary": "/usr/bin/chromium" },
            "goog:loggingPrefs": { "browser": "ALL" },
        } } });
        let give_up = Clock::now() + units::Duration::from_secs(PATIENCE.as_secs());
        let begun = loop {
            // The driver needs a moment until it listens.
            match browser.try_call("POST", "/session", &capabilities) {
                Some(value) => break value,
                None => assert!(Clock::now() < give_up, "chromedriver does not listen"),
            }
            thread::park_timeout(Duration::from_millis(100));
        };
        browser.session =
            begun["sessionId"].as_str().unwrap_or_else(|| panic!("no session: {begun}")).to_owned();
        // The size of the page itself, below what a window with a frame allows.
        browser.devtools(
            "Emulation.setDeviceMetricsOverride",
            &json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500 }),
        );
        if is_dark {
            let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": "dark" }] });
            browser.devtools("Emulation.setEmulatedMedia", &features);
        }
        browser
    }

    /// A request to the driver; none while it does not listen.
    fn try_call(&self, method: &str, path: &str, body: &Value) -> Option<Value> {
        let mut stream = self.namespace.run(|| TcpStream::connect(("127.0.0.1", PORT))).unwrap().ok()?;
        stream.set_read_timeout(Some(PATIENCE * 2)).unwrap();
        let body = if method == "POST" { body.to_string() } else { String::new() };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{PORT}\r\nContent-Type: application/json\r\n\
             Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = Vec::new();
        // It may keep the connection although it was asked not to: the length says where the answer ends.
        let mut block = [0; 65_536];
        loop {
            let text = String::from_utf8_lossy(&answer).into_owned();
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let lower = head.to_ascii_lowercase();
                let len = lower.lines().find_map(|line| line.strip_prefix("content-length:"));
                if len.is_some_and(|len| body.len() >= len.trim().parse().unwrap()) {
                    let value: Value = serde_json::from_str(body).unwrap();
                    return Some(value["value"].clone());
                }
            }
            let got = stream.read(&mut block).unwrap();
            assert!(got > 0, "the driver hangs up: {text}");
            answer.extend(&block[..got]);
        }
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let path = format!("/session/{}{path}", self.session);
        let value = self.try_call(method, &path, body).expect("the driver listens");
        assert!(value["error"].is_null(), "{method} {path}: {value}");
        value
    }

    fn devtools(&self, command: &str, parameters: &Value) {
        self.call("POST", "/goog/cdp/execute", &json!({ "cmd": command, "params": parameters }));
    }

    pub fn open(&self, address: &str) {
        self.call("POST", "/url", &json!({ "url": address }));
    }

    /// What a function's body returns in the page.
    pub fn run(&self, script: &str) -> Value {
        self.call("POST", "/execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// Waits until an expression is true in the page.
    pub fn wait_for(&self, what: &str, expression: &str) {
        let give_up = Clock::now() + units::Duration::from_secs(PATIENCE.as_secs());
        while self.run(&format!("return Boolean({expression})")) != true {
            if Clock::now() >= give_up {
                let text = self.text("body");
                panic!("it never came about that {what}: {text}\n{:#?}", self.messages());
            }
            thread::park_timeout(Duration::from_millis(100));
        }
    }

    /// What a user sees of an element.
    pub fn text(&self, selector: &str) -> String {
        let text = self.run(&format!("return document.querySelector({})?.innerText ?? ''", json!(selector)));
        text.as_str().unwrap().to_owned()
    }

    fn element(&self, selector: &str) -> String {
        let found = self.call("POST", "/element", &json!({ "using": "css selector", "value": selector }));
        found.as_object().unwrap().values().next().unwrap().as_str().unwrap().to_owned()
    }

    /// Clicks as a user does: the element must be seen.
    pub fn click(&self, selector: &str) {
        let element = self.element(selector);
        self.call("POST", &format!("/element/{element}/click"), &json!({}));
    }

    /// Types into an element.
    pub fn type_into(&self, selector: &str, text: &str) {
        let element = self.element(selector);
        self.call("POST", &format!("/element/{element}/value"), &json!({ "text": text }));
    }

    /// Presses keys, whatever has the focus: WebDriver's code points for those without letters.
    pub fn press(&self, keys: &str) {
        let actions: Vec<Value> = keys
            .chars()
            .flat_map(|key| {
                ["keyDown", "keyUp"].map(|kind| json!({ "type": kind, "value": key.to_string() }))
            })
            .collect();
        self.call(
            "POST",
            "/actions",
            &json!({ "actions": [{ "type": "key", "id": "keys", "actions": actions }] }),
        );
    }

    pub fn cookies(&self) -> Value {
        self.call("GET", "/cookie", &Value::Null)
    }

    /// What the page and the browser have complained of: refused scripts and styles among it.
    pub fn messages(&self) -> Vec<String> {
        let log = self.call("POST", "/se/log", &json!({ "type": "browser" }));
        let entries = log.as_array().unwrap().iter();
        entries.map(|entry| entry["message"].as_str().unwrap().to_owned()).collect()
    }

    /// The page must fit its window, and have no word that is cut.
    pub fn assert_fits(&self) {
        let wide = self.run(
            "const over = [...document.querySelectorAll('body *')].filter((node) => node.offsetWidth && \
             node.getBoundingClientRect().right > innerWidth + 1).map((node) => node.tagName + '.' + node.className + \
             ' ' + node.textContent.slice(0, 30)); return [document.documentElement.scrollWidth, innerWidth, over]",
        );
        assert!(wide[0].as_u64() <= wide[1].as_u64() && wide[2] == json!([]), "it is too wide: {wide}");
    }

    /// A picture of the window, if a folder for pictures is named (CELLERATOR_PICTURES).
    pub fn picture(&self, name: &str) {
        let Some(folder) = std::env::var_os("CELLERATOR_PICTURES").map(PathBuf::from) else { return };
        let coded = self.call("GET", "/screenshot", &Value::Null);
        let png = STANDARD.decode(coded.as_str().unwrap()).unwrap();
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(format!("{name}.png")), png).unwrap();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            drop(self.try_call("DELETE", &format!("/session/{}", self.session), &Value::Null));
        }
        drop(self.driver.kill());
        drop(self.driver.wait());
    }
}
