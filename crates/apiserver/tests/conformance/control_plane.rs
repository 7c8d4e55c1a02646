//! A real Kubernetes control plane on loopback: etcd, kube-apiserver and those controllers of
//! kube-controller-manager whose work the embedded engine does too; more where a suite asks for it.
//!
//! The binaries come from `KUBEBUILDER_ASSETS` (`cargo xtask kube-env` makes them).

use std::fs::{File, Permissions};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, header};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::identity;
use crate::target::{BoxError, Target, TlsTarget};

/// Those that serve kinds which the embedded engine has: the rest would only make noise (and the
/// Node controllers would fight the scenarios).
const CONTROLLERS: &str = "garbage-collector-controller,namespace-controller,\
     serviceaccount-controller,root-ca-certificate-publisher-controller,\
     clusterrole-aggregation-controller,persistentvolumeclaim-protection-controller";

const START_TIMEOUT: Duration = Duration::from_secs(90);

/// The garbage collector looks for new kinds every 30 s, and then waits for its caches.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(100);

/// Nobody asks these servers anything, and one whose port is taken ends at once.
const NO_PORT: &str = "--secure-port=0";

/// So often it is tried to start all of it.
const MAX_STARTS: u32 = 3;

/// How many this process has started: some suites have several beside each other.
static STARTED: AtomicU32 = AtomicU32::new(0);

/// What a suite wants beside the usual.
#[derive(Debug, Default)]
pub(crate) struct Extra {
    /// Further controllers of kube-controller-manager.
    pub(crate) controllers: &'static [&'static str],
    /// Further arguments of kube-apiserver.
    pub(crate) api_server: Vec<String>,
    /// Further lines of the file of tokens.
    pub(crate) tokens: String,
    pub(crate) scheduler: bool,
}

/// Running servers; they end, and their files go, when this is dropped.
#[derive(Debug)]
pub(crate) struct ControlPlane {
    // In the order in which they are stopped.
    processes: Vec<Child>,
    directory: PathBuf,
    address: SocketAddr,
}

impl ControlPlane {
    /// The folder with the binaries, if there is one.
    pub(crate) fn assets() -> Option<PathBuf> {
        std::env::var_os("KUBEBUILDER_ASSETS").filter(|value| !value.is_empty()).map(PathBuf::from)
    }

    pub(crate) async fn start(assets: &Path) -> Result<Self, BoxError> {
        Self::start_with(assets, Extra::default()).await
    }

    pub(crate) async fn start_with(assets: &Path, extra: Extra) -> Result<Self, BoxError> {
        for _ in 1..MAX_STARTS {
            match Self::start_on_free_ports(assets, &extra).await {
                // Somebody else took a port between our choice and the server's start.
                Err(error) if error.to_string().contains("address already in use") => {}
                started => return started,
            }
        }
        Self::start_on_free_ports(assets, &extra).await
    }

    async fn start_on_free_ports(assets: &Path, extra: &Extra) -> Result<Self, BoxError> {
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let name = format!("sojourn-conformance-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory)?;
        let [etcd, peer, api] = free_ports()?;
        let mut plane = Self { processes: Vec::new(), directory, address: loopback(api) };

        plane.spawn(
            Command::new(assets.join("etcd"))
                .arg("--data-dir")
                .arg(plane.path("etcd"))
                .arg(format!("--listen-client-urls=http://127.0.0.1:{etcd}"))
                .arg(format!("--advertise-client-urls=http://127.0.0.1:{etcd}"))
                .arg(format!("--listen-peer-urls=http://127.0.0.1:{peer}"))
                .arg(format!("--initial-advertise-peer-urls=http://127.0.0.1:{peer}"))
                .arg(format!("--initial-cluster=default=http://127.0.0.1:{peer}"))
                .args(["--log-level=error", "--unsafe-no-fsync"]),
            "etcd",
        )?;

        let (key, public_key) = (plane.path("sa.key"), plane.path("sa.pub"));
        let pair = rcgen::KeyPair::generate()?;
        write_secret(&key, &pair.serialize_pem())?;
        std::fs::write(&public_key, pair.public_key_pem())?;
        let tokens = plane.path("tokens.csv");
        write_secret(&tokens, &(tokens_file() + &extra.tokens))?;
        plane.spawn(
            Command::new(assets.join("kube-apiserver"))
                .arg(format!("--etcd-servers=http://127.0.0.1:{etcd}"))
                .arg("--cert-dir")
                .arg(plane.path("certs"))
                .arg(format!("--secure-port={api}"))
                .args(["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1"])
                .args(["--endpoint-reconciler-type=none", "--authorization-mode=Node,RBAC"])
                // The embedded engine has no anonymous users.
                .arg("--anonymous-auth=false")
                .arg("--token-auth-file")
                .arg(&tokens)
                .arg("--service-account-issuer=https://kubernetes.default.svc")
                .arg("--service-account-key-file")
                .arg(&public_key)
                .arg("--service-account-signing-key-file")
                .arg(&key)
                .arg("--service-cluster-ip-range=10.0.0.0/24")
                .args(&extra.api_server),
            "kube-apiserver",
        )?;
        let target = plane.ready().await?;

        plane.write_kubeconfig()?;
        let wanted: Vec<_> = [CONTROLLERS].iter().chain(extra.controllers).copied().collect();
        plane.spawn(
            Command::new(assets.join("kube-controller-manager"))
                .arg("--kubeconfig")
                .arg(plane.kubeconfig())
                .arg("--service-account-private-key-file")
                .arg(&key)
                .arg("--root-ca-file")
                .arg(plane.path("certs/apiserver.crt"))
                .arg(format!("--controllers={}", wanted.join(",")))
                .args(["--leader-elect=false", NO_PORT]),
            "kube-controller-manager",
        )?;
        if extra.scheduler {
            plane.spawn(
                Command::new(assets.join("kube-scheduler"))
                    .arg("--kubeconfig")
                    .arg(plane.kubeconfig())
                    .args(["--leader-elect=false", NO_PORT]),
                "kube-scheduler",
            )?;
        }
        plane.wait_for(&target, "/api/v1/namespaces/default/serviceaccounts/default").await?;
        forget_history(loopback(etcd)).await?;
        Ok(plane)
    }

    pub(crate) async fn target(&self) -> Result<TlsTarget, BoxError> {
        let ca = std::fs::read(self.path("certs/apiserver.crt"))?;
        Ok(TlsTarget::connect(self.address, &ca).await?.with_timeout(REQUEST_TIMEOUT))
    }

    /// The administrator's.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.path("kubeconfig")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn spawn(&mut self, command: &mut Command, name: &str) -> Result<(), BoxError> {
        let log = File::create(self.path(&format!("{name}.log")))?;
        let child = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn();
        let child = child.map_err(|e| format!("cannot start {name}: {e}"))?;
        self.processes.insert(0, child);
        Ok(())
    }

    async fn ready(&mut self) -> Result<TlsTarget, BoxError> {
        let start = Instant::now();
        loop {
            for process in &mut self.processes {
                if let Some(status) = process.try_wait()? {
                    return Err(self.failure(&format!("a server ended with {status}")));
                }
            }
            match self.target().await {
                Ok(target) => {
                    self.wait_for(&target, "/readyz").await?;
                    return Ok(target);
                }
                Err(e) if start.elapsed() > START_TIMEOUT => return Err(self.failure(&e)),
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }

    async fn wait_for(&self, target: &TlsTarget, path: &str) -> Result<(), BoxError> {
        let start = Instant::now();
        loop {
            let request = Request::get(path)
                .header(header::AUTHORIZATION, format!("Bearer {}", identity::ADMIN.token))
                .body(Bytes::new())?;
            let answer = target.send(request).await?;
            if answer.status().is_success() {
                return Ok(());
            }
            if start.elapsed() > START_TIMEOUT {
                let status = answer.status();
                return Err(self.failure(&format!("{path} still answers {status}")));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Says where it went wrong, with the last lines of the logs.
    fn failure(&self, problem: &dyn std::fmt::Display) -> BoxError {
        let mut text = format!("the control plane did not start: {problem}");
        for name in ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"] {
            let log = std::fs::read_to_string(self.path(&format!("{name}.log")));
            let log = log.unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            for line in &lines[lines.len().saturating_sub(5)..] {
                text.push_str(&format!("\n{name}: {line}"));
            }
        }
        text.into()
    }

    fn write_kubeconfig(&self) -> Result<(), BoxError> {
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": {
                "server": format!("https://{}", self.address),
                "certificate-authority": self.path("certs/apiserver.crt"),
            }}],
            "users": [{"name": "c", "user": {"token": identity::ADMIN.token}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        });
        write_secret(&self.kubeconfig(), &config.to_string())
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        for process in &mut self.processes {
            // A process that has already ended cannot be killed, and need not be.
            let _ = process.kill();
            let _ = process.wait();
        }
        // Left-over files in the temporary folder harm nobody.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// The lines of kube-apiserver's `--token-auth-file`.
fn tokens_file() -> String {
    let lines = identity::ALL.iter().map(|identity| {
        let groups = identity.groups.join(",");
        format!("{},{},{},\"{groups}\"\n", identity.token, identity.name, identity.name)
    });
    lines.collect()
}

/// Compacts etcd, so that versions from before the scenarios are gone, as they are on a server
/// that has run for some minutes.
async fn forget_history(etcd: SocketAddr) -> Result<(), BoxError> {
    let range = post(etcd, "/v3/kv/range", &json!({"key": "AA=="})).await?;
    let revision = &range["header"]["revision"];
    post(etcd, "/v3/kv/compaction", &json!({"revision": revision, "physical": true})).await?;
    Ok(())
}

async fn post(server: SocketAddr, path: &str, body: &Value) -> Result<Value, BoxError> {
    let stream = TokioIo::new(TcpStream::connect(server).await?);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await?;
    tokio::spawn(connection);
    let request = Request::post(path)
        .header(header::HOST, server.to_string())
        .body(Full::new(Bytes::from(body.to_string())))?;
    let answer = sender.send_request(request).await?;
    let status = answer.status();
    let bytes = answer.into_body().collect().await?.to_bytes();
    if !status.is_success() {
        return Err(format!("etcd: {status}: {}", String::from_utf8_lossy(&bytes)).into());
    }
    Ok(serde_json::from_slice(&bytes)?)
}

fn write_secret(path: &Path, text: &str) -> Result<(), BoxError> {
    std::fs::write(path, text)?;
    std::fs::set_permissions(path, Permissions::from_mode(0o600))?;
    Ok(())
}

fn loopback(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

/// Ports that were free a moment ago, all different.
fn free_ports<const N: usize>() -> Result<[u16; N], BoxError> {
    let mut listeners = Vec::with_capacity(N);
    let mut ports = [0; N];
    for port in &mut ports {
        let listener = TcpListener::bind(loopback(0))?;
        *port = listener.local_addr()?.port();
        listeners.push(listener);
    }
    Ok(ports)
}
