use std::net::Ipv4Addr;

use http_body_util::BodyExt;
use hyper::service::service_fn;
use serde_json::json;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

use super::*;
use crate::auth::certificate::{ServingCertificate, client_identity, server_config};
use crate::auth::identity::Identity;
use crate::engine::{Config, Engine};
use crate::internal;

/// A node that answers one request with who asked for what.
async fn node(engine: &Engine, name: &str) -> u16 {
    let shared = engine.shared.clone();
    let certified = engine.node_certificate(name, Ipv4Addr::LOCALHOST.into()).unwrap();
    let serving = Arc::new(ServingCertificate::new(&certified).unwrap());
    let config = server_config(serving, shared.authority.certificate_pem()).unwrap();
    let mut config = config;
    config.alpn_protocols.clear();
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let stream = TlsAcceptor::from(Arc::new(config)).accept(stream).await.unwrap();
        let peer = stream.get_ref().1.peer_certificates().unwrap()[0].clone();
        let who = client_identity(&peer).unwrap().unwrap();
        let service = service_fn(move |request: Request<hyper::body::Incoming>| {
            let text = format!("{} asked for {}\n", who.user().name, request.uri());
            async move { Ok::<_, std::convert::Infallible>(Response::new(text)) }
        });
        let connection = hyper::server::conn::http1::Builder::new();
        drop(connection.serve_connection(TokioIo::new(stream), service).await);
    });
    port
}

async fn put(engine: &Engine, plural: &str, namespace: &str, object: Value) {
    let resource = engine.shared.registry().resource("", plural).unwrap();
    internal::create_if_missing(&engine.shared, &resource, namespace, object, "test")
        .await
        .unwrap();
}

/// The answer to a GET, as the server itself.
async fn get(engine: &Engine, path: &str) -> (StatusCode, String) {
    engine.add_token("t", Identity::server());
    let request =
        Request::get(path).header(header::AUTHORIZATION, "Bearer t").body(Body::empty()).unwrap();
    let response = engine.router().oneshot(request).await.unwrap();
    let code = response.status();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, String::from_utf8(bytes.to_vec()).unwrap())
}

fn pod(name: &str, node: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"nodeName": node, "serviceAccountName": "default",
                 "containers": [{"name": "main", "image": "x"}]},
    })
}

fn node_at(name: &str, port: u16) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
        "status": {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        },
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn logs_come_from_the_node_over_mutual_tls() {
    let engine = Engine::open(Config::in_memory()).await.unwrap();
    let port = node(&engine, "n").await;
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    put(&engine, "serviceaccounts", "default", account).await;
    put(&engine, "nodes", "", node_at("n", port)).await;
    // Another node says that it listens where only the certificate of the first is shown.
    let taken = node(&engine, "n").await;
    put(&engine, "nodes", "", node_at("liar", taken)).await;
    put(&engine, "pods", "default", pod("a", "n")).await;
    put(&engine, "pods", "default", pod("astray", "liar")).await;
    put(&engine, "pods", "default", pod("waiting", "")).await;
    put(&engine, "pods", "default", pod("lost", "nowhere")).await;

    let log = "/api/v1/namespaces/default/pods/a/log?tailLines=3&follow=true&nonsense=1";
    let expected = "kube-apiserver-kubelet-client asked for \
                    /containerLogs/default/a/main?follow=true&tailLines=3\n";
    assert_eq!(get(&engine, log).await, (StatusCode::OK, expected.to_owned()));

    let (code, text) = get(&engine, "/api/v1/namespaces/default/pods/astray/log").await;
    assert_eq!(code, StatusCode::INTERNAL_SERVER_ERROR);
    assert!(text.contains("not valid for name"), "{text}");

    let waiting = "/api/v1/namespaces/default/pods/waiting/log";
    assert_eq!(get(&engine, waiting).await, (StatusCode::OK, String::new()));
    let (code, text) = get(&engine, "/api/v1/namespaces/default/pods/lost/log").await;
    assert_eq!(code, StatusCode::INTERNAL_SERVER_ERROR);
    assert!(text.contains("node nowhere does not say where its logs are served"), "{text}");
    let (code, text) = get(&engine, &format!("{waiting}?container=x")).await;
    assert_eq!(code, StatusCode::BAD_REQUEST);
    assert!(text.contains("container x is not valid for pod waiting"), "{text}");
    engine.close().await;
}
