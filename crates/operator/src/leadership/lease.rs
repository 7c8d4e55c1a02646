//! The lease in the API: read, made, taken, renewed and given up, in the form that client-go writes
//! and other tools read. Every change carries the version that was seen.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client, ResourceExt as _};
use sojourn_api::name::shared;

use super::decision::LeaseState;
use super::{LEASE_DURATION, REQUEST_TIMEOUT};
use crate::clock::Clock;

/// Annotation: where whoever leads serves people, if it does.
const WEB_ADDRESS: &str = "sojourn.dev/web";
/// The duration by which client-go marks a lease that its holder gave up.
const RELEASED_SECONDS: i32 = 1;

/// Why the lease could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    #[error("cannot {what} the lease {}/{}", shared::NAMESPACE, shared::LEASE)]
    Refused {
        what: &'static str,
        #[source]
        source: Box<kube::Error>,
    },
    #[error(
        "cannot {what} the lease {}/{}: no answer within {REQUEST_TIMEOUT:?}",
        shared::NAMESPACE,
        shared::LEASE
    )]
    NoAnswer { what: &'static str },
}

impl LeaseError {
    /// Whether it changed, or went, since it was seen.
    pub(super) fn is_outdated(&self) -> bool {
        let Self::Refused { source, .. } = self else { return false };
        matches!(&**source, kube::Error::Api(status) if matches!(status.code, 404 | 409))
    }
}

/// The lease, as one process writes it.
#[derive(Clone)]
pub(super) struct Leases {
    api: Api<Lease>,
    identity: Arc<str>,
    clock: Arc<dyn Clock>,
    /// Where people are served while we lead.
    web_address: Option<SocketAddr>,
}

impl std::fmt::Debug for Leases {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Leases").field("identity", &self.identity).finish_non_exhaustive()
    }
}

impl Leases {
    pub(super) fn new(client: Client, identity: &str, clock: Arc<dyn Clock>) -> Self {
        let api = Api::namespaced(client, shared::NAMESPACE);
        Self { api, identity: identity.into(), clock, web_address: None }
    }

    pub(super) fn advertise(&mut self, web_address: Option<SocketAddr>) {
        self.web_address = web_address;
    }

    /// The lease, made if there is none. A new one is nobody's and not marked as given up: whoever
    /// held one that was deleted may not have noticed.
    pub(super) async fn read_or_create(&self) -> Result<Lease, LeaseError> {
        if let Some(lease) = self.read().await? {
            return Ok(lease);
        }
        let lease = Lease {
            metadata: ObjectMeta { name: Some(shared::LEASE.to_owned()), ..ObjectMeta::default() },
            spec: Some(LeaseSpec {
                lease_duration_seconds: Some(whole_seconds(LEASE_DURATION)),
                lease_transitions: Some(0),
                ..LeaseSpec::default()
            }),
        };
        let params = PostParams::default();
        match ask("make", self.api.create(&params, &lease)).await {
            // Another replica was faster.
            Err(error) if is_there(&error) => ask("read", self.api.get(shared::LEASE)).await,
            made => made,
        }
    }

    pub(super) async fn read(&self) -> Result<Option<Lease>, LeaseError> {
        ask("read", self.api.get_opt(shared::LEASE)).await
    }

    /// Becomes the holder, if nothing changed since `lease` was seen.
    pub(super) async fn take(&self, lease: &Lease) -> Result<Lease, LeaseError> {
        let now = MicroTime(self.clock.now());
        let seen = lease.spec.clone().unwrap_or_default();
        let spec = LeaseSpec {
            acquire_time: Some(now.clone()),
            renew_time: Some(now),
            lease_transitions: Some(seen.lease_transitions.unwrap_or_default().saturating_add(1)),
            ..self.held(seen)
        };
        let mut lease = lease.clone();
        let web_address = self.web_address.map(|address| address.to_string());
        match web_address {
            Some(address) => drop(lease.annotations_mut().insert(WEB_ADDRESS.to_owned(), address)),
            None => drop(lease.annotations_mut().remove(WEB_ADDRESS)),
        }
        self.write("take", &lease, spec).await
    }

    pub(super) async fn renew(&self, lease: &Lease) -> Result<Lease, LeaseError> {
        let seen = lease.spec.clone().unwrap_or_default();
        let renew_time = Some(MicroTime(self.clock.now()));
        self.write("renew", lease, LeaseSpec { renew_time, ..self.held(seen) }).await
    }

    /// Marks it as given up. Whoever does has stopped acting.
    pub(super) async fn release(&self, lease: &Lease) -> Result<Lease, LeaseError> {
        let now = MicroTime(self.clock.now());
        let spec = LeaseSpec {
            holder_identity: Some(String::new()),
            lease_duration_seconds: Some(RELEASED_SECONDS),
            acquire_time: Some(now.clone()),
            renew_time: Some(now),
            ..lease.spec.clone().unwrap_or_default()
        };
        self.write("release", lease, spec).await
    }

    /// Whether it names us as the holder.
    pub(super) fn is_ours(&self, lease: &Lease) -> bool {
        holder(lease) == &*self.identity
    }

    fn held(&self, seen: LeaseSpec) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(self.identity.to_string()),
            lease_duration_seconds: Some(whole_seconds(LEASE_DURATION)),
            ..seen
        }
    }

    async fn write(
        &self,
        what: &'static str,
        lease: &Lease,
        spec: LeaseSpec,
    ) -> Result<Lease, LeaseError> {
        let wanted = Lease { metadata: lease.metadata.clone(), spec: Some(spec) };
        ask(what, self.api.replace(shared::LEASE, &PostParams::default(), &wanted)).await
    }
}

/// The state of the lease. It is released only if it has every mark of a release.
pub(super) fn lease_state(lease: &Lease) -> LeaseState {
    let spec = lease.spec.clone().unwrap_or_default();
    let seconds = spec.lease_duration_seconds;
    let at_once = spec.renew_time.is_some() && spec.renew_time == spec.acquire_time;
    if holder(lease).is_empty() && seconds == Some(RELEASED_SECONDS) && at_once {
        return LeaseState::Released;
    }
    LeaseState::held(holder(lease), seconds)
}

/// Where its holder serves people.
pub(super) fn web_address(lease: &Lease) -> Option<SocketAddr> {
    lease.annotations().get(WEB_ADDRESS)?.parse().ok()
}

/// What changes with every write.
pub(super) fn version(lease: &Lease) -> String {
    format!("{}/{}", lease.uid().unwrap_or_default(), lease.resource_version().unwrap_or_default())
}

fn holder(lease: &Lease) -> &str {
    let spec = lease.spec.as_ref();
    spec.and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default()
}

fn whole_seconds(duration: Duration) -> i32 {
    i32::try_from(duration.as_secs()).unwrap_or(i32::MAX)
}

fn is_there(error: &LeaseError) -> bool {
    let LeaseError::Refused { source, .. } = error else { return false };
    matches!(&**source, kube::Error::Api(status) if status.is_already_exists())
}

async fn ask<T>(
    what: &'static str,
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, LeaseError> {
    match tokio::time::timeout(REQUEST_TIMEOUT, request).await {
        Ok(answer) => {
            answer.map_err(|source| LeaseError::Refused { what, source: Box::new(source) })
        }
        Err(_) => Err(LeaseError::NoAnswer { what }),
    }
}
