//! A real API server to compare with: kube-apiserver and etcd, and no controllers, which would
//! only add to its load. etcd syncs to disk, as SQLite does in `sojourn up`.

use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::Result;
use sojourn_apiserver::SystemEntropy;
use sojourn_apiserver::auth::token::Token;

use super::client::Address;
use super::server::Server;
use crate::process::Processes;

/// The folder with the binaries, if there is one (`cargo xtask kube-env` makes it).
pub(crate) fn assets() -> Option<PathBuf> {
    std::env::var_os("KUBEBUILDER_ASSETS").filter(|value| !value.is_empty()).map(PathBuf::from)
}

impl Server {
    /// Starts both on the data in `folder`.
    pub(crate) async fn kubernetes(assets: &Path, folder: &Path) -> Result<Self> {
        let [etcd_port, peer_port, port] = free_ports()?;
        let token = Token::generate(&SystemEntropy::default())?;
        let tokens = folder.join("tokens.csv");
        let line = format!("{},admin,admin,\"system:masters\"\n", token.reveal());
        write_secret(&tokens, &line)?;
        let (key, public_key) = (folder.join("sa.key"), folder.join("sa.pub"));
        let pair = rcgen::KeyPair::generate()?;
        write_secret(&key, &pair.serialize_pem())?;
        std::fs::write(&public_key, pair.public_key_pem())?;

        let mut processes = Processes::default();
        let started = Instant::now();
        let mut etcd = Command::new(assets.join("etcd"));
        etcd.arg("--data-dir")
            .arg(folder.join("etcd"))
            .arg(format!("--listen-client-urls=http://127.0.0.1:{etcd_port}"))
            .arg(format!("--advertise-client-urls=http://127.0.0.1:{etcd_port}"))
            .arg(format!("--listen-peer-urls=http://127.0.0.1:{peer_port}"))
            .arg(format!("--initial-advertise-peer-urls=http://127.0.0.1:{peer_port}"))
            .arg(format!("--initial-cluster=default=http://127.0.0.1:{peer_port}"))
            .arg("--log-level=error");
        processes.start(&mut etcd, &folder.join("etcd.log"))?;
        let mut apiserver = Command::new(assets.join("kube-apiserver"));
        apiserver
            .arg(format!("--etcd-servers=http://127.0.0.1:{etcd_port}"))
            .arg("--cert-dir")
            .arg(folder.join("certs"))
            .arg(format!("--secure-port={port}"))
            .args(["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1"])
            .args(["--endpoint-reconciler-type=none", "--authorization-mode=Node,RBAC"])
            .arg("--token-auth-file")
            .arg(&tokens)
            .arg("--service-account-issuer=https://kubernetes.default.svc")
            .arg("--service-account-key-file")
            .arg(&public_key)
            .arg("--service-account-signing-key-file")
            .arg(&key)
            .arg("--service-cluster-ip-range=10.0.0.0/24");
        processes.start(&mut apiserver, &folder.join("kube-apiserver.log"))?;

        let certificate = folder.join("certs/apiserver.crt");
        let socket = (Ipv4Addr::LOCALHOST, port).into();
        let access = || {
            let authority_pem = std::fs::read(&certificate).ok()?;
            Some((Address { socket, authority_pem }, token.reveal().to_owned()))
        };
        Self::ready(processes, started, access).await
    }
}

fn write_secret(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(())
}

/// Ports that were free a moment ago, all different.
fn free_ports<const N: usize>() -> Result<[u16; N]> {
    let mut listeners = Vec::with_capacity(N);
    let mut ports = [0; N];
    for port in &mut ports {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        *port = listener.local_addr()?.port();
        listeners.push(listener);
    }
    Ok(ports)
}
