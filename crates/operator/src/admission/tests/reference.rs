//! Who names something must be allowed to.

use std::collections::BTreeSet;

use http::Method;
use serde_json::{Value, json};

use super::*;

/// An API with one Template and one Tenant, in which Ada may do what is listed: a verb, a resource, and
/// a namespace and a name as far as there are any.
#[derive(Clone, Default)]
struct Api {
    template: Value,
    tenant: Value,
    rights: Vec<&'static str>,
    /// The path whose requests are never answered.
    silent: Option<&'static str>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Api {
    fn allowing(rights: &[&'static str]) -> Self {
        Self { rights: rights.to_vec(), ..Self::default() }
    }

    fn answer(&self, method: &Method, path: &str, body: &[u8]) -> (u16, Value) {
        if method == Method::GET {
            let found = if path.contains("/tenants/") { &self.tenant } else { &self.template };
            let missing = json!({ "kind": "Status", "apiVersion": "v1", "code": 404,
                "status": "Failure", "reason": "NotFound", "message": "not found" });
            return if found.is_null() { (404, missing) } else { (200, found.clone()) };
        }
        let mut review: Value = serde_json::from_slice(body).expect("JSON");
        assert_eq!(review["spec"]["user"], "ada");
        let what = &review["spec"]["resourceAttributes"];
        let text = |field: &str| what[field].as_str().filter(|text| !text.is_empty());
        let words = ["verb", "resource", "namespace", "name"].into_iter().filter_map(text);
        let asked = words.collect::<Vec<_>>().join(" ");
        review["status"] = json!({ "allowed": self.rights.contains(&asked.as_str()) });
        self.asked.lock().expect("no panic").push(asked);
        (201, review)
    }

    async fn reviews(&self, request: AdmissionRequest<DynamicObject>) -> AdmissionResponse {
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let api = api.clone();
            async move {
                let (head, body) = request.into_parts();
                let path = head.uri.path().to_owned();
                if api.silent.is_some_and(|silent| path.contains(silent)) {
                    std::future::pending::<()>().await;
                }
                let body = body.collect().await.expect("a body").to_bytes();
                let (code, answer) = api.answer(&head.method, &path, &body);
                let answer = Body::from(answer.to_string().into_bytes());
                let response = Response::builder().status(code).body(answer);
                Ok::<_, Infallible>(response.expect("a response"))
            }
        });
        let admission = Admission::default();
        admission.connect(Client::new(service, "default"));
        admission.service().oneshot(request).await.expect("infallible")
    }

    fn asked(&self) -> BTreeSet<String> {
        self.asked.lock().expect("no panic").iter().cloned().collect()
    }
}

fn of_kind(kind: &str, namespace: Option<&str>, spec: Value) -> Value {
    let mut object = json!({
        "apiVersion": "lab.sojourn.dev/v1alpha1", "kind": kind, "metadata": { "name": "one" },
    });
    if let Some(namespace) = namespace {
        object["metadata"]["namespace"] = json!(namespace);
    }
    object["spec"] = spec;
    object
}

/// A Template whose program is given two keys of one Secret, and a ConfigMap.
fn template(namespace: &str, image: &str) -> Value {
    let from = |kind: &str, key: &str| json!({ kind: { "name": "db", "key": key } });
    of_kind(
        "Template",
        Some(namespace),
        json!({ "environmentList": [{ "name": "web", "image": image, "env": [
            { "name": "A", "valueFrom": from("secretKeyRef", "a") },
            { "name": "B", "valueFrom": from("secretKeyRef", "b") },
            { "name": "C", "valueFrom": from("configMapKeyRef", "c") },
        ]}]}),
    )
}

fn plain_template() -> Value {
    of_kind(
        "Template",
        Some("lab"),
        json!({ "environmentList": [{ "name": "web", "image": "i" }] }),
    )
}

fn tenant(user: Option<&str>) -> Value {
    of_kind("Tenant", None, json!({ "email": "grace@example.org", "user": user }))
}

fn lent(part: Value) -> Value {
    let mut spec = json!({ "template": { "name": "one" }, "tenant": { "name": "grace" } });
    if let (Value::Object(spec), Value::Object(part)) = (&mut spec, part) {
        spec.extend(part);
    }
    of_kind("Instance", Some("lab"), spec)
}

const LEND: &str = "lend tenants grace";
const TEMPLATE: &str = "get templates lab one";

fn assert_forbidden(response: &AdmissionResponse, field: &str, words: &str) {
    assert!(!response.allowed, "it is refused");
    assert_eq!(response.result.code, 403, "{}", response.result.message);
    assert!(fields(response).contains(&field), "{field}: {:?}", fields(response));
    assert!(response.result.message.contains(words), "{}", response.result.message);
}

#[tokio::test]
async fn an_instance_is_lent_by_those_who_may_lend_or_by_its_tenant() {
    let made = || of_instance(lent(json!({})), Value::Null);
    let stranger = Api { tenant: tenant(Some("grace")), ..Api::allowing(&[TEMPLATE]) };
    let words = "needs `lend` on tenants \"grace\"";
    assert_forbidden(&stranger.reviews(made()).await, "spec.tenant.name", words);
    let nobody = Api { tenant: tenant(None), ..stranger.clone() };
    assert_forbidden(&nobody.reviews(made()).await, "spec.tenant.name", words);
    let unknown = Api { tenant: Value::Null, ..stranger.clone() };
    assert_forbidden(&unknown.reviews(made()).await, "spec.tenant.name", words);
    let herself = Api { tenant: tenant(Some("ada")), ..stranger.clone() };
    assert!(herself.reviews(made()).await.allowed);
    let staff = Api { rights: vec![TEMPLATE, LEND], ..stranger };
    assert!(staff.reviews(made()).await.allowed);
}

#[tokio::test]
async fn only_the_tenant_and_lenders_choose_the_words_of_mails() {
    let named = |name: &str| lent(json!({ "prettyName": name }));
    let stranger = Api { tenant: tenant(Some("grace")), ..Api::default() };
    for (new, old) in [(named("Pay now!"), named("x")), (named("y"), lent(json!({})))] {
        let refused = stranger.reviews(of_instance(new, old)).await;
        assert_forbidden(&refused, "spec.prettyName", "ada is not the `spec.user`");
    }
    let taken_away = of_instance(lent(json!({})), named("x"));
    assert!(!stranger.reviews(taken_away).await.allowed);
    let renamed = || of_instance(named("y"), named("x"));
    let herself = Api { tenant: tenant(Some("ada")), ..Api::default() };
    assert!(herself.reviews(renamed()).await.allowed);
    assert!(Api::allowing(&[LEND]).reviews(renamed()).await.allowed);
}

#[tokio::test]
async fn what_is_not_renamed_asks_nobody() {
    let api = Api::default();
    let stopped = of_instance(lent(json!({ "running": false })), lent(json!({})));
    assert!(api.reviews(stopped).await.allowed);
    assert_eq!(api.asked(), BTreeSet::new());
}

#[tokio::test]
async fn an_instance_names_a_template_and_a_secret_that_its_writer_may_read() {
    let submission =
        json!({ "submission": { "url": "https://x/", "secretRef": { "name": "door" } } });
    let made = || of_instance(lent(submission.clone()), Value::Null);
    let (template, secret) = (TEMPLATE, "get secrets lab door");
    assert!(Api::allowing(&[LEND, template, secret]).reviews(made()).await.allowed);
    let refused = Api::allowing(&[LEND, template]).reviews(made()).await;
    let words = "ada needs `get` on secrets \"door\" in namespace \"lab\"";
    assert_forbidden(&refused, "spec.submission.secretRef.name", words);
    let refused = Api::allowing(&[LEND, secret]).reviews(made()).await;
    assert_forbidden(&refused, "spec.template", "`get` on templates \"one\"");
}

/// The Secret is sent to the URL, so changing the one is naming the other.
#[tokio::test]
async fn where_a_secret_is_sent_is_changed_by_those_who_may_read_it() {
    let submits =
        |url: &str| lent(json!({ "submission": { "url": url, "secretRef": { "name": "door" } } }));
    let turned = || of_instance(submits("https://evil/"), submits("https://x/"));
    let hold = "hold instances lab one";
    let refused = Api::allowing(&[hold]).reviews(turned()).await;
    assert_forbidden(&refused, "spec.submission.secretRef.name", "`get` on secrets \"door\"");
    assert!(Api::allowing(&[hold, "get secrets lab door"]).reviews(turned()).await.allowed);
}

#[tokio::test]
async fn what_a_template_gives_is_given_to_those_who_may_read_it() {
    let made = || of_instance(lent(json!({})), Value::Null);
    let api = |rights: &[&'static str]| Api {
        template: template("lab", "i"),
        ..Api::allowing(&[&[LEND, TEMPLATE], rights].concat())
    };
    let (secret, map) = ("get secrets lab db", "get configmaps lab db");
    let good = api(&[secret, map]);
    assert!(good.reviews(made()).await.allowed);
    let all = [LEND, TEMPLATE, secret, map].map(str::to_owned);
    assert_eq!(good.asked(), BTreeSet::from(all), "each once");
    assert_forbidden(&api(&[map]).reviews(made()).await, "spec.template", "secrets \"db\"");
    assert_forbidden(&api(&[secret]).reviews(made()).await, "spec.template", "configmaps \"db\"");
}

#[tokio::test]
async fn a_template_that_names_secrets_serves_its_own_namespace_only() {
    let there = json!({ "template": { "name": "one", "namespace": "course" } });
    let made = || of_instance(lent(there.clone()), Value::Null);
    let rights = [LEND, "get templates course one", "get secrets lab db", "get configmaps lab db"];
    let api = Api { template: template("course", "i"), ..Api::allowing(&rights) };
    let refused = api.reviews(made()).await;
    assert_eq!(refused.result.code, 422, "{}", refused.result.message);
    assert_eq!(fields(&refused), ["spec.template.namespace"]);
    let plain = Api { template: plain_template(), ..api };
    assert!(plain.reviews(made()).await.allowed);
}

#[tokio::test]
async fn whoever_writes_a_program_may_read_what_it_is_given() {
    let of = |new, old| request((LAB_GROUP, "templates"), new, old);
    let (secret, map) = ("get secrets lab db", "get configmaps lab db");
    let path = "spec.environmentList";
    let writes = [
        (template("lab", "i"), Value::Null),
        (template("lab", "i"), plain_template()),
        // The same Secret, for another program.
        (template("lab", "evil"), template("lab", "i")),
    ];
    for (new, old) in writes {
        let refused = Api::allowing(&[map]).reviews(of(new.clone(), old.clone())).await;
        assert_forbidden(&refused, path, "ada needs `get` on secrets \"db\" in namespace \"lab\"");
        assert!(Api::allowing(&[secret, map]).reviews(of(new, old)).await.allowed);
    }
    let mut relabelled = template("lab", "i");
    relabelled["spec"]["prettyName"] = json!("Another");
    let api = Api::default();
    assert!(api.reviews(of(relabelled, template("lab", "i"))).await.allowed);
    assert_eq!(api.asked(), BTreeSet::new());
}

#[tokio::test]
async fn whoever_names_very_much_may_read_everything() {
    let many = |count: usize| {
        let variable = |at: usize| {
            let from = json!({ "secretKeyRef": { "name": format!("s-{at}"), "key": "k" } });
            json!({ "name": format!("A{at}"), "valueFrom": from })
        };
        let env: Vec<_> = (0..count).map(variable).collect();
        let programs = json!([{ "name": "web", "image": "i", "env": env }]);
        let template = of_kind("Template", Some("lab"), json!({ "environmentList": programs }));
        request((LAB_GROUP, "templates"), template, Value::Null)
    };
    let api = Api::allowing(&["get secrets lab"]);
    assert!(api.reviews(many(100)).await.allowed);
    assert_eq!(api.asked(), BTreeSet::from(["get secrets lab".to_owned()]));
    let api = Api::default();
    let refused = api.reviews(many(100)).await;
    assert_forbidden(&refused, "spec.environmentList", "`get` on all secrets in namespace \"lab\"");
    let api = Api::default();
    assert!(!api.reviews(many(16)).await.allowed);
    assert_eq!(api.asked().len(), 16);
}

#[tokio::test]
async fn a_whole_pod_is_written_by_those_who_may_create_pods() {
    let pod = json!({ "provider": "pod", "pod": { "spec": {
        "containers": [{ "name": "a", "image": "i" }],
        "serviceAccountName": "powerful",
    }}});
    let mut other = pod.clone();
    other["pod"]["spec"]["containers"][0]["image"] = json!("evil");
    let of = |kind: &str, resource: &str, template: &Value, old: Option<&Value>| {
        let object = |template: &Value| {
            let spec = match kind {
                "Machine" => json!({ "onDemand": true, "template": template }),
                _ => json!({ "size": 1, "template": template }),
            };
            let mut object = of_kind(kind, Some("lab"), spec);
            object["apiVersion"] = json!("group.sojourn.dev/v1alpha1");
            object
        };
        let old = old.map_or(Value::Null, object);
        request((GROUP_GROUP, resource), object(template), old)
    };
    let writes = [
        of("Machine", "machines", &pod, None),
        of("InstanceGroup", "instancegroups", &pod, None),
        of("InstanceGroup", "instancegroups", &other, Some(&pod)),
    ];
    for write in writes {
        let refused = Api::default().reviews(write.clone()).await;
        assert_forbidden(&refused, "spec.template", "`create` on pods in namespace \"lab\"");
        let allowed = Api::allowing(&["create pods lab"]).reviews(write).await;
        assert!(allowed.allowed, "{}", allowed.result.message);
    }
}

#[tokio::test]
async fn a_machine_takes_its_template_from_a_group_that_its_writer_may_read() {
    let spec = json!({ "onDemand": true, "group": "web" });
    let mut machine = of_kind("Machine", Some("lab"), spec);
    machine["apiVersion"] = json!("group.sojourn.dev/v1alpha1");
    let made = || request((GROUP_GROUP, "machines"), machine.clone(), Value::Null);
    let refused = Api::default().reviews(made()).await;
    assert_forbidden(&refused, "spec.group", "`get` on instancegroups \"web\"");
    assert!(Api::allowing(&["get instancegroups lab web"]).reviews(made()).await.allowed);
}

#[tokio::test]
async fn the_configuration_names_secrets_that_its_writer_may_read() {
    let names = |secret: &str| {
        config_map(json!({ "lab.yaml": format!("webhookURL: {{name: {secret}, key: url}}") }))
    };
    let refused = Api::default().reviews(of_config(names("a"), Value::Null)).await;
    assert_forbidden(&refused, "data[lab.yaml].webhookURL.name", "secrets \"a\"");
    let right = "get secrets sojourn-system b";
    assert!(Api::allowing(&[right]).reviews(of_config(names("b"), names("a"))).await.allowed);
    let mut labelled = names("a");
    labelled["data"]["group.yaml"] = json!("defaultDrainTimeout: 1m");
    assert!(Api::default().reviews(of_config(labelled, names("a"))).await.allowed);
}

#[tokio::test(start_paused = true)]
async fn who_cannot_be_asked_has_not_allowed_it() {
    let made = || of_instance(lent(json!({})), Value::Null);
    let good = Api { template: template("lab", "i"), ..Api::allowing(&[LEND, TEMPLATE]) };
    for silent in ["subjectaccessreviews", "/templates/", "/tenants/"] {
        let rights = if silent == "/tenants/" { vec![TEMPLATE] } else { good.rights.clone() };
        let api = Api { silent: Some(silent), rights, ..good.clone() };
        let asked_at = tokio::time::Instant::now();
        let refused = api.reviews(made()).await;
        assert!(!refused.allowed, "{silent}");
        assert_eq!(refused.result.code, 503, "{silent}: {}", refused.result.message);
        assert!(refused.result.message.contains("no answer within 8 s"));
        assert!(asked_at.elapsed() <= Duration::from_secs(9), "all of it is asked in that time");
    }
    let unconnected = Admission::default().service().oneshot(made()).await.expect("infallible");
    assert!(!unconnected.allowed);
}
