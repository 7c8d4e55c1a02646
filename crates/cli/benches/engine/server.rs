//! A server under test: started, awaited, stopped.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::client::{Address, Call, Client};
use crate::process::Processes;

const START_TIMEOUT: Duration = Duration::from_secs(120);
/// Between two looks at whether a server is ready: what the figure may be off by.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) processes: Processes,
    pub(crate) address: Address,
    /// For somebody who may do anything.
    pub(crate) token: String,
    /// From the start of the first process to the first success of `/readyz`.
    pub(crate) ready: Duration,
}

impl Server {
    /// Starts `sojourn up`, with everything that it runs by default, on the data in `folder`.
    pub(crate) async fn sojourn(folder: &Path) -> Result<Self> {
        let kubeconfig = folder.join("data/kubeconfig");
        if kubeconfig.exists() {
            // Its port is that of the last run.
            std::fs::remove_file(&kubeconfig)?;
        }
        let mut processes = Processes::default();
        let started = Instant::now();
        let mut command = Command::new(crate::command::program());
        // With Pods, controllers and pages, as everybody runs it.
        command
            .args(["up", "--listen", "127.0.0.1:0", "--web", "127.0.0.1:0", "--data"])
            .arg(folder.join("data"));
        processes.start(&mut command, &folder.join("sojourn.log"))?;
        let access = || {
            let text = std::fs::read_to_string(&kubeconfig).ok()?;
            from_kubeconfig(&text).ok()
        };
        Self::ready(processes, started, access).await
    }

    /// Waits until the server can be reached and calls itself ready.
    pub(crate) async fn ready(
        mut processes: Processes,
        started: Instant,
        access: impl Fn() -> Option<(Address, String)>,
    ) -> Result<Self> {
        let mut client = None;
        let mut last = anyhow!("it never wrote how to reach it");
        while started.elapsed() < START_TIMEOUT {
            processes.check()?;
            if client.is_none()
                && let Some((address, token)) = access()
            {
                match Client::with_connections(&address, &token, 1).await {
                    Ok(connected) => client = Some((connected, address, token)),
                    Err(error) => last = error,
                }
            }
            if let Some((connected, address, token)) = client.take() {
                match connected.finish(0, Call::get("/readyz")).await {
                    Ok(_) => {
                        let ready = started.elapsed();
                        return Ok(Self { processes, address, token, ready });
                    }
                    Err(error) => last = error,
                }
                client = Some((connected, address, token));
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Err(last.context("a server did not get ready"))
    }

    pub(crate) async fn admin(&self) -> Result<Client> {
        Client::connect(&self.address, &self.token).await
    }
}

/// The address and the token in a kubeconfig of `sojourn up`.
fn from_kubeconfig(text: &str) -> Result<(Address, String)> {
    let config: Value = serde_json::from_str(text)?;
    let cluster = &config["clusters"][0]["cluster"];
    let text = |value: &Value| value.as_str().map(str::to_owned).context("not a text");
    let socket = text(&cluster["server"])?
        .strip_prefix("https://")
        .context("served without TLS")?
        .parse()?;
    let authority_pem = STANDARD.decode(text(&cluster["certificate-authority-data"])?)?;
    let token = text(&config["users"][0]["user"]["token"])?;
    Ok((Address { socket, authority_pem }, token))
}
