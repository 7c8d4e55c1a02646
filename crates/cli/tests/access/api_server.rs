//! A real kube-apiserver that asks our webhook, and the operator beside it.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use serde_json::{Value, json};

use crate::control_plane::{ControlPlane, Extra};
use crate::folder::Folder;
use crate::objects::Objects;
use crate::people::{good, token_of, write_kubeconfig};
use crate::process::{Running, command, sojourn};
use crate::stage::SYSTEM;
use crate::tool::free_port;
use crate::{client, wait};

/// Whom the certificate of the API server names.
const COMMON_NAME: &str = "kube-apiserver";
pub(crate) const TOKEN: &str = "a-token-that-only-the-api-server-has";
const TOKEN_SECRET: &str = "api-server-token";

/// How the API server shows who it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Credential {
    Certificate,
    Token,
}

/// How it asks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asking {
    pub(crate) credential: Credential,
    /// For how long it keeps decisions of both kinds.
    pub(crate) ttl: Duration,
}

impl Asking {
    /// It asks about every request.
    pub(crate) const ALWAYS: Self =
        Self { credential: Credential::Certificate, ttl: Duration::ZERO };

    /// What the configuration says about the cluster.
    pub(crate) fn cluster_config(self) -> Value {
        let caller = match self.credential {
            Credential::Certificate => json!({ "commonName": COMMON_NAME }),
            Credential::Token => json!({ "tokenSecret": {"name": TOKEN_SECRET, "key": "token"} }),
        };
        json!({"authorizedTTL": format!("{}s", self.ttl.as_secs()), "caller": caller})
    }
}

pub(crate) struct ApiServer {
    plane: ControlPlane,
    webhook: SocketAddr,
    folder: PathBuf,
}

impl ApiServer {
    /// With our kinds, and nothing of ours running yet.
    pub(crate) async fn start(assets: &Path, folder: &Folder, asking: Asking) -> Self {
        let webhook = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        make_certificates(folder);
        let user = match asking.credential {
            Credential::Certificate => json!({
                "client-certificate": folder.join("api-server.crt"),
                "client-key": folder.join("api-server.key"),
            }),
            Credential::Token => json!({ "token": TOKEN }),
        };
        let config = webhook_kubeconfig(webhook, folder.path(), &user);
        let file = folder.join("webhook.kubeconfig");
        std::fs::write(&file, config.to_string()).expect("a file");
        let extra = Extra { api_server: webhook_flags(&file, asking.ttl), ..Extra::default() };
        let plane = ControlPlane::start_with(assets, extra).await.expect("the control plane");
        let server = Self { plane, webhook, folder: folder.path().to_owned() };
        server.install(&assets.join("kubectl"), folder).await;
        server
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.plane.kubeconfig()
    }

    /// The control plane of another cluster, which asks the same webhook about every request and shows this token.
    pub(crate) async fn further_cluster(&self, assets: &Path, token: &str) -> ControlPlane {
        let config = webhook_kubeconfig(self.webhook, &self.folder, &json!({ "token": token }));
        let file = self.folder.join("further-webhook.kubeconfig");
        std::fs::write(&file, config.to_string()).expect("a file");
        let api_server = webhook_flags(&file, Duration::ZERO);
        let extra = Extra { api_server, ..Extra::default() };
        ControlPlane::start_with(assets, extra).await.expect("the control plane")
    }

    /// Our kinds, the operator's account, its certificate and the token of the API server.
    async fn install(&self, kubectl: &Path, folder: &Folder) {
        let file = folder.join("install.yaml");
        std::fs::write(&file, good(sojourn(&["crds"]))).expect("a file");
        let mut apply = Command::new(kubectl);
        apply.args(["apply", "--server-side", "--filename"]).arg(&file);
        apply.arg("--kubeconfig").arg(self.kubeconfig());
        good(Running::start(apply).ended());
        let objects = Objects(client::connect(&self.kubeconfig()).await);
        let text = |name: &str| std::fs::read_to_string(folder.join(name)).expect("it was made");
        objects
            .apply(&json!({
                "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
                "metadata": {"name": "sojourn-webhook-127.0.0.1", "namespace": SYSTEM},
                "stringData": {"tls.crt": text("webhook.crt"), "tls.key": text("webhook.key")},
            }))
            .await;
        objects
            .apply(&json!({
                "apiVersion": "v1", "kind": "Secret",
                "metadata": {"name": TOKEN_SECRET, "namespace": SYSTEM},
                "stringData": {"token": TOKEN},
            }))
            .await;
        let token = wait::eventually("the operator has an account", async || {
            token_of(&objects.0, SYSTEM, "sojourn").await
        });
        let own = folder.join("operator.kubeconfig");
        write_kubeconfig(&self.kubeconfig(), &token.await, &own);
    }

    /// Starts the operator, and waits until it acts.
    pub(crate) fn operator(&self, web: SocketAddr, log: Option<&str>) -> Running {
        let webhook = self.webhook.to_string();
        let mut operator = command(&["operator", "--web", &web.to_string()]);
        operator.args(["--leader-elect", "false", "--webhook", &webhook, "--webhook-url"]);
        operator.arg(format!("https://{webhook}"));
        operator.arg("--authorize-client-ca").arg(self.folder.join("ca.crt"));
        operator.arg("--kubeconfig").arg(self.folder.join("operator.kubeconfig"));
        operator.envs(log.map(|log| ("SOJOURN_LOG", log)));
        let operator = Running::start(operator);
        operator.stderr_line("The operator is up.");
        operator
    }

    /// Where reviews are answered, for a client that trusts `webhook.crt`.
    pub(crate) fn authorize_url(&self) -> String {
        format!("https://{}/authorize", self.webhook)
    }

    /// The certificate of the webhook, in PEM.
    pub(crate) fn webhook_authority(&self) -> Vec<u8> {
        std::fs::read(self.folder.join("webhook.crt")).expect("it was made")
    }
}

/// How kube-apiserver reaches us and shows who it is.
fn webhook_kubeconfig(webhook: SocketAddr, folder: &Path, user: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "sojourn",
        "clusters": [{"name": "sojourn", "cluster": {
            "server": format!("https://{webhook}/authorize"),
            "certificate-authority": folder.join("webhook.crt"),
        }}],
        "users": [{"name": "api-server", "user": user}],
        "contexts": [{"name": "sojourn", "context": {"cluster": "sojourn", "user": "api-server"}}],
    })
}

/// Has kube-apiserver ask whom that file names, and keep decisions for so long.
fn webhook_flags(file: &Path, ttl: Duration) -> Vec<String> {
    let (file, ttl) = (file.display(), ttl.as_secs());
    vec![
        // Beside Node and RBAC, which it has: the flag adds up.
        "--authorization-mode=Webhook".to_owned(),
        format!("--authorization-webhook-config-file={file}"),
        "--authorization-webhook-version=v1".to_owned(),
        format!("--authorization-webhook-cache-authorized-ttl={ttl}s"),
        format!("--authorization-webhook-cache-unauthorized-ttl={ttl}s"),
    ]
}

/// A certificate for the webhook, an authority, and one that it signed for the API server.
fn make_certificates(folder: &Folder) {
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).expect("a file");
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("a name");
    write("webhook.crt", &params.self_signed(&key).expect("a certificate").pem());
    write("webhook.key", &key.serialize_pem());

    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "callers");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    write("ca.crt", &params.self_signed(&key).expect("an authority").pem());
    let issuer = Issuer::new(params, key);

    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, COMMON_NAME);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    write("api-server.crt", &params.signed_by(&key, &issuer).expect("a certificate").pem());
    write("api-server.key", &key.serialize_pem());
}
