//! Game servers that were written for Agones, with its own clients or with none, run here unchanged.
//!
//! The programs are in `clients/`: one line to them is one call of their client. `cargo xtask game` puts what they need
//! into `target/game-clients`.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::arena::{self, Arena, Server};
use crate::fixture::{Engine, Fixture};
use crate::player::{ask, order};
use crate::skip;
use crate::wait::eventually;

/// So many labels, annotations and counts are written at the same time.
const TOGETHER: usize = 6;

#[tokio::test(flavor = "multi_thread")]
async fn embedded_a_server_with_agones_client_for_node_js_runs_unchanged() {
    a_server_that_was_written_for_agones_runs_unchanged(Client::Node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn embedded_a_server_with_agones_client_for_rust_runs_unchanged() {
    a_server_that_was_written_for_agones_runs_unchanged(Client::Rust).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn embedded_a_server_that_speaks_agones_json_over_http_runs_unchanged() {
    a_server_that_was_written_for_agones_runs_unchanged(Client::Rest).await;
}

async fn a_server_that_was_written_for_agones_runs_unchanged(client: Client) {
    let Some(program) = client.program() else { return };
    let Some(stage) = program.start_stage().await else { return };
    let arena = Arena::on(&stage, "duel").await;
    let mut template = arena.template_of(&json!(program.command));
    template["spec"]["containers"][0]["env"] = program.env;
    let spec = json!({
        "replicas": 2, "template": template,
        "health": {"period": "4s", "failureThreshold": 2, "initialDelay": "1s"},
        "counters": {"rooms": {"count": 1, "capacity": 10}},
        "lists": {"maps": {"capacity": 3, "values": ["e1m1"]}},
    });
    arena.apply(&spec).await;
    let [server, silent] = <[Server; 2]>::try_from(arena.until_whole(2).await).expect("two");
    assert_eq!(server.status("sdkState"), "Ready");
    // Until the rest is done, it will have been silent for long enough, and the other one has not.
    order(&silent, "silence").await;

    it_knows_itself(&arena, &server).await;
    it_writes_labels_annotations_and_counts_at_the_same_time(&arena, &server).await;
    it_counts(&arena, &server).await;
    it_lists(&arena, &server).await;
    it_has_players(&arena, &server).await;
    it_is_reserved_and_allocated(&arena, &server).await;

    let failed = |one: &Server| one.status("health") == "Failed" && one.has_left("duel");
    arena.until(silent.name(), "has failed", failed).await;
    let there = arena.server(server.name()).await.expect("it is there");
    assert_eq!((there.status("health"), there.status("sdkState")), ("Healthy", "Allocated"));
    arena.until_whole(2).await;

    // The end is its own wish: another one comes in its place, and nothing has failed.
    order(&server, "shutdown").await;
    arena.until_gone(server.name()).await;
    let whole = arena.until_whole(2).await;
    assert!(whole.iter().all(|one| ![server.uid(), silent.uid()].contains(&one.uid())));
    assert_eq!(arena.collection().await.times_failed(), 1, "the silent one alone");
    stage.stop();
}

async fn it_knows_itself(arena: &Arena, server: &Server) {
    let told = call(server, "gameServer").await;
    let object = arena.server(server.name()).await.expect("it is there").0;
    let (meta, status) = (&object["metadata"], &object["status"]);
    let created = meta["creationTimestamp"].as_str().expect("a time");
    let created: Timestamp = created.parse().expect("a time");
    let port = &status["ports"][0];
    let expected = json!({
        "name": meta["name"], "namespace": meta["namespace"], "uid": meta["uid"],
        "created": created.as_second(), "deleted": 0,
        "labels": meta["labels"],
        "annotations": meta.get("annotations").cloned().unwrap_or(json!({})),
        "health": [false, 4, 2, 1],
        "state": "Ready", "address": status["publicIP"],
        "ports": [[port["name"], port["hostPort"]]],
        "players": [],
        "counters": {"rooms": {"count": 1, "capacity": 10}},
        "lists": {"maps": {"capacity": 3, "values": ["e1m1"]}},
    });
    assert_eq!(told, expected);
    until_watched(server, &["Ready"]).await;
}

/// While its controllers write to it as well.
async fn it_writes_labels_annotations_and_counts_at_the_same_time(arena: &Arena, server: &Server) {
    assert_eq!(call(server, &format!("together {TOGETHER}")).await, Value::Null);
    let written = arena.server(server.name()).await.expect("it is there");
    for number in 0..TOGETHER {
        let value = &json!(number.to_string());
        let meta = &written.0["metadata"];
        let label = &meta["labels"][format!("agones.dev/sdk-label-{number}")];
        let annotation = &meta["annotations"][format!("agones.dev/sdk-annotation-{number}")];
        assert_eq!((label, annotation), (value, value), "{number}");
    }
    assert_eq!(written.0["status"]["counters"]["rooms"]["count"], 1 + TOGETHER);
    assert!(written.is_member_of("duel"), "its own labels are as they were");
}

async fn it_counts(arena: &Arena, server: &Server) {
    for (line, answer) in [
        ("getCounterCapacity rooms", "OK 10"),
        ("setCounterCount rooms 8", "OK null"),
        ("incrementCounter rooms 2", "OK null"),
        ("incrementCounter rooms 1", "ERROR 11"),
        ("decrementCounter rooms 4", "OK null"),
        ("decrementCounter rooms 7", "ERROR 11"),
        ("setCounterCount rooms 11", "ERROR 11"),
        ("getCounterCount rooms", "OK 6"),
        ("setCounterCapacity rooms 20", "OK null"),
        ("setCounterCount rooms 20", "OK null"),
        // What is over is cut off, as Agones does it.
        ("setCounterCapacity rooms 15", "OK null"),
        ("getCounterCount rooms", "OK 15"),
        ("setCounterCapacity rooms -1", "ERROR 11"),
        ("getCounterCount bots", "ERROR 5"),
        ("incrementCounter bots 1", "ERROR 5"),
    ] {
        expect(server, line, answer).await;
    }
    let status = arena.server(server.name()).await.expect("it is there").0["status"].clone();
    assert_eq!(status["counters"], json!({"rooms": {"count": 15, "capacity": 15}}));
}

async fn it_lists(arena: &Arena, server: &Server) {
    for (line, answer) in [
        ("getListValues maps", r#"OK ["e1m1"]"#),
        ("appendListValue maps e1m2", "OK null"),
        ("appendListValue maps e1m2", "ERROR 6"),
        ("appendListValue maps e1m3", "OK null"),
        ("appendListValue maps e1m4", "ERROR 11"),
        ("getListCapacity maps", "OK 3"),
        ("setListCapacity maps 4", "OK null"),
        ("appendListValue maps e1m4", "OK null"),
        ("getListLength maps", "OK 4"),
        ("deleteListValue maps e1m1", "OK null"),
        ("deleteListValue maps e1m1", "ERROR 5"),
        ("listContains maps e1m1", "OK false"),
        ("listContains maps e1m4", "OK true"),
        ("setListCapacity maps 2", "OK null"),
        ("setListCapacity maps 1001", "ERROR 11"),
        ("getListValues bots", "ERROR 5"),
    ] {
        expect(server, line, answer).await;
    }
    let status = arena.server(server.name()).await.expect("it is there").0["status"].clone();
    assert_eq!(status["lists"], json!({"maps": {"capacity": 2, "values": ["e1m2", "e1m3"]}}));
    expect(server, "setListCapacity maps 0", "OK null").await;
    expect(server, "getListValues maps", "OK []").await;
}

async fn it_has_players(arena: &Arena, server: &Server) {
    for (line, answer) in [
        // What the collection says.
        ("getPlayerCapacity", "OK 10"),
        ("getPlayerCount", "OK 0"),
        ("setPlayerCapacity 2", "OK null"),
        ("getPlayerCapacity", "OK 2"),
        ("playerConnect ada", "OK true"),
        ("playerConnect ada", "OK false"),
        ("playerConnect ben", "OK true"),
        ("playerConnect eve", "ERROR 11"),
        ("isPlayerConnected ben", "OK true"),
        ("isPlayerConnected eve", "OK false"),
        ("playerDisconnect eve", "OK false"),
        ("getConnectedPlayers", r#"OK ["ada","ben"]"#),
        ("getPlayerCount", "OK 2"),
    ] {
        expect(server, line, answer).await;
    }
    let status = arena.server(server.name()).await.expect("it is there").0["status"].clone();
    assert_eq!(status["players"], json!({"capacity": 2, "ids": ["ada", "ben"]}));
    assert_eq!(status["activePlayers"], 2);
    assert_eq!(call(server, "gameServer").await["players"], json!(["ada", "ben"]));
    expect(server, "playerDisconnect ada", "OK true").await;
    expect(server, "playerDisconnect ben", "OK true").await;
    expect(server, "getConnectedPlayers", "OK []").await;
    arena.until(server.name(), "has no players", |one| one.players() == Some(0)).await;
}

async fn it_is_reserved_and_allocated(arena: &Arena, server: &Server) {
    let state = |wanted: &'static str| {
        move |one: &Server| {
            let has_an_end = !one.status("reservedUntil").is_empty();
            one.status("sdkState") == wanted && has_an_end == (wanted == "Reserved")
        }
    };
    order(server, "reserve 5").await;
    arena.until(server.name(), "is reserved", state("Reserved")).await;
    until_watched(server, &["Ready", "Reserved"]).await;
    arena.until(server.name(), "is ready by itself", state("Ready")).await;
    until_watched(server, &["Ready", "Reserved", "Ready"]).await;

    // It is somebody's: no reservation ends that.
    order(server, "reserve 3600").await;
    arena.until(server.name(), "is reserved", state("Reserved")).await;
    order(server, "allocate").await;
    arena.until(server.name(), "is allocated", state("Allocated")).await;
    until_watched(server, &["Ready", "Reserved", "Ready", "Reserved", "Allocated"]).await;
    order(server, "ready").await;
    arena.until(server.name(), "is ready again", state("Ready")).await;
    order(server, "allocate").await;
    arena.until(server.name(), "is allocated again", state("Allocated")).await;
    assert_eq!(call(server, "gameServer").await["state"], "Allocated");
}

/// Waits until its watch has shown these states, after those of its beginning.
async fn until_watched(server: &Server, states: &[&str]) {
    let what = format!("{} was told of {states:?}", server.name());
    eventually(&what, async || {
        let watched = call(server, "watched").await;
        let watched: Vec<&str> = watched.as_array()?.iter().filter_map(Value::as_str).collect();
        let since_ready = watched.iter().position(|state| *state == "Ready")?;
        (watched[since_ready..] == *states).then_some(())
    })
    .await;
}

/// What its client gave it.
async fn call(server: &Server, line: &str) -> Value {
    let answer = ask(server, line).await;
    let said = answer.strip_prefix("OK ").unwrap_or_else(|| panic!("{line}: {answer}"));
    serde_json::from_str(said).unwrap_or_else(|e| panic!("{line}: {said}: {e}"))
}

/// Of an error, its number is what clients go by.
async fn expect(server: &Server, line: &str, expected: &str) {
    let answer = ask(server, line).await;
    let is_so = match expected.starts_with("ERROR") {
        true => answer.starts_with(&format!("{expected} ")),
        false => answer == expected,
    };
    assert!(is_so, "{line}: {answer}, not {expected}");
}

/// Whose client a program uses.
#[derive(Debug, Clone, Copy)]
enum Client {
    /// The package `@google-cloud/agones-sdk`.
    Node,
    /// The crate `agones`.
    Rust,
    /// Nobody's: it speaks JSON over HTTP itself.
    Rest,
}

/// A program as a Pod runs it.
struct Program {
    command: Vec<String>,
    env: Value,
    /// What Pods must be able to read for it.
    folders: Vec<String>,
}

impl Client {
    /// Nothing where it is not installed, which this says.
    fn program(self) -> Option<Program> {
        let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
        let written = tests.join("tests/game/clients");
        let installed = tests.join("../../target/game-clients");
        let (parts, variable) = match self {
            Self::Node => {
                let parts = vec!["/usr/bin/node".into(), written.join("node/main.js")];
                (parts, Some(("NODE_PATH", installed.join("node/node_modules"))))
            }
            Self::Rust => (vec![installed.join("rust/debug/sojourn-game-client")], None),
            Self::Rest => (vec!["/usr/bin/python3".into(), written.join("rest/main.py")], None),
        };
        let needed = parts.iter().chain(variable.as_ref().map(|(_, value)| value));
        let needed: Vec<&PathBuf> = needed.collect();
        if let Some(missing) = needed.iter().find(|path| !path.exists()) {
            skip::whole(format_args!("{} is not there (cargo xtask game)", missing.display()));
            return None;
        }
        let ours = needed.iter().filter(|path| path.starts_with(tests));
        Some(Program {
            command: parts.iter().map(|path| plain(path)).collect(),
            env: variable
                .iter()
                .map(|(name, value)| json!({"name": name, "value": plain(value)}))
                .collect(),
            folders: ours.filter_map(|path| path.parent().map(plain)).collect(),
        })
    }
}

impl Program {
    /// A stage whose Pods can read it.
    async fn start_stage(&self) -> Option<Fixture> {
        let exposed = self.folders.iter().flat_map(|folder| ["--expose", folder]);
        arena::start_with(Engine::Embedded, &exposed.collect::<Vec<&str>>()).await
    }
}

/// Where it really is: a Pod sees no more of the way there than what is exposed.
fn plain(path: &Path) -> String {
    let real = path.canonicalize().unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    real.display().to_string()
}
