//! Programs that report their own use, from inside their Pods.

use serde_json::{Value, json};

use crate::exam::Exam;
use crate::external::ExternalServices;
use crate::fixture::{Engine, Fixture};
use crate::objects::Named;
use crate::person::{Person, is_phase};
use crate::smtp::{Encryption, steps};
use crate::wait::eventually;
use crate::{skip, visitor};

/// What Pods run: it reports, and tells a server what came of it.
const REPORTER: &str = include_str!("reporter.py");

#[tokio::test(flavor = "multi_thread")]
async fn embedded_a_program_that_reports_with_its_own_token_keeps_its_instance() {
    keep_by_reports(Engine::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn real_a_program_that_reports_with_its_own_token_keeps_its_instance() {
    keep_by_reports(Engine::Real).await;
}

async fn keep_by_reports(engine: Engine) {
    let Some(external) = ExternalServices::start(Encryption::StartTls).await else { return };
    let Some(stage) = Fixture::start(engine, &external.options()).await else { return };
    let (report_server, others) = (Exam::start().await, Exam::start().await);
    let honest = reporting("honest", "own", &report_server);
    let liars =
        [reporting("guesser", "guessed", &others), reporting("stranger", "foreign", &others)];
    for person in [&honest].into_iter().chain(&liars) {
        person.apply(&stage.objects).await;
        stage.objects.until(&person.instance, "it is ready", is_phase("Ready")).await;
    }
    eventually("a report is taken", async || heard(&report_server, "own=204").then_some(())).await;
    let source = |instance: &Value| instance["status"]["activity"]["source"] == json!("Report");
    stage.objects.until(&honest.instance, "it is use", source).await;
    for refused in ["guessed=401", "foreign=401"] {
        eventually("others are refused", async || heard(&others, refused).then_some(())).await;
    }

    // Those whose reports are refused go the whole way meanwhile.
    for liar in &liars {
        let off = stage.objects.until(&liar.instance, "it is off", is_phase("Off")).await;
        assert!(off["status"]["activity"]["last"].is_null(), "nothing was use: {off}");
    }
    let Named { namespace, name } = &honest.instance;
    let kept = stage.objects.get("Instance", namespace, name).await.expect("it is there");
    assert_eq!(kept["spec"]["running"], true);
    assert_eq!(kept["status"]["lifecycle"]["stage"], "Active", "{kept}");
    assert_eq!(external.smtp.mails_to(&honest.email).len(), 0, "nobody was warned");
    assert!(!others.heard().iter().any(|told| told.contains("=204")), "{:?}", others.heard());
    check_network(&report_server.heard());

    report_server.answer(http::StatusCode::GONE, "");
    let mails = external.smtp.wait_for(&honest.email, 1).await;
    assert_eq!(steps(&mails[..1]), ["inactivity-1"], "{mails:#?}");
    // Without any token nobody is heard either.
    let path = format!("/report/lab/{namespace}/{name}");
    let mut anybody = visitor::Visitor::of(stage.web);
    let refused = anybody.request(http::Method::POST, &path, &[], "{}").await;
    assert_eq!(refused.status, http::StatusCode::UNAUTHORIZED, "{refused:?}");
    stage.stop();
}

fn heard(report_server: &Exam, told: &str) -> bool {
    report_server.heard().iter().any(|asked| asked.contains(told))
}

/// What was told came from a network that is not the machine's.
fn check_network(heard: &[String]) {
    let own = std::fs::read_link("/proc/self/ns/net").expect("the kernel has networks");
    let own = own.to_str().expect("text");
    let inside =
        heard.iter().find_map(|asked| asked.split_once("network=")).expect("it was told").1;
    assert!(inside.starts_with("net:["), "{inside}");
    if inside == own {
        skip::part("Pods share the machine's network here");
    }
}

/// Somebody whose program reports in this way; it listens nowhere.
fn reporting(name: &str, way: &str, report_server: &Exam) -> Person {
    let variable = |name: &str, value: &str| json!({"name": name, "value": value});
    Person::new(name)
        .environment(
            "agent",
            &json!({
                "command": ["/usr/bin/python3", "-u", "-c", REPORTER],
                "ports": null, "readinessProbe": null,
                "persistent": true, "size": "100Mi", "mountPath": "/data",
                "env": [variable("DESK", &report_server.url()), variable("WAY", way),
                        variable("NAME", name), variable("INSTEAD", "honest")],
            }),
        )
        .template(&json!({"inactivityTimeout": "6s", "maxAlerts": 1}))
}
