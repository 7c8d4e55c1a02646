//! `pods/log`: the answer comes from the node that runs the Pod.
//!
//! The node serves its containers' logs the way a kubelet does (`/containerLogs/…`), over mutual
//! TLS: it shows a certificate that our authority issued to the node's name, and we show ours. The
//! address alone proves nothing: every node of one machine has the same.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Collected, Limited};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::auth::certificate::{CertificateAuthority, CertificateError};
use crate::engine::Shared;
use crate::json::{Access, Object};
use crate::status::ApiError;
use crate::verb::Call;

/// How long a node may take to answer with the beginning of a log.
const NODE_TIMEOUT: Duration = Duration::from_secs(10);
/// How much of a node's refusal is passed on.
const MAX_ERROR_BODY_BYTES: usize = 2000;
/// What a kubelet calls the API server.
const CLIENT_NAME: &str = "kube-apiserver-kubelet-client";
const CLIENT_GROUP: &str = "system:masters";
/// The parameters that a node understands.
const LOG_PARAMETERS: [&str; 8] = [
    "follow",
    "previous",
    "timestamps",
    "tailLines",
    "limitBytes",
    "sinceSeconds",
    "sinceTime",
    "stream",
];

/// Answers a request for a log.
pub(crate) async fn relay(call: &Call) -> Result<Response<Body>, ApiError> {
    let stored = call.endpoint.resource.table.get(&call.key()).ok_or_else(|| call.not_found())?;
    let pod = call.endpoint.to_object(&stored);
    let container = container(call, &pod)?;
    let node = pod.at("spec").text("nodeName");
    if node.is_empty() {
        // As upstream: nothing has been said yet.
        return Ok(Response::new(Body::empty()));
    }
    let address = node_address(call, node)?;
    let path = log_path(call, &container);
    let answer =
        tokio::time::timeout(NODE_TIMEOUT, request_log(&call.engine, node, &address, &path)).await;
    match answer {
        Ok(Ok(response)) => Ok(response),
        // As upstream: what the node says is the answer.
        Ok(Err(NodeRequestError::Refused { status: StatusCode::BAD_REQUEST, message })) => {
            Err(ApiError::bad_request(message))
        }
        Ok(Err(NodeRequestError::Refused { status: StatusCode::NOT_FOUND, message })) => {
            Err(ApiError::new(StatusCode::NOT_FOUND, "NotFound", message))
        }
        Ok(Err(why)) => Err(unreachable(node, &address, &why)),
        Err(_) => Err(unreachable(node, &address, &"it did not answer in time")),
    }
}

fn unreachable(node: &str, address: &NodeAddress, why: &dyn std::fmt::Display) -> ApiError {
    let NodeAddress { host, port } = address;
    ApiError::internal(format!("cannot get the log from node {node} at {host}:{port}: {why}"))
}

/// The container that is meant: the one that is named, or the only one.
fn container(call: &Call, pod: &Object) -> Result<String, ApiError> {
    let spec = pod.at("spec");
    let names = |list: &str| -> Vec<String> {
        spec.list(list).iter().map(|c| c.text("name").to_owned()).collect()
    };
    let (containers, init) = (names("containers"), names("initContainers"));
    let (pod, asked) = (&call.path.name, call.query.text("container"));
    if asked.is_empty() {
        return match containers.as_slice() {
            [only] => Ok(only.clone()),
            several => {
                let mut choose = format!("choose one of: [{}]", several.join(" "));
                if !init.is_empty() {
                    choose
                        .push_str(&format!(" or one of the init containers: [{}]", init.join(" ")));
                }
                Err(ApiError::bad_request(format!(
                    "a container name must be specified for pod {pod}, {choose}"
                )))
            }
        };
    }
    if containers.iter().chain(&init).any(|name| name == asked) {
        return Ok(asked.to_owned());
    }
    Err(ApiError::bad_request(format!("container {asked} is not valid for pod {pod}")))
}

struct NodeAddress {
    host: String,
    port: u16,
}

/// The kubelet endpoint that the node's status names.
fn node_address(call: &Call, name: &str) -> Result<NodeAddress, ApiError> {
    let node = call.engine.core_object("nodes", "", name).unwrap_or(Value::Null);
    let status = node.at("status");
    let of_kind = |kind: &str| {
        let addresses = status.list("addresses").iter();
        addresses.filter(|a| a.text("type") == kind).map(|a| a.text("address")).next()
    };
    let host = ["InternalIP", "Hostname", "ExternalIP"].into_iter().find_map(of_kind);
    let port = status.at("daemonEndpoints").at("kubeletEndpoint").int("Port");
    match (host, port.and_then(|p| u16::try_from(p).ok()).filter(|p| *p != 0)) {
        (Some(host), Some(port)) => Ok(NodeAddress { host: host.to_owned(), port }),
        _ => Err(ApiError::internal(format!("node {name} does not say where its logs are served"))),
    }
}

fn log_path(call: &Call, container: &str) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    for name in LOG_PARAMETERS {
        if let Some(value) = call.query.get(name) {
            query.append_pair(name, value);
        }
    }
    let (namespace, pod, query) = (call.namespace(), &call.path.name, query.finish());
    format!("/containerLogs/{namespace}/{pod}/{container}?{query}")
}

/// Why a node could not be requested for a log.
#[derive(Debug, thiserror::Error)]
enum NodeRequestError {
    #[error("connecting failed: {0}")]
    Connect(#[from] std::io::Error),
    #[error("its name cannot be verified: {0}")]
    Name(#[from] rustls::pki_types::InvalidDnsNameError),
    #[error("our certificate cannot be used: {0}")]
    Certificate(#[from] CertificateError),
    #[error("our certificate cannot be used: {0}")]
    Tls(#[from] rustls::Error),
    #[error("our certificate cannot be read: {0}")]
    Pem(#[from] rustls::pki_types::pem::Error),
    #[error("the request failed: {0}")]
    Http(#[from] hyper::Error),
    #[error("the request cannot be made: {0}")]
    Request(#[from] http::Error),
    #[error("it answered {status}: {message}")]
    Refused { status: StatusCode, message: String },
}

async fn request_log(
    engine: &Shared,
    node: &str,
    address: &NodeAddress,
    path: &str,
) -> Result<Response<Body>, NodeRequestError> {
    let config = client_config(&engine.authority, engine.clock.now())?;
    let name = ServerName::try_from(node.to_owned())?;
    let stream = TcpStream::connect((address.host.as_str(), address.port)).await?;
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a log stream ended early");
        }
    });
    let request = Request::get(path)
        .header(header::HOST, format!("{}:{}", address.host, address.port))
        .body(Body::empty())?;
    let (parts, body) = sender.send_request(request).await?.into_parts();
    if parts.status != StatusCode::OK {
        let said = Limited::new(body, MAX_ERROR_BODY_BYTES).collect().await;
        // What came before the limit or a cut is still the best that can be said.
        let said = said.map(Collected::to_bytes).unwrap_or_default();
        let message = String::from_utf8_lossy(&said).trim().to_owned();
        return Err(NodeRequestError::Refused { status: parts.status, message });
    }
    let mut response = Response::new(Body::new(body));
    let plain = http::HeaderValue::from_static("text/plain");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    Ok(response)
}

fn client_config(
    authority: &CertificateAuthority,
    now: jiff::Timestamp,
) -> Result<ClientConfig, NodeRequestError> {
    let own = authority.issue_client(CLIENT_NAME, Some(CLIENT_GROUP), now)?;
    let chain = vec![CertificateDer::from_pem_slice(own.certificate_pem.as_bytes())?];
    let key = PrivateKeyDer::from_pem_slice(own.key_pem.as_bytes())?;
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.certificate_pem().as_bytes())?)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    Ok(ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)?)
}

#[cfg(test)]
mod tests;
