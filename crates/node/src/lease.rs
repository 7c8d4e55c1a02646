//! The Node's heartbeat: a Lease in `kube-node-lease` that is renewed all the time we live.
//!
//! It is apart from the Node's status, so that a slow status never makes a living node look dead.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, OwnerReference};
use kube::api::{Api, ObjectMeta, PostParams};
use tokio::sync::watch;

use crate::register::Registered;
use crate::request::{Backoff, RequestError, ask, in_full};

const NAMESPACE: &str = "kube-node-lease";
const DURATION_SECONDS: i32 = 40;
/// A quarter of the duration: three renewals may be lost.
const RENEW_INTERVAL: Duration = Duration::from_secs(10);

/// Renews the Lease of a Node as soon as that is there, for ever.
pub(crate) async fn run(
    client: kube::Client,
    name: String,
    mut registered: watch::Receiver<Registered>,
) {
    let leases: Api<Lease> = Api::namespaced(client, NAMESPACE);
    let mut latest: Option<Lease> = None;
    let mut backoff = Backoff::new();
    loop {
        let Ok(uid) = registered
            .wait_for(|known| known.uid.is_some())
            .await
            .map(|known| known.uid.clone().unwrap_or_default())
        else {
            return;
        };
        let wait = match renew(&leases, latest.take(), &name, &uid).await {
            Ok(lease) => {
                latest = Some(lease);
                backoff = Backoff::new();
                RENEW_INTERVAL
            }
            Err(error) => {
                let wait = backoff.next();
                let cause = in_full(&error);
                tracing::warn!(node = %name, %cause, ?wait,
                    "the Node's lease could not be renewed; trying again");
                wait
            }
        };
        tokio::time::sleep(wait).await;
    }
}

/// Renews `latest` if it is still the latest, else whatever is there.
async fn renew(
    leases: &Api<Lease>,
    latest: Option<Lease>,
    name: &str,
    uid: &str,
) -> Result<Lease, RequestError> {
    let there = match latest {
        Some(lease) => Some(lease),
        None => ask("read our lease", leases.get_opt(name)).await?,
    };
    let wanted = renewed(there.as_ref(), name, uid, Timestamp::now());
    let params = PostParams::default();
    if there.is_some() {
        ask("renew our lease", leases.replace(name, &params, &wanted)).await
    } else {
        ask("create our lease", leases.create(&params, &wanted)).await
    }
}

/// The Lease as it is to be from `now`. It goes when its Node goes.
fn renewed(there: Option<&Lease>, name: &str, uid: &str, now: Timestamp) -> Lease {
    let owner = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        ..OwnerReference::default()
    };
    let there = there.cloned().unwrap_or_default();
    Lease {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(NAMESPACE.to_owned()),
            owner_references: Some(vec![owner]),
            ..there.metadata
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(name.to_owned()),
            lease_duration_seconds: Some(DURATION_SECONDS),
            renew_time: Some(MicroTime(now)),
            ..there.spec.unwrap_or_default()
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renewal_keeps_what_is_not_ours() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let first = renewed(None, "here", "uid-1", at(100));
        assert_eq!(
            serde_json::to_value(&first).unwrap(),
            serde_json::json!({
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {
                    "name": "here",
                    "namespace": "kube-node-lease",
                    "ownerReferences":
                        [{ "apiVersion": "v1", "kind": "Node", "name": "here", "uid": "uid-1" }],
                },
                "spec": {
                    "holderIdentity": "here",
                    "leaseDurationSeconds": 40,
                    "renewTime": "1970-01-01T00:01:40.000000Z",
                },
            })
        );
        let mut stored = first;
        stored.metadata.resource_version = Some("7".to_owned());
        stored.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
        let spec = stored.spec.as_mut().unwrap();
        spec.holder_identity = Some("another".to_owned());
        spec.lease_transitions = Some(3);
        let next = renewed(Some(&stored), "here", "uid-2", at(110));
        assert_eq!(next.metadata.resource_version.as_deref(), Some("7"));
        assert_eq!(next.metadata.labels, stored.metadata.labels);
        assert_eq!(next.metadata.owner_references.unwrap()[0].uid, "uid-2");
        let spec = next.spec.unwrap();
        assert_eq!(spec.holder_identity.as_deref(), Some("here"));
        assert_eq!(spec.lease_transitions, Some(3));
        assert_eq!(spec.renew_time, Some(MicroTime(at(110))));
    }
}
