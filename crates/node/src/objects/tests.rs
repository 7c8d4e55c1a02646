pub(crate) mod server;

use serde_json::json;

use super::*;
use server::Server;

fn pod(spec: &serde_json::Value) -> Pod {
    serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "team"}, "spec": spec}))
        .unwrap()
}

fn mounting(secret: &str) -> Pod {
    let volumes = json!([{"name": "v", "secret": {"secretName": secret}}]);
    pod(&json!({"containers": [], "volumes": volumes}))
}

fn claiming(claim: &str) -> Pod {
    let volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]);
    pod(&json!({"containers": [], "volumes": volumes}))
}

/// Waits until a lookup says something else than that nothing was read yet.
async fn news(objects: &Objects) -> Vec<String> {
    let waiting = tokio::time::timeout(Duration::from_secs(20), objects.changed());
    waiting.await.unwrap().into_iter().collect()
}

fn text(found: Known<Arc<Secret>>) -> Result<String, String> {
    match found {
        Known::Is(secret) => {
            let data = secret.data.clone().unwrap_or_default();
            Ok(String::from_utf8(data["key"].0.clone()).unwrap())
        }
        Known::Absent => Err("absent".to_owned()),
        Known::Unknown(why) => Err(why),
    }
}

/// `value` in base64.
fn secret(value: &str) -> serde_json::Value {
    let bytes = k8s_openapi::ByteString(value.as_bytes().to_vec());
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {}, "data": {"key": bytes}})
}

#[test]
fn every_reference_is_found() {
    let environment = |n: u32| {
        json!({
            "name": format!("c{n}"),
            "env": [
                {"name": "A", "valueFrom": {"secretKeyRef": {"name": format!("s-key{n}"), "key": "k"}}},
                {"name": "B", "valueFrom": {"configMapKeyRef": {"name": format!("c-key{n}"), "key": "k"}}},
                {"name": "C", "value": "plain"},
            ],
            "envFrom": [
                {"secretRef": {"name": format!("s-all{n}")}},
                {"configMapRef": {"name": format!("c-all{n}")}},
            ],
        })
    };
    let pod = pod(&json!({
        "containers": [environment(1)],
        "initContainers": [environment(2)],
        "volumes": [
            {"name": "a", "configMap": {"name": "c-vol"}},
            {"name": "b", "secret": {"secretName": "s-vol"}},
            {"name": "c", "persistentVolumeClaim": {"claimName": "claim"}},
            {"name": "d", "emptyDir": {}},
            {"name": "e", "projected": {"sources": [
                {"configMap": {"name": "c-proj"}}, {"secret": {"name": "s-proj"}},
                {"serviceAccountToken": {"path": "t"}},
            ]}},
            {"name": "f", "secret": {}},
        ],
    }));
    let found: Vec<_> = references(&pod)
        .into_iter()
        .map(|reference| {
            assert_eq!(reference.namespace, "team");
            (reference.kind, reference.name)
        })
        .collect();
    let expected = [
        (Kind::ConfigMap, ["c-all1", "c-all2", "c-key1", "c-key2", "c-proj", "c-vol"].as_slice()),
        (Kind::Secret, &["s-all1", "s-all2", "s-key1", "s-key2", "s-proj", "s-vol"]),
        (Kind::Claim, &["claim"]),
    ];
    let expected: Vec<_> = expected
        .into_iter()
        .flat_map(|(kind, names)| names.iter().map(move |name| (kind, (*name).to_owned())))
        .collect();
    assert_eq!(found, expected);
}

#[tokio::test]
async fn an_object_is_followed_by_name_and_shared() {
    let server = Server::start().await;
    server.put("secrets", "team", "mine", secret("one"));
    server.put("secrets", "team", "theirs", secret("other"));
    let objects = Objects::new(server.client());
    assert!(matches!(objects.secret("team", "mine"), Known::Unknown(_)));
    objects.set("pod-1", references(&mounting("mine")));
    assert!(objects.are_loading("pod-1"));
    assert_eq!(news(&objects).await, ["pod-1"]);
    assert!(!objects.are_loading("pod-1") && !objects.are_loading("pod-2"));
    assert_eq!(text(objects.secret("team", "mine")), Ok("one".to_owned()));

    objects.set("pod-2", references(&mounting("mine")));
    server.put("secrets", "team", "theirs", secret("changed"));
    server.put("secrets", "team", "mine", secret("two"));
    assert_eq!(news(&objects).await, ["pod-1", "pod-2"]);
    assert_eq!(text(objects.secret("team", "mine")), Ok("two".to_owned()));

    server.delete("secrets", "team", "mine");
    news(&objects).await;
    assert_eq!(text(objects.secret("team", "mine")), Err("absent".to_owned()));

    for request in server.requests() {
        assert!(request.contains("fieldSelector=metadata.name%3Dmine"), "{request}");
    }
    objects.forget("pod-1");
    assert_eq!(text(objects.secret("team", "mine")), Err("absent".to_owned()));
    objects.forget("pod-2");
    assert!(matches!(objects.secret("team", "mine"), Known::Unknown(_)));
}

#[tokio::test]
async fn what_cannot_be_read_is_not_absent() {
    let server = Server::start().await;
    server.refuse(Some((403, "secrets \"mine\" is forbidden: no relationship found")));
    let objects = Objects::new(server.client());
    objects.set("pod", references(&mounting("mine")));
    news(&objects).await;
    assert!(!objects.are_loading("pod"));
    let words = "secret \"mine\" could not be read: \
                 secrets \"mine\" is forbidden: no relationship found";
    assert_eq!(text(objects.secret("team", "mine")), Err(words.to_owned()));

    server.put("secrets", "team", "mine", secret("one"));
    server.refuse(None);
    news(&objects).await;
    assert_eq!(text(objects.secret("team", "mine")), Ok("one".to_owned()));
}

#[tokio::test]
async fn a_server_that_is_not_there_is_said_so() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    drop(listener);
    let objects = Objects::new(kube::Client::try_from(kube::Config::new(url)).unwrap());
    objects.set("pod", references(&mounting("mine")));
    news(&objects).await;
    let words = text(objects.secret("team", "mine")).unwrap_err();
    let start = "secret \"mine\" could not be read: the API server cannot be reached: ";
    assert!(words.starts_with(start) && words.contains("refused"), "{words}");
}

#[tokio::test]
async fn a_claim_is_read_until_it_is_bound_and_again_for_another_pod() {
    let claim = |uid: &str, phase: &str| {
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
               "metadata": {"uid": uid}, "status": {"phase": phase}})
    };
    let uid = |objects: &Objects| match objects.claim("team", "data") {
        Known::Is(claim) => claim.uid().unwrap(),
        Known::Absent => "absent".to_owned(),
        Known::Unknown(_) => "unknown".to_owned(),
    };
    let server = Server::start().await;
    let objects = Objects::new(server.client());
    objects.set("pod-1", references(&claiming("data")));
    news(&objects).await;
    assert_eq!(uid(&objects), "absent");
    server.put("persistentvolumeclaims", "team", "data", claim("first", "Pending"));
    news(&objects).await;
    server.put("persistentvolumeclaims", "team", "data", claim("first", "Bound"));
    news(&objects).await;
    assert_eq!(uid(&objects), "first");
    objects.set("pod-1", references(&claiming("data")));
    assert_eq!(uid(&objects), "first", "the same Pod does not ask again");

    server.put("persistentvolumeclaims", "team", "data", claim("second", "Bound"));
    objects.set("pod-2", references(&claiming("data")));
    assert_eq!(uid(&objects), "unknown", "what the name means now is not known yet");
    news(&objects).await;
    assert_eq!(uid(&objects), "second");
    for request in server.requests() {
        let only_get = "GET /api/v1/namespaces/team/persistentvolumeclaims/data";
        assert!(request.starts_with(only_get), "a node may not list or watch claims: {request}");
    }
}

#[tokio::test]
async fn references_are_bounded() {
    let server = Server::start().await;
    let objects = Objects::new(server.client());
    let sources: Vec<_> = (0..MAX_REFERENCES_PER_POD + 1)
        .map(|number| json!({"secret": {"name": format!("s{number:04}")}}))
        .collect();
    let volumes = json!([{"name": "v", "projected": {"sources": sources}}]);
    objects.set("pod", references(&pod(&json!({"containers": [], "volumes": volumes}))));
    assert_eq!(objects.shared.lock().followed.len(), MAX_REFERENCES_PER_POD);
    let words = text(objects.secret("team", &format!("s{MAX_REFERENCES_PER_POD:04}"))).unwrap_err();
    assert!(words.contains("is not followed: a Pod may refer to 256 objects"), "{words}");
}

#[test]
fn pauses_double_up_to_a_bound() {
    let mut retry = Retry::new(Duration::from_millis(100), Duration::from_millis(500));
    let pauses: Vec<_> = retry.by_ref().take(5).map(|pause| pause.as_millis()).collect();
    assert_eq!(pauses, [100, 200, 400, 500, 500]);
    retry.reset();
    assert_eq!(retry.pause(), Duration::from_millis(100));
}
