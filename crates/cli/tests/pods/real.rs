//! A real control plane with `sojourn node` as its kubelet: as `system:node:NAME`, with no more
//! rights than Kubernetes gives to nodes.

use std::path::Path;

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use serde_json::json;

use crate::case_cluster::CaseCluster;
use crate::client;
use crate::control_plane::{ControlPlane, Extra};
use crate::folder::Folder;
use crate::process::{Running, command};
use crate::survivors::{self, Reaper};

const NODE: &str = "machine";
const TOKEN: &str = "node-token";
/// Ports that no other place in this suite gives to its Pods.
const PORTS: &str = "22000-22999";

/// Those that Pods and Jobs need. Not the one that binds claims: the node does so itself.
const CONTROLLERS: &[&str] = &[
    "job-controller",
    "ttl-after-finished-controller",
    "node-lifecycle-controller",
    "taint-eviction-controller",
    "pod-garbage-collector-controller",
];

pub(crate) struct Real {
    case_cluster: CaseCluster,
    // In the order in which they are to end.
    node: Running,
    _reaper: Reaper,
    _plane: ControlPlane,
    folder: Folder,
}

impl Real {
    pub(crate) async fn start(assets: &Path) -> Self {
        Self::start_with(assets, PORTS, &[]).await
    }

    /// With these ports for its Pods, and further arguments for the node.
    pub(crate) async fn start_with(assets: &Path, ports: &str, more: &[&str]) -> Self {
        let folder = Folder::new();
        make_certificates(&folder);
        let file = |name: &str| folder.join(name).display().to_string();
        let extra = Extra {
            controllers: CONTROLLERS,
            api_server: vec![
                "--enable-admission-plugins=NodeRestriction".to_owned(),
                "--kubelet-preferred-address-types=InternalIP".to_owned(),
                format!("--kubelet-certificate-authority={}", file("ca.crt")),
                format!("--kubelet-client-certificate={}", file("client.crt")),
                format!("--kubelet-client-key={}", file("client.key")),
            ],
            tokens: format!("{TOKEN},system:node:{NODE},node,\"system:nodes\"\n"),
            scheduler: true,
        };
        let plane = ControlPlane::start_with(assets, extra).await.expect("the control plane");
        let kubeconfig = plane.kubeconfig();
        write_node_kubeconfig(&kubeconfig, &folder);
        let mut node = command(&["node", "--name", NODE, "--pod-ports", ports]);
        node.args(more);
        for (option, name) in [
            ("--kubeconfig", "kubeconfig"),
            ("--data", "node"),
            ("--tls-cert", "node.crt"),
            ("--tls-key", "node.key"),
            ("--client-ca", "ca.crt"),
        ] {
            node.arg(option).arg(folder.join(name));
        }
        node.arg("--claims-kubeconfig").arg(&kubeconfig);
        let reaper = Reaper::of(&folder.join("node"));
        let node = Running::start(node);
        node.stderr_line("  logs ");
        let client = client::connect(&kubeconfig).await;
        let case_cluster = CaseCluster {
            client,
            kubeconfig,
            kubectl: Some(assets.join("kubectl")),
            node: NODE.to_owned(),
        };
        wait_until_ready(&case_cluster).await;
        Self { case_cluster, node, _reaper: reaper, _plane: plane, folder }
    }

    pub(crate) const fn case_cluster(&self) -> &CaseCluster {
        &self.case_cluster
    }

    pub(crate) fn stop(self) {
        survivors::interrupt(self.node);
        survivors::assert_none(&self.folder.join("node"));
    }
}

/// Pods are not scheduled to a node that is not ready.
async fn wait_until_ready(case_cluster: &CaseCluster) {
    let nodes: Api<Node> = Api::all(case_cluster.client.clone());
    let usable = |node: &Node| node.spec.as_ref().is_none_or(|spec| spec.taints.is_none());
    let ready = async {
        while !nodes.get_opt(NODE).await.expect("an answer").as_ref().is_some_and(usable) {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    };
    let bound = std::time::Duration::from_secs(60);
    tokio::time::timeout(bound, ready).await.expect("the node is still not usable");
}

/// An authority, a certificate for the node's listener, and one for kube-apiserver as its client.
fn make_certificates(folder: &Folder) {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "kubelets");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    write(folder, "ca.crt", &params.self_signed(&key).expect("an authority").pem());
    let issuer = Issuer::new(params, key);
    let issue = |name: &str, user: &str, names: Vec<String>, usage: ExtendedKeyUsagePurpose| {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(names).expect("names");
        params.distinguished_name.push(DnType::CommonName, user);
        params.extended_key_usages = vec![usage];
        let certificate = params.signed_by(&key, &issuer).expect("a certificate");
        write(folder, &format!("{name}.crt"), &certificate.pem());
        write(folder, &format!("{name}.key"), &key.serialize_pem());
    };
    let names = vec![NODE.to_owned(), "127.0.0.1".to_owned()];
    issue("node", &format!("system:node:{NODE}"), names, ExtendedKeyUsagePurpose::ServerAuth);
    let api_server = "kube-apiserver-kubelet-client";
    issue("client", api_server, Vec::new(), ExtendedKeyUsagePurpose::ClientAuth);
}

/// The administrator's, with the node's token instead.
fn write_node_kubeconfig(administrator: &Path, folder: &Folder) {
    let text = std::fs::read_to_string(administrator).expect("a kubeconfig");
    let mut config: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    config["users"][0]["user"] = json!({"token": TOKEN});
    write(folder, "kubeconfig", &config.to_string());
}

fn write(folder: &Folder, name: &str, text: &str) {
    std::fs::write(folder.join(name), text).expect("a file in a new folder");
}
