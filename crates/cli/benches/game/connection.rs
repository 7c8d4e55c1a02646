//! How clients ask: over a connection that stays open, or, where time is virtual, without one.

use std::net::SocketAddr;

use anyhow::Result;
use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tower::ServiceExt as _;

pub(crate) enum Connection {
    Http { sender: http1::SendRequest<Full<Bytes>>, host: String },
    InProcess(Router),
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // It ends with its sender; errors reach whoever waits for an answer.
        tokio::spawn(connection);
        Ok(Self::Http { sender, host: address.to_string() })
    }

    /// Sends a body in JSON; answers with one.
    pub(crate) async fn send(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(header::HeaderName, &str)],
        body: &Value,
    ) -> Result<(StatusCode, Value)> {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(name, *value);
        }
        let body = Bytes::from(serde_json::to_vec(body)?);
        let (status, answer) = match self {
            Self::Http { sender, host } => {
                sender.ready().await?;
                let request = request.header(header::HOST, &*host).body(Full::new(body))?;
                let answer = sender.send_request(request).await?;
                (answer.status(), answer.into_body().collect().await?.to_bytes())
            }
            Self::InProcess(router) => {
                let answer = router.clone().oneshot(request.body(Body::from(body))?).await?;
                (answer.status(), answer.into_body().collect().await?.to_bytes())
            }
        };
        Ok((status, serde_json::from_slice(&answer)?))
    }
}
