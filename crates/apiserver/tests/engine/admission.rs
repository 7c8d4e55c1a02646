//! Hooks: the same services that a webhook server mounts, called as a cluster calls webhooks.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::Client;
use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse, Operation};
use serde_json::{Value, json};
use sojourn_apiserver::{Config, Engine, Hook, HookScope, HookService, Hooks};
use tower::util::BoxCloneService;

use crate::fixture::{
    admin, delete, eventually, get, on_virtual_time, patch, post, put, request, send, settle, user,
};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SERVICES: &str = "/api/v1/namespaces/default/services";

type Review = AdmissionRequest<DynamicObject>;

fn service(
    decide: impl Fn(&Review, AdmissionResponse) -> AdmissionResponse + Clone + Send + 'static,
) -> HookService {
    BoxCloneService::new(tower::service_fn(move |review: Review| {
        let response = decide(&review, AdmissionResponse::from(&review));
        async move { Ok::<_, Infallible>(response) }
    }))
}

fn on(resources: &[&str]) -> HookScope {
    let resources = resources.iter().map(|&resource| resource.to_owned()).collect();
    HookScope { groups: vec![String::new()], resources }
}

fn patched(response: AdmissionResponse, operations: Value) -> AdmissionResponse {
    let operations = serde_json::from_value(operations).expect("it is a JSON patch");
    response.with_patch(operations).expect("it can be written")
}

async fn with_hooks(hooks: Hooks) -> (Engine, Client) {
    let config = on_virtual_time(Config::in_memory(), 1).hooks(hooks);
    let engine = Engine::open(config).await.expect("an engine in memory opens");
    settle().await;
    let client = admin(&engine);
    (engine, client)
}

fn mutating(hooks: Vec<Hook>) -> Hooks {
    Hooks { mutating: hooks, validating: Vec::new() }
}

fn validating(hooks: Vec<Hook>) -> Hooks {
    Hooks { mutating: Vec::new(), validating: hooks }
}

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}})
}

/// Records the admission requests of a hook.
#[derive(Clone, Default)]
struct RecordedReviews(Arc<Mutex<Vec<Value>>>);

impl RecordedReviews {
    fn take(&self) -> Vec<Value> {
        std::mem::take(&mut self.0.lock().expect("nobody panics while holding it"))
    }

    fn note(&self, what: Value) {
        self.0.lock().expect("nobody panics while holding it").push(what);
    }

    /// A hook that allows everything and notes the request.
    fn hook(&self, name: &str, scope: HookScope) -> Hook {
        let notes = self.clone();
        Hook::new(
            name,
            scope,
            service(move |review, response| {
                notes.note(serde_json::to_value(review).expect("a request is JSON"));
                response
            }),
        )
    }
}

#[tokio::test(start_paused = true)]
async fn fields_added_by_a_hook_are_defaulted() {
    let add = service(|_, response| {
        let port = json!({"name": "extra", "port": 81});
        patched(response, json!([{"op": "add", "path": "/spec/ports/-", "value": port}]))
    });
    let (engine, client) =
        with_hooks(mutating(vec![Hook::new("add", on(&["services"]), add)])).await;
    let made = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "s"},
        "spec": {"ports": [{"name": "own", "port": 80}]},
    });
    let made = post(&client, SERVICES, &made).await.ok();
    let expected = json!([
        {"name": "own", "port": 80, "protocol": "TCP", "targetPort": 80},
        {"name": "extra", "port": 81, "protocol": "TCP", "targetPort": 81},
    ]);
    assert_eq!(made.body["spec"]["ports"], expected);
    let stored = get(&client, &format!("{SERVICES}/s")).await.ok();
    assert_eq!(stored.body["spec"]["ports"], expected);
    engine.close().await;
}

#[tokio::test(start_paused = true)]
async fn what_a_hook_adds_is_validated_and_must_fit_the_kind() {
    let spoil = service(|review, response| {
        let operations = match review.name.as_str() {
            "number" => json!([{"op": "add", "path": "/data/b", "value": 1}]),
            "bad-key" => json!([{"op": "add", "path": "/data/a~1b", "value": ""}]),
            "nowhere" => json!([{"op": "replace", "path": "/data/none/at/all", "value": ""}]),
            _ => json!([{"op": "add", "path": "/unheard", "value": "of"}]),
        };
        patched(response, operations)
    });
    let (engine, client) =
        with_hooks(mutating(vec![Hook::new("spoil", on(&["configmaps"]), spoil)])).await;
    // Creating, a hook is told no name, only the object; by PUT it is told both.
    for (name, code) in [("number", 500), ("bad-key", 422), ("nowhere", 500)] {
        let answer = put_new(&client, name).await;
        assert!(
            answer.status == code || (code == 500 && answer.status == 400),
            "{name}: {}",
            answer.body
        );
    }
    let made = post(&client, MAPS, &map("unknown")).await.ok();
    assert_eq!(made.body.get("unheard"), None, "what the kind does not have is dropped");
    engine.close().await;
}

/// An apply, which names its object in the path.
async fn put_new(client: &Client, name: &str) -> crate::fixture::Answer {
    let path = format!("{MAPS}/{name}?fieldManager=test");
    let mut request = request(&http::Method::PATCH, &path, &map(name));
    let apply = http::HeaderValue::from_static("application/apply-patch+yaml");
    request.headers_mut().insert(http::header::CONTENT_TYPE, apply);
    send(client, request).await
}

/// Refusals carry the hook's words and code, as those of webhooks do.
#[tokio::test(start_paused = true)]
async fn a_refusal_is_passed_on_as_it_is_given() {
    let refuse = service(|review, response| {
        let object = review.object.as_ref().expect("a create has an object");
        let name = object.metadata.name.as_deref().unwrap_or_default();
        let mut response = match name {
            "plain" => response.deny("not on a Sunday"),
            "silent" => response.deny(""),
            "teapot" | "invalid" | "soft" => response.deny("as said"),
            _ => return response,
        };
        match name {
            "teapot" => response.result.code = 418,
            "invalid" => {
                response.result.code = 422;
                response.result.reason = "Invalid".to_owned();
            }
            "soft" => response.result.code = 200,
            _ => {}
        }
        response
    });
    let scope = on(&["configmaps"]);
    let (engine, client) =
        with_hooks(validating(vec![Hook::new("gate.example", scope, refuse)])).await;
    let denied = "admission webhook \"gate.example\" denied the request";
    for (name, code, reason, message) in [
        // A refusal without an error's code is a bad request.
        ("plain", 400, "", format!("{denied}: not on a Sunday")),
        ("soft", 400, "", format!("{denied}: as said")),
        ("silent", 400, "", format!("{denied} without explanation")),
        ("teapot", 418, "", format!("{denied}: as said")),
        ("invalid", 422, "Invalid", format!("{denied}: as said")),
    ] {
        let answer = post(&client, MAPS, &map(name)).await;
        assert_eq!((answer.status.as_u16(), answer.message()), (code, &*message), "{name}");
        assert_eq!(answer.body["kind"], "Status", "{name}");
        assert_eq!(answer.body["code"], code, "{name}");
        assert_eq!(answer.body["reason"].as_str().unwrap_or_default(), reason, "{name}");
    }
    post(&client, MAPS, &map("welcome")).await.ok();
    engine.close().await;
}

#[tokio::test(start_paused = true)]
async fn hooks_are_asked_in_order() {
    let seen = RecordedReviews::default();
    let append = |letter: &'static str| {
        let seen = seen.clone();
        let decide = move |review: &Review, response| {
            let object = review.object.as_ref().expect("a create has an object");
            let so_far = object.data["data"]["a"].as_str().unwrap_or_default().to_owned();
            let uid = object.metadata.uid.is_some();
            seen.note(json!([letter, so_far, uid]));
            let value = format!("{so_far}{letter}");
            patched(response, json!([{"op": "replace", "path": "/data/a", "value": value}]))
        };
        Hook::new(letter, on(&["configmaps"]), service(decide))
    };
    let check = |letter: &'static str, allowed: bool| {
        let seen = seen.clone();
        let decide = move |review: &Review, response: AdmissionResponse| {
            let object = review.object.as_ref().expect("a create has an object");
            let uid = object.metadata.uid.is_some();
            seen.note(json!([letter, object.data["data"]["a"], uid]));
            if allowed { response } else { response.deny("no") }
        };
        Hook::new(letter, on(&["configmaps"]), service(decide))
    };
    let hooks = Hooks {
        mutating: vec![append("m"), append("n")],
        validating: vec![check("v", true), check("w", false), check("x", true)],
    };
    let (engine, client) = with_hooks(hooks).await;
    seen.take();
    let answer = post(&client, MAPS, &map("c")).await;
    assert!(answer.message().starts_with("admission webhook \"w\" denied"), "{}", answer.body);
    // Mutating ones see what those before them did; validating ones the object as it would be
    // stored. The first refusal ends it.
    assert_eq!(
        seen.take(),
        [
            json!(["m", "1", false]),
            json!(["n", "1m", false]),
            json!(["v", "1mn", true]),
            json!(["w", "1mn", true]),
        ]
    );
    assert_eq!(get(&client, &format!("{MAPS}/c")).await.status, 404);
    engine.close().await;
}

#[tokio::test(start_paused = true)]
async fn hooks_are_told_what_is_asked() {
    let notes = RecordedReviews::default();
    let (engine, client) =
        with_hooks(validating(vec![notes.hook("notes", on(&["configmaps"]))])).await;
    let path = format!("{MAPS}/c");
    notes.take();
    post(&client, MAPS, &map("c")).await.ok();
    patch(&client, &path, &json!({"data": {"a": "2"}})).await.ok();
    let as_bob = engine.client(user("bob", &["system:masters"]));
    put(&as_bob, &format!("{path}?dryRun=All"), &map("c")).await.ok();
    delete(&client, &format!("{path}?dryRun=All")).await.ok();
    delete(&client, &path).await.ok();
    let told: Vec<Value> = notes
        .take()
        .into_iter()
        .map(|review| {
            let data = |object: &str| review[object]["data"]["a"].clone();
            json!([
                review["operation"],
                review["name"],
                review["dryRun"],
                review["userInfo"]["username"],
                data("oldObject"),
                data("object"),
            ])
        })
        .collect();
    assert_eq!(
        told,
        [
            json!(["CREATE", "c", false, "admin", null, "1"]),
            json!(["UPDATE", "c", false, "admin", "1", "2"]),
            json!(["UPDATE", "c", true, "bob", "2", "1"]),
            json!(["DELETE", "c", true, "admin", "2", null]),
            json!(["DELETE", "c", false, "admin", "2", null]),
        ]
    );
    let version = engine.version();
    put(&client, &format!("{path}?dryRun=All"), &map("c")).await;
    post(&client, &format!("{MAPS}?dryRun=All"), &map("d")).await.ok();
    let review = notes.take().pop().expect("dry runs are admitted too");
    assert_eq!((&review["dryRun"], &review["operation"]), (&json!(true), &json!("CREATE")));
    assert_eq!(review["kind"], json!({"group": "", "version": "v1", "kind": "ConfigMap"}));
    let resource = &review["resource"];
    assert_eq!((&resource["version"], &resource["resource"]), (&json!("v1"), &json!("configmaps")));
    assert_eq!(review["namespace"], "default");
    assert_eq!(engine.version(), version, "a dry run changes nothing");
    engine.close().await;
}

/// A name that is made up is made up late, so that hooks can still give one; and only once, however
/// often it has to be made up anew.
#[tokio::test(start_paused = true)]
async fn generated_names_come_after_the_mutating_hooks() {
    let (before, after) = (RecordedReviews::default(), RecordedReviews::default());
    let (engine, client) = with_hooks(Hooks {
        mutating: vec![before.hook("before", on(&["configmaps"]))],
        validating: vec![after.hook("after", on(&["configmaps"]))],
    })
    .await;
    let mut nameless = map("");
    nameless["metadata"] = json!({"generateName": "g-"});
    for notes in [&before, &after] {
        notes.take();
    }
    let made = post(&client, MAPS, &nameless).await.ok();
    let name = &made.body["metadata"]["name"];
    assert!(name.as_str().is_some_and(|name| name.starts_with("g-")), "{name}");
    let [review] = &before.take()[..] else { panic!("one request") };
    assert_eq!((&review["name"], review["object"]["metadata"].get("name")), (&json!(""), None));
    let [review] = &after.take()[..] else { panic!("one request") };
    assert_eq!((&review["name"], &review["object"]["metadata"]["name"]), (name, name));
    engine.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_hook_sees_only_its_scope() {
    let (maps, leases, all) =
        (RecordedReviews::default(), RecordedReviews::default(), RecordedReviews::default());
    let of_group =
        HookScope { groups: vec!["coordination.k8s.io".to_owned()], resources: Vec::new() };
    let (engine, client) = with_hooks(validating(vec![
        maps.hook("maps", on(&["configmaps", "secrets"])),
        leases.hook("leases", of_group),
        all.hook("all", HookScope::default()),
    ]))
    .await;
    for notes in [&maps, &leases, &all] {
        notes.take();
    }
    post(&client, MAPS, &map("c")).await.ok();
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}});
    post(&client, "/api/v1/namespaces/default/secrets", &secret).await.ok();
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "l"},
        "spec": {},
    });
    post(&client, "/apis/coordination.k8s.io/v1/namespaces/default/leases", &lease).await.ok();
    let kinds = |notes: &RecordedReviews| -> Vec<String> {
        let kind = |review: &Value| review["kind"]["kind"].as_str().unwrap_or("?").to_owned();
        notes.take().iter().map(kind).collect()
    };
    assert_eq!(kinds(&maps), ["ConfigMap", "Secret"]);
    assert_eq!(kinds(&leases), ["Lease"]);
    assert_eq!(kinds(&all), ["ConfigMap", "Secret", "Lease"]);
    get(&client, MAPS).await.ok();
    assert_eq!(all.take(), Vec::<Value>::new(), "reads are not admitted");
    engine.close().await;
}

/// What a hook keeps is tried again until it may go; nothing else waits for that.
#[tokio::test(start_paused = true)]
async fn a_namespace_goes_once_all_of_it_may_be_deleted() {
    const MINUTE: Duration = Duration::from_secs(60);
    let kept = Arc::new(AtomicBool::new(true));
    let keep = {
        let kept = kept.clone();
        service(move |review, response| {
            let refuses = kept.load(Ordering::Relaxed) && review.name == "kept";
            if refuses && review.operation == Operation::Delete {
                response.deny("not yet")
            } else {
                response
            }
        })
    };
    let hook = Hook::new("keep", on(&["configmaps"]), keep);
    let (engine, client) = with_hooks(validating(vec![hook])).await;
    for (namespace, name) in [("held", "kept"), ("held", "other"), ("free", "other")] {
        let whole = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace},
        });
        post(&client, "/api/v1/namespaces", &whole).await;
        let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
        post(&client, &maps, &map(name)).await.ok();
    }
    delete(&client, "/api/v1/namespaces/held").await.ok();
    let failure = eventually("what is kept is told", MINUTE, async || {
        let held = get(&client, "/api/v1/namespaces/held").await.ok();
        let conditions = held.body["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|one| one["type"] == "NamespaceDeletionContentFailure")
    })
    .await;
    assert_eq!(
        (&failure["status"], &failure["reason"]),
        (&json!("True"), &json!("ContentDeletionFailed"))
    );
    let words = failure["message"].as_str().expect("words");
    assert!(words.starts_with("Failed to delete all resource types, 1 remaining: "), "{words}");
    assert!(words.contains("not yet"), "{words}");
    let left = get(&client, "/api/v1/namespaces/held/configmaps").await.ok();
    let left = left.body["items"].as_array().expect("items").iter();
    let left: Vec<&Value> = left.map(|one| &one["metadata"]["name"]).collect();
    assert_eq!(left, ["kept"], "what may go is gone");
    // It was refused for long, so it is seldom tried: another namespace does not wait for that.
    tokio::time::sleep(10 * MINUTE).await;
    delete(&client, "/api/v1/namespaces/free").await.ok();
    let second = Duration::from_secs(1);
    let gone = async |name: &str| {
        let found = get(&client, &format!("/api/v1/namespaces/{name}")).await;
        (found.status == 404).then_some(())
    };
    eventually("another goes at once", second, async || gone("free").await).await;
    assert_eq!(gone("held").await, None);
    kept.store(false, Ordering::Relaxed);
    eventually("it is tried again", MINUTE, async || gone("held").await).await;
    engine.close().await;
}

#[tokio::test(start_paused = true)]
async fn warnings_come_with_the_answer() {
    let warn = service(|review, mut response| {
        response.warnings = Some(vec!["mind the \"gap\"".to_owned(), "twice".to_owned()]);
        let object = review.object.as_ref().expect("a create has an object");
        if object.metadata.name.as_deref() == Some("bad") { response.deny("no") } else { response }
    });
    let again = service(|_, mut response| {
        response.warnings = Some(vec!["twice".to_owned()]);
        response
    });
    let (engine, client) = with_hooks(Hooks {
        mutating: vec![Hook::new("again", on(&["configmaps"]), again)],
        validating: vec![Hook::new("warn", on(&["configmaps"]), warn)],
    })
    .await;
    let made = post(&client, MAPS, &map("good")).await.ok();
    assert_eq!(made.warnings(), ["twice", "mind the \\\"gap\\\""]);
    let refused = post(&client, MAPS, &map("bad")).await;
    assert_eq!(refused.body["status"], "Failure");
    assert_eq!(refused.warnings(), ["twice", "mind the \\\"gap\\\""], "a refusal has them too");
    engine.close().await;
}
