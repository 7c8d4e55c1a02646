//! A client for the server of a test, over TLS as any other client.

use std::collections::BTreeMap;
use std::path::Path;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, ObjectMeta, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt};

/// How long it may take until readiness shows what has changed.
const READINESS_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(60);

/// A client that uses a kubeconfig as kubectl would.
pub(crate) async fn connect(kubeconfig: &Path) -> Client {
    let read = Kubeconfig::read_from(kubeconfig).expect("a kubeconfig");
    let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await;
    Client::try_from(config.expect("a usable kubeconfig")).expect("a client")
}

pub(crate) async fn config_maps(kubeconfig: &Path) -> Api<ConfigMap> {
    Api::namespaced(connect(kubeconfig).await, "default")
}

pub(crate) fn config_map(name: &str, value: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        data: Some(BTreeMap::from([("value".to_owned(), value.to_owned())])),
        ..ConfigMap::default()
    }
}

/// Creates an object and says at which version.
pub(crate) async fn create(
    api: &Api<ConfigMap>,
    name: &str,
    value: &str,
) -> Result<u64, kube::Error> {
    let created = api.create(&PostParams::default(), &config_map(name, value)).await?;
    Ok(version(&created))
}

/// The names of all, but for the one that every namespace has.
pub(crate) async fn names(api: &Api<ConfigMap>) -> Vec<String> {
    let all = api.list(&ListParams::default()).await.expect("a list");
    all.iter().map(ResourceExt::name_any).filter(|name| name != "kube-root-ca.crt").collect()
}

pub(crate) fn version(object: &ConfigMap) -> u64 {
    let version = object.resource_version().expect("stored objects have a version");
    version.parse().expect("versions are numbers")
}

/// What `/readyz?verbose` says, and with which code.
pub(crate) async fn readiness(client: &Client) -> (u16, String) {
    let request = http::Request::get("/readyz?verbose").body(kube::client::Body::empty());
    let answer = client.send(request.expect("a request")).await.expect("an answer");
    let code = answer.status().as_u16();
    let body = answer.into_body().collect_bytes().await.expect("a whole answer");
    (code, String::from_utf8_lossy(&body).into_owned())
}

/// Waits until `/readyz` answers with this code.
pub(crate) async fn until_readiness(client: &Client, code: u16) -> String {
    let started = std::time::Instant::now();
    loop {
        let (found, report) = readiness(client).await;
        if found == code {
            return report;
        }
        assert!(started.elapsed() < READINESS_TIMEOUT, "still {found}: {report}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

/// The code of the Status that a request was refused with.
pub(crate) fn refusal(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}
