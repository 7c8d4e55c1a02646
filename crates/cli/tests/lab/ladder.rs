//! Warned, stopped, woken, used again: the ladder of inactivity from one end to the other.

use http::StatusCode;
use serde_json::{Value, json};

use crate::external::{ExternalServices, INTERVAL};
use crate::fixture::{Engine, Fixture};
use crate::objects::{Named, time};
use crate::person::{Person, is_phase, is_stage};
use crate::smtp::{Encryption, Mail, steps};
use crate::visitor::Visitor;
use crate::wait::eventually;

#[tokio::test(flavor = "multi_thread")]
async fn embedded_warned_stopped_and_woken_through_the_gateway() {
    climb(Engine::Embedded, Encryption::StartTls).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn real_warned_stopped_and_woken_through_the_gateway() {
    climb(Engine::Real, Encryption::Tls).await;
}

async fn climb(engine: Engine, encryption: Encryption) {
    let Some(external) = ExternalServices::start(encryption).await else { return };
    let Some(stage) = Fixture::start(engine, &external.options()).await else { return };
    let person =
        Person::new("climber").template(&json!({"inactivityTimeout": "5s", "maxAlerts": 2}));
    person.apply(&stage.objects).await;
    let ready = stage.objects.until(&person.instance, "it is ready", is_phase("Ready")).await;
    let mut visitor = stage.visitor().await;
    use_it(&stage, &person, &ready, &mut visitor).await;

    let off = stage.objects.until(&person.instance, "it is off", is_phase("Off")).await;
    assert_eq!(off["spec"]["running"], false);
    assert_eq!(off["status"]["stopReason"], "Inactivity");
    let mails = external.smtp.wait_for(&person.email, 3).await;
    check_mails(&mails, encryption);
    check_promises(&off);
    assert_eq!(person.children(&stage.objects, "Pod").await.len(), 0);
    let [claim] = &person.children(&stage.objects, "PersistentVolumeClaim").await[..] else {
        panic!("not one claim");
    };

    wake(&person, &mut visitor).await;
    let again = stage.objects.until(&person.instance, "it is ready", is_phase("Ready")).await;
    assert_eq!(again["spec"]["running"], true);
    assert_eq!(again["status"]["lifecycle"]["alertsSent"], 0, "{again}");
    let kept = person.children(&stage.objects, "PersistentVolumeClaim").await;
    assert_eq!(kept[0]["metadata"]["uid"], claim["metadata"]["uid"]);
    assert_eq!(external.smtp.mails_to(&person.email).len(), 3, "a start is no news");
    // The new ladder begins from below.
    stage.objects.until(&person.instance, "it is warned", is_stage("Warned")).await;
    external.smtp.wait_for(&person.email, 4).await;

    stage.objects.delete("Instance", &person.instance.namespace, &person.instance.name).await;
    let (namespace, name) = (&person.instance.namespace, &person.instance.name);
    stage.objects.until_gone("Instance", namespace, name).await;
    let claim = claim["metadata"]["name"].as_str().expect("a name");
    stage.objects.until_gone("PersistentVolumeClaim", namespace, claim).await;
    stage.stop();
}

/// Uses a running instance as people do: twice, and over a WebSocket.
async fn use_it(stage: &Fixture, person: &Person, ready: &Value, visitor: &mut Visitor) {
    let url = ready["status"]["url"].as_str().expect("a running instance has a URL");
    let access = person.access("web");
    assert!(url.contains(access.trim_end_matches("web/")), "{url}");
    let refused = stage.stranger().open(&access).await;
    assert_ne!(refused.status, StatusCode::OK, "nobody comes in without signing in: {refused:?}");
    let first = visitor.open(&access).await;
    assert_eq!(first.status, StatusCode::OK, "{first:?}");
    let origin = first.address.as_str();
    assert!(origin.starts_with("http://web-climber-"), "it has an origin of its own: {origin}");
    assert!(origin.ends_with(&format!(".localhost:{}/", stage.web.port())), "{origin}");
    let second = visitor.open(&format!("{access}deeper?x=1")).await.json();
    assert_eq!((&second["path"], &second["visits"]), (&json!("/deeper?x=1"), &json!(2)));
    // Our session stays ours, and the instance's cookie stays its own.
    assert_eq!(second["headers"]["cookie"], "own=instance", "{second}");
    assert!(second["headers"]["authorization"].is_null());
    let mut socket = visitor.web_socket(&format!("{origin}ws")).await;
    assert_eq!(socket.ask("hello").await, "hello");
    let what = "the gateway's visits are activity";
    let used = stage.objects.until(&person.instance, what, |instance| {
        instance["status"]["activity"]["source"] == "Gateway"
    });
    assert!(used.await["status"]["activity"]["count"].as_u64() >= Some(1));
}

/// Starts it again by visiting it, and finds the same data.
async fn wake(person: &Person, visitor: &mut Visitor) {
    let address = person.access("web");
    let waiting = visitor.open(&address).await;
    assert!(waiting.text.contains("<html"), "a page to wait on: {waiting:?}");
    let page = eventually("the page becomes the instance", async || {
        let page = visitor.open(&address).await;
        (page.status == StatusCode::OK && page.text.starts_with('{')).then_some(page)
    })
    .await;
    assert_eq!(page.json()["visits"], 3, "its data is there");
}

/// Two warnings and what came of them; each is whole and says when.
fn check_mails(mails: &[Mail], encryption: Encryption) {
    assert_eq!(steps(mails), ["inactivity-1", "inactivity-2", "stopped"], "{mails:#?}");
    for mail in mails {
        assert_eq!(mail.encrypted, encryption != Encryption::None);
        assert_eq!(mail.user.as_deref(), Some("sojourn"));
        assert!(mail.text().contains("climber's web"), "{mail:#?}");
        assert!(
            mail.html().contains("climber&#x27;s web") || mail.html().contains("climber's web")
        );
    }
    for warning in &mails[..2] {
        assert!(warning.text().contains("Europe/Rome"), "a time with its zone: {warning:#?}");
        let links = warning.links();
        assert!(links.iter().filter(|link| link.contains("/notice/")).count() >= 3, "{links:?}");
    }
}

/// Every promised interval was given in full.
fn check_promises(instance: &Value) {
    let notices = instance["status"]["notices"].as_array().expect("notices");
    let warnings = notices.iter().filter(|notice| notice["kind"] == "InactivityWarning");
    let delivered: Vec<i64> = warnings.map(|warning| time(&warning["deliveredAt"])).collect();
    let stopped = time(&instance["status"]["lastStoppedAt"]);
    // Times of a status have whole seconds.
    let slack = 1_000;
    assert!(!delivered.is_empty(), "{instance}");
    assert!(
        delivered.windows(2).all(|pair| pair[1] - pair[0] + slack >= INTERVAL),
        "{delivered:?}"
    );
    let last = delivered.last().expect("there is one");
    assert!(stopped - last + slack >= INTERVAL, "stopped at {stopped}, warned at {delivered:?}");
}

// case: lab A14
#[tokio::test(flavor = "multi_thread")]
async fn embedded_use_that_prometheus_sees_keeps_exactly_that_instance() {
    keep_by_metrics(Engine::Embedded).await;
}

// case: lab A14
#[tokio::test(flavor = "multi_thread")]
async fn real_use_that_prometheus_sees_keeps_exactly_that_instance() {
    keep_by_metrics(Engine::Real).await;
}

/// Traffic on `vm-10` is none on `vm-1`.
async fn keep_by_metrics(engine: Engine) {
    let Some(external) = ExternalServices::start(Encryption::StartTls).await else { return };
    let Some(stage) = Fixture::start(engine, &external.options()).await else { return };
    let policy = json!({"inactivityTimeout": "6s", "maxAlerts": 1});
    let [idle, used] = ["vm-1", "vm-10"].map(|name| Person::new(name).template(&policy));
    for person in [&idle, &used] {
        person.apply(&stage.objects).await;
        stage.objects.until(&person.instance, "it is ready", is_phase("Ready")).await;
    }
    let services = used.children(&stage.objects, "Service").await;
    let service = services[0]["metadata"]["name"].as_str().expect("a name").to_owned();
    let mut count = 0.0;
    let off = eventually("the idle one is off", async || {
        count += 1.0;
        external.exporter.set_requests(&used.instance.namespace, &service, count);
        let Named { namespace, name } = &idle.instance;
        let found = stage.objects.get("Instance", namespace, name).await?;
        is_phase("Off")(&found).then_some(found)
    })
    .await;
    check_promises(&off);
    let Named { namespace, name } = &used.instance;
    let kept = stage.objects.get("Instance", namespace, name).await.expect("it is there");
    assert_eq!(kept["spec"]["running"], true);
    assert_eq!(kept["status"]["activity"]["source"], "Nginx", "{kept}");
    assert_eq!(external.smtp.mails_to(&used.email).len(), 0);
    // Once nobody uses it any more it is warned as well.
    external.smtp.wait_for(&used.email, 1).await;
    stage.stop();
}
