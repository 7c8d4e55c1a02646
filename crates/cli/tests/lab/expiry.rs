//! Expired: warned once, deleted an interval later with everything, and told of it.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::external::{ExternalServices, INTERVAL};
use crate::fixture::{Engine, Fixture};
use crate::objects::{Named, time};
use crate::person::Person;
use crate::smtp::{Encryption, steps};
use crate::wait::eventually;

#[tokio::test(flavor = "multi_thread")]
async fn embedded_expires_with_a_warning_and_a_confirmation() {
    expire(Engine::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn real_expires_with_a_warning_and_a_confirmation() {
    expire(Engine::Real).await;
}

async fn expire(engine: Engine) {
    let Some(external) = ExternalServices::start(Encryption::StartTls).await else { return };
    let Some(stage) = Fixture::start(engine, &external.options()).await else { return };
    // One runs and one does not: both expire.
    let policy = json!({"deleteAfter": "5s"});
    let running = Person::new("runner").template(&policy);
    let stopped = Person::new("sleeper").template(&policy).spec(&json!({"running": false}));
    for person in [&running, &stopped] {
        person.apply(&stage.objects).await;
    }
    tokio::join!(watch(&stage, &external, &running), watch(&stage, &external, &stopped));
    stage.stop();
}

/// Sees one expire, as promised and with everything.
async fn watch(stage: &Fixture, external: &ExternalServices, person: &Person) {
    let what = "it was told when it will be deleted";
    let warned = stage.objects.until(&person.instance, what, |instance| {
        instance["status"]["expiration"]["warnedAt"].is_string()
    });
    let warned = warned.await;
    check_told(&warned);
    let deadline = time(&warned["status"]["expiration"]["deadline"]);
    let created = time(&warned["metadata"]["creationTimestamp"]);
    assert!(deadline - created >= 5_000 + INTERVAL - 1_000, "{warned}");
    let Named { namespace, name } = &person.instance;
    stage.objects.until_gone("Instance", namespace, name).await;
    let gone = Timestamp::now().as_millisecond();
    assert!(gone >= deadline, "gone at {gone}, promised {deadline}");
    let mails = external.smtp.wait_for(&person.email, 2).await;
    assert!(mails[0].text().contains("Europe/Rome"), "{:#?}", mails[0]);
    assert_eq!(steps(&mails), ["expiry-1", "expired"], "{mails:#?}");
    for kind in ["Pod", "PersistentVolumeClaim", "Service"] {
        eventually(&format!("every {kind} is gone"), async || {
            person.children(&stage.objects, kind).await.is_empty().then_some(())
        })
        .await;
    }
}

/// The deadline that was told is the one that fires, unless the mail server took its time.
fn check_told(warned: &Value) {
    let notice = &warned["status"]["notices"][0];
    assert_eq!(notice["kind"], "ExpiryWarning", "{warned}");
    let took = time(&notice["deliveredAt"]) - time(&notice["recordedAt"]);
    let announced = time(&notice["deadline"]);
    let fires = time(&warned["status"]["expiration"]["deadline"]);
    assert!(announced == fires || (took > 2_000 && announced < fires), "after {took} ms: {warned}");
}
