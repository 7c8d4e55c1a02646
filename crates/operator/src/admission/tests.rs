use std::sync::Mutex;
use std::time::Duration;

use futures::FutureExt as _;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use kube::client::Body;
use kube::core::admission::AdmissionReview;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use sojourn_api::name::{GROUP_GROUP, LAB_GROUP};
use sojourn_core::key::Key;

use super::rule::Rule;
use super::*;

mod access;
mod cluster;
mod game;
mod group;
mod lab;
mod owed;
mod pod;
mod reference;

/// A request about an object that becomes `new` and was `old`.
fn request(resource: (&str, &str), new: Value, old: Value) -> AdmissionRequest<DynamicObject> {
    admission_review(resource, new, old).try_into().expect("a request")
}

fn admission_review(
    (group, resource): (&str, &str),
    new: Value,
    old: Value,
) -> AdmissionReview<DynamicObject> {
    let metadata = &new["metadata"];
    let mut review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "7",
            "kind": { "group": group, "version": "v1", "kind": "Thing" },
            "resource": { "group": group, "version": "v1", "resource": resource },
            "name": metadata["name"], "namespace": metadata["namespace"],
            "operation": if old.is_null() { "CREATE" } else { "UPDATE" },
            "userInfo": { "username": "ada", "groups": ["students"] },
        },
    });
    review["request"]["object"] = new;
    review["request"]["oldObject"] = old;
    serde_json::from_value(review).expect("a review")
}

/// A request to delete what was `old`, with these options.
fn deletion(
    resource: (&str, &str),
    old: &Value,
    options: Value,
) -> AdmissionRequest<DynamicObject> {
    let mut review =
        serde_json::to_value(admission_review(resource, old.clone(), old.clone())).expect("JSON");
    let request = &mut review["request"];
    request["operation"] = json!("DELETE");
    request["object"] = Value::Null;
    request["options"] = options;
    let review: AdmissionReview<DynamicObject> = serde_json::from_value(review).expect("a review");
    review.try_into().expect("a request")
}

fn instance(annotations: Value) -> Value {
    let mut object = json!({
        "apiVersion": "lab.sojourn.dev/v1alpha1", "kind": "Instance",
        "metadata": { "name": "one", "namespace": "lab" }, "spec": {},
    });
    object["metadata"]["annotations"] = annotations;
    object
}

fn of_instance(new: Value, old: Value) -> AdmissionRequest<DynamicObject> {
    request((LAB_GROUP, "instances"), new, old)
}

fn config_map(data: Value) -> Value {
    let mut object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "sojourn", "namespace": "sojourn-system" },
    });
    object["data"] = data;
    object
}

fn of_config(new: Value, old: Value) -> AdmissionRequest<DynamicObject> {
    request(("", "configmaps"), new, old)
}

fn review_config(new: Value, old: Value) -> AdmissionResponse {
    configuration::ConfigurationRule.review(&of_config(new, old), &Permissions::default())
}

/// What a rule must know to review a request; nothing, if it is none of its business.
fn needs_of<R: Rule<Needs: Default>>(
    rule: &R,
    request: &AdmissionRequest<DynamicObject>,
) -> R::Needs {
    let concerned = rule.hook().covers(request) && rule.concerns(request);
    if concerned { rule.needs(request) } else { R::Needs::default() }
}

/// What a rule says about a request, by what was found out.
fn review_of<R: Rule>(
    rule: &R,
    request: &AdmissionRequest<DynamicObject>,
    answers: &R::Answers,
) -> AdmissionResponse {
    if rule.hook().covers(request) && rule.concerns(request) {
        return rule.review(request, answers);
    }
    AdmissionResponse::from(request)
}

fn fields(response: &AdmissionResponse) -> Vec<&str> {
    let details = response.result.details.as_ref();
    details.map(|d| d.causes.iter().map(|c| c.field.as_str()).collect()).unwrap_or_default()
}

#[test]
fn a_bad_configuration_is_refused_with_the_path_of_each_problem() {
    let bad = config_map(json!({ "lab.yaml": "margin: 60\nmarign: 1m", "lob.yaml": "" }));
    let response = review_config(bad, Value::Null);
    assert!(!response.allowed);
    assert_eq!((response.result.code, response.result.reason.as_str()), (422, "Invalid"));
    assert_eq!(
        fields(&response),
        ["data[lab.yaml].margin", "data[lab.yaml].marign", "data[lob.yaml]"]
    );
    assert!(response.result.message.contains("margin is one"), "{}", response.result.message);
}

#[test]
fn a_good_configuration_and_one_of_somebody_else_go_on() {
    let good = config_map(json!({ "lab.yaml": "margin: 5m" }));
    assert!(review_config(good, Value::Null).allowed);
    let mut others = config_map(json!({ "lab.yaml": "nonsense" }));
    others["metadata"]["namespace"] = json!("default");
    let others = of_config(others, Value::Null);
    assert!(Admission::default().admit(&others).now_or_never().expect("asks nobody").allowed);
    assert!(review_config(config_map(Value::Null), Value::Null).allowed);
}

#[test]
fn a_configuration_that_is_bad_already_can_get_a_label() {
    let old = config_map(json!({ "lab.yaml": "nonsense" }));
    let mut new = old.clone();
    new["metadata"]["labels"] = json!({ "a": "b" });
    assert!(review_config(new, old).allowed);
}

#[test]
fn binary_configuration_is_refused() {
    let mut map = config_map(Value::Null);
    map["binaryData"] = json!({ "lab.yaml": "AAAA" });
    let response = review_config(map, Value::Null);
    assert_eq!(fields(&response), ["binaryData[lab.yaml]"]);
}

/// A client whose API answers every access review alike, and what it was asked.
fn api(allowed: Option<bool>) -> (Client, Arc<Mutex<Vec<Value>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = asked.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let seen = seen.clone();
        async move {
            let body = request.into_body().collect().await.expect("a body").to_bytes();
            let mut review: Value = serde_json::from_slice(&body).expect("JSON");
            seen.lock().expect("no panic").push(review["spec"].clone());
            let Some(allowed) = allowed else {
                return Ok(Response::builder()
                    .status(500)
                    .body(Body::empty())
                    .expect("a response"));
            };
            review["status"] = json!({ "allowed": allowed });
            let body = Body::from(review.to_string().into_bytes());
            Ok::<_, Infallible>(Response::new(body))
        }
    });
    (Client::new(service, "default"), asked)
}

#[tokio::test]
async fn the_service_asks_for_whoever_sent_the_request() {
    let paused = of_instance(instance(json!({ "sojourn.dev/paused": "true" })), Value::Null);
    for (allowed, wanted) in [(Some(true), true), (Some(false), false), (None, false)] {
        let (client, asked) = api(allowed);
        let admission = Admission::default();
        admission.connect(client);
        let response = admission.service().oneshot(paused.clone()).await.expect("infallible");
        assert_eq!(response.allowed, wanted);
        let asked = asked.lock().expect("no panic");
        assert_eq!(asked.len(), 1);
        assert_eq!(asked[0]["user"], "ada");
        assert_eq!(asked[0]["groups"], json!(["students"]));
        assert_eq!(asked[0]["resourceAttributes"]["verb"], "hold");
        assert_eq!(asked[0]["resourceAttributes"]["name"], "one");
    }
}

#[tokio::test]
async fn without_a_client_only_what_needs_one_is_refused() {
    let service = Admission::default().service();
    let plain = of_instance(instance(json!({})), Value::Null);
    assert!(service.clone().oneshot(plain).await.expect("infallible").allowed);
    let paused = of_instance(instance(json!({ "sojourn.dev/paused": "true" })), Value::Null);
    assert!(!service.oneshot(paused).await.expect("infallible").allowed);
}

async fn post(body: impl Into<axum::body::Body>) -> (StatusCode, Value) {
    let request = Request::post("/admit").body(body.into()).expect("a request");
    let response = Admission::default().router().oneshot(request).await.expect("infallible");
    let status = response.status();
    let body = response.into_body().collect().await.expect("a body").to_bytes();
    (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
}

#[tokio::test]
async fn the_webhook_answers_reviews() {
    let bad = config_map(json!({ "lab.yaml": "margin: 60" }));
    let review = admission_review(("", "configmaps"), bad, Value::Null);
    let (status, answer) = post(serde_json::to_vec(&review).expect("JSON")).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(answer["kind"], "AdmissionReview");
    assert_eq!(answer["response"]["uid"], "7");
    assert_eq!(answer["response"]["allowed"], false);
    assert_eq!(
        answer["response"]["status"]["details"]["causes"][0]["field"],
        "data[lab.yaml].margin"
    );
}

#[tokio::test]
async fn the_webhook_refuses_what_is_no_review() {
    let (status, answer) = post("nonsense").await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert_eq!(answer["response"]["allowed"], false);
    let (status, _) = post(vec![b' '; 9 << 20]).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
}

/// A rule that answers every request alike, if it answers any.
struct Answering(Option<AdmissionResponse>);

impl Rule for Answering {
    type Needs = ();
    type Answers = ();

    fn hook(&self) -> Hook {
        Hook::writes((LAB_GROUP, "v1alpha1", "instances"), "true".to_owned())
    }

    fn concerns(&self, _: &AdmissionRequest<DynamicObject>) -> bool {
        self.0.is_some()
    }

    fn needs(&self, _: &AdmissionRequest<DynamicObject>) {}

    async fn look_up(&self, (): (), _: Lookup<'_>) {}

    fn review(&self, _: &AdmissionRequest<DynamicObject>, (): &()) -> AdmissionResponse {
        self.0.clone().expect("what it has no answer to is none of its business")
    }
}

#[test]
fn every_family_of_the_api_has_rules_for_its_kinds() {
    let known = sojourn_api::family::FAMILIES;
    assert_eq!(FAMILIES.len(), known.len());
    for (rules, family) in FAMILIES.iter().zip(known) {
        let rules = rules(&Setup::default());
        assert!(rules.iter().any(|rule| rule.hook.group == family.api_group), "{}", family.name);
    }
}

#[test]
fn every_rule_that_cares_about_a_request_must_allow_it() {
    let request = of_instance(instance(json!({})), Value::Null);
    let warning = |text: &str| {
        let mut response = AdmissionResponse::from(&request);
        response.warnings = Some(vec![text.to_owned()]);
        Some(response)
    };
    let refusal = || Some(AdmissionResponse::from(&request).deny("not by the second"));
    let reviewed = |answers: Vec<Option<AdmissionResponse>>| {
        let rules: Vec<_> =
            answers.into_iter().map(|answer| RegisteredRule::new(Answering(answer))).collect();
        let lookup = Lookup::new(None, &request);
        review_by_all(&rules, &request, lookup).now_or_never().expect("asks nobody")
    };
    assert!(reviewed(vec![None, None]).allowed, "nobody's business");
    let refused = reviewed(vec![warning("first"), refusal(), warning("third")]);
    assert_eq!((refused.allowed, refused.result.message.as_str()), (false, "not by the second"));
    let allowed = reviewed(vec![warning("first"), None, warning("third")]);
    assert!(allowed.allowed);
    assert_eq!(allowed.warnings, Some(vec!["first".to_owned(), "third".to_owned()]));
}

#[test]
fn a_cluster_is_told_to_ask_only_about_what_is_reviewed() {
    let target = Target::Url("https://127.0.0.1:9443/".to_owned());
    let all = configuration(&target, b"pem").webhooks.expect("webhooks");
    let names: Vec<_> = all.iter().map(|webhook| webhook.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "configuration.admission.sojourn.dev",
            "instances.admission.sojourn.dev",
            "templates.admission.sojourn.dev",
            "deletion.admission.sojourn.dev",
            "claims.admission.sojourn.dev",
            "namespaces.admission.sojourn.dev",
            "instancegroups.admission.sojourn.dev",
            "machines.admission.sojourn.dev",
            "pods.admission.sojourn.dev",
            "breakglassescalations.admission.sojourn.dev",
            "breakglasssessions.admission.sojourn.dev",
            "session-status.admission.sojourn.dev",
            "dedicatedgameservercollections.admission.sojourn.dev",
            "dedicatedgameservers.admission.sojourn.dev",
            "collection-deletion.admission.sojourn.dev",
            "clusterdeployments.admission.sojourn.dev",
        ]
    );
    for webhook in &all {
        let pods = webhook.name.starts_with("pods.");
        let policy =
            if pods || webhook.name.starts_with("namespaces.") { "Ignore" } else { "Fail" };
        let labels =
            webhook.object_selector.as_ref().and_then(|all| all.match_expressions.as_ref());
        let label = labels.map(|all| (all[0].key.as_str(), all[0].operator.as_str()));
        assert_eq!(label, pods.then_some(("group.sojourn.dev/machine", "Exists")));
        assert_eq!(webhook.failure_policy.as_deref(), Some(policy));
        assert_eq!(webhook.client_config.url.as_deref(), Some("https://127.0.0.1:9443/admit"));
        let conditions = webhook.match_conditions.as_deref().unwrap_or_default();
        let exempt = conditions.iter().any(|condition| {
            condition.expression
                == "request.userInfo.username != 'system:serviceaccount:sojourn-system:sojourn'"
        });
        let configuration = webhook.name.starts_with("configuration.");
        assert_eq!(exempt, !configuration, "{}: our own writes do not wait for us", webhook.name);
        assert_eq!(conditions.len(), if configuration { 1 } else { 2 });
    }
}
