//! The links of a warning: opening one does nothing, pressing its button does.

use http::StatusCode;
use serde_json::{Value, json};

use crate::external::ExternalServices;
use crate::fixture::{Engine, Fixture};
use crate::objects::{Named, time};
use crate::person::{Person, is_phase};
use crate::smtp::Encryption;

#[tokio::test(flavor = "multi_thread")]
async fn embedded_links_act_when_their_button_is_pressed() {
    press(Engine::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn real_links_act_when_their_button_is_pressed() {
    press(Engine::Real).await;
}

async fn press(engine: Engine) {
    let Some(external) = ExternalServices::start(Encryption::StartTls).await else { return };
    let mut options = external.options();
    // Time to read one's mail.
    options["inactiveTerminationNotificationInterval"] = json!("10m");
    let Some(stage) = Fixture::start(engine, &options).await else { return };
    let policy = json!({"inactivityTimeout": "2s", "maxAlerts": 3});
    let [keeper, stopper] = ["keeper", "stopper"].map(|name| Person::new(name).template(&policy));
    for person in [&keeper, &stopper] {
        person.apply(&stage.objects).await;
    }
    let mut links = Vec::new();
    for person in [&keeper, &stopper] {
        let mails = external.smtp.wait_for(&person.email, 1).await;
        let all = mails[0].links().into_iter();
        let signed: Vec<_> = all.filter(|link| link.contains("/notice/")).collect();
        let [hour, tomorrow, stop] = &signed[..] else { panic!("{signed:?}") };
        assert!(hour != tomorrow && tomorrow != stop);
        links.push([hour.clone(), tomorrow.clone(), stop.clone()]);
    }
    // What a mail scanner does.
    let mut stranger = stage.stranger();
    for link in links.iter().flatten() {
        let page = stranger.open(link).await;
        assert_eq!(page.status, StatusCode::OK, "{page:?}");
        assert!(page.text.contains("<form"), "{page:?}");
    }
    for person in [&keeper, &stopper] {
        let Named { namespace, name } = &person.instance;
        let untouched = stage.objects.get("Instance", namespace, name).await.expect("it is there");
        assert_eq!(untouched["spec"]["running"], true);
        assert!(untouched["status"]["keep"]["until"].is_null(), "{untouched}");
    }

    let page = stranger.open(&links[0][0]).await;
    let done = stranger.press(&links[0][0], &page).await;
    assert_eq!(done.status, StatusCode::OK, "{done:?}");
    let is_kept = |instance: &Value| instance["status"]["keep"]["until"].is_string();
    let kept = stage.objects.until(&keeper.instance, "it is kept", is_kept).await;
    let left = time(&kept["status"]["keep"]["until"]) - jiff::Timestamp::now().as_millisecond();
    assert!((55 * 60_000..=60 * 60_000).contains(&left), "kept for {left} ms more");
    assert_eq!(kept["status"]["keep"]["used"], 1);

    let page = stranger.open(&links[1][2]).await;
    let done = stranger.press(&links[1][2], &page).await;
    assert_eq!(done.status, StatusCode::OK, "{done:?}");
    let off = stage.objects.until(&stopper.instance, "it is off", is_phase("Off")).await;
    assert_eq!(
        (&off["spec"]["running"], &off["status"]["stopReason"]),
        (&json!(false), &json!("User"))
    );

    let forged = links[0][0].replace("/notice/", "/notice/x");
    let refused = stranger.open(&forged).await;
    assert!(refused.status.is_client_error(), "{refused:?}");
    stage.stop();
}
