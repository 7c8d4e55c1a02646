//! One request, passed on to an instance over a connection of its own, and the answer back.
//!
//! Both are parsed and written anew: nothing that one side takes for the end of a message can be
//! something else to the other.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use http::header::{CONNECTION, CONTENT_LENGTH, HeaderValue, TRANSFER_ENCODING, UPGRADE};
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode, Uri, Version};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use sojourn_drivers::dial::{Dial, Endpoint};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::Revoked;
use super::body::MonitoredBody;
use super::connection_activity::ConnectionActivity;
use super::header::{self, ClientInfo};
use super::limits::{GatewayLimits, Permit};
use super::splice::Splice;
use super::target::AccessTarget;

/// An answer's head.
const MAX_HEAD_BYTES: usize = 64 << 10;
const MAX_HEADERS: usize = 200;

/// Why an instance gave no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ForwardError {
    #[error("cannot connect to {address}: {source}")]
    Connect { address: SocketAddr, source: io::Error },
    #[error("cannot talk to {address}: {source}")]
    Talk { address: SocketAddr, source: hyper::Error },
    #[error("the visitor may no longer pass")]
    Revoked,
    #[error("{address} did not answer in time")]
    Silent { address: SocketAddr },
    #[error("{address} changed the protocol without being asked to")]
    Unasked { address: SocketAddr },
    #[error("the request's address cannot be passed on: {source}")]
    Address { source: http::uri::InvalidUri },
}

/// What passing on needs besides the request.
pub(crate) struct Forwarding<'a> {
    pub target: &'a AccessTarget,
    pub client_info: &'a ClientInfo,
    pub limits: &'a GatewayLimits,
    pub reserved_cookies: &'a [&'a str],
    pub connection_activity: Arc<ConnectionActivity>,
    pub closing: CancellationToken,
    /// Ends when the visitor may no longer pass.
    pub revoked: Revoked,
    pub permit: Permit,
}

pub(crate) async fn connect(
    dial: &dyn Dial,
    endpoint: &Endpoint,
    limits: &GatewayLimits,
) -> io::Result<TcpStream> {
    let connecting = tokio::time::timeout(limits.connect, dial.dial(endpoint));
    let stream = connecting.await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    // Terminals send single keystrokes, which must not wait for more data.
    stream.set_nodelay(true)?;
    Ok(stream)
}

impl Forwarding<'_> {
    /// Passes the request on over a connection to `address`.
    pub(crate) async fn forward(
        self,
        mut request: Request,
        stream: TcpStream,
        address: SocketAddr,
    ) -> Result<Response, ForwardError> {
        let protocol = wanted_protocol(request.method(), request.headers()).cloned();
        let visitor = protocol.is_some().then(|| hyper::upgrade::on(&mut request));
        let request = self.outbound(request, protocol.as_ref())?;
        let talk = |source| ForwardError::Talk { address, source };
        let (mut sender, connection) = http1::Builder::new()
            .max_buf_size(MAX_HEAD_BYTES)
            .max_headers(MAX_HEADERS)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(talk)?;
        let driver = Driver(tokio::spawn(async move {
            if let Err(error) = connection.with_upgrades().await {
                tracing::debug!(%error, "a connection to an instance broke off");
            }
        }));
        let response = tokio::select! {
            response = sender.send_request(request) => response.map_err(talk)?,
            () = self.connection_activity.idle_for(self.limits.idle) => {
                return Err(ForwardError::Silent { address });
            }
            () = self.revoked.clone() => return Err(ForwardError::Revoked),
        };
        self.connection_activity.record();
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            let visitor = visitor.ok_or(ForwardError::Unasked { address })?;
            return Ok(self.switch(response, visitor, address, driver));
        }
        let (mut parts, body) = response.into_parts();
        header::inbound(&mut parts.headers, self.client_info, address, self.reserved_cookies);
        let held = (driver, self.permit);
        let body = MonitoredBody::new(
            body,
            self.connection_activity,
            self.limits.idle,
            self.revoked,
            held,
        );
        Ok(Response::from_parts(parts, Body::new(body)))
    }

    /// The request as the instance gets it.
    fn outbound(
        &self,
        request: Request,
        protocol: Option<&HeaderValue>,
    ) -> Result<Request, ForwardError> {
        let (Parts { method, uri, mut headers, .. }, body) = request.into_parts();
        let target = self.target.own_path(uri.query());
        header::outbound(&mut headers, self.client_info, self.reserved_cookies);
        if let Some(protocol) = protocol {
            headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
            headers.insert(UPGRADE, protocol.clone());
        }
        let body = MonitoredBody::new(
            body,
            self.connection_activity.clone(),
            self.limits.idle,
            self.revoked.clone(),
            (),
        );
        let mut request = Request::new(Body::new(body));
        *request.method_mut() = method;
        // Only the path: `//host/x` is one, too.
        *request.uri_mut() = origin_form(&target)?;
        *request.version_mut() = Version::HTTP_11;
        *request.headers_mut() = headers;
        Ok(request)
    }

    /// Lets both sides talk as they agreed.
    fn switch(
        self,
        mut response: http::Response<Incoming>,
        visitor: OnUpgrade,
        address: SocketAddr,
        driver: Driver,
    ) -> Response {
        let instance = hyper::upgrade::on(&mut response);
        let protocol = response.headers().get(UPGRADE).cloned();
        let (mut parts, _) = response.into_parts();
        header::inbound(&mut parts.headers, self.client_info, address, self.reserved_cookies);
        parts.headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        if let Some(protocol) = protocol {
            parts.headers.insert(UPGRADE, protocol);
        }
        let splice = Splice {
            visitor,
            instance,
            connection_activity: self.connection_activity,
            idle: self.limits.idle_upgraded,
            closing: self.closing,
            revoked: self.revoked,
            permit: self.permit,
        };
        tokio::spawn(async move {
            splice.run().await;
            drop(driver);
        });
        Response::from_parts(parts, Body::empty())
    }
}

fn origin_form(target: &str) -> Result<Uri, ForwardError> {
    http::uri::PathAndQuery::try_from(target)
        .map(Uri::from)
        .map_err(|source| ForwardError::Address { source })
}

/// The protocol that a request asks to change to. HTTP/2 is none that we let through: what is said
/// in it would pass us unread.
fn wanted_protocol<'a>(method: &Method, headers: &'a HeaderMap) -> Option<&'a HeaderValue> {
    let asks = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(','))
        .any(|option| option.trim().eq_ignore_ascii_case("upgrade"));
    let has_body = headers.contains_key(TRANSFER_ENCODING)
        || headers.get(CONTENT_LENGTH).is_some_and(|length| length != "0");
    let protocol = headers.get(UPGRADE)?;
    let is_http = protocol.to_str().ok()?.split(',').any(|protocol| {
        let name = protocol.trim().to_ascii_lowercase();
        name.starts_with("h2") || name.starts_with("http") || name.starts_with("tls")
    });
    (asks && !has_body && !is_http && *method == Method::GET).then_some(protocol)
}

/// Moves the bytes of a connection to an instance; ends with whoever needs it.
#[derive(Debug)]
struct Driver(JoinHandle<()>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_get_may_change_the_protocol() {
        let wanted = |method: Method, pairs: &[(&'static str, &'static str)]| {
            let headers: HeaderMap = pairs
                .iter()
                .map(|(name, value)| {
                    (http::HeaderName::from_static(name), HeaderValue::from_static(value))
                })
                .collect();
            wanted_protocol(&method, &headers).map(|value| value.to_str().unwrap().to_owned())
        };
        let websocket = [("connection", "keep-alive, Upgrade"), ("upgrade", "websocket")];
        assert_eq!(wanted(Method::GET, &websocket), Some("websocket".to_owned()));
        assert_eq!(wanted(Method::POST, &websocket), None);
        assert_eq!(wanted(Method::GET, &websocket[1..]), None);
        let with_body = [websocket[0], websocket[1], ("content-length", "3")];
        assert_eq!(wanted(Method::GET, &with_body), None);
        for http in ["h2c", "H2C", "websocket, h2c", "HTTP/2.0", "TLS/1.0"] {
            let headers = [("connection", "upgrade"), ("upgrade", http)];
            assert_eq!(wanted(Method::GET, &headers), None, "{http}");
        }
    }

    #[test]
    fn a_path_is_never_taken_for_a_host() {
        let uri = origin_form("//example.org/x?y").unwrap();
        assert_eq!(uri.authority(), None);
        assert_eq!(uri.to_string(), "//example.org/x?y");
    }
}
