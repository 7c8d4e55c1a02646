use std::net::SocketAddr;

use jiff::SignedDuration;
use rustls::RootCertStore;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::*;
use crate::notify::test_family::{self, BOOKS, DUE};
use crate::notify::{ObjectName, Recipient, SignedLink, Zone};

/// Longer than any exchange with a server that answers.
const TEST_TIMEOUT: Duration = Duration::from_secs(20);

/// An HTTP server that answers one request with `answer`, as it is, and gives the request.
async fn server(answer: &'static str) -> (SocketAddr, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let heard = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        while !complete(&request) {
            request.push(stream.read_u8().await.unwrap());
        }
        stream.write_all(answer.as_bytes()).await.unwrap();
        String::from_utf8(request).unwrap()
    });
    (address, heard)
}

fn complete(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let mut lines = head.lines().map(str::to_ascii_lowercase);
    let length = lines.find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    body.len() >= length.unwrap_or(0)
}

fn channel(form: Form, address: SocketAddr) -> Webhook {
    open(form, &format!("http://{address}/services/T0/s3cret")).unwrap()
}

fn open(form: Form, url: &str) -> Result<Webhook, WebhookError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    Webhook::new(form, url, tls, Arc::new(Templates::load(&BOOKS, None, Zone::utc()).unwrap()))
}

fn notice() -> Notice {
    Notice {
        to: Recipient { name: "Ada".to_owned(), email: "ada@example.org".to_owned() },
        facts: Facts {
            object: ObjectName {
                kind: "BookCopy",
                namespace: "city".to_owned(),
                name: "copy-1".to_owned(),
            },
            title: "Emma <!channel> & \"co\"\r\nx".to_owned(),
            texts: vec![("long_title", "Emma\r\nA Novel".to_owned())],
            reason: "it is missed since".to_owned(),
            reason_time: Some("2026-11-16T08:00:00Z".parse().unwrap()),
            deadline: Some("2026-11-17T09:00:00Z".parse().unwrap()),
            remaining: Some(SignedDuration::from_hours(24)),
            alert: Some((1, 3)),
            url: Some("https://x/emma".to_owned()),
            links: vec![
                SignedLink { name: "keep_week", url: Some("https://x/keep?signed".to_owned()) },
                SignedLink { name: "fetch", url: None },
            ],
            detail: None,
        },
        ..test_family::notice(DUE)
    }
}

async fn send(channel: &Webhook) -> Result<(), SendError> {
    timeout(TEST_TIMEOUT, channel.send(&notice())).await.expect("an exchange ends")
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[tokio::test]
async fn a_program_gets_every_fact_and_the_id_as_key() {
    let (address, heard) = server(OK).await;
    assert_eq!(send(&channel(Form::Json, address)).await, Ok(()));
    let request = heard.await.unwrap();
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /services/T0/s3cret HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("idempotency-key: 0e1f.due-1.1794906000"), "{head}");
    assert!(head.contains("content-type: application/json"), "{head}");
    // In the order of the registration.
    let names =
        r#""facts":{"bookCopy":"copy-1","namespace":"city","longTitle":"Emma\r\nA Novel","shelf":"#;
    assert!(body.contains(names), "{body}");
    let links = r#""url":"https://x/emma","keepWeek":"https://x/keep?signed"}}"#;
    assert!(body.ends_with(links), "{body}");
    let mut body: Value = serde_json::from_str(body).unwrap();
    let text = body["text"].take();
    assert!(text.as_str().unwrap().contains("back on Tuesday 17 November 2026, 09:00 UTC"));
    assert_eq!(
        body,
        json!({
            "id": "0e1f.due-1.1794906000",
            "kind": "due-soon",
            "to": { "name": "Ada", "email": "ada@example.org" },
            "subject": "Emma <!channel> & \"co\" x is due in 1 day",
            "text": null,
            "facts": {
                "bookCopy": "copy-1",
                "namespace": "city",
                "longTitle": "Emma\r\nA Novel",
                "shelf": "",
                "reason": "it is missed since 2026-11-16T08:00:00Z",
                "deadline": "2026-11-17T09:00:00Z",
                "remainingSeconds": 86400,
                "alert": { "number": 1, "of": 3 },
                "url": "https://x/emma",
                "keepWeek": "https://x/keep?signed",
            },
        })
    );
}

#[tokio::test]
async fn a_chat_gets_words_without_mentions_and_without_signed_links() {
    let (address, heard) = server(OK).await;
    assert_eq!(send(&channel(Form::Slack, address)).await, Ok(()));
    let request = heard.await.unwrap();
    let body: Value = serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
    let text = "Ada: Emma &lt;!channel&gt; &amp; \"co\" x is due in 1 day, because it is missed since \
                Monday 16 November 2026, 08:00 UTC\n\
                https://x/emma";
    assert_eq!(body, json!({ "text": text }));
}

#[tokio::test]
async fn only_an_answer_about_the_content_is_for_good() {
    let cases = [
        ("HTTP/1.1 204 No Content\r\n\r\n", None),
        (
            "HTTP/1.1 400 B\r\nContent-Length: 15\r\n\r\ninvalid_payload",
            Some((true, "400 invalid_payload")),
        ),
        ("HTTP/1.1 413 B\r\nContent-Length: 0\r\n\r\n", Some((true, "413"))),
        ("HTTP/1.1 422 B\r\nContent-Length: 0\r\n\r\n", Some((true, "422"))),
        ("HTTP/1.1 302 F\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n", Some((false, "302"))),
        ("HTTP/1.1 403 F\r\nContent-Length: 0\r\n\r\n", Some((false, "403"))),
        ("HTTP/1.1 404 N\r\nContent-Length: 4\r\n\r\na\r\nb", Some((false, "404 a b"))),
        ("HTTP/1.1 429 T\r\nContent-Length: 0\r\n\r\n", Some((false, "429"))),
        ("HTTP/1.1 503 S\r\nContent-Length: 9999\r\n\r\npart", Some((false, "503 part"))),
        ("garbage\r\n\r\n", Some((false, "posting to"))),
        ("", Some((false, "posting to"))),
    ];
    for (answer, expected) in cases {
        let (address, heard) = server(answer).await;
        let result = send(&channel(Form::Json, address)).await;
        heard.await.unwrap();
        match (result, expected) {
            (Ok(()), None) => {}
            (Err(error), Some((permanent, words))) => {
                assert_eq!(error.is_permanent(), permanent, "{answer:?}: {error}");
                let shown = error.to_string();
                assert!(shown.contains(words), "{answer:?}: {shown}");
                assert!(!shown.contains("s3cret") && !shown.contains('\n'), "{shown}");
            }
            (result, _) => panic!("{answer:?}: {result:?}"),
        }
    }
}

#[tokio::test]
async fn nobody_there_is_worth_another_attempt() {
    let (address, heard) = server(OK).await;
    heard.abort();
    assert!(heard.await.unwrap_err().is_cancelled());
    let error = send(&channel(Form::Slack, address)).await.unwrap_err();
    assert!(matches!(&error, SendError::Transient(words) if words.contains("refused")), "{error}");
    assert!(!error.to_string().contains("s3cret"), "{error}");
}

#[tokio::test]
async fn a_server_that_says_nothing_is_left_in_time() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let channel = channel(Form::Json, listener.local_addr().unwrap());
    let silent = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        while !complete(&request) {
            request.push(stream.read_u8().await.unwrap());
        }
        // From here on only timers can happen.
        tokio::time::pause();
        std::future::pending::<()>().await;
    });
    let started = Instant::now();
    let error = channel.send(&notice()).await.unwrap_err();
    assert!(error.to_string().ends_with("no answer in time; it may have arrived"), "{error}");
    assert!(!error.is_permanent());
    let taken = started.elapsed();
    assert!(taken <= EXCHANGE_TIMEOUT + Duration::from_secs(1), "{taken:?}");
    silent.abort();
}

#[test]
fn addresses_are_checked_and_never_shown() {
    for url in ["", "s3cret", "ftp://x/s3cret", "mailto:s3cret@x", "https://"] {
        let error = open(Form::Slack, url).unwrap_err();
        assert!(matches!(error, WebhookError::Address { .. }), "{url}: {error}");
        assert!(!error.to_string().contains("s3cret"), "{error}");
    }
    let channel =
        open(Form::Slack, "https://u:s3cret@hooks.example.org:8443/s3cret?s3cret").unwrap();
    let shown = format!("{channel:?}");
    assert_eq!(shown, "Webhook { form: Slack, url: \"https://hooks.example.org:8443\", .. }");
}

#[tokio::test]
async fn an_id_that_is_no_header_is_refused() {
    let channel = open(Form::Json, "http://127.0.0.1:9/").unwrap();
    let sent = Notice { id: "a\r\nHost: b".to_owned(), ..notice() };
    assert!(channel.send(&sent).await.unwrap_err().is_permanent());
}
