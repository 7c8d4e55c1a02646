//! `sojourn up`, the release build of it, and the processes that it has.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use super::usage::{self, Usage};

/// How long it may take to start or to stop.
const START_TIMEOUT: Duration = Duration::from_secs(120);
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// What it says last when it is ready.
const READY: &str = "Ctrl-C stops it.";

#[derive(Debug)]
pub(crate) struct Up {
    child: Child,
    data: PathBuf,
}

impl Up {
    pub(crate) async fn start(folder: &Path) -> Result<Self> {
        let (data, log) = (folder.join("data"), folder.join("log"));
        let mut command = Command::new(crate::command::program());
        let listen = ["up", "--no-controllers", "--listen", "127.0.0.1:0"];
        command.args(listen).args(["--max-pods", "1000", "--data"]).arg(&data);
        command.env_remove("SOJOURN_LOG");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log)?);
        let mut up = Self { child: command.spawn().context("cannot start sojourn")?, data };
        let started = Instant::now();
        while !std::fs::read_to_string(&log)?.contains(READY) {
            if let Some(status) = up.child.try_wait()? {
                bail!("sojourn ended with {status}: {}", std::fs::read_to_string(&log)?);
            }
            if started.elapsed() > START_TIMEOUT {
                bail!("sojourn does not get ready: {}", std::fs::read_to_string(&log)?);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(up)
    }

    pub(crate) async fn client(&self) -> Result<Client> {
        let read = Kubeconfig::read_from(self.data.join("kubeconfig"))?;
        let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?;
        Ok(Client::try_from(config)?)
    }

    /// What the process itself uses, API server and node.
    pub(crate) fn usage(&self) -> Option<Usage> {
        usage::of(self.child.id())
    }

    /// What each of its shims uses.
    pub(crate) fn shims(&self) -> Result<Vec<Usage>> {
        let pods = self.data.join("node/pods");
        Ok(usage::shims(&pods)?.into_iter().filter_map(usage::of).collect())
    }

    /// Ends it as Ctrl-C does, and with it every Pod.
    pub(crate) async fn stop(mut self) -> Result<()> {
        let asked = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status()?;
        if !asked.success() {
            bail!("cannot stop sojourn: {asked}");
        }
        let asked = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                if status.success() {
                    return Ok(());
                }
                bail!("sojourn ended with {status}");
            }
            if asked.elapsed() > START_TIMEOUT {
                bail!("sojourn does not stop");
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        // One that has already ended cannot be killed, and need not be.
        let _ = self.child.kill();
        let _ = self.child.wait();
        // Its shims outlive it.
        for shim in usage::shims(&self.data.join("node/pods")).unwrap_or_default() {
            let _ = Command::new("kill").args(["-KILL", &shim.to_string()]).status();
        }
    }
}
