//! What the others tell of themselves, as the one that leads reads it.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{DeleteParams, ListParams, Preconditions};
use kube::{Api, Client, ResourceExt as _};
use sojourn_core::replica::{Heartbeat, ServedTime, Silence, served_time};
use tokio::time::Instant;

use super::{FAMILY_LABEL, REPLICA_LABEL, ReplicaName, SETTLED, leases, version};

/// The clocks of two replicas do not differ by more.
const CLOCK_DIFFERENCE: SignedDuration = SignedDuration::from_secs(10);

/// The replicas that take reports of one family.
pub struct ReplicaRegistry {
    api: Api<Lease>,
    family: &'static str,
    me: ReplicaName,
    /// Since when this process takes reports.
    serving_since: Timestamp,
    state: Mutex<RegistryState>,
}

#[derive(Debug, Default)]
struct RegistryState {
    seen: HashMap<String, SeenLease>,
    /// All that there are, and ourselves.
    present: BTreeSet<String>,
    /// When the last look began.
    looked_at: Option<Timestamp>,
}

/// A Lease as it was when it last changed.
#[derive(Debug)]
struct SeenLease {
    name: String,
    version: String,
    resource_version: Option<String>,
    uid: Option<String>,
    since: Instant,
    looks: u32,
    /// What was reported to it up to then is in the objects, as it says.
    settled: Timestamp,
    /// The gap that it leaves is on record, in memory at least.
    given_up: bool,
}

impl std::fmt::Debug for ReplicaRegistry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReplicaRegistry").field("family", &self.family).finish_non_exhaustive()
    }
}

impl ReplicaRegistry {
    pub(crate) fn new(
        client: &Client,
        family: &'static str,
        me: ReplicaName,
        serving_since: Timestamp,
    ) -> Self {
        let api = leases(client);
        Self { api, family, me, serving_since, state: Mutex::default() }
    }

    /// What all of them together have seen by `now`, which was before this look began.
    pub(crate) async fn look(
        &self,
        now: Timestamp,
        silence: Silence,
    ) -> Result<ServedTime, kube::Error> {
        let params = ListParams::default().labels(&format!("{FAMILY_LABEL}={}", self.family));
        let found = self.api.list(&params).await?.items;
        let mut state = self.state();
        let mut others = Vec::new();
        let mut seen = HashMap::with_capacity(found.len());
        for lease in found {
            let Some(replica) = lease.labels().get(REPLICA_LABEL).cloned() else { continue };
            if replica == self.me.as_str() {
                continue;
            }
            let mut entry = SeenLease::after(state.seen.remove(&replica), &lease);
            if !entry.given_up {
                let heartbeat = entry.heartbeat(&lease);
                entry.given_up = heartbeat.is_lost(silence);
                if entry.given_up {
                    tracing::warn!(replica, "a replica fell silent; what it saw may be lost");
                }
                others.push(heartbeat);
            }
            seen.insert(replica, entry);
        }
        state.present = seen.keys().cloned().chain([self.me.as_str().to_owned()]).collect();
        state.seen = seen;
        state.looked_at = Some(now);
        Ok(served_time(self.serving_since, &others, silence, now))
    }

    /// Whether there is a replica of that name, as far as is known.
    pub(crate) fn is_present(&self, replica: &str) -> bool {
        let state = self.state();
        // Before the first look nobody is known to be gone.
        state.present.is_empty() || state.present.contains(replica)
    }

    /// Whether a replica that was there at that time is gone. One that came since the last look is not.
    pub(crate) fn is_gone_since(&self, replica: &str, at: Timestamp) -> bool {
        let state = self.state();
        let looked_since = state
            .looked_at
            .is_some_and(|looked_at| looked_at.duration_since(at) > CLOCK_DIFFERENCE);
        let given_up = state.seen.get(replica).is_some_and(|lease| lease.given_up);
        looked_since && (given_up || !state.present.contains(replica))
    }

    /// Up to when everything that was reported to a replica is in the objects, unless it is gone or is this one.
    pub(crate) fn settled(&self, replica: &str) -> Option<Timestamp> {
        let state = self.state();
        state.seen.get(replica).filter(|lease| !lease.given_up).map(|lease| lease.settled)
    }

    /// The replicas that were given up. Once what they may have seen is stored, they can be removed.
    pub(crate) fn given_up(&self) -> Vec<String> {
        let state = self.state();
        let given_up = state.seen.iter().filter(|(_, lease)| lease.given_up);
        given_up.map(|(replica, _)| replica.clone()).collect()
    }

    /// Deletes the Leases of replicas that were given up, unless they spoke meanwhile.
    pub(crate) async fn remove(&self, replicas: &[String]) {
        for replica in replicas {
            let deletion = {
                let state = self.state();
                let Some(lease) = state.seen.get(replica) else { continue };
                let preconditions = Preconditions {
                    resource_version: lease.resource_version.clone(),
                    uid: lease.uid.clone(),
                };
                (lease.name.clone(), preconditions)
            };
            let (name, preconditions) = deletion;
            let params =
                DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
            if let Err(error) = self.api.delete(&name, &params).await {
                tracing::debug!(replica, %error, "its Lease stays until the next time");
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, RegistryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SeenLease {
    fn after(before: Option<Self>, lease: &Lease) -> Self {
        match before {
            Some(before) if before.version == version(lease) => {
                Self { looks: before.looks.saturating_add(1), ..before }
            }
            Some(_) | None => Self {
                name: lease.name_any(),
                version: version(lease),
                resource_version: lease.resource_version(),
                uid: lease.uid(),
                since: Instant::now(),
                looks: 0,
                settled: settled(lease),
                given_up: false,
            },
        }
    }

    fn heartbeat(&self, lease: &Lease) -> Heartbeat {
        let spec = lease.spec.as_ref();
        let settled = self.settled;
        let began = spec.and_then(|spec| spec.acquire_time.as_ref()).map(|time| time.0);
        Heartbeat {
            serving_since: began.unwrap_or(settled),
            settled,
            silent_for: SignedDuration::try_from(self.since.elapsed())
                .unwrap_or(SignedDuration::MAX),
            silent_looks: self.looks,
        }
    }
}

/// What it does not say, or what cannot be read, is not observed.
fn settled(lease: &Lease) -> Timestamp {
    let settled = lease.annotations().get(SETTLED).and_then(|text| text.parse().ok());
    settled.unwrap_or(Timestamp::MIN)
}
