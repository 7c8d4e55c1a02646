//! Game servers in a browser: a collection that needs somebody, and a server that is drained, by two people.

use serde_json::{Value, json};

use crate::driver::Browser;
use crate::fixture::Fixture;
use crate::page;
use crate::people::{Person, good};
use crate::wait::eventually;

const NAMESPACE: &str = "arena";
const GROUP: &str = "game.sojourn.dev";

/// Somebody with these rights on game servers.
async fn person(stage: &Fixture, name: &str, verbs: &[&str]) -> Person {
    let rbac = "rbac.authorization.k8s.io";
    let metadata = json!({"name": name, "namespace": NAMESPACE});
    let kinds = ["dedicatedgameservercollections", "dedicatedgameservers"];
    for object in [
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}),
        json!({
            "apiVersion": format!("{rbac}/v1"), "kind": "Role", "metadata": metadata,
            "rules": [{"apiGroups": [GROUP], "resources": kinds, "verbs": verbs}],
        }),
        json!({
            "apiVersion": format!("{rbac}/v1"), "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}],
        }),
    ] {
        stage.objects.apply(&object).await;
    }
    Person::of_account(&stage.kubeconfig(), stage.folder(), NAMESPACE, name, &stage.at("")).await
}

/// A collection whose servers run this command, and are well when their Pods are.
fn collection(name: &str, command: &str, spec: &Value) -> Value {
    let amounts = json!({"cpu": "10m", "memory": "32Mi"});
    let container = json!({
        "name": "game", "image": "busybox", "command": ["/bin/sh", "-c", command],
        "resources": {"requests": amounts, "limits": amounts},
    });
    let mut whole = json!({
        "replicas": 1, "health": {"source": "Pod"}, "maxPlayersPerServer": 4,
        "template": {"spec": {"terminationGracePeriodSeconds": 2, "containers": [container]}},
    });
    if let (Some(into), Some(from)) = (whole.as_object_mut(), spec.as_object()) {
        into.extend(from.clone());
    }
    json!({
        "apiVersion": format!("{GROUP}/v1alpha1"), "kind": "DedicatedGameServerCollection",
        "metadata": {"name": name, "namespace": NAMESPACE}, "spec": whole,
    })
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
async fn failures_are_acknowledged_and_a_server_is_drained_in_the_browser() {
    let Some(stage) = Fixture::start().await else { return };
    stage.objects.make_namespace(NAMESPACE).await;
    let read = ["get", "list", "watch"];
    let keeper = person(&stage, "kim", &[&read[..], &["update", "patch"]].concat()).await;
    let onlooker = person(&stage, "lou", &read).await;
    let failing = json!({"dgsMaxFailures": 0, "dgsFailBehavior": "Delete"});
    for object in
        [collection("duel", "exit 3", &failing), collection("lobby", "exec sleep 1000", &json!({}))]
    {
        stage.objects.apply(&object).await;
    }
    let (hers, his) = (signed_in(&stage, &keeper).await, signed_in(&stage, &onlooker).await);

    hers.click("main ul a[href='/game/']").await;
    let needs_somebody = eventually("somebody has to look", async || {
        hers.open(&stage.at("/game/?health=NeedsIntervention")).await;
        let page = page::ours(&hers).await;
        page.text.contains("duel in arena").then_some(page)
    })
    .await;
    assert!(!needs_somebody.text.contains("lobby in arena"), "{needs_somebody:?}");
    hers.click(".cards a").await;
    let tripped = page::ours(&hers).await;
    assert!(tripped.text.contains("Somebody has to look"), "{tripped:?}");
    assert!(tripped.text.contains("exit code 3"), "{tripped:?}");
    his.open(&tripped.address).await;
    let seen = page::ours(&his).await;
    assert!(seen.text.contains("Somebody has to look"), "{seen:?}");
    let buttons = his.run("return document.querySelectorAll('button').length").await;
    assert_eq!(buttons, 0, "he may look, and no more: {seen:?}");
    // A page on another origin cannot press her buttons.
    let path = tripped.address.strip_prefix(&stage.at("")).expect("ours").to_owned();
    let elsewhere = stage.browser().await;
    elsewhere.open(&format!("http://localhost:{}{path}", stage.port())).await;
    assert_ne!(page::ours(&elsewhere).await.heading, "duel in arena");
    elsewhere.close().await;

    let enough = json!({"dgsMaxFailures": 5, "dgsFailBehavior": "Delete"});
    stage.objects.apply(&collection("duel", "exec sleep 1000", &enough)).await;
    hers.open(&tripped.address).await;
    hers.click("form[action$=acknowledge] button").await;
    eventually("it goes on", async || {
        hers.open(&tripped.address).await;
        let page = page::ours(&hers).await;
        let goes_on = page.text.contains("1 of 1 servers can be given now");
        (goes_on && !page.text.contains("Somebody has to look")).then_some(())
    })
    .await;

    let lobby = stage.at("/game/collections/arena/lobby");
    eventually("its server can be given", async || {
        hers.open(&lobby).await;
        page::ours(&hers).await.text.contains("1 of 1 servers can be given now").then_some(())
    })
    .await;
    let name = hers.run("return document.querySelector('.cards strong').innerText").await;
    let name = name.as_str().expect("a name").to_owned();
    hers.click("form[action$=drain] button").await;
    eventually("another server is there", async || {
        hers.open(&lobby).await;
        let page = page::ours(&hers).await;
        let replaced = !page.text.contains(&format!("{name} ")) && page.text.contains("1 of 1");
        replaced.then_some(())
    })
    .await;
    page::runs_nothing_foreign(&hers).await;
    hers.close().await;
    his.close().await;
    stage.stop();
}
