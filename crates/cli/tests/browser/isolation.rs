//! What the script of an instance can do to us and to another instance of the same person: nothing.

use serde_json::{Value, json};

use crate::driver::Browser;
use crate::fixture::Fixture;
use crate::gateway::PROGRAM;
use crate::page;
use crate::person::{Person, is_phase};
use crate::wait::eventually;

/// Two instances that one person has open: one of them is evil.
struct Two {
    stage: Fixture,
    browser: Browser,
    good: String,
    evil: String,
}

impl Two {
    async fn open() -> Option<Self> {
        let stage = Fixture::start().await?;
        let runs = json!({"command": ["/usr/bin/python3", "-u", "-c", PROGRAM]});
        let people = ["good", "evil"].map(|name| Person::new(name).environment("web", &runs));
        for person in &people {
            person.apply(&stage.objects).await;
        }
        let browser = stage.signed_in().await;
        let mut origins = Vec::new();
        for person in &people {
            stage.objects.until(&person.instance, "it is ready", is_phase("Ready")).await;
            browser.open(&stage.at(&person.access("web"))).await;
            assert_eq!(browser.run("return document.title").await, "The instance");
            let origin = browser.run("return location.origin").await;
            origins.push(origin.as_str().expect("an origin").to_owned());
        }
        let [good, evil] = <[String; 2]>::try_from(origins).expect("two");
        assert_ne!(good, evil);
        Some(Self { stage, browser, good, evil })
    }

    /// Runs a script in the evil instance's page, which is open.
    async fn attack(&self, script: &str) -> Value {
        assert_eq!(self.browser.run("return location.origin").await, self.evil);
        let script = script.replace("OURS", &self.stage.at("")).replace("GOOD", &self.good);
        self.browser.run(&script).await
    }

    /// Nothing that a script of the evil instance asked for came to the good one's program.
    async fn assert_nothing_came(&self) {
        self.browser.open(&format!("{}/seen", self.good)).await;
        let seen = self.browser.run("return JSON.parse(document.body.innerText)").await;
        let mut seen: Vec<String> = serde_json::from_value(seen).expect("a list");
        assert!(seen.contains(&"GET /".to_owned()), "what its person asked for came: {seen:?}");
        seen.retain(|one| one.contains("attack"));
        assert_eq!(seen, [""; 0]);
    }

    async fn back_to_evil(&self) {
        self.browser.open(&format!("{}/", self.evil)).await;
    }

    async fn assert_signed_in(&self) {
        // What was refused before is told there.
        self.browser.console().await;
        self.browser.open(&self.stage.at("/")).await;
        let front = page::ours(&self.browser).await;
        assert!(front.text.contains("You are signed in as"), "{front:?}");
    }
}

/// Says `read: …` for each address that can be read, or why not.
const FETCH: &str = "
    const said = [];
    for (const to of ['OURS/', 'OURS/go/lab/lab-good/good/web/', 'GOOD/attack-fetch']) {
        for (const method of ['GET', 'POST']) {
            for (const mode of ['cors', 'no-cors']) {
                try {
                    const answer = await fetch(to, {method, mode, credentials: 'include'});
                    const text = await answer.text();
                    said.push(answer.type === 'opaque' && text === '' ? 'opaque' : 'read: ' + text);
                } catch (error) { said.push(error.name); }
            }
        }
    }
    return said;";

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_reads_nothing_of_ours_or_of_another() {
    let Some(two) = Two::open().await else { return };
    let said = two.attack(&format!("return (async () => {{{FETCH}}})()")).await;
    let said: Vec<String> = serde_json::from_value(said).expect("a list");
    assert_eq!(said.len(), 12);
    assert!(said.iter().all(|one| one == "opaque" || one == "TypeError"), "{said:?}");

    let minted = "return fetch('OURS/open', {method: 'POST', credentials: 'include'})\
                  .then((answer) => answer.text(), (error) => error.name)";
    assert_eq!(two.attack(minted).await, "TypeError");

    // Frames and windows show nothing that can be looked into.
    let framed = "
        const looks = ['OURS/', 'GOOD/attack-frame'].map((to) => new Promise((done) => {
            const frame = document.createElement('iframe');
            frame.onload = () => {
                let seen = 'nothing';
                try { seen = frame.contentWindow.document.body.innerText; }
                catch (error) { seen = error.name; }
                done(frame.contentDocument === null ? 'closed ' + seen : 'open ' + seen);
            };
            frame.src = to;
            document.body.append(frame);
        }));
        return Promise.all(looks);";
    assert_eq!(two.attack(framed).await, json!(["closed SecurityError", "closed SecurityError"]));
    let opened = "
        window.windows = ['OURS/', 'GOOD/'].map((to) => window.open(to, '_blank', 'popup'));
        return window.windows.length;";
    assert_eq!(two.attack(opened).await, 2);
    let looked = eventually("both windows are elsewhere", async || {
        let looked = two
            .attack(
                "return window.windows.map((one) => {
                    try { return one.closed ? 'closed' : 'read ' + one.document.title; }
                    catch (error) { return error.name; }
                })",
            )
            .await;
        let away = |one: &Value| one == "closed" || one == "SecurityError";
        looked.as_array().expect("a list").iter().all(away).then_some(looked)
    })
    .await;
    assert_eq!(looked.as_array().map(Vec::len), Some(2));

    let socket = "
        return new Promise((done) => {
            const socket = new WebSocket('GOOD/attack-talk'.replace('http', 'ws'));
            socket.onopen = () => done('open');
            socket.onerror = () => done('refused');
        });";
    assert_eq!(two.attack(socket).await, "refused");

    two.assert_nothing_came().await;
    two.browser.close().await;
    two.stage.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_writes_nothing_of_ours_or_of_another() {
    let Some(two) = Two::open().await else { return };

    // Forms.
    for (to, heading) in [
        (two.stage.at("/open"), "Refused"),
        (two.stage.at("/sign-out"), "Refused"),
        (two.stage.at("/sign-out-everywhere"), "Refused"),
        (two.stage.at("/go/lab/lab-good/good/web/"), "Refused"),
        (format!("{}/attack-form", two.good), "Not let in"),
    ] {
        two.back_to_evil().await;
        let form = format!(
            "document.body.innerHTML = '<form method=post action=\"{to}\"><button>x</button></form>'"
        );
        two.attack(&form).await;
        two.browser.click("button").await;
        assert_eq!(page::ours(&two.browser).await.heading, heading, "{to}");
    }
    two.assert_signed_in().await;

    // Cookies for others.
    two.back_to_evil().await;
    let port = two.stage.port();
    let tossed = format!(
        "for (const domain of ['localhost', '.localhost', '127.0.0.1', location.hostname]) {{
            for (const name of ['sojourn-{port}', 'sojourn-entry-{port}', 'planted']) {{
                document.cookie = `${{name}}=evil; path=/; domain=${{domain}}`;
            }}
        }}
        return document.cookie;"
    );
    let own = two.attack(&tossed).await;
    assert!(own.as_str().is_some_and(|own| own.contains("planted=evil")), "its own: {own}");
    for to in [two.stage.at("/"), format!("{}/", two.good), format!("http://localhost:{port}/")] {
        two.browser.open(&to).await;
        let cookies = json!(two.browser.cookies().await).to_string();
        assert!(!cookies.contains("evil"), "{to}: {cookies}");
    }
    two.assert_signed_in().await;
    // And what it planted at its own origin neither keeps anybody out nor goes to its program.
    two.back_to_evil().await;
    let headers = two.browser.run("return document.querySelector('#headers').textContent").await;
    let headers = headers.as_str().expect("text").to_owned();
    assert!(headers.contains("planted=evil") && !headers.contains("sojourn-entry"), "{headers}");

    // Service workers.
    let registered = "
        const tries = ['/sw.js', 'GOOD/sw.js', 'OURS/sw.js'].map((script) =>
            navigator.serviceWorker.register(script).then(() => 'registered', (error) => error.name));
        return Promise.all(tries).then((said) =>
            navigator.serviceWorker.ready.then(() => said));";
    let said = two.attack(registered).await;
    assert_eq!(said, json!(["registered", "SecurityError", "SecurityError"]));
    two.back_to_evil().await;
    let worker = two.browser.run("return document.body.innerText").await;
    assert_eq!(worker, "from the worker", "at its own origin it is at home");
    two.assert_signed_in().await;
    two.browser.open(&format!("{}/", two.good)).await;
    assert_eq!(two.browser.run("return document.title").await, "The instance");

    two.assert_nothing_came().await;
    two.browser.close().await;
    two.stage.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn signing_out_closes_every_instance() {
    let Some(two) = Two::open().await else { return };
    // A second window signs out while the instance's is open.
    two.back_to_evil().await;
    let shown = eventually("it talks", async || {
        two.browser.run("return window.echo").await.as_str().map(str::to_owned)
    });
    assert_eq!(shown.await, "echo of hello");
    two.attack("socket.onclose = () => { window.ended = true; }").await;
    let window = two.browser.window().await;
    let other = two.browser.new_window().await;
    two.browser.switch_to(&other).await;
    two.browser.open(&two.stage.at("/")).await;
    two.browser.click("form[action='/sign-out-everywhere'] button").await;
    let heading = two.browser.run("return document.querySelector('h1').innerText").await;
    assert_eq!(heading, "Signed out");
    two.browser.switch_to(&window).await;
    eventually("the WebSocket ends", async || {
        (two.browser.run("return window.ended").await == true).then_some(())
    })
    .await;
    let fetched = two.attack("return fetch('/').then((answer) => answer.status)").await;
    assert_eq!(fetched, 401);
    two.browser.console().await;
    two.browser.open(&format!("{}/", two.good)).await;
    let page = page::ours(&two.browser).await;
    assert_eq!(page.heading, "Not signed in");
    assert_eq!(page.address, two.stage.at("/go/lab/lab-good/good/web/"), "at our origin");
    two.browser.close().await;
    two.stage.stop();
}
