//! Which of several replicas acts: the one that holds the Lease `sojourn-system/sojourn`.
//!
//! ```text
//!  leader    renewed ──── acts ───▶ 10 s: stops acting
//!  another      sees it ───────────── no change ─────────▶ 15 s: takes the lease, acts
//! ```
//!
//! Clocks of different machines are never compared. A leader counts from when it *sent* its last
//! renewal, another replica from when it *saw* the lease change, which is later; between the end of
//! the one and the beginning of the other are five seconds. Every write carries the version that was
//! seen, so two who want the lease cannot both get it.
//!
//! Only a lease that says that it was given up is taken at once. One that was made anew, or whose holder
//! was edited away, is waited for like any other: the holder may not have noticed.
//!
//! **What may still be written after that** is a request that was on its way. It does no harm later
//! than it would have in time: statuses, stops, finalizers and deletes carry uid or resourceVersion and
//! lose against whatever the next leader wrote; a notice has one id, an Event one name, a Job the name
//! of its series, and each is there once. Every deadline is in a status, so the next leader goes on with
//! the same ones.

mod decision;
mod fence;
mod lease;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use self::decision::{
    CandidateAction, LeaderAction, ObservedLease, candidate_action, leader_action,
};
use self::fence::Renewal;
pub use self::fence::{Fence, NotLeading};
pub use self::lease::LeaseError;
use self::lease::{Leases, lease_state, version, web_address};
use crate::clock::Clock;
use crate::metrics::Metrics;
use crate::random::{NoRandomness, system_random};

/// A lease that did not change for so long is free.
pub const LEASE_DURATION: Duration = Duration::from_secs(15);
/// So long after its last renewal a leader acts.
pub const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// Often enough that an outage of five seconds, whenever it begins, is not noticed.
const RENEW_INTERVAL: Duration = Duration::from_secs(3);
/// How often a candidate looks, and how soon a leader tries again.
pub const RETRY_INTERVAL: Duration = Duration::from_secs(2);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);
/// No version of ours has a longer one; a lease that says so was edited.
const MAX_LEASE_DURATION: Duration = Duration::from_secs(300);

/// A name for this process that no other has: after a crash even the same machine is another. Two
/// replicas of one name would both believe that the lease is theirs, so nothing stands in for random
/// numbers.
pub fn identity(host: &str) -> Result<String, NoRandomness> {
    identity_from(host, system_random)
}

fn identity_from(
    host: &str,
    fill: impl FnOnce(&mut [u8]) -> Result<(), NoRandomness>,
) -> Result<String, NoRandomness> {
    let mut bytes = [0; 8];
    fill(&mut bytes)?;
    Ok(format!("{host}_{}", hex::encode(bytes)))
}

fn gauge(metrics: &Metrics) -> Gauge {
    metrics.gauge("leader", "Whether this replica is the one that acts")
}

/// For a replica that needs no lease, since there is no other: whoever looks at the metrics sees that
/// it acts.
pub fn act_alone(metrics: &Metrics) {
    gauge(metrics).set(1);
}

/// A replica that wants to lead.
#[derive(Debug)]
pub struct Candidate {
    leases: Leases,
    clock: Arc<dyn Clock>,
    leads: Gauge,
    lease: Lease,
    seen: ObservedLease,
    web_address: watch::Sender<Option<SocketAddr>>,
}

impl Candidate {
    /// Looks at the lease for the first time. What fails here is likely to be for ever: the namespace
    /// is not there, or the rights are not.
    pub async fn enter(
        client: Client,
        clock: Arc<dyn Clock>,
        metrics: &Metrics,
        identity: &str,
    ) -> Result<Self, LeaseError> {
        let leases = Leases::new(client, identity, clock.clone());
        let lease = leases.read_or_create().await?;
        let leads = gauge(metrics);
        let seen = ObservedLease::after(None, version(&lease), lease_state(&lease), Instant::now());
        let mut candidate =
            Self { leases, clock, leads, lease, seen, web_address: watch::Sender::new(None) };
        candidate.record_lease(candidate.lease.clone());
        Ok(candidate)
    }

    /// Sets where this replica serves people while it leads, which it publishes on the Lease.
    #[must_use]
    pub fn with_web_address(mut self, address: Option<SocketAddr>) -> Self {
        self.leases.advertise(address);
        self
    }

    /// Where another replica that leads serves people, as far as is known, now and whenever that
    /// changes.
    pub fn web_address(&self) -> watch::Receiver<Option<SocketAddr>> {
        self.web_address.subscribe()
    }

    /// Who holds the lease, as far as is known.
    pub fn holder(&self) -> Option<&str> {
        self.seen.holder()
    }

    fn record_lease(&mut self, lease: Lease) {
        let before = self.seen.holder().map(str::to_owned);
        self.seen = ObservedLease::after(
            Some(&self.seen),
            version(&lease),
            lease_state(&lease),
            Instant::now(),
        );
        let elsewhere = self.seen.holder().is_some() && !self.leases.is_ours(&lease);
        self.web_address.send_replace(web_address(&lease).filter(|_| elsewhere));
        self.lease = lease;
        if before.as_deref() != self.seen.holder() {
            tracing::info!(leader = self.seen.holder().unwrap_or("nobody"), "standing by");
        }
    }

    /// Waits until this replica leads.
    pub async fn elected(&mut self) -> LeaderTerm {
        loop {
            match candidate_action(&self.seen, Instant::now()) {
                CandidateAction::Take => {
                    let sent = Renewal { sent: Instant::now(), sent_at: self.clock.now() };
                    match self.leases.take(&self.lease).await {
                        Ok(lease) => {
                            self.record_lease(lease.clone());
                            return self.start_term(lease, sent);
                        }
                        Err(error) if error.is_outdated() => {}
                        Err(error) => {
                            warn(&error, "cannot take the lease; trying again");
                            tokio::time::sleep(RETRY_INTERVAL).await;
                        }
                    }
                }
                CandidateAction::CheckAgain(at) => tokio::time::sleep_until(at).await,
            }
            match self.leases.read_or_create().await {
                Ok(lease) => self.record_lease(lease),
                Err(error) => {
                    warn(&error, "cannot see who leads; trying again");
                    tokio::time::sleep(RETRY_INTERVAL).await;
                }
            }
        }
    }

    fn start_term(&self, lease: Lease, sent: Renewal) -> LeaderTerm {
        tracing::info!("leading");
        let (renewal, renewed) = watch::channel(Some(sent));
        let (release, released) = oneshot::channel();
        let renewer =
            LeaseRenewer { leases: self.leases.clone(), clock: self.clock.clone(), lease, renewal };
        let leads = self.leads.clone();
        leads.set(1);
        let renewing = tokio::spawn(async move {
            renewer.run(sent.sent, released).await;
            leads.set(0);
        });
        let fence = Fence { renewal: renewed, clock: self.clock.clone() };
        LeaderTerm { fence, release, renewing }
    }
}

/// A time in which this replica leads. Whoever drops it must have stopped.
#[derive(Debug)]
pub struct LeaderTerm {
    fence: Fence,
    release: oneshot::Sender<()>,
    renewing: JoinHandle<()>,
}

impl LeaderTerm {
    /// Through which everything has to go that only a leader may do.
    pub fn fence(&self) -> &Fence {
        &self.fence
    }

    /// Waits until this replica must not act any more.
    pub fn over(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut renewal = self.fence.renewal.clone();
        async move {
            // An error means the same: the renewer has ended.
            drop(renewal.wait_for(Option::is_none).await);
        }
    }

    /// Gives the lease up, so that another replica can take it at once. Everything that acts has
    /// ended before.
    pub async fn release(self) {
        // A term that is over has nothing to give up.
        let _ = self.release.send(());
        if let Err(error) = self.renewing.await {
            tracing::error!(%error, "the lease was not released");
        }
    }
}

/// Renews the lease for as long as that works.
struct LeaseRenewer {
    leases: Leases,
    clock: Arc<dyn Clock>,
    lease: Lease,
    renewal: watch::Sender<Option<Renewal>>,
}

impl LeaseRenewer {
    async fn run(mut self, sent: Instant, mut released: oneshot::Receiver<()>) {
        let (mut renewed, mut tried) = (sent, None);
        loop {
            match leader_action(renewed, tried, Instant::now()) {
                LeaderAction::StepDown => {
                    tracing::warn!("the lease was not renewed in time; this replica stops acting");
                    break;
                }
                LeaderAction::Wait(until) => tokio::select! {
                    biased;
                    asked = &mut released => {
                        self.renewal.send_replace(None);
                        if asked.is_ok() {
                            self.release_lease().await;
                        }
                        return;
                    }
                    () = tokio::time::sleep_until(until) => {}
                },
                LeaderAction::Renew => {
                    let end = renewed + RENEW_DEADLINE;
                    match tokio::time::timeout_at(end, self.renew()).await {
                        Ok(Ok(Some(sent))) => (renewed, tried) = (sent, None),
                        Ok(Ok(None)) => {
                            tracing::warn!("another took the lease; this replica stops acting");
                            break;
                        }
                        Ok(Err(error)) => {
                            warn(&error, "cannot renew the lease; trying again");
                            tried = Some(Instant::now());
                        }
                        Err(_) => {}
                    }
                }
            }
        }
        self.renewal.send_replace(None);
    }

    /// When the renewal that took effect was sent; nothing if the lease is not ours any more.
    async fn renew(&mut self) -> Result<Option<Instant>, LeaseError> {
        let mut again = false;
        loop {
            let sent = Renewal { sent: Instant::now(), sent_at: self.clock.now() };
            match self.leases.renew(&self.lease).await {
                Ok(lease) => {
                    self.lease = lease;
                    self.renewal.send_replace(Some(sent));
                    return Ok(Some(sent.sent));
                }
                // It may be our own write whose answer was lost, a label that somebody set, or
                // another holder.
                Err(error) if error.is_outdated() && !again => {
                    match self.leases.read().await? {
                        Some(lease) if self.leases.is_ours(&lease) => self.lease = lease,
                        Some(_) | None => return Ok(None),
                    }
                    again = true;
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn release_lease(&mut self) {
        for _ in 0..2 {
            match self.leases.release(&self.lease).await {
                Ok(_) => {
                    tracing::info!("the lease is released");
                    return;
                }
                Err(error) if error.is_outdated() => match self.leases.read().await {
                    Ok(Some(lease)) if self.leases.is_ours(&lease) => self.lease = lease,
                    Ok(_) => return,
                    Err(error) => return warn(&error, "the lease is left to expire"),
                },
                Err(error) => return warn(&error, "the lease is left to expire"),
            }
        }
    }
}

fn warn(error: &LeaseError, what: &str) {
    tracing::warn!(error = error as &dyn std::error::Error, "{what}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_random_numbers_a_replica_has_no_name() {
        assert_eq!(identity_from("host", |_| Err(NoRandomness)), Err(NoRandomness));
        assert_eq!(
            identity_from("host", |bytes| {
                bytes.fill(1);
                Ok(())
            }),
            Ok("host_0101010101010101".to_owned())
        );
        assert_ne!(identity("host"), identity("host"));
    }
}
