//! The process of a replica, from the outside.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rcgen::{CertificateParams, KeyPair};
use serde::de::DeserializeOwned;

use super::NAME;
use super::affinity::Role;
use super::api::TIMEOUT;
use super::connection::{Target, get};
use super::plan::Plan;
use super::replica::{self, Addresses, Costs, Requests};
use crate::process::Processes;

const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// At rest, it uses no more of a processor than this, for so long.
const IDLE_PROCESSOR_SHARE: f64 = 0.02;
const IDLE_DURATION: Duration = Duration::from_secs(3);

pub(crate) struct Server {
    processes: Processes,
    addresses: Addresses,
    pub(crate) target: Target,
}

/// Where the replica that is measured runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) url: &'a str,
    pub(crate) folder: &'a Path,
    pub(crate) processor: usize,
}

impl Place<'_> {
    /// The processor of the server has to be chosen before this process keeps to another.
    pub(crate) fn processor() -> Result<usize> {
        Role::Server.processor()
    }
}

impl Server {
    /// Starts a replica, and waits until it answers and does nothing else.
    pub(crate) async fn start(place: Place<'_>, plan: &Plan) -> Result<Self> {
        let Place { url, folder, processor } = place;
        let key = KeyPair::generate()?;
        let certificate =
            CertificateParams::new(vec!["127.0.0.1".to_owned()])?.self_signed(&key)?;
        std::fs::write(folder.join(replica::CERTIFICATE), certificate.pem())?;
        std::fs::write(folder.join(replica::KEY), key.serialize_pem())?;
        let ready = folder.join(replica::READY);
        if ready.exists() {
            std::fs::remove_file(&ready)?;
        }
        let mut command = Command::new(std::env::current_exe()?);
        command.args([NAME, replica::WORD]).arg(url).arg(folder);
        command.args([processor, plan.sessions, plan.decisions].map(|number| number.to_string()));
        let log = folder.join("replica.log");
        let mut processes = Processes::default();
        let started = Instant::now();
        processes.start(&mut command, &log)?;
        while !ready.exists() {
            let said = || std::fs::read_to_string(&log).unwrap_or_default();
            processes.check().with_context(said)?;
            if started.elapsed() > TIMEOUT {
                bail!("the replica does not get ready: {}", said());
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        let addresses: Addresses = serde_json::from_slice(&std::fs::read(&ready)?)?;
        let target = Target::new(addresses.webhook, &certificate.pem())?;
        let mut server = Self { processes, addresses, target };
        server.until_at_rest().await?;
        Ok(server)
    }

    /// Waits until it does nothing.
    pub(crate) async fn until_at_rest(&mut self) -> Result<()> {
        let (asked, mut quiet_since) = (Instant::now(), Instant::now());
        let mut before = self.processor()?;
        while quiet_since.elapsed() < IDLE_DURATION {
            if asked.elapsed() > TIMEOUT {
                bail!("the replica does not come to rest");
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
        Ok(())
    }

    pub(crate) async fn requests(&self) -> Result<Requests> {
        self.asked("/requests").await
    }

    pub(crate) async fn costs(&self) -> Result<Costs> {
        self.asked("/costs").await
    }

    async fn asked<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        let answer = get(self.addresses.control, path).await?;
        let said = || String::from_utf8_lossy(&answer).into_owned();
        serde_json::from_slice(&answer).with_context(said)
    }

    pub(crate) fn processor(&self) -> Result<Duration> {
        self.processes.processor().context("cannot tell what the replica uses")
    }

    /// Bytes in memory.
    pub(crate) fn resident(&self) -> Result<f64> {
        self.processes.resident().context("cannot tell what the replica uses")
    }

    pub(crate) async fn stop(self) -> Result<()> {
        self.processes.stop().await
    }
}
