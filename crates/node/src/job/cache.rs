//! Jobs and their Pods as the API has them.
//!
//! What the watches show comes late; what our own writes were answered with comes at once, as a
//! rule. Both go in here, and of two pictures of an object the newer one stays, so that no decision
//! is made on what we ourselves have changed already. An answer may also come last: of an object
//! that the watches have seen go while the write was under way, it is not believed (see
//! [`Writes`]), for nobody would ever tell again that it is gone.

use std::collections::{BTreeSet, HashMap};

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::decide::is_tracked;
use super::writes::{Write, Writes};
use crate::listing::Listing;

#[derive(Debug, Default)]
pub(super) struct JobCache {
    jobs: HashMap<String, Job>,
    pods: HashMap<String, Pod>,
    /// Uids of Pods by the uid of what they belong to.
    by_owner: HashMap<String, BTreeSet<String>>,
    listed_jobs: Listing<String>,
    listed_pods: Listing<String>,
    writes: Writes,
}

impl JobCache {
    /// Whether it shows everything there is.
    pub(super) const fn is_complete(&self) -> bool {
        self.listed_jobs.is_complete() && self.listed_pods.is_complete()
    }

    pub(super) fn begin_jobs(&mut self) {
        self.writes.begin_list();
        self.listed_jobs.begin();
    }

    pub(super) fn begin_pods(&mut self) {
        self.writes.begin_list();
        self.listed_pods.begin();
    }

    /// The Jobs that a whole list does not show are gone; they are to be looked at.
    pub(super) fn end_jobs(&mut self) -> Vec<String> {
        let gone = self.listed_jobs.end();
        gone.iter().filter_map(|job| self.remove_job(job)).collect()
    }

    /// The same for Pods, and whose they were.
    pub(super) fn end_pods(&mut self) -> Vec<String> {
        let gone = self.listed_pods.end();
        gone.iter().filter_map(|pod| self.remove_pod(pod)).collect()
    }

    /// A write is sent, whose answer will be taken in.
    pub(super) fn begin_write(&mut self) -> Write {
        self.writes.begin()
    }

    /// A write was answered with a Job.
    pub(super) fn answer_job(&mut self, write: Write, job: Job) {
        let uid = job.metadata.uid.as_deref().unwrap_or_default();
        if !self.writes.is_overtaken(write, uid) {
            self.put_job(job);
        }
        self.writes.end(write);
    }

    /// A write was answered with a Pod. Which Jobs are to be looked at.
    pub(super) fn answer_pod(&mut self, write: Write, pod: Pod) -> Vec<String> {
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        let jobs =
            if self.writes.is_overtaken(write, uid) { Vec::new() } else { self.put_pod(pod) };
        self.writes.end(write);
        jobs
    }

    /// A write was answered with nothing to be kept.
    pub(super) fn end_write(&mut self, write: Write) {
        self.writes.end(write);
    }

    pub(super) fn job(&self, uid: &str) -> Option<&Job> {
        self.jobs.get(uid)
    }

    /// The Pods that belong to a Job.
    pub(super) fn pods(&self, owner: &str) -> Vec<&Pod> {
        let uids = self.by_owner.get(owner).into_iter().flatten();
        uids.filter_map(|uid| self.pods.get(uid)).collect()
    }

    /// Whose Job is to be looked at.
    pub(super) fn put_job(&mut self, mut job: Job) -> Option<String> {
        let uid = job.metadata.uid.clone()?;
        self.listed_jobs.insert(uid.clone());
        job.metadata.managed_fields = None;
        if is_news(self.jobs.get(&uid).map(|known| &known.metadata), &job.metadata) {
            self.jobs.insert(uid.clone(), job);
        }
        Some(uid)
    }

    pub(super) fn remove_job(&mut self, uid: &str) -> Option<String> {
        self.writes.record_deletion(uid);
        self.listed_jobs.remove(&uid.to_owned());
        self.jobs.remove(uid)?;
        // Its Pods may still have to be let go of.
        Some(uid.to_owned())
    }

    /// Takes in a Pod if it has to do with Jobs. Which Jobs are to be looked at: one that it
    /// belongs to, and one that it belonged to.
    pub(super) fn put_pod(&mut self, mut pod: Pod) -> Vec<String> {
        let Some(uid) = pod.metadata.uid.clone() else { return Vec::new() };
        if controller(&pod).is_none() && !is_tracked(&pod) {
            return self.remove_pod(&uid).into_iter().collect();
        }
        self.listed_pods.insert(uid.clone());
        if !is_news(self.pods.get(&uid).map(|known| &known.metadata), &pod.metadata) {
            return Vec::new();
        }
        pod.metadata.managed_fields = None;
        let mut owners = vec![owner(&pod)];
        owners.extend(self.forget_pod(&uid));
        owners.dedup();
        self.by_owner.entry(owner(&pod)).or_default().insert(uid.clone());
        self.pods.insert(uid, pod);
        owners
    }

    pub(super) fn remove_pod(&mut self, uid: &str) -> Option<String> {
        self.writes.record_deletion(uid);
        self.listed_pods.remove(&uid.to_owned());
        self.forget_pod(uid)
    }

    fn forget_pod(&mut self, uid: &str) -> Option<String> {
        let owner = owner(&self.pods.remove(uid)?);
        if let Some(pods) = self.by_owner.get_mut(&owner) {
            pods.remove(uid);
            if pods.is_empty() {
                self.by_owner.remove(&owner);
            }
        }
        Some(owner)
    }
}

/// The Job that controls a Pod.
pub(super) fn controller(pod: &Pod) -> Option<&OwnerReference> {
    let mut owners = pod.metadata.owner_references.iter().flatten();
    let owner = owners.find(|owner| owner.controller == Some(true))?;
    (owner.kind == "Job" && owner.api_version == "batch/v1").then_some(owner)
}

/// The uid of the Job that controls a Pod; a Pod that no Job controls stands alone.
fn owner(pod: &Pod) -> String {
    let own = || pod.metadata.uid.clone().unwrap_or_default();
    controller(pod).map_or_else(own, |owner| owner.uid.clone())
}

/// Versions of an object are numbers that rise.
fn is_news(known: Option<&ObjectMeta>, shown: &ObjectMeta) -> bool {
    let version =
        |metadata: &ObjectMeta| metadata.resource_version.as_deref()?.parse::<u128>().ok();
    let Some(known) = known else { return true };
    match (version(known), version(shown)) {
        (Some(known), Some(shown)) => shown > known,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::job::attempt::TRACKING;

    fn pod(version: &str, owner: Option<&str>, tracked: bool) -> Pod {
        let owner = owner.map(|uid| {
            json!([{
                "apiVersion": "batch/v1", "kind": "Job", "name": uid, "uid": uid,
                "controller": true,
            }])
        });
        let finalizers = if tracked { vec![TRACKING] } else { Vec::new() };
        serde_json::from_value(json!({"metadata": {
            "uid": "p", "resourceVersion": version, "ownerReferences": owner,
            "finalizers": finalizers,
        }}))
        .expect("a pod")
    }

    #[test]
    fn an_older_picture_changes_nothing() {
        let mut cache = JobCache::default();
        assert_eq!(cache.put_pod(pod("10", Some("job"), false)), ["job"]);
        assert_eq!(cache.put_pod(pod("9", Some("job"), true)), Vec::<String>::new());
        assert!(!is_tracked(cache.pods("job")[0]), "9 is older than 10");
        assert_eq!(cache.put_pod(pod("11", Some("job"), true)), ["job"]);
        assert!(is_tracked(cache.pods("job")[0]));
    }

    #[test]
    fn an_answer_does_not_bring_back_what_was_seen_to_go() {
        let mut cache = JobCache::default();
        let write = cache.begin_write();
        assert_eq!(cache.put_pod(pod("2", Some("job"), true)), ["job"]);
        assert_eq!(cache.remove_pod("p"), Some("job".to_owned()));
        assert_eq!(cache.answer_pod(write, pod("2", Some("job"), true)), Vec::<String>::new());
        assert_eq!(cache.pods("job").len(), 0, "nobody would tell again that it is gone");
        // A write that begins later and finds it knows better: it was another one that went.
        let write = cache.begin_write();
        assert_eq!(cache.answer_pod(write, pod("3", Some("job"), true)), ["job"]);
    }

    #[test]
    fn an_answer_that_is_older_than_a_list_is_not_believed() {
        let mut cache = JobCache::default();
        let write = cache.begin_write();
        cache.begin_pods();
        // It was made and went before the list was read: no event tells of either.
        assert_eq!(cache.end_pods(), Vec::<String>::new());
        assert_eq!(cache.answer_pod(write, pod("2", Some("job"), true)), Vec::<String>::new());
        assert_eq!(cache.pods("job").len(), 0);
    }

    #[test]
    fn pods_change_hands() {
        let mut cache = JobCache::default();
        cache.put_pod(pod("1", Some("job"), true));
        // Set free by whoever deleted its Job, it is looked at for itself.
        assert_eq!(cache.put_pod(pod("2", None, true)), ["p", "job"]);
        assert_eq!((cache.pods("job").len(), cache.pods("p").len()), (0, 1));
        assert_eq!(cache.put_pod(pod("3", None, false)), ["p"]);
        assert_eq!(cache.pods("p").len(), 0);
        assert_eq!(cache.put_pod(pod("4", None, false)), Vec::<String>::new());
    }
}
