//! The bounds of a listener, and its end.

use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tower::ServiceExt as _;

use super::scripted_backend::ScriptedBackend;
use super::{BOUND, CODE, Limits, Served, identity, server, until, within};
use crate::game::sdk::{SdkCode, SdkRequest, router, serve};

const SHORT: Duration = Duration::from_millis(50);

/// Whether the other side has ended, without having answered anything.
async fn is_ended(stream: &mut TcpStream) -> bool {
    let mut back = Vec::new();
    within(stream.read_to_end(&mut back)).await.is_ok() && back.is_empty()
}

#[tokio::test]
async fn whoever_says_nothing_or_half_a_head_is_not_waited_for() {
    let limits = Limits { first_bytes: SHORT, head: SHORT, ..Limits::DEFAULT };
    let served = Served::with_limits(limits, BOUND).await;
    for said in ["", "P", "PRI * HT", "GET /gameserver HT", "GET /gameserver HTTP/1.1\r\nhost:"] {
        let mut stream = served.connect().await;
        stream.write_all(said.as_bytes()).await.unwrap();
        let mut back = String::new();
        within(stream.read_to_string(&mut back)).await.unwrap();
        assert!(back.is_empty() || back.starts_with("HTTP/1.1 408"), "{said}: {back}");
    }
    served.stop().await;
}

#[tokio::test]
async fn a_head_has_a_bound() {
    let served = Served::start().await;
    let mut stream = served.connect().await;
    let long = format!("GET /gameserver HTTP/1.1\r\nlong: {}\r\n\r\n", "x".repeat(20 << 10));
    stream.write_all(long.as_bytes()).await.unwrap();
    let mut back = Vec::new();
    // What it did not read makes it reset the connection after its answer.
    drop(within(stream.read_to_end(&mut back)).await);
    assert!(back.starts_with(b"HTTP/1.1 431"), "{}", back.escape_ascii());
    served.stop().await;
}

#[tokio::test]
async fn more_connections_than_its_bound_wait_for_their_turn() {
    let limits = Limits { connections: 2, ..Limits::DEFAULT };
    let served = Served::with_limits(limits, BOUND).await;
    let watch = b"GET /watch/gameserver HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let mut first = served.connect().await;
    first.write_all(watch).await.unwrap();
    let mut second = served.connect().await;
    second.write_all(watch).await.unwrap();
    until("both places are taken", || served.backend.watches() == 2).await;
    let mut third = served.connect().await;
    third.write_all(watch).await.unwrap();
    assert_eq!(served.backend.watches(), 2);
    drop(first);
    let mut answered = [0; 12];
    within(third.read_exact(&mut answered)).await.unwrap();
    assert_eq!(&answered, b"HTTP/1.1 200");
    assert_eq!(served.backend.watches(), 2);
    served.stop().await;
}

#[tokio::test]
async fn whoever_does_not_read_is_not_written_to_for_ever() {
    let limits = Limits { stall: SHORT, ..Limits::DEFAULT };
    let served = Served::with_limits(limits, BOUND).await;
    let mut stream = served.connect().await;
    stream.write_all(b"GET /watch/gameserver HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    until("the watch is open", || served.backend.watches() == 1).await;
    let mut version = 0;
    let stalled = async {
        while served.backend.watches() == 1 {
            version += 1;
            served.backend.change(|server| {
                server.resource_version = version.to_string();
                server.annotations.insert("long".to_owned(), "x".repeat(1 << 20));
            });
            tokio::task::yield_now().await;
        }
    };
    within(stalled).await;
    drop(stream);
    served.stop().await;
}

#[tokio::test]
async fn at_the_end_the_port_is_free_and_silent_connections_are_closed() {
    let served = Served::start().await;
    let address = served.address;
    let mut silent = served.connect().await;
    let mut kept = served.connect().await;
    kept.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut answered = [0; 12];
    within(kept.read_exact(&mut answered)).await.unwrap();
    served.stop().await;
    assert!(is_ended(&mut silent).await);
    within(kept.read_to_end(&mut Vec::new())).await.unwrap();
    TcpStream::connect(address).await.unwrap_err();
}

#[tokio::test]
async fn a_call_that_hangs_does_not_hold_up_the_end() {
    let limits = Limits { drain: SHORT, ..Limits::DEFAULT };
    let served = Served::with_limits(limits, BOUND).await;
    served.backend.hang();
    let mut hung = served.connect().await;
    let ready = b"POST /ready HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n";
    hung.write_all(ready).await.unwrap();
    until("the call hangs", || served.backend.heard_count() == 1).await;
    served.stop().await;
    assert!(is_ended(&mut hung).await);
}

#[tokio::test]
async fn a_listener_is_served_with_a_backend_alone() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let backend = Arc::new(ScriptedBackend::new(server()));
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let stopped = async { drop(stopped.await) };
    let serving =
        tokio::spawn(serve(listener, identity(), SdkCode::new(CODE), backend.clone(), stopped));
    let mut stream = within(TcpStream::connect(address)).await.unwrap();
    stream
        .write_all(b"POST /ready HTTP/1.1\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}")
        .await
        .unwrap();
    let mut back = String::new();
    within(stream.read_to_string(&mut back)).await.unwrap();
    assert!(back.starts_with("HTTP/1.1 200 OK\r\n"), "{back}");
    assert_eq!(backend.heard(), [SdkRequest::Ready]);
    stop.send(()).unwrap();
    within(serving).await.unwrap();
}

#[tokio::test]
async fn another_host_serves_the_same_routes() {
    let backend = Arc::new(ScriptedBackend::new(server()));
    let router = router(identity(), SdkCode::new(CODE), backend.clone());
    let request = |method, path: &str| {
        Request::builder().method(method).uri(path).body(axum::body::Body::empty()).unwrap()
    };
    let ready = router.clone().oneshot(request(Method::POST, "/ready")).await.unwrap();
    assert_eq!(ready.status(), StatusCode::OK);
    let body = within(ready.into_body().collect()).await.unwrap().to_bytes();
    assert_eq!(body, "{}");
    let classic = router.oneshot(request(Method::POST, "/setdgsstate")).await.unwrap();
    assert_eq!(classic.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(backend.heard(), [SdkRequest::Ready]);
}
