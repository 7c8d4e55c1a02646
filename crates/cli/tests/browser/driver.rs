//! A browser, driven as the W3C's WebDriver says: JSON over HTTP to ChromeDriver.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use reqwest::Client;
use serde_json::{Value, json};

use crate::folder::Folder;
use crate::process::Running;
use crate::survivors::Reaper;
use crate::tool::free_port;
use crate::wait::{EVENTUALLY_TIMEOUT, eventually};

const CHROMIUM: &str = "/usr/bin/chromium";
const CHROMEDRIVER: &str = "/usr/bin/chromedriver";
/// The key under which WebDriver names an element of a page.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";
/// A small phone.
const WIDTH: u32 = 360;
const HEIGHT: u32 = 640;

/// ChromeDriver, which starts browsers.
#[derive(Debug)]
pub(crate) struct Driver {
    client: Client,
    address: String,
    _running: Running,
}

impl Driver {
    /// Nothing where there is no Chromium, unless it is required.
    pub(crate) async fn start() -> Option<Arc<Self>> {
        let missing = [CHROMIUM, CHROMEDRIVER].into_iter().find(|path| !Path::new(path).exists());
        if let Some(missing) = missing {
            let required = std::env::var("SOJOURN_REQUIRE_BROWSER").is_ok_and(|value| value == "1");
            assert!(!required, "{missing} is not there");
            println!("skipped: {missing} is not there (cargo xtask browser)");
            return None;
        }
        let port = free_port();
        let mut command = Command::new(CHROMEDRIVER);
        command.arg(format!("--port={port}"));
        let running = Running::start(command);
        // Nothing here speaks TLS, but the client wants to know how it would.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client =
            Client::builder().no_proxy().timeout(EVENTUALLY_TIMEOUT).build().expect("a client");
        let address = format!("http://127.0.0.1:{port}");
        let driver = Arc::new(Self { client, address, _running: running });
        eventually("ChromeDriver is ready", async || {
            let status = driver.command(Method::GET, "/status", &Value::Null).await.ok()?;
            (status["ready"] == true).then_some(())
        })
        .await;
        Some(driver)
    }

    /// A browser that has never been anywhere.
    pub(crate) async fn browser(self: &Arc<Self>) -> Browser {
        let profile = Folder::new();
        let arguments = [
            "--headless=new".to_owned(),
            // It visits our own pages only, and root has no sandbox.
            "--no-sandbox".to_owned(),
            "--disable-gpu".to_owned(),
            "--disable-dev-shm-usage".to_owned(),
            "--no-first-run".to_owned(),
            format!("--user-data-dir={}", profile.path().display()),
        ];
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": {"binary": CHROMIUM, "args": arguments},
            "goog:loggingPrefs": {"browser": "ALL"},
        }}});
        let made = self.command(Method::POST, "/session", &wanted).await;
        let made = made.unwrap_or_else(|problem| panic!("no browser: {problem}"));
        let session = format!("/session/{}", made["sessionId"].as_str().expect("an id"));
        let reaper = Reaper::of(profile.path());
        let driver = self.clone();
        let browser = Browser { driver, session, _reaper: reaper, _profile: profile };
        let phone = json!({
            "width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": true,
        });
        browser.devtools("Emulation.setDeviceMetricsOverride", &phone).await;
        browser
    }

    async fn command(&self, method: Method, path: &str, body: &Value) -> Result<Value, String> {
        let mut request = self.client.request(method.clone(), format!("{}{path}", self.address));
        if method == Method::POST {
            request = request.json(body);
        }
        let answer = request.send().await.map_err(|error| format!("{error:?}"))?;
        let good = answer.status().is_success();
        let mut said: Value = answer.json().await.map_err(|error| format!("{error:?}"))?;
        let value = said["value"].take();
        if good { Ok(value) } else { Err(format!("{}: {}", value["error"], value["message"])) }
    }
}

/// One browser with one window.
#[derive(Debug)]
pub(crate) struct Browser {
    driver: Arc<Driver>,
    session: String,
    /// Ends the browser where a test fails before it is closed.
    _reaper: Reaper,
    _profile: Folder,
}

impl Browser {
    async fn try_post(&self, path: &str, body: &Value) -> Result<Value, String> {
        self.driver.command(Method::POST, &format!("{}{path}", self.session), body).await
    }

    async fn post(&self, path: &str, body: &Value) -> Value {
        self.try_post(path, body).await.unwrap_or_else(|problem| panic!("{path}: {problem}"))
    }

    async fn get(&self, path: &str) -> Value {
        let path = format!("{}{path}", self.session);
        let got = self.driver.command(Method::GET, &path, &Value::Null).await;
        got.unwrap_or_else(|problem| panic!("{path}: {problem}"))
    }

    async fn devtools(&self, command: &str, params: &Value) -> Value {
        self.post("/goog/cdp/execute", &json!({"cmd": command, "params": params})).await
    }

    /// Opens a page, as somebody who typed its address.
    pub(crate) async fn open(&self, address: &str) {
        self.post("/url", &json!({"url": address})).await;
    }

    pub(crate) async fn back(&self) {
        self.post("/back", &json!({})).await;
    }

    /// What a function body returns in the page; nothing while the page is being replaced.
    pub(crate) async fn try_run(&self, script: &str) -> Option<Value> {
        self.try_post("/execute/sync", &json!({"script": script, "args": []})).await.ok()
    }

    pub(crate) async fn run(&self, script: &str) -> Value {
        self.post("/execute/sync", &json!({"script": script, "args": []})).await
    }

    /// Clicks on the one element that the selector names, and waits until another page is there.
    pub(crate) async fn click(&self, selector: &str) {
        let found = json!({"using": "css selector", "value": selector});
        let found = self.post("/elements", &found).await;
        let [element] = found.as_array().expect("a list").as_slice() else {
            panic!("not one {selector}: {found}");
        };
        let element = element[ELEMENT].as_str().expect("an element").to_owned();
        self.run("window.left = false").await;
        self.post(&format!("/element/{element}/click"), &json!({})).await;
        eventually(&format!("{selector} led somewhere"), async || {
            let there = self.try_run("return window.left === undefined && document.readyState");
            (there.await? == "complete").then_some(())
        })
        .await;
    }

    /// The window that is in front.
    pub(crate) async fn window(&self) -> String {
        self.get("/window").await.as_str().expect("a handle").to_owned()
    }

    /// One more, behind the others.
    pub(crate) async fn new_window(&self) -> String {
        let made = self.post("/window/new", &json!({"type": "tab"})).await;
        made["handle"].as_str().expect("a handle").to_owned()
    }

    pub(crate) async fn switch_to(&self, window: &str) {
        self.post("/window", &json!({"handle": window})).await;
    }

    pub(crate) async fn cookies(&self) -> Vec<Value> {
        self.get("/cookie").await.as_array().expect("a list").clone()
    }

    /// What the console shows since it was last asked.
    pub(crate) async fn console(&self) -> Vec<Value> {
        let log = self.post("/se/log", &json!({"type": "browser"})).await;
        log.as_array().expect("a list").clone()
    }

    /// A picture of the window, as PNG.
    pub(crate) async fn picture(&self) -> Vec<u8> {
        let shot = self.get("/screenshot").await;
        STANDARD.decode(shot.as_str().expect("text")).expect("base64")
    }

    pub(crate) async fn close(self) {
        let _ = self.driver.command(Method::DELETE, &self.session, &Value::Null).await;
    }
}
