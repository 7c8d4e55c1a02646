//! The game, told by datagrams, and an endpoint that hears what it tells.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Request as HttpRequest, State};
use http::StatusCode;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::*;

/// How long anything may take on a slow and busy machine.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
const CODE: &str = "a code with spaces & signs";

/// What an endpoint was told.
#[derive(Debug, PartialEq)]
struct Heard {
    request: String,
    body: Value,
}

impl Heard {
    fn new(request: &str, body: Value) -> Self {
        Self { request: request.to_owned(), body }
    }
}

/// An endpoint that answers as its script says, and with 200 when that is over. It hears pings, and does not tell.
struct Endpoint {
    port: u16,
    heard: mpsc::UnboundedReceiver<Heard>,
    pings: mpsc::UnboundedReceiver<Heard>,
    serving: JoinHandle<()>,
}

#[derive(Clone)]
struct Script {
    answers: Arc<Mutex<VecDeque<StatusCode>>>,
    heard: mpsc::UnboundedSender<Heard>,
    pings: mpsc::UnboundedSender<Heard>,
}

async fn hear(State(script): State<Script>, request: HttpRequest) -> StatusCode {
    let (head, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1 << 16).await.expect("a body");
    let body = serde_json::from_slice(&body).expect("JSON");
    let heard = Heard { request: format!("{} {}", head.method, head.uri), body };
    if head.uri.path() == "/health" {
        script.pings.send(heard).expect("somebody listens");
        return StatusCode::OK;
    }
    script.heard.send(heard).expect("somebody listens");
    script.answers.lock().expect("no panic inside").pop_front().unwrap_or(StatusCode::OK)
}

impl Endpoint {
    async fn start(answers: &[u16]) -> Self {
        Self::start_on(TcpListener::bind("127.0.0.1:0").await.expect("a free port"), answers)
    }

    fn start_on(listener: TcpListener, answers: &[u16]) -> Self {
        let port = listener.local_addr().expect("it is bound").port();
        let (heard_sender, heard) = mpsc::unbounded_channel();
        let (pings_sender, pings) = mpsc::unbounded_channel();
        let answers = answers.iter().map(|code| StatusCode::from_u16(*code).expect("a status"));
        let answers = Arc::new(Mutex::new(answers.collect()));
        let script = Script { answers, heard: heard_sender, pings: pings_sender };
        let router = Router::new().fallback(hear).with_state(script);
        let serving = tokio::spawn(async move {
            axum::serve(listener, router).await.expect("it serves");
        });
        Self { port, heard, pings, serving }
    }

    async fn next(&mut self) -> Heard {
        within(self.heard.recv()).await.expect("the endpoint is there")
    }

    /// What was told so far and not looked at.
    fn rest(&mut self) -> Vec<Heard> {
        std::iter::from_fn(|| self.heard.try_recv().ok()).collect()
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(ANSWER_TIMEOUT, work).await.expect("in time")
}

/// The environment of a Pod whose endpoint is at this port.
fn sdk(port: u16) -> Sdk {
    let found = Sdk::find(variables(&[
        ("AGONES_SDK_HTTP_PORT", &port.to_string()),
        ("API_SERVER_URL", &format!("http://127.0.0.1:{port}")),
        ("API_SERVER_CODE", CODE),
        ("SERVER_NAME", "duel-abcde"),
        ("SERVER_NAMESPACE", "arena"),
    ]));
    found.expect("an environment that can be used")
}

async fn asked(game: &Game, line: &str) -> (String, Option<Ending>) {
    game.answer(parse(line).expect("a request"), &mut BTreeSet::new()).await
}

#[tokio::test]
async fn it_says_ready_and_pings_by_itself_and_players_come_and_go_over_udp() {
    let mut endpoint = Endpoint::start(&[]).await;
    let game = Game::new(sdk(endpoint.port), false);
    let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a free port");
    let server = socket.local_addr().expect("it is bound");
    let talk = async {
        let ready = endpoint.next().await;
        assert_eq!(ready, Heard::new("POST /ready", json!({})));
        let ping = within(endpoint.pings.recv()).await.expect("a ping");
        assert_eq!(ping, Heard::new("POST /health", json!({})));
        let client = UdpSocket::bind("127.0.0.1:0").await.expect("a free port");
        let mut buffer = [0; MAX_DATAGRAM_BYTES];
        for (line, expected) in [
            ("ECHO hello, world\n", "hello, world\n"),
            ("JOIN ada", "OK duel-abcde 1 players\n"),
            ("JOIN ben", "OK duel-abcde 2 players\n"),
            ("JOIN ben", "OK duel-abcde 2 players\n"),
            ("LEAVE ada", "OK duel-abcde 1 players\n"),
            ("PLAYERS 7", "OK duel-abcde 7 players\n"),
            ("WHO", "OK duel-abcde 7 players\n"),
            ("\u{0}\u{1}", "ERROR nothing like this is known here\n"),
            ("EXIT", "OK goodbye\n"),
        ] {
            client.send_to(line.as_bytes(), server).await.expect("it is sent");
            let (length, _) = within(client.recv_from(&mut buffer)).await.expect("an answer");
            assert_eq!(String::from_utf8_lossy(&buffer[..length]), expected, "{line:?}");
        }
        std::future::pending::<()>().await;
    };
    let ending = tokio::select! {
        ending = game.run(&socket, Duration::ZERO) => ending.expect("it ends"),
        () = talk => unreachable!("it has no end"),
    };
    assert_eq!(ending, Ending::Orderly);
    let counts: Vec<Value> =
        endpoint.rest().into_iter().map(|mut heard| heard.body["playerCount"].take()).collect();
    assert_eq!(counts, [1, 2, 2, 1, 7].map(Value::from));
}

#[tokio::test]
async fn everything_is_told_by_its_own_route() {
    let mut endpoint = Endpoint::start(&[]).await;
    let game = Game::new(sdk(endpoint.port), false);
    let classic = |path: &str, field: &str, value: Value| {
        let mut body = json!({"serverName": "duel-abcde", "namespace": "arena"});
        body[field] = value;
        let request = format!("POST {path}?code=a+code+with+spaces+%26+signs");
        Heard { request, body }
    };
    for (line, expected) in [
        ("READY", Heard::new("POST /ready", json!({}))),
        ("ALLOCATE", Heard::new("POST /allocate", json!({}))),
        ("RESERVE 5", Heard::new("POST /reserve", json!({"seconds": "5"}))),
        ("SHUTDOWN", Heard::new("POST /shutdown", json!({}))),
        (
            "LABEL mode duel",
            Heard::new("PUT /metadata/label", json!({"key": "mode", "value": "duel"})),
        ),
        (
            "ANNOTATION map two towers",
            Heard::new("PUT /metadata/annotation", json!({"key": "map", "value": "two towers"})),
        ),
        ("JOIN ada", classic("/setactiveplayers", "playerCount", json!(1))),
        ("PLAYERS 3", classic("/setactiveplayers", "playerCount", json!(3))),
        ("STATE Running", classic("/setdgsstate", "state", json!("Running"))),
        ("MARK", classic("/setdgsmarkedfordeletion", "markedForDeletion", json!(true))),
    ] {
        let (answer, ending) = asked(&game, line).await;
        assert!(answer.starts_with("OK "), "{line}: {answer}");
        assert_eq!((endpoint.next().await, ending), (expected, None), "{line}");
    }
    assert_eq!(endpoint.rest(), []);
    let own = format!("OK http://127.0.0.1:{}/", endpoint.port);
    assert_eq!(asked(&game, "ENDPOINT").await, (own, None));
}

#[tokio::test]
async fn pings_stop_when_it_is_told_to_be_ill_and_a_classic_server_sends_none() {
    let mut endpoint = Endpoint::start(&[]).await;
    let game = Game::new(sdk(endpoint.port), false);
    asked(&game, "HEALTH bad").await;
    game.ping_once().await;
    endpoint.pings.try_recv().expect_err("it is ill");
    asked(&game, "HEALTH good").await;
    game.ping_once().await;
    endpoint.pings.try_recv().expect("it is well");

    let game = Game::new(sdk(endpoint.port), true);
    game.ping_once().await;
    endpoint.pings.try_recv().expect_err("it speaks the classic routes");
    for (line, health) in [("READY", "Healthy"), ("HEALTH bad", "Failed")] {
        asked(&game, line).await;
        let heard = endpoint.next().await;
        assert!(heard.request.starts_with("POST /setsdgshealth?code="), "{heard:?}");
        assert_eq!(heard.body["health"], health, "{line}");
    }
}

#[tokio::test]
async fn what_is_refused_is_told_once_and_the_answer_says_so_without_the_code() {
    let mut endpoint = Endpoint::start(&[403]).await;
    let game = Game::new(sdk(endpoint.port), false);
    let (answer, _) = asked(&game, "JOIN ada").await;
    assert_eq!(answer, "ERROR /setactiveplayers is refused: 403 Forbidden");
    assert_eq!(endpoint.rest().len(), 1);
}

#[tokio::test]
async fn an_endpoint_that_is_not_available_yet_is_told_again() {
    let mut endpoint = Endpoint::start(&[503, 503]).await;
    let game = Game::new(sdk(endpoint.port), false);
    let (answer, _) = asked(&game, "READY").await;
    assert_eq!(answer, "OK duel-abcde 0 players");
    assert_eq!(endpoint.rest().len(), 3);
    let lost = game.sdk.tell(Report::Ready, Attempts::ONCE).await;
    lost.expect("it is available now");
}

#[tokio::test]
async fn an_endpoint_that_is_not_there_yet_is_waited_for_and_not_for_ever() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    drop(listener);
    let game = Game::new(sdk(port), false);
    let alone = game.sdk.tell(Report::Ready, Attempts::ONCE).await.expect_err("nobody is there");
    assert!(alone.to_string().contains("nobody answers at /ready"), "{alone:#}");
    assert!(!format!("{alone:#}").contains("code"), "{alone:#}");
    let comes_later = async {
        let listener = TcpListener::bind(("127.0.0.1", port)).await.expect("the same port");
        Endpoint::start_on(listener, &[]).next().await
    };
    let (told, heard) = tokio::join!(game.sdk.tell(Report::Ready, Attempts::FEW), comes_later);
    told.expect("it is heard in the end");
    assert_eq!(heard, Heard::new("POST /ready", json!({})));
}

#[tokio::test]
async fn without_an_endpoint_it_plays_alone() {
    let game = Game::new(Sdk::find(|_| None).expect("nothing is needed"), false);
    for (line, expected) in [
        ("READY", "OK game 0 players"),
        ("JOIN ada", "OK game 1 players"),
        ("STATE Running", "OK game 0 players"),
        ("ENDPOINT", "OK none"),
    ] {
        assert_eq!(asked(&game, line).await, (expected.to_owned(), None));
    }
}

#[tokio::test]
async fn it_ends_as_it_is_told_to() {
    let game = Game::new(Sdk::find(|_| None).expect("nothing is needed"), false);
    for (line, ending) in
        [("EXIT", Ending::Orderly), ("CRASH", Ending::Crash), ("HANG", Ending::Hang)]
    {
        assert_eq!(asked(&game, line).await.1, Some(ending), "{line}");
    }
}

/// An environment that has these variables.
fn variables(known: &[(&str, &str)]) -> impl Fn(&str) -> Option<String> {
    move |name| known.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
}

#[test]
fn its_port_is_the_one_that_was_asked_for_or_the_one_that_the_node_gave_it() {
    let both = [("SOJOURN_PORT_GAME", "20001"), ("SOJOURN_PORT", "20002")];
    for (asked, known, expected) in [
        (Some(7000), &both[..], 7000),
        (None, &both[..], 20001),
        (None, &both[1..], 20002),
        (None, &[("SOJOURN_PORT", "20002"), ("GAME_PORT_GAME", "20003")], 20003),
        (None, &[], DEFAULT_PORT),
    ] {
        assert_eq!(port(asked, variables(known)).expect("a port"), expected);
    }
    port(None, variables(&[("SOJOURN_PORT", "many")])).expect_err("no port");
}

#[test]
fn half_an_environment_is_told_before_anything_begins() {
    let refused = |known: &[(&str, &str)]| {
        Sdk::find(variables(known)).err().map(|error| error.to_string()).unwrap_or_default()
    };
    let agones = ("AGONES_SDK_HTTP_PORT", "9358");
    let classic = ("API_SERVER_URL", "http://127.0.0.1:9358");
    assert_eq!(refused(&[("AGONES_SDK_HTTP_PORT", "x")]), "AGONES_SDK_HTTP_PORT is not a port");
    assert_eq!(refused(&[agones]), "", "one that knows Agones alone");
    assert_eq!(refused(&[agones, classic]), "no API_SERVER_CODE");
}
