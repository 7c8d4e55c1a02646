//! `Multipart`.

use super::server::{ReceivedRequest, Script, Server};
use super::{TestFolder, attempt, submission};
use crate::submission::{Method, SubmitError};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 21\r\n\r\n\
                  {\"receipt\": \"E-2026\"}\n";

/// The parts of a form: each with its head and its data.
fn parts(seen: &ReceivedRequest) -> Vec<(String, Vec<u8>)> {
    let kind = seen.header("content-type").unwrap();
    let boundary = kind.strip_prefix("multipart/form-data; boundary=").unwrap();
    let (mut parts, mut rest) = (Vec::new(), seen.body.as_slice());
    let find = |data: &[u8], text: &str| {
        data.windows(text.len()).position(|window| window == text.as_bytes()).unwrap()
    };
    let opening = format!("--{boundary}\r\n");
    while rest.starts_with(opening.as_bytes()) {
        rest = &rest[opening.len()..];
        let data_from = find(rest, "\r\n\r\n") + 4;
        let data_to = find(rest, &format!("\r\n--{boundary}"));
        let head = String::from_utf8(rest[..data_from].to_vec()).unwrap();
        parts.push((head, rest[data_from..data_to].to_vec()));
        rest = &rest[data_to + 2..];
    }
    assert_eq!(rest, format!("--{boundary}--\r\n").as_bytes());
    parts
}

fn check(seen: &ReceivedRequest, sha256: &str) {
    let parts = parts(seen);
    let heads: Vec<&str> = parts.iter().map(|(head, _)| head.lines().next().unwrap()).collect();
    assert_eq!(
        heads,
        [
            "Content-Disposition: form-data; name=\"filename\"",
            "Content-Disposition: form-data; name=\"binfile\"; filename=\"exam-alice-main.zip\"",
            "Content-Disposition: form-data; name=\"sha256\"",
        ]
    );
    assert!(parts[1].0.contains("Content-Type: application/zip\r\n"));
    assert_eq!(parts[0].1, b"exam-alice-main");
    assert_eq!(parts[2].1, sha256.as_bytes());
    let digest = ring::digest::digest(&ring::digest::SHA256, &parts[1].1);
    assert_eq!(hex::encode(digest), sha256);
}

#[tokio::test]
async fn the_form_has_the_name_the_archive_and_its_digest() {
    let folder = TestFolder::new("form");
    folder.file("a.txt", "a");
    let server = Server::answering(OK).await;
    let receipt =
        attempt(submission(&folder, Method::Multipart, &server.url("/up"))).await.unwrap();
    assert_eq!(receipt.receipt, "E-2026");
    let seen = server.seen().remove(0);
    assert_eq!((seen.method.as_str(), seen.target.as_str()), ("POST", "/up"));
    assert_eq!(seen.header("idempotency-key"), Some("uid-1/main"));
    assert_eq!(seen.header("transfer-encoding"), Some("chunked"));
    check(&seen, &receipt.sha256);
}

#[tokio::test]
async fn a_server_that_wants_the_length_gets_the_same_form() {
    let folder = TestFolder::new("form-length");
    folder.file("a.txt", "a".repeat(100_000));
    let server = Server::start(Script::Answer(Box::new(|seen| {
        if seen.header("content-length").is_some() {
            OK.to_owned()
        } else {
            "HTTP/1.1 411 Length Required\r\nContent-Length: 0\r\n\r\n".to_owned()
        }
    })))
    .await;
    let receipt =
        attempt(submission(&folder, Method::Multipart, &server.url("/up"))).await.unwrap();
    check(&server.seen().remove(1), &receipt.sha256);
}

// case: lab S14
#[tokio::test]
async fn an_upload_that_is_answered_500_is_an_error() {
    let folder = TestFolder::new("form-500");
    let server = Server::answering("HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n").await;
    let error =
        attempt(submission(&folder, Method::Multipart, &server.url("/up"))).await.unwrap_err();
    assert!(matches!(error, SubmitError::Refused { status: 500, .. }), "{error:?}");
    assert_eq!(server.seen().len(), 1);
}
