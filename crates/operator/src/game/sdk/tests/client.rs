//! Clients: one of HTTP/1.1, and one that sends raw gRPC frames over HTTP/2.

use std::convert::Infallible;
use std::net::SocketAddr;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use futures::stream;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::{Served, within};

impl Served {
    pub(super) async fn connect(&self) -> TcpStream {
        connect(self.address).await
    }

    /// A request over HTTP/1.1, on a connection of its own.
    pub(super) async fn send(
        &self,
        method: Method,
        path: &str,
        body: impl Into<Bytes>,
    ) -> (StatusCode, String) {
        let request = Request::builder().method(method).uri(path).header("host", "localhost");
        let response = self.exchange(request.body(Full::new(body.into())).unwrap()).await;
        let status = response.status();
        (status, text(response.into_body()).await)
    }

    /// A request over HTTP/1.1 whose answer has yet to be read.
    pub(super) async fn exchange(&self, request: Request<Full<Bytes>>) -> Response<Incoming> {
        let stream = TokioIo::new(self.connect().await);
        let (mut sender, connection) = within(http1::handshake(stream)).await.unwrap();
        tokio::spawn(connection);
        within(sender.send_request(request)).await.unwrap()
    }

    pub(super) async fn grpc(&self) -> GrpcClient {
        GrpcClient::connect(self.address).await
    }
}

/// As real clients connect: without this, the second part of a request waits for the first to be acknowledged.
async fn connect(address: SocketAddr) -> TcpStream {
    let stream = within(TcpStream::connect(address)).await.unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

pub(super) async fn text(body: Incoming) -> String {
    let bytes = within(body.collect()).await.unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}

type SentBody = UnsyncBoxBody<Bytes, Infallible>;

#[derive(Clone)]
pub(super) struct GrpcClient {
    sender: http2::SendRequest<SentBody>,
}

/// What a call came to.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    /// Without their prefixes.
    pub(super) messages: Vec<Vec<u8>>,
    pub(super) status: String,
    pub(super) message: String,
}

impl Answer {
    pub(super) fn ok(message: &[u8]) -> Self {
        Self { messages: vec![message.to_vec()], status: "0".to_owned(), message: String::new() }
    }

    pub(super) fn refused(status: u8, message: &str) -> Self {
        Self { messages: vec![], status: status.to_string(), message: message.to_owned() }
    }
}

impl GrpcClient {
    pub(super) async fn connect(address: SocketAddr) -> Self {
        let stream = TokioIo::new(connect(address).await);
        let handshake = http2::handshake(TokioExecutor::new(), stream);
        let (sender, connection) = within(handshake).await.unwrap();
        tokio::spawn(connection);
        Self { sender }
    }

    /// A call with one message.
    pub(super) async fn call(&mut self, path: &str, message: &[u8]) -> Answer {
        self.call_raw(path, framed(message)).await
    }

    /// A call with these bytes, whatever they are.
    pub(super) async fn call_raw(&mut self, path: &str, bytes: Bytes) -> Answer {
        let request = grpc_request(path).body(Full::new(bytes).boxed_unsync()).unwrap();
        answer(self.send(request).await).await
    }

    /// A call whose bytes come one by one, until the sender is dropped.
    pub(super) fn stream(&self, path: &str) -> (mpsc::Sender<Bytes>, JoinHandle<Answer>) {
        let (sender, receiver) = mpsc::channel(1);
        let frames = stream::unfold(receiver, |mut receiver| async move {
            let data = receiver.recv().await?;
            Some((Ok::<_, Infallible>(Frame::data(data)), receiver))
        });
        let request = grpc_request(path).body(StreamBody::new(frames).boxed_unsync()).unwrap();
        let mut client = self.clone();
        let answered = tokio::spawn(async move { answer(client.send(request).await).await });
        (sender, answered)
    }

    pub(super) async fn send(&mut self, request: Request<SentBody>) -> Response<Incoming> {
        within(self.sender.ready()).await.unwrap();
        within(self.sender.send_request(request)).await.unwrap()
    }
}

pub(super) fn grpc_request(path: &str) -> http::request::Builder {
    Request::builder()
        .method(Method::POST)
        .uri(format!("http://localhost{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
}

pub(super) fn framed(message: &[u8]) -> Bytes {
    let mut framed = BytesMut::new();
    framed.put_u8(0);
    framed.put_u32(u32::try_from(message.len()).unwrap());
    framed.put_slice(message);
    framed.freeze()
}

/// The next message of an answer that is a stream.
pub(super) async fn next_message(body: &mut Incoming) -> Option<Vec<u8>> {
    let mut bytes = BytesMut::new();
    loop {
        let whole = bytes.len() >= 5 && bytes.len() - 5 >= (&bytes[1..]).get_u32() as usize;
        if whole {
            return Some(bytes[5..].to_vec());
        }
        let frame = within(body.frame()).await?.unwrap();
        bytes.extend_from_slice(frame.data_ref()?);
    }
}

async fn answer(response: Response<Incoming>) -> Answer {
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["content-type"], "application/grpc");
    let head = response.headers().clone();
    let collected = within(response.into_body().collect()).await.unwrap();
    let trailers = collected.trailers().cloned();
    let mut bytes = collected.to_bytes();
    let mut messages = Vec::new();
    while bytes.has_remaining() {
        assert_eq!(bytes.get_u8(), 0, "not compressed");
        let length = bytes.get_u32() as usize;
        messages.push(bytes.split_to(length).to_vec());
    }
    let end = trailers.unwrap_or(head);
    let read = |end: &HeaderMap, name| {
        end.get(name).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default()
    };
    Answer { messages, status: read(&end, "grpc-status"), message: read(&end, "grpc-message") }
}
