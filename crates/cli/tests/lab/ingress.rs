//! Ingresses: who comes by one meets the gateway, at the very name that the gateway has for them.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::external::ExternalServices;
use crate::fixture::{Engine, Fixture};
use crate::objects::Named;
use crate::person::{Person, is_phase};
use crate::smtp::Encryption;
use crate::wait::eventually;

const DOMAIN: &str = "lent.example.org";
/// Where the gateway itself is; somebody else ends TLS and passes hosts on.
const HOST: &str = "lab.example.net";

/// This engine has no Ingresses; a definition teaches it the kind.
#[tokio::test(flavor = "multi_thread")]
async fn embedded_an_ingress_leads_to_the_gateway_and_goes_with_its_option() {
    lead(Engine::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn real_an_ingress_leads_to_the_gateway_and_goes_with_its_option() {
    lead(Engine::Real).await;
}

async fn lead(engine: Engine) {
    let Some(external) = ExternalServices::start(Encryption::StartTls).await else { return };
    let mut options = external.options();
    options["gateway"] = json!({"domain": DOMAIN});
    options["publicURL"] = json!(format!("https://{HOST}"));
    let without = options.clone();
    options["ingressService"] = json!("edge/gateway:8443");
    options["ingressClassName"] = json!("nginx");
    options["ingressHost"] = json!(HOST);
    options["ingressAnnotations"] =
        json!({"nginx.ingress.kubernetes.io/backend-protocol": "HTTPS"});
    let Some(mut stage) = Fixture::start(engine, &options).await else { return };
    if engine == Engine::Embedded {
        stage.objects.apply(&definition()).await;
        // What an API server serves is found out at a start.
        stage.kill();
        stage.start_again();
    }
    let person = Person::new("visited");
    person.apply(&stage.objects).await;
    let ready = stage.objects.until(&person.instance, "it is ready", is_phase("Ready")).await;
    let Named { namespace, .. } = &person.instance;
    let ingress = eventually("it has an Ingress", async || {
        stage.objects.get("Ingress", namespace, "visited-web").await
    })
    .await;
    let service = stage.objects.get("Service", namespace, "visited-web-gateway").await;
    let service = service.expect("what the Ingress leads to");
    for part in [&ingress, &service] {
        let owner = &part["metadata"]["ownerReferences"][0];
        assert_eq!(owner["uid"], ready["metadata"]["uid"], "it goes with its Instance: {part}");
    }
    // A Service of its own namespace that is another name of the gateway's, and not the Pod's.
    assert_eq!(service["spec"]["type"], "ExternalName");
    assert_eq!(service["spec"]["externalName"], "gateway.edge.svc.cluster.local");
    assert!(service["spec"]["selector"].is_null(), "{service}");
    assert_eq!(service["spec"]["ports"][0]["port"], 8443);
    let host = check_rules(&ingress, &person);

    // By its hosts people come to the environment, and nobody comes in without signing in.
    let mut visitor = stage.visitor().await;
    let page = visitor.open(&format!("https://{HOST}{}", person.access("web"))).await;
    assert_eq!(page.status, StatusCode::OK, "{page:?}");
    assert_eq!(page.address, format!("https://{host}/"));
    assert_eq!(page.json()["visits"], 1, "it is the environment that answers");
    let ask =
        async |host: &str| stage.stranger().request(Method::GET, "/", &[("Host", host)], "").await;
    let stranger = ask(&host).await;
    assert_eq!(stranger.status, StatusCode::UNAUTHORIZED, "{stranger:?}");
    let unknown = ask("another.example.org").await;
    assert_eq!(unknown.status, StatusCode::MISDIRECTED_REQUEST, "{unknown:?}");

    // Without the option there is none.
    stage.configure(&without).await;
    stage.objects.until_gone("Ingress", namespace, "visited-web").await;
    stage.objects.until(&person.instance, "it is ready", is_phase("Ready")).await;
    stage.stop();
}

/// Every rule leads to the gateway; answers with the environment's own host.
fn check_rules(ingress: &Value, person: &Person) -> String {
    assert_eq!(ingress["spec"]["ingressClassName"], "nginx");
    let annotations = &ingress["metadata"]["annotations"];
    assert_eq!(annotations["nginx.ingress.kubernetes.io/backend-protocol"], "HTTPS");
    let rules = ingress["spec"]["rules"].as_array().expect("rules");
    let [own, stays] = &rules[..] else { panic!("not two rules: {rules:?}") };
    for rule in [own, stays] {
        let paths = rule["http"]["paths"].as_array().expect("paths");
        let [path] = &paths[..] else { panic!("not one path: {paths:?}") };
        assert_eq!(path["backend"]["service"]["name"], "visited-web-gateway");
        assert_eq!(path["backend"]["service"]["port"]["number"], 8443);
        assert_eq!(path["pathType"], "Prefix");
    }
    assert_eq!(own["http"]["paths"][0]["path"], "/");
    let access = person.access("web");
    let stays_at = stays["http"]["paths"][0]["path"].as_str().expect("a path");
    assert_eq!(stays_at.trim_end_matches('/'), access.trim_end_matches('/'));
    assert_eq!(stays["host"], HOST);
    let host = own["host"].as_str().expect("a host");
    let label = host.strip_suffix(&format!(".{DOMAIN}")).expect("it is below the domain");
    assert!(label.starts_with("web-visited-"), "{label}");
    host.to_owned()
}

/// Ingresses, as far as they matter here.
fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "ingresses.networking.k8s.io",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
        },
        "spec": {
            "group": "networking.k8s.io", "scope": "Namespaced",
            "names": {"kind": "Ingress", "plural": "ingresses", "singular": "ingress"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                }},
            }],
        },
    })
}
