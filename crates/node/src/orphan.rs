//! Pods that are only on disk: deleted while no node was there to see it. Their processes end with
//! the grace that they were promised, then their folders go.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use rustix::process::Signal;

use crate::agent::Context;
use crate::folder::{NodeFolder, PodFolder};
use crate::private;
use crate::shim::handle::{Adopted, Handle};

/// What Kubernetes gives a Pod that does not say; also for one whose Pod cannot be read any more.
const DEFAULT_GRACE: Duration = Duration::from_secs(30);
/// No API server keeps larger Pods.
const POD_BYTES_MAX: u64 = 8 << 20;

/// The Pods that have a folder here, by uid.
pub(crate) fn folders(node: &NodeFolder) -> BTreeSet<String> {
    let entries = match std::fs::read_dir(node.pods()) {
        Ok(entries) => entries,
        Err(error) => {
            tracing::error!(%error, "cannot look for Pods that are still here");
            return BTreeSet::new();
        }
    };
    entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Ends what is left of a Pod that the API no longer has.
pub(crate) async fn end(context: &Context, uid: &str) {
    let folder = context.folder.pod(uid);
    tracing::info!(uid, "a Pod was deleted while no node was here; its processes end");
    match Handle::adopt(&folder).await {
        Ok(Adopted::Running(handle, mut ended, records)) => {
            let mut running: BTreeSet<String> = records
                .into_iter()
                .filter(|record| record.end.is_none())
                .map(|record| record.container)
                .collect();
            for container in &running {
                if let Err(error) = handle.signal(container, Signal::TERM.as_raw()).await {
                    tracing::debug!(uid, container, %error, "nothing to be stopped");
                }
            }
            let all = async {
                while !running.is_empty()
                    && let Some(record) = ended.recv().await
                {
                    running.remove(&record.container);
                }
            };
            if tokio::time::timeout(grace(&folder), all).await.is_err() {
                tracing::info!(uid, "its time is up; its processes are killed");
            }
            if let Err(error) = handle.end().await {
                tracing::error!(uid, %error, "its shim does not end");
                return;
            }
        }
        Ok(Adopted::Ended(_)) => {}
        Err(error) => {
            tracing::error!(uid, %error, "cannot tell whether its processes run; left alone");
            return;
        }
    }
    tear_down(context, uid, &folder).await;
}

async fn tear_down(context: &Context, uid: &str, folder: &PodFolder) {
    if let Err(error) = context.volumes.remove(uid, folder).await {
        tracing::warn!(uid, %error, "its volumes stay");
        return;
    }
    let (cgroups, pods, owned) = (context.cgroups.clone(), context.folder.pods(), uid.to_owned());
    let removed = tokio::task::spawn_blocking(move || {
        if let Err(error) = cgroups.kill(&owned).and_then(|()| cgroups.remove(&owned)) {
            tracing::warn!(uid = owned, %error, "its control group stays");
        }
        remove_folder(&pods, &owned)
    });
    if let Ok(Err(error)) = removed.await {
        tracing::warn!(uid, %error, "its folder stays");
    }
    context.ports().release(uid, context.clock.now());
}

/// Removes what is left of a Pod's folder.
pub(crate) fn remove_folder(pods: &Path, uid: &str) -> std::io::Result<()> {
    use std::os::fd::AsFd as _;
    let pods = std::fs::File::open(pods)?;
    crate::pod_tree::remove(pods.as_fd(), uid)
}

fn grace(folder: &PodFolder) -> Duration {
    let pod = private::read(&folder.pod(), POD_BYTES_MAX).ok();
    let pod = pod.and_then(|text| serde_json::from_slice::<Pod>(&text).ok());
    let seconds = pod.and_then(|pod| pod.spec?.termination_grace_period_seconds);
    seconds.and_then(|s| u64::try_from(s).ok()).map_or(DEFAULT_GRACE, Duration::from_secs)
}
