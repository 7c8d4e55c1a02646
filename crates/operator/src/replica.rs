//! Several replicas take reports of use; one decides.
//!
//! | who | does |
//! |---|---|
//! | every replica | says in a Lease of its own, for each family, up to when what was reported to it is in the objects ([`Heartbeats`]) |
//! | those that do not lead | write what was reported to them into the objects, under their own names ([`ReportWriter`]) |
//! | the one that leads | counts a source as observed only as far as all of them have written ([`ReplicaRegistry`]) |
//!
//! A replica that is alone, because nothing is elected, needs none of this: its memory is all there is.

mod heartbeat;
mod membership;
mod registry;
mod report_writer;

use std::sync::Arc;

use jiff::SignedDuration;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client, ResourceExt as _};
use sojourn_api::name::shared;
use sojourn_core::replica::Silence;

pub(crate) use self::heartbeat::Heartbeats;
pub(crate) use self::membership::{Joining, Membership};
pub use self::registry::ReplicaRegistry;
pub(crate) use self::report_writer::{
    NewEntry, Report, ReportWriter, ReportedObjects, StoredActivity,
};
use crate::random::{NoRandomness, system_random};

/// Label of the Leases by which replicas tell of themselves: the family.
const FAMILY_LABEL: &str = "sojourn.dev/reports";
/// Label: the replica's name.
const REPLICA_LABEL: &str = "sojourn.dev/replica";
/// Annotation: what was reported up to then is in the objects.
const SETTLED: &str = "sojourn.dev/settled";

/// How many heartbeats a replica may miss before it takes no reports any more.
const MISSED_HEARTBEATS: i32 = 10;
const MIN_SILENCE: SignedDuration = SignedDuration::from_mins(2);

/// What follows from silence, for replicas that tell of themselves every interval.
pub(crate) fn silence(interval: SignedDuration) -> Silence {
    let stops_after = interval.saturating_mul(MISSED_HEARTBEATS).max(MIN_SILENCE);
    Silence { stops_after, given_up_after: stops_after.saturating_add(interval) }
}

/// The name of this process among the replicas: another one after every start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaName(Arc<str>);

impl ReplicaName {
    /// Two replicas of one name would write over each other, so nothing stands in for random numbers.
    pub fn random() -> Result<Self, NoRandomness> {
        let mut bytes = [0; 8];
        system_random(&mut bytes)?;
        Ok(Self::new(&hex::encode(bytes)))
    }

    /// A name that is given, for tests and simulations.
    pub fn new(name: &str) -> Self {
        Self(name.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn leases(client: &Client) -> Api<Lease> {
    Api::namespaced(client.clone(), shared::NAMESPACE)
}

fn lease_name(family: &str, replica: &str) -> String {
    format!("sojourn-{family}-{replica}")
}

/// What changes with every write.
fn version(lease: &Lease) -> String {
    format!("{}/{}", lease.uid().unwrap_or_default(), lease.resource_version().unwrap_or_default())
}
