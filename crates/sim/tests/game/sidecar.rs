//! Servers on a cluster are heard through their sidecars, by whichever replica is up.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use jiff::SignedDuration;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use sojourn_api::game::status::ServerHealth;
use sojourn_operator::family::ServedFamily as _;
use sojourn_operator::game::sdk::sidecar::{CallError, Sidecar, Upstream, answered};
use sojourn_operator::game::sdk::wire::{self, AUDIENCE, Call, Look};
use sojourn_operator::game::sdk::{
    GameServerState, GameServerView, SdkBackend as _, SdkRequest, ServerIdentity, Silence,
};
use sojourn_sim::game::matchmaker::Wish;
use sojourn_sim::game::simulation::{GameSimulation, NAMESPACE, Setting, key};
use tower::ServiceExt as _;

use crate::fixture::{ARENA, HOUR, MINUTE, SECOND, available, gone, members, server, until_server};

/// The routes of whichever replica is up.
#[derive(Debug, Clone, Default)]
struct Operator(Arc<Mutex<Option<Router>>>);

impl Operator {
    /// Finds the replica that is up now, as a Service does; none while it is down.
    fn look_at(&self, simulation: &GameSimulation) {
        let router = simulation.operator.ask(|(served, _)| served.pod_service()).flatten();
        *self.0.lock().expect("nobody panicked") = router;
    }

    async fn post(
        &self,
        server: &str,
        token: Option<&str>,
        body: String,
    ) -> Option<(StatusCode, Vec<u8>)> {
        let router = self.0.lock().expect("nobody panicked").clone()?;
        let mut request = Request::post(wire::path(NAMESPACE, server));
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let response = router.oneshot(request.body(Body::from(body)).expect("a request")).await;
        let response = response.expect("a router answers");
        let status = response.status();
        let body = response.into_body().collect().await.expect("a body").to_bytes();
        Some((status, body.to_vec()))
    }

    async fn status(&self, server: &str, token: Option<&str>) -> StatusCode {
        let look = serde_json::to_string(&Call::Look(Look::default())).expect("JSON");
        self.post(server, token, look).await.expect("the operator is up").0
    }
}

/// What the sidecar of one server asks.
#[derive(Debug)]
struct InProcess {
    operator: Operator,
    server: String,
    token: String,
}

impl Upstream for InProcess {
    fn call<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<GameServerView, CallError>> {
        async move {
            let body = serde_json::to_string(call).expect("JSON");
            match self.operator.post(&self.server, Some(&self.token), body).await {
                Some((status, body)) => answered(status, &body),
                None => Err(CallError::Unheard("nobody listens".to_owned())),
            }
        }
        .boxed()
    }
}

async fn simulation(replicas: u32) -> (GameSimulation, Operator) {
    let sdk = json!({"sdk": {"image": "sojourn", "url": "https://sojourn-sdk:7444"}});
    let simulation =
        GameSimulation::new(Setting { config: sdk.to_string(), ..Setting::default() }).await;
    let health = json!({"health": {"source": "SDK"}});
    simulation.make_collection(ARENA, replicas, health).await;
    running(&simulation, replicas).await;
    let operator = Operator::default();
    operator.look_at(&simulation);
    (simulation, operator)
}

/// Waits until the Pods of so many members run.
async fn running(simulation: &GameSimulation, count: u32) {
    simulation
        .until(30 * MINUTE, "Pods that run", |checker| {
            let members = checker.members(ARENA);
            let names = members.iter().map(|one| one.name_any());
            let run = names.filter(|name| checker.running_pod(name).is_some()).count();
            (run == count as usize).then_some(())
        })
        .await;
}

/// A token of the Pod of a server, as its node gets it.
async fn token(simulation: &GameSimulation, server: &str, audience: &str) -> String {
    let pod = simulation.pods().get(server).await.expect("its Pod");
    let bound = json!({"kind": "Pod", "apiVersion": "v1", "name": server, "uid": pod.uid()});
    token_bound_to(simulation, audience, bound).await
}

async fn token_bound_to(simulation: &GameSimulation, audience: &str, bound: Value) -> String {
    let accounts: Api<ServiceAccount> = Api::namespaced(simulation.client.clone(), NAMESPACE);
    let spec = json!({
        "audiences": [audience], "expirationSeconds": 3600, "boundObjectRef": bound,
    });
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": {},
        "spec": spec,
    });
    let request: TokenRequest = serde_json::from_value(request).expect("a request");
    let params = PostParams::default();
    let made = accounts.create_token_request("default", &params, &request).await;
    let status = made.expect("a token is made").status.expect("it has one");
    status.token.expect("it was not asked for by a Pod that has it already")
}

/// The sidecar of a server, whose work runs.
async fn sidecar(
    simulation: &GameSimulation,
    operator: &Operator,
    server: &str,
) -> (Arc<Sidecar>, ServerIdentity) {
    let upstream = InProcess {
        operator: operator.clone(),
        server: server.to_owned(),
        token: token(simulation, server, AUDIENCE).await,
    };
    let identity = ServerIdentity { key: key(server), uid: String::new() };
    let (sidecar, work) = Sidecar::new(&identity, Arc::new(upstream));
    tokio::spawn(work);
    (sidecar, identity)
}

#[tokio::test(start_paused = true)]
async fn what_a_server_says_is_on_record_and_nothing_is_lost_while_the_operator_is_down() {
    let (simulation, operator) = simulation(1).await;
    let name = members(&simulation).remove(0);
    let (sidecar, identity) = sidecar(&simulation, &operator, &name).await;
    let say = async |request: SdkRequest| sidecar.take(&identity, request).await;
    let view = say(SdkRequest::Ready).await.expect("it is heard");
    assert_eq!((view.state, view.pings_expected), (GameServerState::Ready, true));
    available(&simulation, 1).await;

    let mut watched = sidecar.watch(&identity);
    assert_eq!(watched.next().await.expect("the server").state, GameServerState::Ready);
    let given = simulation.allocate(&Wish::whole("match", ARENA)).await.expect("one is free");
    assert_eq!(given.server, name);
    let mut seen = watched.next().await.expect("the server");
    while seen.state != GameServerState::Allocated {
        seen = watched.next().await.expect("the server");
    }
    say(SdkRequest::Allocate).await.expect("it is heard");
    say(SdkRequest::SetActivePlayers(3)).await.expect("it is heard");
    until_server(&simulation, &name, "three players", |one| one.active_players == Some(3)).await;

    // It says more while nobody is there to hear it.
    simulation.kill(10 * SECOND);
    operator.look_at(&simulation);
    let talking = sidecar.clone();
    let (of, said) = (identity.clone(), SdkRequest::SetActivePlayers(4));
    let said = tokio::spawn(async move { talking.take(&of, said).await });
    simulation.pass(5 * SECOND).await;
    assert!(!said.is_finished(), "nobody has heard it");
    while !simulation.operator.is_up() {
        simulation.pass(SECOND).await;
    }
    operator.look_at(&simulation);
    said.await.expect("no panic").expect("it is heard in the end");
    until_server(&simulation, &name, "four players", |one| one.active_players == Some(4)).await;

    // It ends as it wants to.
    say(SdkRequest::Shutdown).await.expect("it is heard");
    gone(&simulation, HOUR, &name).await;
}

// case: game A11, A12
#[tokio::test(start_paused = true)]
async fn pings_that_a_sidecar_misses_are_a_failure_and_those_that_we_miss_are_none() {
    let (simulation, operator) = simulation(1).await;
    let name = members(&simulation).remove(0);
    let (sidecar, identity) = sidecar(&simulation, &operator, &name).await;
    sidecar.take(&identity, SdkRequest::Ready).await.expect("it is heard");
    available(&simulation, 1).await;
    let (pinging, of) = (sidecar.clone(), identity.clone());
    let pings = tokio::spawn(async move {
        loop {
            tokio::time::sleep(5 * SECOND).await;
            pinging.take(&of, SdkRequest::Health).await.expect("it is heard");
        }
    });
    simulation.pass(10 * MINUTE).await;
    // Nobody hears anything for ten minutes, and whoever comes then has never heard a ping.
    simulation.kill(10 * MINUTE);
    operator.look_at(&simulation);
    simulation.pass(11 * MINUTE).await;
    operator.look_at(&simulation);
    simulation.pass(10 * MINUTE).await;
    assert_eq!(server(&simulation, &name).health, Some(ServerHealth::Healthy));
    pings.abort();
    let stopped = simulation.now();
    simulation
        .until(MINUTE, "a failure", |checker| {
            let status = checker.servers.get(&name)?.status.clone()?;
            let failure = status.failure?;
            (failure.reason == "HealthPingsLost").then_some(())
        })
        .await;
    let took = simulation.now().duration_since(stopped);
    assert!(took <= SignedDuration::from_secs(17), "{took}");
}

#[tokio::test(start_paused = true)]
async fn silence_counts_for_those_alone_who_ping() {
    let (simulation, operator) = simulation(1).await;
    let name = members(&simulation).remove(0);
    let (sidecar, identity) = sidecar(&simulation, &operator, &name).await;
    let silence = SdkRequest::Silence(Silence {
        since_ping: None,
        listening_for: SignedDuration::from_hours(1),
    });
    let early = sidecar.take(&identity, silence.clone()).await.expect("it is heard");
    let begins = [GameServerState::Creating, GameServerState::Scheduled];
    assert!(begins.contains(&early.state), "it is not ready yet: {:?}", early.state);
    let ready = sidecar.take(&identity, SdkRequest::Ready).await.expect("it is heard");
    let at_once = sidecar.take(&identity, silence.clone()).await.expect("it is heard");
    assert_eq!(at_once.state, ready.state, "it had no time to ping yet");
    simulation.pass(Duration::from_secs(8)).await;
    let short = SdkRequest::Silence(Silence {
        since_ping: None,
        listening_for: SignedDuration::from_secs(1),
    });
    let begun = sidecar.take(&identity, short).await.expect("it is heard");
    assert_eq!(begun.state, ready.state, "nobody could have heard it before");
    simulation.pass(Duration::from_secs(13)).await;
    let lost = sidecar.take(&identity, silence).await.expect("it is heard");
    assert_eq!((lost.state, lost.pings_expected), (GameServerState::Unhealthy, false));
}

#[tokio::test(start_paused = true)]
async fn only_the_token_of_its_own_pod_speaks_for_a_server() {
    let (simulation, operator) = simulation(2).await;
    let [one, other] = members(&simulation).try_into().expect("two");
    let good = token(&simulation, &one, AUDIENCE).await;
    assert_eq!(operator.status(&one, Some(&good)).await, StatusCode::OK);
    assert_eq!(operator.status(&other, Some(&good)).await, StatusCode::FORBIDDEN);
    assert_eq!(operator.status("nobody", Some(&good)).await, StatusCode::FORBIDDEN);
    let of_other = token(&simulation, &other, AUDIENCE).await;
    assert_eq!(operator.status(&one, Some(&of_other)).await, StatusCode::FORBIDDEN);
    let elsewhere = token(&simulation, &one, "https://kubernetes.default.svc").await;
    let of_nobody = token_bound_to(&simulation, AUDIENCE, Value::Null).await;
    let signed = good.rsplit_once('.').expect("three parts").0;
    let forged = format!("{signed}.{}", "A".repeat(86));
    for bad in [&*elsewhere, &*of_nobody, &*forged, "garbage", "", "a.b.c", "sojourn_abc"] {
        assert_eq!(operator.status(&one, Some(bad)).await, StatusCode::UNAUTHORIZED, "{bad}");
    }
    assert_eq!(operator.status(&one, None).await, StatusCode::UNAUTHORIZED);

    // What is no call is told so, and harms nobody.
    for garbage in ["", "{", "[]", r#"{"say":"nothing"}"#, r#"{"look":{"waitSeconds":-1}}"#] {
        let (status, _) =
            operator.post(&one, Some(&good), garbage.to_owned()).await.expect("it is up");
        assert_eq!(status, StatusCode::BAD_REQUEST, "{garbage}");
    }
    let long = format!(r#"{{"say":{{"playerConnect":"{}"}}}}"#, "x".repeat(wire::MAX_CALL_BYTES));
    let (status, _) = operator.post(&one, Some(&good), long).await.expect("it is up");
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(operator.status(&one, Some(&good)).await, StatusCode::OK);

    // The next Pod of the server is another one.
    let before = simulation.pods().get(&one).await.expect("its Pod").uid();
    simulation.delete_pod(&one).await;
    loop {
        simulation.pass(SECOND).await;
        let pod = simulation.pods().get_opt(&one).await.expect("the API answers");
        if pod.is_some_and(|pod| pod.uid() != before) {
            break;
        }
    }
    simulation.pass(SECOND).await;
    let status = operator.status(&one, Some(&good)).await;
    assert!(matches!(status, StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED), "{status}");

    // A token ends with its time, and a little later for whoever has believed it.
    assert_eq!(operator.status(&other, Some(&of_other)).await, StatusCode::OK);
    simulation.pass(HOUR + 6 * MINUTE).await;
    assert_eq!(operator.status(&other, Some(&of_other)).await, StatusCode::UNAUTHORIZED);
    let renewed = token(&simulation, &other, AUDIENCE).await;
    assert_eq!(operator.status(&other, Some(&renewed)).await, StatusCode::OK);
}
