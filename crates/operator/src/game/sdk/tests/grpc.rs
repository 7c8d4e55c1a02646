//! Agones' SDK over gRPC, with messages written by hand: field numbers are what clients rely on.

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use jiff::SignedDuration;

use super::client::{Answer, framed, grpc_request, next_message};
use super::{Limits, Served, until, within};
use crate::game::sdk::{CounterChange, GameServerState, SdkError, SdkRequest};

const SDK: &str = "/agones.dev.sdk.SDK";
const ALPHA: &str = "/agones.dev.sdk.alpha.SDK";
const BETA: &str = "/agones.dev.sdk.beta.SDK";

/// A field that holds a number.
fn number(field: u8, value: i64) -> Vec<u8> {
    let mut bytes = vec![field << 3];
    bytes.extend(varint(value));
    bytes
}

/// A field that holds text or another message.
fn bytes(field: u8, value: impl AsRef<[u8]>) -> Vec<u8> {
    let value = value.as_ref();
    let mut bytes = vec![field << 3 | 2];
    bytes.extend(varint(i64::try_from(value.len()).unwrap()));
    bytes.extend(value);
    bytes
}

fn varint(value: i64) -> Vec<u8> {
    let mut rest = value.cast_unsigned();
    let mut bytes = Vec::new();
    loop {
        let low = u8::try_from(rest & 0x7f).unwrap();
        rest >>= 7;
        if rest == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}

fn message(fields: &[Vec<u8>]) -> Vec<u8> {
    fields.concat()
}

fn server(state: &str) -> Vec<u8> {
    let text = |key: &str, value: &str| message(&[bytes(1, key), bytes(2, value)]);
    let meta = message(&[
        bytes(1, "doom-x7"),
        bytes(2, "arena"),
        bytes(3, "8f3a"),
        bytes(4, "42"),
        number(5, 3),
        number(6, 1_900_000_000),
        bytes(8, text("note", "a")),
        bytes(9, text("fleet", "doom")),
    ]);
    let health = message(&[number(2, 5), number(3, 3), number(4, 7)]);
    let rooms = message(&[number(1, 1), number(2, 10)]);
    let guests = message(&[number(1, 4), bytes(2, "eve")]);
    let status = message(&[
        bytes(1, state),
        bytes(2, "192.0.2.7"),
        bytes(3, message(&[bytes(1, "game"), number(2, 20_001)])),
        bytes(4, message(&[number(1, 1), number(2, 2), bytes(3, "ada")])),
        bytes(5, message(&[bytes(1, "rooms"), bytes(2, rooms)])),
        bytes(6, message(&[bytes(1, "guests"), bytes(2, guests)])),
    ]);
    message(&[bytes(1, meta), bytes(2, bytes(1, health)), bytes(3, status)])
}

#[tokio::test]
async fn a_server_says_in_which_state_it_is() {
    let served = Served::start().await;
    let mut client = served.grpc().await;
    let text = |value: &str| value.to_owned();
    let pair = message(&[bytes(1, "map"), bytes(2, "e1m1")]);
    for (method, said, request) in [
        ("Ready", vec![], SdkRequest::Ready),
        ("Allocate", vec![], SdkRequest::Allocate),
        ("Shutdown", vec![], SdkRequest::Shutdown),
        ("Reserve", number(1, 5), SdkRequest::Reserve(SignedDuration::from_secs(5))),
        (
            "SetLabel",
            pair.clone(),
            SdkRequest::SetLabel { key: text("agones.dev/sdk-map"), value: text("e1m1") },
        ),
        (
            "SetAnnotation",
            pair,
            SdkRequest::SetAnnotation { key: text("agones.dev/sdk-map"), value: text("e1m1") },
        ),
    ] {
        let answer = client.call(&format!("{SDK}/{method}"), &said).await;
        assert_eq!(answer, Answer::ok(b""), "{method}");
        assert_eq!(served.backend.heard(), [request], "{method}");
    }
    // A client that is newer than we are sends fields that we do not know.
    let answer = client.call(&format!("{SDK}/Ready"), &bytes(9, "new")).await;
    assert_eq!(answer, Answer::ok(b""));
    served.stop().await;
}

#[tokio::test]
async fn a_server_is_told_and_watched_with_agones_field_numbers() {
    let served = Served::start().await;
    let mut client = served.grpc().await;
    let told = client.call(&format!("{SDK}/GetGameServer"), b"").await;
    assert_eq!(told, Answer::ok(&server("Scheduled")));
    let request = grpc_request(&format!("{SDK}/WatchGameServer"));
    let request = request.body(Full::new(framed(b"")).boxed_unsync()).unwrap();
    let mut watch = client.send(request).await.into_body();
    assert_eq!(next_message(&mut watch).await, Some(server("Scheduled")));
    assert_eq!(client.call(&format!("{SDK}/Ready"), b"").await, Answer::ok(b""));
    assert_eq!(next_message(&mut watch).await, Some(server("Ready")));
    served.backend.change(|server| server.state = GameServerState::Unhealthy);
    assert_eq!(next_message(&mut watch).await, Some(server("Unhealthy")));
    served.backend.forget();
    let end = within(watch.collect()).await.unwrap();
    assert_eq!(end.trailers().unwrap()["grpc-status"], "0");
    assert_eq!(served.backend.watches(), 0);
    let unknown = client.call(&format!("{SDK}/GetGameServer"), b"").await;
    assert_eq!(unknown, Answer::refused(5, "the server is not known"));
    served.stop().await;
}

#[tokio::test]
async fn every_message_of_a_health_stream_is_a_sign_of_life_even_after_one_was_refused() {
    let served = Served::start().await;
    let (pings, answered) = served.grpc().await.stream(&format!("{SDK}/Health"));
    for (ping, heard) in [(1, 1), (2, 3)] {
        let sent: Vec<u8> = (0..ping).flat_map(|_| framed(b"")).collect();
        within(pings.send(Bytes::from(sent))).await.unwrap();
        until("the pings are heard", || served.backend.heard_count() == heard).await;
    }
    served.backend.refuse(SdkError::Unavailable("nobody leads".to_owned()));
    within(pings.send(framed(b""))).await.unwrap();
    within(pings.send(framed(b""))).await.unwrap();
    until("the pings are heard", || served.backend.heard_count() == 5).await;
    drop(pings);
    assert_eq!(within(answered).await.unwrap(), Answer::ok(b""));
    assert_eq!(served.backend.heard(), vec![SdkRequest::Health; 5]);
    served.stop().await;
}

#[tokio::test]
async fn streams_end_well_with_the_listener() {
    let served = Served::start().await;
    let mut client = served.grpc().await;
    let (pings, answered) = client.stream(&format!("{SDK}/Health"));
    within(pings.send(framed(b""))).await.unwrap();
    until("the ping is heard", || served.backend.heard_count() == 1).await;
    let request = grpc_request(&format!("{SDK}/WatchGameServer"));
    let request = request.body(Full::new(framed(b"")).boxed_unsync()).unwrap();
    let watch = client.send(request).await.into_body();
    served.stop().await;
    assert_eq!(within(answered).await.unwrap(), Answer::ok(b""));
    let end = within(watch.collect()).await.unwrap();
    assert_eq!(end.trailers().unwrap()["grpc-status"], "0");
}

#[tokio::test]
async fn players_come_and_go() {
    let served = Served::start().await;
    let mut client = served.grpc().await;
    let bob = bytes(1, "bob");
    let both = message(&[bytes(1, "ada"), bytes(1, "bob")]);
    for (method, said, answer) in [
        ("GetPlayerCount", vec![], number(1, 1)),
        ("GetPlayerCapacity", vec![], number(1, 2)),
        ("IsPlayerConnected", bob.clone(), vec![]),
        ("PlayerConnect", bob.clone(), number(1, 1)),
        ("PlayerConnect", bob.clone(), vec![]),
        ("IsPlayerConnected", bob.clone(), number(1, 1)),
        ("GetConnectedPlayers", vec![], both),
        ("PlayerDisconnect", bob.clone(), number(1, 1)),
        ("PlayerDisconnect", bob.clone(), vec![]),
        ("SetPlayerCapacity", number(1, 300), vec![]),
        ("GetPlayerCapacity", vec![], number(1, 300)),
    ] {
        let answered = client.call(&format!("{ALPHA}/{method}"), &said).await;
        assert_eq!(answered, Answer::ok(&answer), "{method} {said:?}");
    }
    let missing = client.call(&format!("{ALPHA}/PlayerConnect"), b"").await;
    assert_eq!(missing, Answer::refused(3, "playerID: is missing"));
    served.stop().await;
}

#[tokio::test]
async fn counters_are_read_and_changed() {
    let served = Served::start().await;
    let mut client = served.grpc().await;
    let path = format!("{BETA}/UpdateCounter");
    let counter =
        |count, capacity| message(&[bytes(1, "rooms"), number(2, count), number(3, capacity)]);
    let read = client.call(&format!("{BETA}/GetCounter"), &bytes(1, "rooms")).await;
    assert_eq!(read, Answer::ok(&counter(1, 10)));
    for (update, change, answer) in [
        (bytes(2, number(1, 5)), (Some(5), None, 0), counter(5, 10)),
        (bytes(3, number(1, 20)), (None, Some(20), 0), counter(5, 20)),
        (number(4, -2), (None, None, -2), counter(3, 20)),
        (bytes(2, []), (Some(0), None, 0), message(&[bytes(1, "rooms"), number(3, 20)])),
    ] {
        let said = bytes(1, message(&[bytes(1, "rooms"), update]));
        assert_eq!(client.call(&path, &said).await, Answer::ok(&answer), "{change:?}");
        let (count, capacity, diff) = change;
        let change = CounterChange { count, capacity, diff };
        let name = "rooms".to_owned();
        assert_eq!(served.backend.heard(), [SdkRequest::UpdateCounter { name, change }]);
    }
    let nothing = client.call(&path, &bytes(1, bytes(1, "rooms"))).await;
    let words = "one of count, capacity and countDiff must be given";
    assert_eq!(nothing, Answer::refused(3, words));
    let missing = client.call(&path, b"").await;
    assert_eq!(missing, Answer::refused(3, "counterUpdateRequest: is missing"));
    let unknown = client.call(&format!("{BETA}/GetCounter"), &bytes(1, "h\u{e4}lls %")).await;
    assert_eq!(unknown, Answer::refused(5, "not found: counter h%C3%A4lls %25"));
    let far = bytes(1, message(&[bytes(1, "rooms"), number(4, 100)]));
    assert_eq!(client.call(&path, &far).await, Answer::refused(11, "out of range: count 100"));
    served.stop().await;
}

#[tokio::test]
async fn lists_are_read_and_changed() {
    let served = Served::start().await;
    let mut client = served.grpc().await;
    let list = |capacity, values: &[&str]| {
        let mut list = message(&[bytes(1, "guests"), number(2, capacity)]);
        list.extend(values.iter().flat_map(|value| bytes(3, value)));
        list
    };
    let value = |value: &str| message(&[bytes(1, "guests"), bytes(2, value)]);
    for (method, said, answer) in [
        ("GetList", bytes(1, "guests"), list(4, &["eve"])),
        ("AddListValue", value("ada"), list(4, &["eve", "ada"])),
        ("RemoveListValue", value("eve"), list(4, &["ada"])),
    ] {
        let answered = client.call(&format!("{BETA}/{method}"), &said).await;
        assert_eq!(answered, Answer::ok(&answer), "{method}");
    }
    let again = client.call(&format!("{BETA}/AddListValue"), &value("ada")).await;
    assert_eq!(again, Answer::refused(6, "already exists: ada"));
    served.backend.heard();
    let text = |values: &[&str]| Some(values.iter().map(|value| (*value).to_owned()).collect());
    let mask =
        |paths: &[&str]| bytes(2, paths.iter().flat_map(|path| bytes(1, path)).collect::<Vec<_>>());
    for (said, capacity, values) in [
        ([bytes(1, list(9, &[])), mask(&["capacity"])], Some(9), None),
        ([bytes(1, list(9, &["x"])), mask(&["values"])], None, text(&["x"])),
        ([bytes(1, list(9, &["x"])), mask(&["values", "capacity"])], Some(9), text(&["x"])),
        // As the client for Node.js sends it.
        ([bytes(1, list(12, &[])), mask(&[])], Some(12), None),
        ([bytes(1, list(0, &[])), mask(&[])], Some(0), None),
        ([bytes(1, list(0, &["z"])), mask(&[])], None, text(&["z"])),
        ([bytes(1, list(12, &["y"])), vec![]], Some(12), text(&["y"])),
    ] {
        let answered = client.call(&format!("{BETA}/UpdateList"), &message(&said)).await;
        assert_eq!(answered.status, "0", "{said:?}");
        let update = SdkRequest::UpdateList { name: "guests".to_owned(), capacity, values };
        assert_eq!(served.backend.heard(), [update], "{said:?}");
    }
    let unknown = message(&[bytes(1, list(1, &[])), mask(&["size"])]);
    let unknown = client.call(&format!("{BETA}/UpdateList"), &unknown).await;
    assert_eq!(unknown, Answer::refused(3, "update_mask: a list has no field \"size\""));
    let missing = client.call(&format!("{BETA}/UpdateList"), b"").await;
    assert_eq!(missing, Answer::refused(3, "list: is missing"));
    served.stop().await;
}

#[tokio::test]
async fn what_is_not_there_or_not_understood_is_unimplemented() {
    let served = Served::start().await;
    let mut client = served.grpc().await;
    for path in [
        "/agones.dev.sdk.SDK/Watch",
        "/agones.dev.sdk.SDK/ready",
        "/agones.dev.sdk.SDK/Ready/",
        "/agones.dev.sdk.alpha.SDK/Ready",
        "/agones.dev.sdk.beta.SDK/SetPlayerCapacity",
    ] {
        let answer = client.call(path, b"").await;
        assert_eq!(answer, Answer::refused(12, "there is no such method"), "{path}");
    }
    for path in ["/", "/grpc.health.v1.Health/Check", "/ready", "/agones.dev.sdk.SDK"] {
        let answer = client.call(path, b"").await;
        assert_eq!(answer, Answer::refused(12, "there is no such service"), "{path}");
    }
    let path = format!("{SDK}/Ready");
    let compressed = Answer::refused(12, "compressed messages are not understood");
    let flagged = client.call_raw(&path, Bytes::from_static(b"\x01\0\0\0\0")).await;
    assert_eq!(flagged, compressed);
    let request = grpc_request(&path).header("grpc-encoding", "gzip");
    let request = request.body(Full::new(framed(b"")).boxed_unsync()).unwrap();
    let response = client.send(request).await;
    assert_eq!(response.headers()["grpc-status"], "12");
    assert_eq!(response.headers()["grpc-accept-encoding"], "identity");
    let request = grpc_request(&path).header("grpc-encoding", "identity");
    let request = request.body(Full::new(framed(b"")).boxed_unsync()).unwrap();
    assert_eq!(client.send(request).await.status(), StatusCode::OK);
    assert_eq!(served.backend.heard(), [SdkRequest::Ready]);
    served.stop().await;
}

#[tokio::test]
async fn what_is_no_grpc_is_refused_as_http() {
    let served = Served::start().await;
    let mut client = served.grpc().await;
    let path = format!("{SDK}/Ready");
    for content_type in ["application/json", "application/grpc-web", "application/grpc+json", ""] {
        let mut request = grpc_request(&path).body(Full::new(framed(b"")).boxed_unsync()).unwrap();
        request.headers_mut().insert("content-type", content_type.parse().unwrap());
        let status = client.send(request).await.status();
        assert_eq!(status, StatusCode::UNSUPPORTED_MEDIA_TYPE, "{content_type}");
    }
    for content_type in ["application/grpc+proto", "application/grpc; charset=utf-8"] {
        let mut request = grpc_request(&path).body(Full::new(framed(b"")).boxed_unsync()).unwrap();
        request.headers_mut().insert("content-type", content_type.parse().unwrap());
        assert_eq!(client.send(request).await.status(), StatusCode::OK, "{content_type}");
    }
    let mut request = grpc_request(&path).body(Full::default().boxed_unsync()).unwrap();
    *request.method_mut() = Method::GET;
    assert_eq!(client.send(request).await.status(), StatusCode::METHOD_NOT_ALLOWED);
    let request = Request::post(&path).header("content-type", "application/grpc");
    let response = served.exchange(request.body(Full::new(framed(b""))).unwrap()).await;
    assert_eq!(response.headers()["grpc-status"], "12", "over HTTP/1.1");
    assert_eq!(served.backend.heard(), [SdkRequest::Ready, SdkRequest::Ready]);
    served.stop().await;
}

#[tokio::test]
async fn rest_is_served_over_http_2_too() {
    let served = Served::start().await;
    let mut client = served.grpc().await;
    let request = Request::get("http://localhost/alpha/player/count");
    let response = client.send(request.body(Full::default().boxed_unsync()).unwrap()).await;
    let body = within(response.into_body().collect()).await.unwrap().to_bytes();
    assert_eq!(body, r#"{"count":"1"}"#);
    served.stop().await;
}

#[tokio::test]
async fn a_call_that_nobody_answers_ends_in_time() {
    let short = std::time::Duration::from_millis(50);
    let served = Served::with_limits(Limits::DEFAULT, short).await;
    served.backend.hang();
    let mut client = served.grpc().await;
    let late = Answer::refused(4, "that took too long");
    assert_eq!(client.call(&format!("{SDK}/Ready"), b"").await, late);
    let (status, text) = served.send(Method::POST, "/ready", "{}").await;
    assert_eq!(status, StatusCode::GATEWAY_TIMEOUT);
    assert!(text.contains("that took too long"), "{text}");
    // Whoever begins a message has to end it.
    let (sender, answered) = client.stream(&format!("{SDK}/Ready"));
    within(sender.send(Bytes::from_static(b"\0\0"))).await.unwrap();
    assert_eq!(within(answered).await.unwrap(), late);
    served.stop().await;
}
