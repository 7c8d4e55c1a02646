//! `sojourn up`, the release build of it, without Pods.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::process::Processes;

/// How long it may take to start, and to come to rest.
const START_TIMEOUT: Duration = Duration::from_secs(900);
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// What it says last when it is ready.
const READY: &str = "Ctrl-C stops it.";
/// At rest, it uses no more of a processor than this, for so long.
const IDLE_PROCESSOR_SHARE: f64 = 0.02;
const IDLE_DURATION: Duration = Duration::from_secs(3);

/// What it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Controllers {
    On,
    Off,
}

/// Where it keeps its data and serves people, every time that it is started.
#[derive(Debug, Clone)]
pub(crate) struct Home {
    folder: PathBuf,
    web: SocketAddr,
}

impl Home {
    pub(crate) fn new(folder: PathBuf) -> Result<Self> {
        // Nobody else takes a port so soon that was free just now.
        let web = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        Ok(Self { folder, web })
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    pub(crate) fn web_url(&self) -> String {
        format!("http://{}", self.web)
    }
}

#[derive(Debug)]
pub(crate) struct Up {
    processes: Processes,
    data: PathBuf,
    /// From its start until it said that it is ready.
    pub(crate) ready: Duration,
}

impl Up {
    pub(crate) async fn start(home: &Home, controllers: Controllers) -> Result<Self> {
        let (data, log) = (home.data(), home.folder.join("log"));
        let mut command = Command::new(crate::command::program());
        command.args(["up", "--listen", "127.0.0.1:0", "--no-pods", "--data"]).arg(&data);
        match controllers {
            Controllers::On => command.args(["--web", &home.web.to_string()]),
            Controllers::Off => command.args(["--no-controllers", "--no-web"]),
        };
        command.env("SOJOURN_LOG", "warn");
        let mut processes = Processes::default();
        let started = Instant::now();
        processes.start(&mut command, &log)?;
        let says = |log: &Path| std::fs::read_to_string(log).context("cannot read what it says");
        while !says(&log)?.contains(READY) {
            processes.check().with_context(|| says(&log).unwrap_or_default())?;
            if started.elapsed() > START_TIMEOUT {
                bail!("sojourn does not get ready: {}", says(&log)?);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(Self { processes, data, ready: started.elapsed() })
    }

    pub(crate) async fn client(&self) -> Result<Client> {
        let read = Kubeconfig::read_from(self.data.join("kubeconfig"))?;
        let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?;
        Ok(Client::try_from(config)?)
    }

    /// Waits until it does nothing; says when that began.
    pub(crate) async fn at_rest(&mut self) -> Result<Instant> {
        let asked = Instant::now();
        let mut quiet_since = Instant::now();
        let mut before = self.processor()?;
        while quiet_since.elapsed() < IDLE_DURATION {
            if asked.elapsed() > START_TIMEOUT {
                bail!("sojourn does not come to rest");
            }
            let looked = Instant::now();
            tokio::time::sleep(Duration::from_millis(500)).await;
            self.processes.check()?;
            let now = self.processor()?;
            let share = now.saturating_sub(before).as_secs_f64() / looked.elapsed().as_secs_f64();
            if share > IDLE_PROCESSOR_SHARE {
                quiet_since = Instant::now();
            }
            before = now;
        }
        Ok(quiet_since)
    }

    pub(crate) fn processor(&self) -> Result<Duration> {
        self.processes.processor().context("cannot tell what sojourn uses")
    }

    /// Bytes in memory.
    pub(crate) fn resident(&self) -> Result<f64> {
        self.processes.resident().context("cannot tell what sojourn uses")
    }

    /// The most that it ever was.
    pub(crate) fn peak(&self) -> Result<f64> {
        self.processes.peak().context("cannot tell what sojourn uses")
    }

    pub(crate) async fn stop(self) -> Result<()> {
        self.processes.stop().await
    }
}
