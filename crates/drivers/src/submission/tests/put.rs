//! `Put`, and what every method owes to answers, silence and broken connections.

use std::io::Cursor;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ring::digest;

use super::server::{Script, Server};
use super::{TestFolder, attempt, submission};
use crate::submission::{ArchiveError, Method, SubmitError};

const CREATED: &str = "HTTP/1.1 201 Created\r\nETag: \"e-1\"\r\nContent-Length: 0\r\n\r\n";

fn filled(name: &str) -> TestFolder {
    let folder = TestFolder::new(name);
    folder.file("report/main.txt", "forty-two\n");
    folder
}

/// More than every buffer on the way, and nothing that gets smaller.
fn large(name: &str) -> TestFolder {
    let folder = TestFolder::new(name);
    let mut state = 1_u64;
    let noise: Vec<u8> = (0..8 * 1024 * 1024)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state.to_le_bytes()[7]
        })
        .collect();
    folder.file("noise", noise);
    folder
}

fn hex_digest(data: &[u8]) -> String {
    hex::encode(digest::digest(&digest::SHA256, data))
}

#[tokio::test]
async fn the_archive_arrives_with_its_digest_behind_it() {
    let folder = filled("put");
    let server = Server::answering(CREATED).await;
    let receipt =
        attempt(submission(&folder, Method::Put, &server.url("/in/box.zip?k=v"))).await.unwrap();

    let seen = server.seen().remove(0);
    assert_eq!((seen.method.as_str(), seen.target.as_str()), ("PUT", "/in/box.zip?k=v"));
    assert_eq!(seen.header("idempotency-key"), Some("uid-1/main"));
    assert_eq!(seen.header("content-type"), Some("application/zip"));
    let digest = digest::digest(&digest::SHA256, &seen.body);
    let told = format!("sha-256=:{}:", BASE64_STANDARD.encode(digest));
    assert_eq!(seen.trailers.get("content-digest"), Some(&told));

    assert_eq!(receipt.sha256, hex_digest(&seen.body));
    assert_eq!(receipt.size, u64::try_from(seen.body.len()).unwrap());
    assert_eq!((receipt.entries, receipt.skipped), (2, 0));
    assert_eq!(receipt.receipt, "\"e-1\"");
    let mut archive = ::zip::ZipArchive::new(Cursor::new(seen.body)).unwrap();
    let file = archive.by_name("report/main.txt").unwrap();
    assert_eq!(std::io::read_to_string(file).unwrap(), "forty-two\n");
}

// case: lab S13
#[tokio::test]
async fn a_block_volume_arrives_as_disk_img() {
    let folder = TestFolder::new("put-block");
    let disk = folder.file("device", [7_u8; 100_000]);
    let server = Server::answering(CREATED).await;
    let mut submission = submission(&folder, Method::Put, &server.url("/x.zip"));
    (submission.root, submission.block) = (disk, true);
    let receipt = attempt(submission).await.unwrap();

    assert_eq!((receipt.entries, receipt.skipped), (1, 0));
    let body = server.seen().remove(0).body;
    let mut archive = ::zip::ZipArchive::new(Cursor::new(body)).unwrap();
    assert_eq!(archive.file_names().map(Result::unwrap).collect::<Vec<_>>(), ["disk.img"]);
    let mut data = Vec::new();
    std::io::copy(&mut archive.by_index(0).unwrap(), &mut data).unwrap();
    assert_eq!(data, [7_u8; 100_000]);
}

#[tokio::test]
async fn a_folder_gets_the_archive_by_its_name() {
    let folder = filled("put-folder");
    let server = Server::answering(CREATED).await;
    attempt(submission(&folder, Method::Put, &server.url("/in/"))).await.unwrap();
    assert_eq!(server.seen()[0].target, "/in/exam-alice-main.zip");
}

// case: lab S14
#[tokio::test]
async fn only_2xx_is_success() {
    let folder = filled("put-500");
    for (answer, status) in [
        ("HTTP/1.1 500 Oops\r\nContent-Length: 9\r\n\r\ndisk full", 500),
        ("HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\n\r\ndisk full", 404),
        ("HTTP/1.1 304 Not Modified\r\n\r\n", 304),
    ] {
        let server = Server::answering(answer).await;
        let error = attempt(submission(&folder, Method::Put, &server.url("/x"))).await.unwrap_err();
        let SubmitError::Refused { status: told, words, .. } = &error else { panic!("{error:?}") };
        assert_eq!(*told, status);
        assert_eq!(words, if status == 304 { "" } else { "disk full" });
        assert_eq!(server.seen().len(), 1);
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let folder = filled("put-redirect");
    let other = Server::answering(CREATED).await;
    for code in [301, 302, 303, 307, 308] {
        let answer = format!(
            "HTTP/1.1 {code} Moved\r\nLocation: {}\r\nContent-Length: 0\r\n\r\n",
            other.url("/elsewhere")
        );
        let server = Server::answering(&answer).await;
        let error = attempt(submission(&folder, Method::Put, &server.url("/x"))).await.unwrap_err();
        assert!(matches!(error, SubmitError::Refused { status, .. } if status == code));
    }
    assert!(other.seen().is_empty());
}

// case: lab S15
#[tokio::test]
async fn all_attempts_carry_the_same_key_and_the_same_bytes() {
    let folder = filled("put-again");
    let mut answers = ["HTTP/1.1 503 Later\r\nContent-Length: 0\r\n\r\n", CREATED].into_iter();
    let server =
        Server::start(Script::Answer(Box::new(move |_| answers.next().unwrap().to_owned()))).await;
    let submission = submission(&folder, Method::Put, &server.url("/x"));
    attempt(submission.clone()).await.unwrap_err();
    attempt(submission).await.unwrap();

    let seen = server.seen();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0].header("idempotency-key"), Some("uid-1/main"));
    assert_eq!(seen[1].header("idempotency-key"), Some("uid-1/main"));
    assert_eq!(seen[0].body, seen[1].body);
}

#[tokio::test]
async fn a_server_that_wants_the_length_gets_it() {
    let folder = filled("put-length");
    for refusal in ["411 Length Required", "501 Not Implemented"] {
        let refusal = format!("HTTP/1.1 {refusal}\r\nContent-Length: 0\r\n\r\n");
        let server = Server::start(Script::Answer(Box::new(move |seen| {
            let sized = seen.header("content-length").is_some();
            if sized { CREATED.to_owned() } else { refusal.clone() }
        })))
        .await;
        let receipt = attempt(submission(&folder, Method::Put, &server.url("/x"))).await.unwrap();
        let seen = server.seen().remove(1);
        assert_eq!(seen.header("content-length"), Some(receipt.size.to_string().as_str()));
        assert_eq!(hex_digest(&seen.body), receipt.sha256);
        assert!(seen.header("content-digest").unwrap().starts_with("sha-256=:"));
    }
}

#[tokio::test]
async fn a_connection_that_breaks_is_a_failure() {
    let folder = large("put-cut");
    let server = Server::start(Script::Cut(1_000_000)).await;
    let error = attempt(submission(&folder, Method::Put, &server.url("/x"))).await.unwrap_err();
    assert!(matches!(error, SubmitError::Exchange { .. }), "{error:?}");
}

#[tokio::test]
async fn a_server_that_takes_nothing_is_given_up() {
    let folder = large("put-silence");
    let server = Server::start(Script::Silence).await;
    let mut submission = submission(&folder, Method::Put, &server.url("/x"));
    submission.stall_timeout = Duration::from_millis(300);
    let error = attempt(submission).await.unwrap_err();
    assert!(matches!(error, SubmitError::Stalled { .. }), "{error:?}");
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up() {
    let folder = filled("put-hang");
    let server = Server::start(Script::Hang(String::new())).await;
    let mut submission = submission(&folder, Method::Put, &server.url("/x"));
    submission.stall_timeout = Duration::from_millis(300);
    let error = attempt(submission).await.unwrap_err();
    assert!(matches!(error, SubmitError::Stalled { .. }), "{error:?}");
}

#[tokio::test]
async fn success_before_the_whole_was_sent_is_none() {
    let folder = large("put-early");
    let server = Server::start(Script::AnswerHead(CREATED.to_owned())).await;
    let mut submission = submission(&folder, Method::Put, &server.url("/x"));
    submission.stall_timeout = Duration::from_millis(500);
    let error = attempt(submission).await.unwrap_err();
    assert!(
        matches!(error, SubmitError::AnsweredEarly { .. } | SubmitError::Stalled { .. }),
        "{error:?}"
    );
}

#[tokio::test]
async fn an_endless_answer_is_read_to_a_bound() {
    let folder = filled("put-huge");
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 900000000\r\n\r\n";
    let server = Server::start(Script::Hang(format!("{head}{}", "x".repeat(1_000_000)))).await;
    let receipt = attempt(submission(&folder, Method::Put, &server.url("/x"))).await.unwrap();
    assert_eq!(receipt.receipt, "x".repeat(200));
}

#[tokio::test]
async fn an_answer_that_dries_up_still_counts_by_its_status() {
    let folder = filled("put-dry");
    let text = "HTTP/1.1 200 OK\r\nETag: \"t\"\r\nContent-Length: 100\r\n\r\nhalf";
    let server = Server::start(Script::Hang(text.to_owned())).await;
    let mut submission = submission(&folder, Method::Put, &server.url("/x"));
    submission.stall_timeout = Duration::from_millis(300);
    assert_eq!(attempt(submission).await.unwrap().receipt, "\"t\"");
}

#[tokio::test]
async fn a_file_that_cannot_be_read_fails_the_attempt_and_ends_no_body() {
    let folder = large("put-unreadable");
    let locked = folder.file("zz/locked.txt", "secret");
    std::fs::set_permissions(&locked, std::fs::Permissions::from_mode(0o000)).unwrap();
    if std::fs::File::open(&locked).is_ok() {
        return crate::skip::left_to_another_run("root reads every file");
    }
    let server = Server::answering(CREATED).await;
    let error = attempt(submission(&folder, Method::Put, &server.url("/x"))).await.unwrap_err();
    assert!(
        matches!(&error, SubmitError::Archive(ArchiveError::Open { path, .. })
            if path.as_os_str() == "zz/locked.txt"),
        "{error:?}"
    );
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn an_archive_that_breaks_off_is_the_cause_that_is_told() {
    let folder = large("put-too-deep");
    let mut deep = folder.path().join("zz");
    for _ in 0..300 {
        deep.push("d");
    }
    std::fs::create_dir_all(deep).unwrap();
    let server = Server::answering(CREATED).await;
    let error = attempt(submission(&folder, Method::Put, &server.url("/x"))).await.unwrap_err();
    assert!(matches!(&error, SubmitError::Archive(ArchiveError::TooDeep { .. })), "{error:?}");
    // Much was sent, yet the server never saw an end.
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn credentials_come_from_the_folder() {
    let folder = filled("put-auth");
    let server = Server::answering(CREATED).await;
    let secrets = TestFolder::new("put-auth-secrets");
    let mut submission = submission(&folder, Method::Put, &server.url("/x"));
    submission.secret_dir = Some(secrets.path().to_owned());

    let error = attempt(submission.clone()).await.unwrap_err().to_string();
    assert!(error.ends_with("has no token, and no username with a password"), "{error}");
    secrets.file("username", "alice\n");
    secrets.file("password", "open sesame\n");
    attempt(submission.clone()).await.unwrap();
    secrets.file("token", "t0ken\n");
    attempt(submission.clone()).await.unwrap();
    secrets.file("token", "two\nlines");
    let error = attempt(submission).await.unwrap_err();
    assert!(matches!(error, SubmitError::Credential(_)));
    assert!(!format!("{error:?}").contains("two"), "{error:?}");

    let told: Vec<_> =
        server.seen().iter().map(|seen| seen.header("authorization").unwrap().to_owned()).collect();
    assert_eq!(told, ["Basic YWxpY2U6b3BlbiBzZXNhbWU=", "Bearer t0ken"]);
}
