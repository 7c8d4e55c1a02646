//! An object store: moto, in a process of its own.

use std::net::SocketAddr;
use std::process::Command;

use bytes::Bytes;
use http::header::HOST;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::Full;
use regex::Regex;

use crate::fixture::OUTSIDE;
use crate::process::Running;
use crate::tool::{Tools, free_port};
use crate::visitor::{self, Page, Visitor};
use crate::wait::eventually;

const BUCKET: &str = "exams";
/// moto looks at no signature, but wants one.
const SIGNED: (&str, &str) = (
    "Authorization",
    "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, \
     Signature=0",
);

#[derive(Debug)]
pub(crate) struct S3 {
    address: SocketAddr,
    _server: Running,
}

impl S3 {
    pub(crate) async fn start(tools: &Tools) -> Self {
        let port = free_port();
        let mut command = Command::new(&tools.python);
        command.args(["-m", "moto.server", "-H", &OUTSIDE.to_string(), "-p", &port.to_string()]);
        let server = Running::start(command);
        let s3 = Self { address: (OUTSIDE, port).into(), _server: server };
        eventually("moto answers", async || visitor::get(s3.address, "/").await.ok()).await;
        let made = s3.request(Method::PUT, &format!("/{BUCKET}")).await;
        assert_eq!(made.status, StatusCode::OK, "{made:?}");
        s3
    }

    /// Where an object is put, path-style.
    pub(crate) fn url(&self, object: &str) -> String {
        format!("http://{}/{BUCKET}/{object}", self.address)
    }

    /// The names of all objects.
    pub(crate) async fn objects(&self) -> Vec<String> {
        self.listed("?list-type=2", "Key").await
    }

    /// Uploads in parts that were neither finished nor given up.
    pub(crate) async fn unfinished(&self) -> Vec<String> {
        self.listed("?uploads", "UploadId").await
    }

    /// Size and metadata of an object, as headers.
    pub(crate) async fn head(&self, object: &str) -> HeaderMap {
        let head = self.request(Method::HEAD, &format!("/{BUCKET}/{object}")).await;
        assert_eq!(head.status, StatusCode::OK, "{object}: {head:?}");
        head.headers
    }

    /// What an object holds.
    pub(crate) async fn fetch(&self, object: &str) -> Bytes {
        let request = Request::get(format!("/{BUCKET}/{object}"))
            .header(HOST, self.address.to_string())
            .header(SIGNED.0, SIGNED.1);
        let request = request.body(Full::default()).expect("a request");
        let (head, body) = visitor::raw(self.address, request).await.expect("an answer");
        assert_eq!(head.status, StatusCode::OK, "{object}: {head:?}");
        body
    }

    async fn listed(&self, query: &str, tag: &str) -> Vec<String> {
        let list = self.request(Method::GET, &format!("/{BUCKET}{query}")).await;
        assert_eq!(list.status, StatusCode::OK, "{list:?}");
        let tags = Regex::new(&format!("<{tag}>([^<]*)</{tag}>")).expect("a pattern");
        tags.captures_iter(&list.text).map(|found| found[1].to_owned()).collect()
    }

    async fn request(&self, method: Method, path: &str) -> Page {
        Visitor::of(self.address).request(method, path, &[SIGNED], "").await
    }
}

#[tokio::test]
async fn the_object_store_keeps_objects() {
    let Some(tools) = Tools::find() else { return };
    let s3 = S3::start(&tools).await;
    assert_eq!(s3.objects().await, Vec::<String>::new());
    let mut visitor = Visitor::of(s3.address);
    let put = visitor.request(Method::PUT, &s3.url("a/b.zip"), &[SIGNED], "archive").await;
    assert_eq!(put.status, StatusCode::OK, "{put:?}");
    let begun =
        visitor.request(Method::POST, &format!("{}?uploads", s3.url("c.zip")), &[SIGNED], "").await;
    assert_eq!(begun.status, StatusCode::OK, "{begun:?}");
    assert_eq!(s3.objects().await, ["a/b.zip"]);
    assert_eq!(s3.unfinished().await.len(), 1);
    assert_eq!(s3.head("a/b.zip").await["content-length"], "7");
}
