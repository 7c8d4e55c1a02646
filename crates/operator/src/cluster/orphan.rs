//! Records whose ClusterDeployment went while nobody looked. Without a finalizer nobody is asked before an object goes, and
//! only memory knows where its records are; so whoever takes over says where those are that belong to nobody.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;

use super::caches::ClusterCaches;
use super::pod::{KeptRecord, PodActuator};
use crate::event::{Events, Severity};

/// Between attempts to find out what is on record.
const RETRY_INTERVAL: Duration = Duration::from_secs(60);
/// Of more clusters nobody is told at once; the others are told of at the beginning of a later term, once some are gone.
const MAX_TOLD: usize = 1000;
/// Makes it one Event of one Secret, whoever takes over.
const EVENT_ID: &str = "without a cluster";

/// Says once where records are that no cluster has. It goes on for ever, as tasks do.
pub(super) async fn tell(pods: PodActuator, caches: Arc<ClusterCaches>, events: Events) {
    let records = loop {
        match pods.kept_records().await {
            Ok(records) => break records,
            Err(error) => {
                tracing::warn!(error = %error, "cannot look for records without a cluster");
                tokio::time::sleep(RETRY_INTERVAL).await;
            }
        }
    };
    let orphans = records.iter().filter(|one| !caches.has_cluster(&one.namespace, &one.infra_id));
    for record in orphans.take(MAX_TOLD) {
        let KeptRecord { namespace, infra_id, secret, place, .. } = record;
        let about = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Secret".to_owned()),
            namespace: Some(namespace.clone()),
            name: Some(secret.clone()),
            uid: record.uid.clone(),
            ..ObjectReference::default()
        };
        let message = format!(
            "No ClusterDeployment has the infraID {infra_id} any more. What its machines are made again from is kept: {place}"
        );
        events.publish(&about, Severity::Warning, "RecordsKept", &message, EVENT_ID);
    }
    std::future::pending::<()>().await;
}
