//! A collection is made, and players reach each of its servers.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::arena::{self, Arena};
use crate::fixture::Engine;
use crate::matchmaker::Matchmaker;
use crate::player::{say, tell};
use crate::process::{Running, command};
use crate::wait::eventually;

// case: game S01, S14
#[tokio::test(flavor = "multi_thread")]
async fn embedded_three_servers_are_reached_by_their_players() {
    three_servers_are_reached_by_their_players(Engine::Embedded).await;
}

// case: game S01, S14
#[tokio::test(flavor = "multi_thread")]
async fn real_three_servers_are_reached_by_their_players() {
    three_servers_are_reached_by_their_players(Engine::Real).await;
}

async fn three_servers_are_reached_by_their_players(engine: Engine) {
    let Some(stage) = arena::start(engine).await else { return };
    let arena = Arena::on(&stage, "duel").await;
    arena.apply(&json!({"replicas": 3})).await;
    let servers = arena.until_whole(3).await;
    let collection = arena.collection().await;
    assert_eq!((collection.health(), collection.pod_state()), ("Healthy", "Running"));
    assert_eq!(collection.times_failed(), 0);

    let addresses: BTreeSet<_> = servers.iter().map(arena::Server::address).collect();
    assert_eq!(addresses.len(), 3, "each has its own: {addresses:?}");
    for server in &servers {
        assert!(server.is_member_of("duel"));
        assert_ne!(server.status("nodeName"), "", "{:#}", server.0);
        assert_eq!(server.status("publicIP"), "127.0.0.1");
        assert_eq!((server.status("state"), server.status("sdkState")), ("Idle", "Ready"));
        assert_eq!(server.players(), None, "nobody said anything about players yet");
        let answer = eventually("an echo", async || say(server.address(), "ECHO over UDP").await);
        assert_eq!(answer.await, "over UDP");
        let who = tell(server, "WHO").await;
        assert_eq!(who, format!("OK {} 0 players", server.name()), "the very one");
        tell(server, "JOIN ada").await;
        arena.until(server.name(), "has a player", |one| one.players() == Some(1)).await;
    }
    stage.stop();
}

// case: game A13
#[tokio::test(flavor = "multi_thread")]
async fn embedded_a_server_that_starts_slowly_is_creating_until_it_is_ready() {
    let Some(stage) = arena::start(Engine::Embedded).await else { return };
    let arena = Arena::on(&stage, "slow").await;
    let template = arena.template(&["--slow-start", "8"]);
    // Were pings expected before it is ready, or long after, it would have failed by then.
    let health = json!({"period": "3s", "failureThreshold": 1, "initialDelay": "1s"});
    arena.apply(&json!({"replicas": 1, "template": template, "health": health})).await;
    let is_running = |pod: &Value| pod["status"]["phase"] == "Running";
    eventually("it runs, and is not ready", async || {
        let member = arena.members().await.into_iter().next()?;
        let pods = arena.pods_of(member.name()).await;
        let creating = arena.collection().await.health() == "Creating";
        (creating && pods.iter().any(is_running)).then_some(())
    })
    .await;
    let servers = arena.until_whole(1).await;
    let collection = arena.collection().await;
    assert_eq!((servers.len(), collection.times_failed()), (1, 0));
    stage.stop();
}

// case: game A36, A37
#[tokio::test(flavor = "multi_thread")]
async fn embedded_ports_are_passed_through_shared_by_protocols_and_named_by_number() {
    let Some(stage) = arena::start(Engine::Embedded).await else { return };
    let arena = Arena::on(&stage, "ports").await;
    let ports = json!([
        {"name": "game", "policy": "Passthrough", "protocol": "UDP"},
        {"name": "query", "containerPort": 8080, "policy": "Dynamic", "protocol": "TCPUDP"},
    ]);
    arena.apply(&json!({"replicas": 2, "ports": ports})).await;
    let servers = arena.until_whole(2).await;
    let mut seen = BTreeSet::new();
    for server in &servers {
        let [game, query] = [0, 1].map(|index| server.0["status"]["ports"][index].clone());
        assert_eq!(game["hostPort"], game["containerPort"], "{game}");
        assert_ne!(query["hostPort"], query["containerPort"], "{query}");
        let host_port = |port: &Value| port["hostPort"].as_u64().expect("a port");
        seen.extend([host_port(&game), host_port(&query)]);
        assert_eq!(tell(server, "WHO").await, format!("OK {} 0 players", server.name()));
        let pod = arena.pods_of(server.name()).await.remove(0);
        let declared = pod["spec"]["containers"][0]["ports"].as_array().cloned().expect("ports");
        let queries = declared.iter().filter(|one| one["hostPort"] == query["hostPort"]);
        let named: BTreeSet<String> =
            queries.map(|one| format!("{} {}", one["name"], one["protocol"])).collect();
        let both = [r#""query-tcp" "TCP""#, r#""query-udp" "UDP""#].map(str::to_owned);
        assert_eq!(named, BTreeSet::from(both), "{declared:#?}");
    }
    assert_eq!(seen.len(), 4, "each number once: {seen:?}");
    stage.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn embedded_a_port_that_another_program_has_is_changed_for_the_next_one() {
    let Some(stage) = arena::start(Engine::Embedded).await else { return };
    let arena = Arena::on(&stage, "taken").await;
    arena.apply(&json!({"replicas": 1})).await;
    let first = arena.until_whole(1).await.remove(0);
    let next = first.address().port() + 1;
    let other = std::net::UdpSocket::bind(("127.0.0.1", next)).expect("nobody has the next port");
    arena.scale(2).await;
    let servers = arena.until_whole(2).await;
    let second = servers.iter().find(|one| one.name() != first.name()).expect("two of them");
    assert_eq!(second.address().port(), next + 1);
    assert_eq!(tell(second, "WHO").await, format!("OK {} 0 players", second.name()));
    assert_eq!(arena.collection().await.times_failed(), 0, "it is no failure");
    let events = arena.events_of(second.name()).await;
    assert!(events.iter().any(|event| event["reason"] == "PortsChanged"), "{events:#?}");
    drop(other);
    stage.stop();
}

// case: game A42
#[tokio::test(flavor = "multi_thread")]
async fn embedded_a_server_that_somebody_runs_by_hand_is_given_like_any_other() {
    let Some(stage) = arena::start(Engine::Embedded).await else { return };
    let arena = Arena::on(&stage, "local").await;
    let port = crate::tool::free_port();
    let by_hand = Running::start(command(&["game-server", "--port", &port.to_string()]));
    by_hand.stderr_line("The game is on");
    stage
        .objects
        .apply(&json!({
            "apiVersion": "game.sojourn.dev/v1alpha1", "kind": "DedicatedGameServer",
            "metadata": {
                "name": "mine", "namespace": arena.namespace,
                "annotations": {"game.sojourn.dev/dev-address": "127.0.0.1"},
            },
            "spec": {
                "template": arena.template(&[]),
                "ports": [{
                    "name": "game", "containerPort": port, "hostPort": port, "policy": "Static",
                    "protocol": "UDP",
                }],
            },
        }))
        .await;
    let server = arena.until("mine", "is healthy", |one| one.status("health") == "Healthy").await;
    assert_eq!(server.address(), ([127, 0, 0, 1], port).into());
    let matchmaker = Matchmaker::of(&stage, &arena).await;
    let wanted = json!({"collection": null, "selectors": [{"name": "mine"}]});
    let given = matchmaker.gets("by-hand", &wanted).await;
    assert_eq!((given.server.as_str(), given.port), ("mine", u64::from(port)));
    let echo = say(server.address(), "ECHO by hand").await;
    assert_eq!(echo.as_deref(), Some("by hand"));
    assert_eq!(arena.pods_of("mine").await, Vec::<Value>::new(), "nobody else runs it");
    stage.stop();
}
