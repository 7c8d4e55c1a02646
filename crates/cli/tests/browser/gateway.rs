//! An instance behind the gateway: it is woken by a visit, and the page becomes the instance.

use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;

use crate::fixture::{Fixture, OUTSIDE};
use crate::page;
use crate::person::{Person, is_phase};
use crate::wait::{EVENTUALLY_TIMEOUT, eventually};

/// What the instance runs: a page that shows which headers it was asked with, and talks over a
/// WebSocket. It serves once the gate is opened.
pub(crate) const PROGRAM: &str = include_str!("program.py");

/// Keeps an instance from starting until it is let go on.
struct Gate(TcpListener);

impl Gate {
    async fn closed() -> Self {
        let any = SocketAddr::from((OUTSIDE, 0));
        Self(TcpListener::bind(any).await.expect("a free port"))
    }

    fn port(&self) -> u16 {
        self.0.local_addr().expect("it is bound").port()
    }

    /// Waits until somebody stands before it.
    async fn open(&self) {
        let arrived = tokio::time::timeout(EVENTUALLY_TIMEOUT, self.0.accept()).await;
        let (mut stream, _) = arrived.expect("the program is started").expect("a connection");
        stream.write_all(b"go\n").await.expect("it listens");
    }
}

fn visited(name: &str, gate: &Gate) -> Person {
    let gate = json!({"name": "GATE", "value": gate.port().to_string()});
    let runs = json!({"command": ["/usr/bin/python3", "-u", "-c", PROGRAM], "env": [gate]});
    Person::new(name).environment("web", &runs).spec(&json!({"running": false}))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_instance_is_woken_and_its_waiting_page_turns_into_it() {
    let Some(stage) = Fixture::start().await else { return };
    let gate = Gate::closed().await;
    let person = visited("ada", &gate);
    person.apply(&stage.objects).await;
    stage.objects.until(&person.instance, "it is off", is_phase("Off")).await;

    let address = stage.at(&person.access("web"));
    let stranger = stage.browser().await;
    stranger.open(&address).await;
    assert_eq!(page::ours(&stranger).await.heading, "Not signed in");
    stranger.close().await;
    let off = stage.objects.get("Instance", &person.instance.namespace, "ada").await;
    assert_eq!(off.expect("it is there")["spec"]["running"], false, "a stranger starts nothing");

    let browser = stage.signed_in().await;
    browser.open(&address).await;
    let waiting = page::ours(&browser).await;
    assert_eq!((waiting.heading.as_str(), &waiting.address), ("Starting", &address));
    assert!(waiting.text.contains("lab-ada/ada"), "{waiting:?}");
    let before = browser.run("return history.length").await;
    gate.open().await;

    let shown = eventually("the page is the instance", async || {
        let shown =
            browser.try_run("return document.title === 'The instance' && window.echo").await?;
        shown.is_string().then_some(shown)
    })
    .await;
    assert_eq!(shown, "echo of hello", "over a WebSocket");
    let there = browser.run("return location.href").await;
    let there = there.as_str().expect("an address").to_owned();
    assert!(there.starts_with("http://web-ada-"), "it has an origin of its own: {there}");
    assert!(there.ends_with(&format!(".localhost:{}/", stage.port())), "at its root: {there}");
    assert_eq!(browser.run("return history.length").await, before, "Back leads past the waiting");
    let complaints = page::complaints(&browser).await;
    assert!(complaints.is_empty(), "{complaints:?}");

    let headers = browser.run("return JSON.parse(document.querySelector('#headers').textContent)");
    assert_nothing_of_ours(&headers.await);
    // It sets a cookie of its own, which comes back to it and nowhere else.
    browser.open(&address).await;
    let headers = browser.run("return JSON.parse(document.querySelector('#headers').textContent)");
    let headers = headers.await;
    assert_eq!(headers["cookie"], "own=instance; tossed=1", "{headers}");
    assert_nothing_of_ours(&headers);
    assert_eq!(browser.run("return location.href").await, there);
    assert_eq!(browser.run("return document.cookie").await, "own=instance; tossed=1");
    let cookies = browser.cookies().await;
    let entry = cookies.iter().find(|one| one["name"] == format!("sojourn-entry-{}", stage.port()));
    let entry = entry.unwrap_or_else(|| panic!("{cookies:?}"));
    assert_eq!(
        (&entry["httpOnly"], &entry["sameSite"], &entry["path"]),
        (&json!(true), &json!("Lax"), &json!("/"))
    );
    assert_eq!(cookies.len(), 3, "the one of the way in, and its own: {cookies:?}");
    browser.open(&stage.at("/")).await;
    assert_eq!(browser.cookies().await.len(), 1, "its own stays with it");
    browser.close().await;
    stage.stop();
}

fn assert_nothing_of_ours(headers: &Value) {
    let sent = headers.to_string().to_ascii_lowercase();
    assert!(sent.contains("user-agent"), "{sent}");
    assert!(!sent.contains("sojourn-") && !sent.contains("authorization"), "{sent}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_start_says_why() {
    let Some(stage) = Fixture::start().await else { return };
    let long = format!("eve-{}", "x".repeat(28));
    let broken = Person::new(&long).environment("web", &json!({"command": ["/no/such/program"]}));
    broken.apply(&stage.objects).await;
    let browser = stage.signed_in().await;
    browser.open(&stage.at(&broken.access("web"))).await;
    eventually("the page says what is wrong", async || {
        let text = browser.try_run("return document.querySelector('#trouble').innerText").await?;
        text.as_str()?.contains("It has trouble: CrashLoopBackOff").then_some(())
    })
    .await;
    assert_eq!(page::ours(&browser).await.heading, "Starting");

    let namespace = &broken.instance.namespace;
    browser.open(&stage.at(&format!("/go/lab/{namespace}/nobody/web/"))).await;
    assert_eq!(page::ours(&browser).await.heading, "Nothing here");
    browser.open(&stage.at(&broken.access("other"))).await;
    let missing = page::ours(&browser).await;
    assert_eq!(missing.heading, "Nothing here");
    assert!(missing.text.contains("has no environment \"other\""), "{missing:?}");
    page::runs_nothing_foreign(&browser).await;

    let off = json!({"spec": {"running": false}, "metadata": {"finalizers": ["example.org/x"]}});
    stage.objects.patch("Instance", namespace, &long, &off).await;
    stage.objects.delete("Instance", namespace, &long).await;
    browser.open(&stage.at(&broken.access("web"))).await;
    let going = page::ours(&browser).await;
    assert_eq!(going.heading, "Stopped");
    assert!(going.text.ends_with("stays so: it is being deleted."), "{going:?}");
    let free = json!({"metadata": {"finalizers": null}});
    stage.objects.patch("Instance", namespace, &long, &free).await;
    browser.close().await;
    stage.stop();
}
