//! The links of a warning, pressed by somebody who is not signed in.

use serde_json::{Value, json};

use crate::fixture::Fixture;
use crate::page;
use crate::person::{Person, is_phase};

/// An instance that is warned of at once, and the links of its warning.
async fn warned(stage: &Fixture, name: &str) -> (Person, Value) {
    let policy = json!({"inactivityTimeout": "2s", "maxAlerts": 3});
    let person = Person::new(name).template(&policy);
    person.apply(&stage.objects).await;
    let is_warning = |notice: &Value| {
        notice["kind"] == "inactivity-warning" && notice["facts"]["instance"] == name
    };
    let notice = stage.notices.posted("a warning", is_warning).await;
    (person, notice["facts"].clone())
}

async fn instance(stage: &Fixture, person: &Person) -> Value {
    let named = &person.instance;
    stage.objects.get("Instance", &named.namespace, &named.name).await.expect("it is there")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_does_nothing_when_it_is_opened_and_acts_once_when_it_is_pressed() {
    let Some(stage) = Fixture::start().await else { return };
    let (person, links) = warned(&stage, "keeper").await;
    let link = |name: &str| links[name].as_str().unwrap_or_else(|| panic!("{links}")).to_owned();
    let browser = stage.browser().await;

    for (name, heading) in [
        ("keepHour", "Keep it for one more hour"),
        ("keepTomorrow", "Keep it until tomorrow, 09:00"),
        ("stop", "Stop it now"),
    ] {
        browser.open(&link(name)).await;
        let asked = page::ours(&browser).await;
        assert_eq!(asked.heading, heading);
        assert!(asked.text.contains("keeper's web"), "{asked:?}");
    }
    let untouched = instance(&stage, &person).await;
    assert_eq!(untouched["spec"]["running"], true);
    let annotations = &untouched["metadata"]["annotations"];
    assert!(annotations["sojourn.dev/keep-until"].is_null(), "{annotations}");

    // Two windows show the button.
    let other = stage.browser().await;
    other.open(&link("keepHour")).await;
    browser.open(&link("keepHour")).await;
    browser.click("form button").await;
    let done = page::ours(&browser).await;
    assert_eq!(done.heading, "Done");
    assert!(done.text.contains("neither stopped nor deleted before"), "{done:?}");
    let is_kept = |instance: &Value| instance["status"]["keep"]["until"].is_string();
    let kept = stage.objects.until(&person.instance, "it is kept", is_kept).await;
    assert_eq!(kept["status"]["keep"]["used"], 1);

    other.click("form button").await;
    let again = page::ours(&other).await;
    assert_eq!(again.heading, "Done before");
    assert!(again.text.contains("keeper's web is kept until"), "{again:?}");
    browser.back().await;
    assert_eq!(page::ours(&browser).await.heading, "Done before", "the button is gone");
    let after = instance(&stage, &person).await;
    assert_eq!(after["status"]["keep"], kept["status"]["keep"]);
    let keep = |of: &Value| of["metadata"]["annotations"]["sojourn.dev/keep-until"].clone();
    assert_eq!(keep(&after), keep(&kept));

    other.open(&link("stop")).await;
    browser.open(&link("stop")).await;
    browser.click("form button").await;
    assert_eq!(page::ours(&browser).await.heading, "Done");
    let off = stage.objects.until(&person.instance, "it is off", is_phase("Off")).await;
    assert_eq!(off["spec"]["running"], false);
    // Whoever starts it again is not stopped by the old page.
    let running = json!({"spec": {"running": true}});
    stage.objects.patch("Instance", "lab-keeper", "keeper", &running).await;
    other.click("form button").await;
    assert_eq!(page::ours(&other).await.heading, "Done before");
    other.close().await;
    assert_eq!(instance(&stage, &person).await["spec"]["running"], true);

    let forged = link("stop").replace("/notice/", "/notice/x");
    browser.open(&forged).await;
    assert_eq!(page::ours(&browser).await.heading, "This link does not work");
    page::runs_nothing_foreign(&browser).await;
    browser.close().await;
    stage.stop();
}
