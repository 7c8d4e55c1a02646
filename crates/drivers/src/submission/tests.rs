//! Attempts against a scripted server on loopback, and what all tests here stand on.

mod folder;
mod form;
mod put;
mod s3;
mod server;
mod tls;

use std::net::IpAddr;
use std::time::Duration;

pub(super) use folder::TestFolder;

use super::{Method, Receipt, SubmissionRequest, SubmitError, submit};

/// Long enough for any machine, short enough for a test that fails.
const TEST_TIMEOUT: Duration = Duration::from_secs(30);

/// How a request of a table differs from a good one.
type Change = fn(&mut SubmissionRequest);

fn submission(folder: &TestFolder, method: Method, url: &str) -> SubmissionRequest {
    SubmissionRequest {
        root: folder.path().to_owned(),
        block: false,
        filename: "exam-alice-main".to_owned(),
        url: url.to_owned(),
        method,
        secret_dir: None,
        ca_file: None,
        idempotency_key: "uid-1/main".to_owned(),
        connect_timeout: Duration::from_secs(5),
        stall_timeout: Duration::from_secs(10),
    }
}

async fn attempt(submission: SubmissionRequest) -> Result<Receipt, SubmitError> {
    let loopback = |address: IpAddr| address.is_loopback();
    tokio::time::timeout(TEST_TIMEOUT, submit(submission, &loopback, |_| {}))
        .await
        .expect("an attempt ends by itself")
}

#[tokio::test]
async fn orders_that_cannot_be_carried_out_are_refused_before_anything_is_sent() {
    let folder = TestFolder::new("orders");
    let good = submission(&folder, Method::Put, "http://127.0.0.1:9/");
    let changes: [(&str, Change); 10] = [
        ("filename", |submission| submission.filename = "../up".to_owned()),
        ("filename", |submission| submission.filename = String::new()),
        ("filename", |submission| submission.filename = "a\r\nb".to_owned()),
        ("idempotency key", |submission| submission.idempotency_key = "a b".to_owned()),
        ("http and https", |submission| submission.url = "ftp://127.0.0.1/".to_owned()),
        ("http and https", |submission| submission.url = "file:///etc/passwd".to_owned()),
        ("no URL", |submission| submission.url = "exam".to_owned()),
        ("Secret", |submission| submission.url = "http://me:word@127.0.0.1/".to_owned()),
        ("none of them", |submission| submission.url = "http://192.0.2.1/".to_owned()),
        ("none of them", |submission| submission.url = "http://[::ffff:192.0.2.1]/".to_owned()),
    ];
    for (words, change) in changes {
        let mut submission = good.clone();
        change(&mut submission);
        let error = attempt(submission).await.unwrap_err().to_string();
        assert!(error.contains(words), "{words}: {error}");
    }
}

#[test]
fn neither_order_nor_error_shows_the_query_of_a_url() {
    let folder = TestFolder::new("hidden-query");
    let submission = submission(&folder, Method::Put, "https://store.example/a?signature=hunter2");
    assert!(!format!("{submission:?}").contains("hunter2"));
    assert!(format!("{submission:?}").contains("https://store.example/a"));
}

#[tokio::test]
async fn a_server_that_is_not_there_is_an_error_that_names_it() {
    let folder = TestFolder::new("nobody");
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let url = format!("http://{address}/in?signature=hunter2");
    let error = attempt(submission(&folder, Method::Put, &url)).await.unwrap_err();
    assert_eq!(error.to_string(), format!("cannot send the archive at http://{address}/in"));
    let mut chain = String::new();
    let mut cause: Option<&dyn std::error::Error> = Some(&error);
    while let Some(error) = cause {
        chain.push_str(&error.to_string());
        cause = error.source();
    }
    assert!(!chain.contains("hunter2"), "{chain}");
}

#[test]
fn methods_have_the_names_of_the_api() {
    for (name, method) in
        [("Multipart", Method::Multipart), ("Put", Method::Put), ("S3", Method::S3)]
    {
        assert_eq!(name.parse::<Method>().unwrap(), method);
    }
    assert!("put".parse::<Method>().is_err());
}
