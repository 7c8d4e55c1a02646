//! The socket of one server: HTTP/1.1 and HTTP/2 without TLS beside each other, told apart by their first bytes, with
//! bounds and a clean end.

mod tasks;
mod write_timeout;

use std::convert::Infallible;
use std::io::Cursor;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use self::tasks::ConnectionTasks;
use self::write_timeout::WriteTimeout;
use super::code::SdkCode;
use super::endpoint::Endpoint;
use super::{SdkBackend, ServerIdentity};

/// How a client that speaks HTTP/2 begins.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// A request's head.
const MAX_HEAD_BYTES: usize = 16 << 10;
/// What is held of a connection's bytes, in each direction.
const BUFFER_BYTES: usize = 64 << 10;
const WINDOW_BYTES: u32 = 64 << 10;
/// Calls at a time on one HTTP/2 connection; clients let further ones wait.
const STREAMS: u32 = 64;
/// Streams last: without this, nobody would notice that a client is gone.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// How long to wait when no connection can be accepted: out of descriptors, most likely.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// What a listener bears.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Open at a time; more wait until one ends.
    pub(super) connections: usize,
    /// How long a client may take to show which protocol it speaks.
    pub(super) first_bytes: Duration,
    /// How long a client of HTTP/1.1 may take for a head, from the last answer on. Servers say that they are alive
    /// every minute or more often, and their connection should not end just then.
    pub(super) head: Duration,
    /// A client that takes none of its answer for so long is gone.
    pub(super) stall: Duration,
    /// How long open requests may go on after the end.
    pub(super) drain: Duration,
}

impl Limits {
    pub(super) const DEFAULT: Self = Self {
        connections: 64,
        first_bytes: Duration::from_secs(10),
        head: Duration::from_secs(75),
        stall: Duration::from_secs(60),
        drain: Duration::from_secs(5),
    };
}

/// Serves one server on its own listener until `shutdown`: then its streams end, open requests have a few seconds, and
/// the port is free. Dropped before that, it ends at once.
pub async fn serve(
    listener: TcpListener,
    identity: ServerIdentity,
    code: SdkCode,
    backend: Arc<dyn SdkBackend>,
    shutdown: impl Future<Output = ()> + Send,
) {
    let endpoint = Endpoint::new(identity, code, backend);
    serve_endpoint(listener, endpoint, Limits::DEFAULT, shutdown).await;
}

pub(super) async fn serve_endpoint(
    listener: TcpListener,
    endpoint: Endpoint,
    limits: Limits,
    shutdown: impl Future<Output = ()> + Send,
) {
    let closing = CancellationToken::new();
    let endpoint = Arc::new(endpoint.closed_by(closing.clone()));
    let mut connections = JoinSet::new();
    tokio::pin!(shutdown);
    loop {
        let stream = tokio::select! {
            () = &mut shutdown => break,
            Some(_) = connections.join_next() => continue,
            stream = accept(&listener), if connections.len() < limits.connections => stream,
        };
        if let Some(stream) = stream {
            let connection =
                Connection { endpoint: endpoint.clone(), limits, closing: closing.clone() };
            connections.spawn(connection.run(stream));
        }
    }
    drop(listener);
    closing.cancel();
    let drained = async { while connections.join_next().await.is_some() {} };
    if timeout(limits.drain, drained).await.is_err() {
        tracing::debug!("some requests of a game server did not end in time");
    }
}

/// A connection; nothing, after a while, if none can be accepted.
async fn accept(listener: &TcpListener) -> Option<TcpStream> {
    match listener.accept().await {
        Ok((stream, _)) => Some(stream),
        Err(error) => {
            tracing::warn!(%error, "cannot accept a game server's connection");
            sleep(ACCEPT_RETRY_DELAY).await;
            None
        }
    }
}

struct Connection {
    endpoint: Arc<Endpoint>,
    limits: Limits,
    closing: CancellationToken,
}

impl Connection {
    async fn run(self, mut stream: TcpStream) {
        // Answers are small: without this, each waits for the client's delayed acknowledgement.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "cannot set TCP_NODELAY");
        }
        let first = tokio::select! {
            first = timeout(self.limits.first_bytes, first_bytes(&mut stream)) => first,
            () = self.closing.cancelled() => return,
        };
        let Ok(Ok(first)) = first else {
            return tracing::debug!("a connection of a game server said nothing");
        };
        let is_http2 = first == PREFACE;
        let (reader, writer) = stream.into_split();
        let stream = tokio::io::join(
            Cursor::new(first).chain(reader),
            WriteTimeout::new(writer, self.limits.stall),
        );
        let ended =
            if is_http2 { self.serve_http2(stream).await } else { self.serve_http1(stream).await };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection of a game server ended early");
        }
    }

    async fn serve_http1<S>(&self, stream: S) -> hyper::Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send,
    {
        let service = service_fn(|request| answer(self.endpoint.clone(), request));
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.head)
            .max_header_size(MAX_HEAD_BYTES)
            .max_buf_size(BUFFER_BYTES);
        let mut connection =
            std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
        tokio::select! {
            ended = connection.as_mut() => ended,
            () = self.closing.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        }
    }

    async fn serve_http2<S>(&self, stream: S) -> hyper::Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send,
    {
        let endpoint = self.endpoint.clone();
        let service = service_fn(move |request| answer(endpoint.clone(), request));
        // Dropped with this connection, and every call on it ends.
        let tasks = ConnectionTasks::default();
        let mut builder = http2::Builder::new(tasks.executor());
        builder
            .timer(TokioTimer::new())
            .max_header_list_size(u32::try_from(MAX_HEAD_BYTES).unwrap_or(u32::MAX))
            .max_concurrent_streams(STREAMS)
            .max_send_buf_size(BUFFER_BYTES)
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES)
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT);
        let mut connection =
            std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
        tokio::select! {
            ended = connection.as_mut() => ended,
            () = self.closing.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        }
    }
}

/// What a client sends first, as far as it takes to tell the protocols apart.
async fn first_bytes(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut first = vec![0; PREFACE.len()];
    let mut filled = 0;
    while filled < first.len() && PREFACE.starts_with(&first[..filled]) {
        match stream.read(&mut first[filled..]).await? {
            0 => break,
            read => filled += read,
        }
    }
    first.truncate(filled);
    Ok(first)
}

async fn answer(
    endpoint: Arc<Endpoint>,
    request: Request<Incoming>,
) -> Result<Response, Infallible> {
    Ok(endpoint.answer(request.map(Body::new)).await)
}
