use std::collections::HashMap;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE;
use serde_json::{Value, json};

use super::*;
use crate::auth::ObjectState;
use crate::clock::SeededEntropy;
use crate::json::Object;
use crate::status::ApiError;

const ISSUER: &str = "https://kubernetes.default.svc";
const NOW: i64 = 1_794_777_313;

#[derive(Default)]
struct Cluster {
    states: HashMap<(LiveKind, String), ObjectState>,
    pods: HashMap<String, Object>,
}

impl LiveObjects for Cluster {
    fn state(&self, kind: LiveKind, namespace: &str, name: &str) -> Option<ObjectState> {
        self.states.get(&(kind, format!("{namespace}/{name}"))).cloned()
    }

    fn pod(&self, namespace: &str, name: &str) -> Option<Object> {
        self.pods.get(&format!("{namespace}/{name}")).cloned()
    }
}

impl Cluster {
    fn put(&mut self, kind: LiveKind, key: &str, uid: &str, deleted_at: Option<i64>) {
        let deleted_at = deleted_at.map(|at| Timestamp::from_second(at).unwrap());
        let state = ObjectState { uid: uid.to_owned(), deleted_at };
        self.states.insert((kind, key.to_owned()), state);
    }

    fn remove(&mut self, kind: LiveKind, key: &str) {
        self.states.remove(&(kind, key.to_owned()));
    }
}

fn cluster() -> Cluster {
    let mut cluster = Cluster::default();
    cluster.put(LiveKind::ServiceAccount, "default/robot", "sa-1", None);
    cluster.put(LiveKind::ServiceAccount, "default/other", "sa-2", None);
    cluster.put(LiveKind::Pod, "default/p1", "pod-1", None);
    cluster.put(LiveKind::Secret, "default/s", "secret-1", None);
    cluster.put(LiveKind::Node, "/n1", "node-1", None);
    let pod = json!({
        "metadata": {"name": "p1", "namespace": "default", "uid": "pod-1"},
        "spec": {"serviceAccountName": "robot", "nodeName": "n1"},
    });
    cluster.pods.insert("default/p1".to_owned(), pod.as_object().unwrap().clone());
    cluster
}

fn issuer() -> TokenIssuer {
    TokenIssuer::new(ISSUER, &[&TokenIssuer::generate_key().unwrap()]).unwrap()
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

fn request(issuer: &TokenIssuer, account: &str, body: &Value) -> Result<Value, ApiError> {
    let body = body.as_object().unwrap();
    let entropy = SeededEntropy::new(1);
    issuer
        .issue(body, "default", account, &cluster(), at(NOW), &entropy)
        .map(|issued| issued.answer)
}

fn claims(token: &Value) -> Value {
    Unverified::parse(token.as_str().unwrap()).unwrap().unverified_claims::<Value>().unwrap()
}

fn bound_to(kind: &str, name: &str) -> Value {
    json!({"spec": {"boundObjectRef": {"kind": kind, "apiVersion": "v1", "name": name}}})
}

#[test]
fn answers_as_upstream_does() {
    let mut answer = request(&issuer(), "robot", &json!({"spec": {}})).unwrap();
    let token = answer["status"]["token"].take();
    assert_eq!(
        answer,
        json!({
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {"name": "robot", "namespace": "default", "uid": "sa-1", "creationTimestamp": "2026-11-15T21:15:13Z"},
            "spec": {"audiences": [ISSUER], "expirationSeconds": 3600, "boundObjectRef": null},
            "status": {"token": null, "expirationTimestamp": "2026-11-15T22:15:13Z"},
        })
    );
    let mut claimed = claims(&token);
    assert_eq!(claimed["jti"].take().as_str().unwrap().len(), 36);
    assert_eq!(
        claimed,
        json!({
            "aud": [ISSUER], "exp": NOW + 3600, "iat": NOW, "iss": ISSUER, "jti": null,
            "kubernetes.io": {"namespace": "default", "serviceaccount": {"name": "robot", "uid": "sa-1"}},
            "nbf": NOW, "sub": "system:serviceaccount:default:robot",
        })
    );
    // The bytes are in the order in which upstream writes them.
    let payload = token.as_str().unwrap().split('.').nth(1).unwrap().to_owned();
    let prefix = URL_SAFE.encode(format!(r#"{{"aud":["{ISSUER}"],"exp":{},"ia"#, NOW + 3600));
    assert!(payload.starts_with(prefix.trim_end_matches('=').get(..60).unwrap()));
}

#[test]
fn binds_to_objects() {
    let issuer = issuer();
    let of = |body: &Value| {
        let answer = request(&issuer, "robot", body).unwrap();
        claims(&answer["status"]["token"])["kubernetes.io"].clone()
    };
    let account = json!({"name": "robot", "uid": "sa-1"});
    assert_eq!(
        of(&bound_to("Pod", "p1")),
        json!({"namespace": "default", "serviceaccount": account, "pod": {"name": "p1", "uid": "pod-1"}, "node": {"name": "n1", "uid": "node-1"}})
    );
    assert_eq!(
        of(&bound_to("Secret", "s")),
        json!({"namespace": "default", "serviceaccount": account, "secret": {"name": "s", "uid": "secret-1"}})
    );
    assert_eq!(
        of(&bound_to("Node", "n1")),
        json!({"namespace": "default", "serviceaccount": account, "node": {"name": "n1", "uid": "node-1"}})
    );
    let mut injected = bound_to("Pod", "p1");
    injected["spec"]["expirationSeconds"] = json!(3607);
    let answer = request(&issuer, "robot", &injected).unwrap();
    assert_eq!(answer["status"]["expirationTimestamp"], "2026-11-15T22:15:20Z");
    let claimed = claims(&answer["status"]["token"]);
    assert_eq!(claimed["exp"], NOW + 31_536_000);
    assert_eq!(claimed["kubernetes.io"]["warnafter"], NOW + 3607);
}

#[test]
fn refuses_bad_requests_in_upstreams_words() {
    let issuer = issuer();
    let with = |mut body: Value, member: &str, value: Value| {
        *body.pointer_mut(member).unwrap() = value;
        body
    };
    let pod_uid = json!({"spec": {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "p1", "uid": "zz"}}});
    let cases = [
        (
            "robot",
            json!({"spec": {"expirationSeconds": 599}}),
            422,
            r#"TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes"#,
        ),
        (
            "robot",
            json!({"spec": {"expirationSeconds": 4_294_967_297_i64}}),
            422,
            r#"TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 4294967297: may not specify a duration larger than 2^32 seconds"#,
        ),
        (
            "robot",
            pod_uid,
            409,
            r#"Operation cannot be fulfilled on Pod "p1": the UID in the bound object reference (zz) does not match the UID in record. The object might have been deleted and then recreated"#,
        ),
        ("robot", bound_to("Pod", "p9"), 404, r#"pods "p9" not found"#),
        ("robot", bound_to("Secret", "p9"), 404, r#"secrets "p9" not found"#),
        (
            "robot",
            bound_to("Service", "x"),
            400,
            "cannot bind token to object of type /v1, Kind=Service",
        ),
        (
            "robot",
            with(bound_to("Deployment", "x"), "/spec/boundObjectRef/apiVersion", json!("apps/v1")),
            400,
            "cannot bind token to object of type apps/v1, Kind=Deployment",
        ),
        (
            "robot",
            json!({"spec": {"boundObjectRef": {}}}),
            400,
            "cannot bind token to object of type /, Kind=",
        ),
        (
            "other",
            bound_to("Pod", "p1"),
            400,
            r#"cannot bind token for serviceaccount "other" to pod running with different serviceaccount name."#,
        ),
        ("none", json!({}), 404, r#"serviceaccounts "none" not found"#),
        (
            "robot",
            json!({"metadata": {"name": "x"}}),
            422,
            r#"TokenRequest.authentication.k8s.io "robot" is invalid: metadata.name: Invalid value: "x": must match the service account name if specified"#,
        ),
        (
            "robot",
            json!({"metadata": {"uid": "x"}}),
            409,
            r#"Operation cannot be fulfilled on TokenRequest.authentication.k8s.io "robot": the UID in the token request (x) does not match the UID of the service account (sa-1)"#,
        ),
    ];
    for (account, body, code, message) in cases {
        let error = request(&issuer, account, &body).unwrap_err();
        assert_eq!((error.code.as_u16(), error.message.as_str()), (code, message), "{body}");
    }
}

#[test]
fn verified_tokens_give_upstreams_identity() {
    let issuer = issuer();
    let answer = request(&issuer, "robot", &bound_to("Pod", "p1")).unwrap();
    let token = answer["status"]["token"].as_str().unwrap();
    let verified = issuer
        .verify(token, issuer.audiences(), &cluster(), at(NOW))
        .unwrap()
        .expect("a token of ours");
    let mut info = verified.identity.user_info();
    let id = info["extra"][CREDENTIAL_ID].take();
    assert!(id[0].as_str().unwrap().starts_with("JTI="), "{id}");
    assert_eq!(
        info,
        json!({
            "username": "system:serviceaccount:default:robot",
            "uid": "sa-1",
            "groups": ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"],
            "extra": {
                "authentication.kubernetes.io/credential-id": null,
                "authentication.kubernetes.io/node-name": ["n1"],
                "authentication.kubernetes.io/node-uid": ["node-1"],
                "authentication.kubernetes.io/pod-name": ["p1"],
                "authentication.kubernetes.io/pod-uid": ["pod-1"],
            },
        })
    );
    assert_eq!(verified.audiences, [ISSUER]);
}

#[test]
fn tokens_are_refused_after_expiry_for_other_audiences_and_without_their_objects() {
    let issuer = issuer();
    let token = |body: &Value| {
        let answer = request(&issuer, "robot", body).unwrap();
        answer["status"]["token"].as_str().unwrap().to_owned()
    };
    let error = |token: &str, audiences: &[&str], cluster: &Cluster, now: i64| {
        let audiences: Vec<String> = audiences.iter().map(|&a| a.to_owned()).collect();
        match issuer.verify(token, &audiences, cluster, at(now)) {
            Ok(verified) => format!("good: {}", verified.is_some()),
            Err(error) => error.to_string(),
        }
    };
    let plain = token(&json!({"spec": {}}));
    let good = "good: true";
    let whole = cluster();
    assert_eq!(error(&plain, &[ISSUER], &whole, NOW + 3660), good);
    assert_eq!(error(&plain, &[ISSUER], &whole, NOW + 3661), "service account token has expired");
    assert_eq!(error(&plain, &[ISSUER], &whole, NOW - 60), good);
    assert_eq!(
        error(&plain, &[ISSUER], &whole, NOW - 61),
        "service account token is not valid yet"
    );

    let other = token(&json!({"spec": {"audiences": ["a"]}}));
    assert_eq!(
        error(&other, &[ISSUER], &whole, NOW),
        r#"token audiences ["a"] is invalid for the target audiences ["https://kubernetes.default.svc"]"#
    );
    assert_eq!(error(&other, &["b", "a"], &whole, NOW), good);

    let mut changed = cluster();
    changed.put(LiveKind::ServiceAccount, "default/robot", "sa-9", None);
    assert_eq!(
        error(&plain, &[ISSUER], &changed, NOW),
        "service account UID (sa-9) does not match claim (sa-1)"
    );
    changed.put(LiveKind::ServiceAccount, "default/robot", "sa-1", Some(NOW - 60));
    assert_eq!(error(&plain, &[ISSUER], &changed, NOW), good);
    changed.put(LiveKind::ServiceAccount, "default/robot", "sa-1", Some(NOW - 61));
    assert_eq!(
        error(&plain, &[ISSUER], &changed, NOW),
        "service account default/robot has been deleted"
    );
    changed.remove(LiveKind::ServiceAccount, "default/robot");
    assert_eq!(error(&plain, &[ISSUER], &changed, NOW), r#"serviceaccounts "robot" not found"#);

    for (kind, name, live, key, word) in [
        ("Pod", "p1", LiveKind::Pod, "default/p1", "pod"),
        ("Secret", "s", LiveKind::Secret, "default/s", "secret"),
        ("Node", "n1", LiveKind::Node, "/n1", "node"),
    ] {
        let bound = token(&bound_to(kind, name));
        let mut changed = cluster();
        assert_eq!(error(&bound, &[ISSUER], &changed, NOW), good);
        changed.put(live, key, "new", None);
        assert_eq!(
            error(&bound, &[ISSUER], &changed, NOW),
            format!("{word} UID (new) does not match service account {word} ref claim ({word}-1)")
        );
        changed.remove(live, key);
        assert_eq!(
            error(&bound, &[ISSUER], &changed, NOW),
            "service account token has been invalidated"
        );
    }
    // A Pod's token outlives the Node object: only the Pod counts.
    let bound = token(&bound_to("Pod", "p1"));
    let mut changed = cluster();
    changed.remove(LiveKind::Node, "/n1");
    assert_eq!(error(&bound, &[ISSUER], &changed, NOW), good);
}

#[test]
fn tokens_of_other_issuers_are_ignored() {
    let (ours, theirs) = (issuer(), issuer());
    let answer = request(&theirs, "robot", &json!({})).unwrap();
    let token = answer["status"]["token"].as_str().unwrap();
    let verify = |issuer: &TokenIssuer, token: &str| {
        issuer.verify(token, issuer.audiences(), &cluster(), at(NOW)).map(|v| v.is_some())
    };
    assert_eq!(verify(&ours, token), Err(InvalidToken::Jwt(JwtError::UnknownKey)));
    let elsewhere =
        TokenIssuer::new("https://elsewhere", &[&TokenIssuer::generate_key().unwrap()]).unwrap();
    assert_eq!(verify(&elsewhere, token), Ok(false));
    assert_eq!(verify(&ours, "opaque"), Ok(false));
    assert_eq!(verify(&ours, ""), Ok(false));
}

#[test]
fn keys_rotate() {
    let (old, new) = (TokenIssuer::generate_key().unwrap(), TokenIssuer::generate_key().unwrap());
    let before = TokenIssuer::new(ISSUER, &[&old]).unwrap();
    let after = TokenIssuer::new(ISSUER, &[&new, &old]).unwrap();
    let answer = request(&before, "robot", &json!({})).unwrap();
    let token = answer["status"]["token"].as_str().unwrap();
    assert!(after.verify(token, after.audiences(), &cluster(), at(NOW)).unwrap().is_some());
    assert!(TokenIssuer::new(ISSUER, &[]).is_err());
}

#[test]
fn user_names_are_taken_apart() {
    let cases = [
        ("system:serviceaccount:default:robot", Some(("default", "robot"))),
        ("system:serviceaccount:default:a.b", Some(("default", "a.b"))),
        ("system:serviceaccount:default:", None),
        ("system:serviceaccount:a.b:robot", None),
        ("system:serviceaccount:default:a:b", None),
        ("robot", None),
    ];
    for (user, expected) in cases {
        assert_eq!(split_user_name(user), expected, "{user}");
    }
    assert_eq!(user_name("default", "robot"), "system:serviceaccount:default:robot");
}
