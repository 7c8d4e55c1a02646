//! A server that speaks for another one, and is not heard.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::LogParams;
use serde_json::json;

use crate::arena::{self, Arena};
use crate::fixture::{Engine, Fixture};
use crate::player::tell;
use crate::wait::{eventually, never};

/// Tries what it can, and says what came of each: a status, the name of the server that answered, or an error.
const PROGRAM: &str = r#"
import json, os, signal, urllib.error, urllib.request
own = os.environ
def ask(url, body=None):
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=5) as answer:
            if body is not None:
                return answer.status
            return json.loads(answer.read())["object_meta"]["name"]
    except urllib.error.HTTPError as error:
        return error.code
    except Exception as error:
        return type(error).__name__
def claim(name, code):
    body = {"serverName": name, "namespace": own["SERVER_NAMESPACE"], "playerCount": 9}
    return ask(own["API_SERVER_URL"] + "/setactiveplayers?code=" + code, body)
print("own", claim(own["SERVER_NAME"], own["API_SERVER_CODE"]))
print("another", claim(own["VICTIM"], own["API_SERVER_CODE"]))
print("guessed", claim(own["VICTIM"], "guessed"))
print("itself", ask("http://127.0.0.1:" + own["AGONES_SDK_HTTP_PORT"] + "/gameserver"))
for host in ["127.0.0.1", "127.0.0.2", own["NODE"], "localhost"]:
    print("victim", ask("http://" + host + ":" + own["VICTIM_PORT"] + "/gameserver"))
print("done", flush=True)
signal.pause()
"#;

// case: game S64, S65
#[tokio::test(flavor = "multi_thread")]
async fn embedded_no_server_speaks_for_another() {
    no_server_speaks_for_another(Engine::Embedded).await;
}

// case: game S64, S65
#[tokio::test(flavor = "multi_thread")]
async fn real_no_server_speaks_for_another() {
    no_server_speaks_for_another(Engine::Real).await;
}

async fn no_server_speaks_for_another(engine: Engine) {
    let Some(stage) = arena::start(engine).await else { return };
    let arena = Arena::on(&stage, "duel").await;
    arena.apply(&json!({"replicas": 1})).await;
    let victim = arena.until_whole(1).await.remove(0);
    tell(&victim, "PLAYERS 1").await;
    let endpoint = tell(&victim, "ENDPOINT").await;
    let port = endpoint.trim_end_matches('/').rsplit(':').next().expect("a port").to_owned();

    let intruder = Arena::of(&stage, &arena.namespace, "intruder");
    let mut template = intruder.template_of(&json!(["/usr/bin/python3", "-uc", PROGRAM]));
    template["spec"]["containers"][0]["env"] = json!([
        {"name": "VICTIM", "value": victim.name()},
        {"name": "VICTIM_PORT", "value": port},
        {"name": "NODE", "value": victim.status("publicIP")},
    ]);
    let spec = json!({"replicas": 1, "template": template, "health": {"source": "Pod"}});
    intruder.apply(&spec).await;
    let server = intruder.until_whole(1).await.remove(0);
    let said = until_done(&stage, &intruder, server.name()).await;
    let of = |what: &str| -> Vec<&str> {
        said.lines().filter_map(|line| line.strip_prefix(what)?.strip_prefix(' ')).collect()
    };
    assert_eq!((of("own"), of("itself")), (vec!["200"], vec![server.name()]), "{said}");
    assert_eq!((of("another"), of("guessed")), (vec!["403"], vec!["401"]), "{said}");
    assert_eq!(of("victim").len(), 4, "{said}");
    assert!(!of("victim").contains(&victim.name()), "{said}");
    intruder.until(server.name(), "has players", |one| one.players() == Some(9)).await;
    never(Duration::from_secs(2), "the other one has them", async || {
        arena.server(victim.name()).await.is_none_or(|one| one.players() != Some(1))
    })
    .await;
    stage.stop();
}

/// Waits until the program has tried everything; what it printed.
async fn until_done(stage: &Fixture, arena: &Arena, server: &str) -> String {
    let pods: Api<Pod> = Api::namespaced(stage.objects.0.clone(), &arena.namespace);
    let params = LogParams { container: Some("game".to_owned()), ..LogParams::default() };
    eventually("the intruder has tried everything", async || {
        let pod = arena.pods_of(server).await.into_iter().next()?;
        let said = pods.logs(pod["metadata"]["name"].as_str()?, &params).await.ok()?;
        said.ends_with("done\n").then_some(said)
    })
    .await
}
