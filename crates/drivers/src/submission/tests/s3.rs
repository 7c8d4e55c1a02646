//! `S3`, against a store of a few lines that knows one object.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use super::server::{ReceivedRequest, Script, Server};
use super::{Change, TestFolder, attempt, submission};
use crate::submission::{Method, SubmissionRequest, SubmitError};

#[derive(Default)]
struct Store {
    object: Option<(Vec<u8>, ReceivedRequest)>,
    begun: Option<ReceivedRequest>,
    parts: BTreeMap<u32, Vec<u8>>,
    /// Requests by what they are, in order.
    log: Vec<String>,
    /// Answers of the step of this name instead of what it does.
    fail: Option<(&'static str, &'static str)>,
}

fn reply(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len())
}

impl Store {
    fn answer(&mut self, seen: &ReceivedRequest) -> String {
        let (path, query) = seen.target.split_once('?').unwrap_or((&seen.target, ""));
        let step = match (seen.method.as_str(), query) {
            ("HEAD", _) => "head",
            ("GET", _) => "list",
            ("POST", "uploads=") => "begin",
            ("POST", _) => "complete",
            ("PUT", "") => "whole",
            ("PUT", _) => "part",
            ("DELETE", _) => "abort",
            other => panic!("{other:?}"),
        };
        let wanted = if step == "list" { "/box" } else { "/box/2026/exam-alice-main.zip" };
        assert_eq!(path, wanted, "{step}");
        assert_eq!(
            seen.header("x-amz-content-sha256").unwrap(),
            hex::encode(ring::digest::digest(&ring::digest::SHA256, &seen.body))
        );
        assert!(
            seen.header("authorization").unwrap().starts_with("AWS4-HMAC-SHA256 Credential=id/")
        );
        self.log.push(step.to_owned());
        if let Some((_, answer)) = self.fail.filter(|(at, _)| *at == step) {
            return answer.to_owned();
        }
        self.act(step, query, seen)
    }

    fn act(&mut self, step: &str, query: &str, seen: &ReceivedRequest) -> String {
        match step {
            "head" => self.head(),
            "list" => reply(
                "200 OK",
                "",
                "<R><Upload><Key>2026/exam-alice-main.zip</Key><UploadId>old</UploadId></Upload>\
                 <Upload><Key>2026/exam-alice-main.zip2</Key><UploadId>other</UploadId></Upload></R>",
            ),
            "begin" => {
                self.begun = Some(seen.clone());
                reply("200 OK", "", "<R><UploadId>u/1+</UploadId></R>")
            }
            "part" => {
                let number = query.strip_prefix("partNumber=").unwrap();
                let (number, upload) = number.split_once('&').unwrap();
                assert_eq!(upload, "uploadId=u%2F1%2B");
                self.parts.insert(number.parse().unwrap(), seen.body.clone());
                reply("200 OK", &format!("ETag: \"p{number}\"\r\n"), "")
            }
            "complete" => {
                let list = self.parts.keys().fold(String::new(), |mut list, number| {
                    _ = write!(
                        list,
                        "<Part><PartNumber>{number}</PartNumber>\
                         <ETag>&quot;p{number}&quot;</ETag></Part>"
                    );
                    list
                });
                let told = String::from_utf8(seen.body.clone()).unwrap();
                assert_eq!(
                    told,
                    format!("<CompleteMultipartUpload>{list}</CompleteMultipartUpload>")
                );
                let data = self.parts.values().flatten().copied().collect();
                self.object = self.begun.take().map(|begun| (data, begun));
                let body = "<CompleteMultipartUploadResult><ETag>&quot;whole&quot;</ETag>\
                            </CompleteMultipartUploadResult>";
                reply("200 OK", "", body)
            }
            "whole" => {
                self.object = Some((seen.body.clone(), seen.clone()));
                reply("200 OK", "ETag: \"one\"\r\n", "")
            }
            _ => {
                self.log.push(query.to_owned());
                reply("204 No Content", "", "")
            }
        }
    }

    fn head(&self) -> String {
        let Some((data, seen)) = &self.object else { return reply("404 Not Found", "", "") };
        let digest = seen.header("x-amz-meta-sha256").unwrap();
        format!(
            "HTTP/1.1 200 OK\r\nETag: \"there\"\r\nx-amz-meta-sha256: {digest}\r\n\
             Content-Length: {}\r\n\r\n",
            data.len()
        )
    }
}

struct Fixture {
    folder: TestFolder,
    secrets: TestFolder,
    store: Arc<Mutex<Store>>,
    server: Server,
}

impl Fixture {
    async fn new(name: &str) -> Self {
        let secrets = TestFolder::new(&format!("s3-secrets-{name}"));
        secrets.file("accessKeyId", "id");
        secrets.file("secretAccessKey", "key");
        let store = Arc::new(Mutex::new(Store::default()));
        let answering = Arc::clone(&store);
        let server = Server::start(Script::Answer(Box::new(move |seen| {
            answering.lock().unwrap().answer(seen)
        })))
        .await;
        Self { folder: TestFolder::new(&format!("s3-{name}")), secrets, store, server }
    }

    fn submission(&self) -> SubmissionRequest {
        let mut submission = submission(&self.folder, Method::S3, &self.server.url("/box/2026/"));
        submission.secret_dir = Some(self.secrets.path().to_owned());
        submission
    }

    fn fill(&self, bytes: usize) {
        let mut state = 9_u64;
        let noise: Vec<u8> = (0..bytes)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                state.to_le_bytes()[7]
            })
            .collect();
        self.folder.file("noise", noise);
    }

    fn log(&self) -> Vec<String> {
        std::mem::take(&mut self.store.lock().unwrap().log)
    }
}

// case: lab S15
#[tokio::test]
async fn what_is_there_with_our_digest_is_not_sent_again() {
    let scene = Fixture::new("there").await;
    scene.folder.file("a.txt", "a");
    let first = attempt(scene.submission()).await.unwrap();
    assert_eq!((first.receipt.as_str(), first.already_there), ("\"one\"", false));
    assert_eq!(scene.log(), ["head", "whole"]);
    {
        let store = scene.store.lock().unwrap();
        let (data, seen) = store.object.as_ref().unwrap();
        assert_eq!(first.size, u64::try_from(data.len()).unwrap());
        assert_eq!(seen.header("x-amz-meta-sha256"), Some(first.sha256.as_str()));
        assert_eq!(seen.header("x-amz-meta-idempotency-key"), Some("uid-1/main"));
    }

    let second = attempt(scene.submission()).await.unwrap();
    assert_eq!(scene.log(), ["head"]);
    assert_eq!((second.receipt.as_str(), second.already_there), ("\"there\"", true));
    assert_eq!((second.size, &second.sha256), (first.size, &first.sha256));

    scene.folder.file("b.txt", "something else was there");
    attempt(scene.submission()).await.unwrap();
    assert_eq!(scene.log(), ["head", "whole"]);
}

#[tokio::test]
async fn a_large_archive_goes_in_equal_parts_after_leftovers_are_swept() {
    let scene = Fixture::new("parts").await;
    scene.fill(150_000);
    let receipt = attempt(scene.submission()).await.unwrap();
    assert_eq!(receipt.receipt, "\"whole\"");
    assert_eq!(
        scene.log(),
        ["head", "list", "abort", "uploadId=old", "begin", "part", "part", "part", "complete"]
    );
    let store = scene.store.lock().unwrap();
    let sizes: Vec<usize> = store.parts.values().map(Vec::len).collect();
    assert_eq!(sizes[..2], [64 * 1024; 2]);
    let (data, begun) = store.object.as_ref().unwrap();
    assert_eq!(hex::encode(ring::digest::digest(&ring::digest::SHA256, data)), receipt.sha256);
    assert_eq!(begun.header("x-amz-meta-sha256"), Some(receipt.sha256.as_str()));
}

#[tokio::test]
async fn an_upload_that_fails_is_aborted_and_nothing_is_there() {
    let late = "HTTP/1.1 200 OK\r\nContent-Length: 45\r\n\r\n\
                <Error><Code>InternalError</Code></Error>    ";
    for (step, answer) in [
        ("part", "HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n"),
        ("part", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
        ("complete", late),
    ] {
        let scene = Fixture::new("abort").await;
        scene.fill(100_000);
        scene.store.lock().unwrap().fail = Some((step, answer));
        let error = attempt(scene.submission()).await.unwrap_err();
        assert!(
            matches!(error, SubmitError::Refused { status: 500, .. } | SubmitError::Answer { .. }),
            "{error:?}"
        );
        let log = scene.log();
        assert_eq!(log[log.len() - 2..], ["abort", "uploadId=u%2F1%2B"]);
        assert!(scene.store.lock().unwrap().object.is_none());
    }
}

#[tokio::test]
async fn a_store_that_hides_what_is_not_there_gets_the_archive() {
    let scene = Fixture::new("forbidden").await;
    let answer = "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n";
    scene.store.lock().unwrap().fail = Some(("head", answer));
    attempt(scene.submission()).await.unwrap();
    assert_eq!(scene.log(), ["head", "whole"]);
}

#[tokio::test]
async fn what_the_store_needs_to_know_is_asked_for() {
    let scene = Fixture::new("order").await;
    let changes: [(&str, Change); 3] = [
        ("begin with a bucket", |submission| {
            submission.url = submission.url.replace("/box/2026/", "/");
        }),
        ("no query", |submission| submission.url.push_str("?x=1")),
        ("accessKeyId", |submission| submission.secret_dir = None),
    ];
    for (words, change) in changes {
        let mut submission = scene.submission();
        change(&mut submission);
        let error = attempt(submission).await.unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    assert!(scene.log().is_empty());
}
