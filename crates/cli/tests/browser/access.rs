//! Emergency permissions in a browser: asked for, approved, used and given back, by two people.

use serde_json::json;

use crate::driver::Browser;
use crate::fixture::Fixture;
use crate::page;
use crate::people::{Person, good};
use crate::wait::eventually;

const NAMESPACE: &str = "emergency";

/// Lends a group that may read ConfigMaps to Ada; Ben approves.
async fn office(stage: &Fixture) -> (Person, Person) {
    stage.objects.make_namespace(NAMESPACE).await;
    for name in ["ada", "ben"] {
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": name, "namespace": NAMESPACE},
        });
        stage.objects.apply(&account).await;
    }
    let (kubeconfig, folder, web) = (stage.kubeconfig(), stage.folder(), stage.at(""));
    let person =
        async |name: &str| Person::of_account(&kubeconfig, folder, NAMESPACE, name, &web).await;
    let (ada, ben) = (person("ada").await, person("ben").await);
    let rbac = "rbac.authorization.k8s.io";
    let metadata = json!({"name": "ops", "namespace": NAMESPACE});
    let objects = [
        json!({
            "apiVersion": format!("{rbac}/v1"), "kind": "Role", "metadata": metadata,
            "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}],
        }),
        json!({
            "apiVersion": format!("{rbac}/v1"), "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "ops"},
            "subjects": [{"apiGroup": rbac, "kind": "Group", "name": "ops"}],
        }),
        json!({
            "apiVersion": "access.sojourn.dev/v1alpha1", "kind": "BreakglassEscalation",
            "metadata": metadata,
            "spec": {
                "allowed": {"users": [ada.user], "clusters": ["local"]}, "escalatedGroup": "ops",
                "approvers": {"users": [ben.user]}, "maxValidFor": "1h", "idleTimeout": "30m",
                "requireReason": true,
            },
        }),
    ];
    for object in &objects {
        stage.objects.apply(object).await;
    }
    (ada, ben)
}

/// A browser of that person, on the front page.
async fn signed_in(stage: &Fixture, person: &Person) -> Browser {
    let link = good(person.asks(&["open"]));
    let browser = stage.browser().await;
    browser.open(link.trim()).await;
    browser.click("form button").await;
    page::ours(&browser).await;
    browser
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_asked_for_and_approved_in_the_browser() {
    let Some(stage) = Fixture::start().await else { return };
    let (ada, ben) = office(&stage).await;
    let (hers, his) = (signed_in(&stage, &ada).await, signed_in(&stage, &ben).await);

    hers.click("main ul a[href='/access/']").await;
    eventually("what is offered is shown", async || {
        hers.open(&stage.at("/access")).await;
        let page = page::ours(&hers).await;
        assert_eq!(page.address, stage.at("/access/"));
        page.text.contains("Ask for a session").then_some(())
    })
    .await;
    hers.click("main form button").await;
    let refused = page::ours(&hers).await;
    assert!(refused.text.contains("a reason is required"), "{refused:?}");
    hers.click("main a").await;
    hers.run("document.querySelector('input[name=reason]').value = '<i>ticket 7</i> & more'").await;
    hers.click("main form button").await;
    let asked = page::ours(&hers).await;
    assert!(asked.text.contains("Pending"), "{asked:?}");
    assert!(asked.text.contains("<i>ticket 7</i> & more"), "it is text: {asked:?}");
    assert!(!ada.is_allowed().await);

    his.open(&stage.at("/access/?state=Pending")).await;
    assert!(page::ours(&his).await.text.contains(&ada.user));
    his.click(".cards a").await;
    his.run("document.querySelector('form[action$=approve] input').value = 'go'").await;
    his.click("form[action$=approve] button").await;
    let approved = page::ours(&his).await;
    assert!(approved.text.contains("Approved") && approved.text.contains(": go"), "{approved:?}");
    assert!(approved.text.contains("never used"), "{approved:?}");

    eventually("the rights are there", async || ada.is_allowed().await.then_some(())).await;
    eventually("the use is shown", async || {
        hers.open(&asked.address).await;
        let page = page::ours(&hers).await;
        (page.text.contains("Idle deadline") && !page.text.contains("never used")).then_some(())
    })
    .await;
    // A page on another origin cannot press her buttons.
    let path = asked.address.strip_prefix(&stage.at("")).expect("ours").to_owned();
    let elsewhere = stage.browser().await;
    elsewhere.open(&format!("http://localhost:{}{path}", stage.port())).await;
    assert_ne!(page::ours(&elsewhere).await.heading, "ops on local");
    elsewhere.close().await;
    hers.click("form[action$=drop] button").await;
    let ended = page::ours(&hers).await;
    assert!(ended.text.contains("Expired") && ended.text.contains("given back"), "{ended:?}");
    assert!(!ada.is_allowed().await);
    page::runs_nothing_foreign(&hers).await;
    hers.close().await;
    his.close().await;
    stage.stop();
}
