//! Everything that the scheduler knows, and what it does next: pure, told the time.
//!
//! A Pod is in one of three places: it waits, it is being bound (and counts on its node already),
//! or it is on a node. Nothing here is kept anywhere else: after a restart the lists say it all.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim, Pod};
use tokio::time::Instant;

use super::demand::{Demand, Usage};
use super::machine::{Load, Machine};
use super::queue::{ClassKey, Queue, Rank};
use super::report::Reports;

const SCHEDULER: &str = "default-scheduler";
/// Kubernetes' own back-off of a Pod that could not be bound.
const MIN_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(super) struct Cache {
    machines: BTreeMap<String, Machine>,
    loads: HashMap<String, Load>,
    claims: HashMap<String, Claim>,
    /// How many Pods on nodes use a claim.
    claim_users: HashMap<String, usize>,
    pending: HashMap<Arc<str>, PendingPod>,
    binding: HashMap<Arc<str>, Binding>,
    assigned: HashMap<Arc<str>, AssignedPod>,
    queue: Queue,
    reports: Reports,
    /// What is tried again, and when.
    again: BTreeSet<(Instant, Arc<str>)>,
    /// Something changed that may let a blocked Pod fit.
    needs_unblock: bool,
}

/// What a claim's Pods have to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Claim {
    bound: bool,
    deleting: bool,
    /// One Pod at a time.
    exclusive: bool,
}

/// A Pod without a node.
#[derive(Debug, Clone)]
struct PendingPod {
    namespace: String,
    name: String,
    generation: Option<i64>,
    rank: Rank,
    class: ClassKey,
    demand: Arc<Demand>,
    /// What its status says already.
    reported: Option<Arc<str>>,
    reported_since: Option<Timestamp>,
    /// Failed attempts to write about it.
    failures: u32,
}

#[derive(Debug)]
struct Binding {
    pod: PendingPod,
    node: String,
    /// An earlier attempt may have arrived, so that no refusal is certain any more.
    unclear: bool,
}

#[derive(Debug)]
struct AssignedPod {
    node: String,
    usage: Usage,
}

/// A Pod that is to be bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BindRequest {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: Arc<str>,
    pub(super) node: String,
}

/// A Pod that is to be told why it waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Report {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: Arc<str>,
    pub(super) generation: Option<i64>,
    pub(super) message: Arc<str>,
    /// Since when its status says that it waits.
    pub(super) since: Option<Timestamp>,
}

/// How an attempt to bind ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BindOutcome {
    Bound,
    /// It is certain that the Pod was not bound.
    Refused,
    /// Perhaps it was: the same must be tried again, or two nodes could count on it.
    Unclear,
}

impl Cache {
    // What the watches show.

    pub(super) fn put_pod(&mut self, pod: &Pod) {
        let Some(uid) = pod.metadata.uid.as_deref().map(Arc::<str>::from) else { return };
        let spec = pod.spec.as_ref();
        let node = spec.and_then(|spec| spec.node_name.as_deref()).filter(|node| !node.is_empty());
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        if matches!(phase, Some("Succeeded" | "Failed")) {
            return self.remove_pod(&uid);
        }
        if let Some(node) = node {
            if self.assigned.get(&uid).is_some_and(|assigned| assigned.node == node) {
                return;
            }
            self.remove_pod(&uid);
            return self.place(uid, node, Usage::of(pod));
        }
        let ours = spec.is_some_and(|spec| {
            let scheduler = spec.scheduler_name.as_deref();
            let gated = spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty());
            matches!(scheduler, None | Some("" | SCHEDULER)) && !gated
        });
        if !ours || pod.metadata.deletion_timestamp.is_some() {
            return self.remove_pod(&uid);
        }
        // No Pod leaves its node again: of one that counts on a node, this is an older picture.
        if !self.assigned.contains_key(&uid) {
            self.wait(&uid, pod);
        }
    }

    fn wait(&mut self, uid: &Arc<str>, pod: &Pod) {
        let demand = Demand::of(pod);
        let class: ClassKey = demand.key().into();
        let condition = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let condition = condition.into_iter().find(|c| {
            c.type_ == "PodScheduled"
                && c.status == "False"
                && c.reason.as_deref() == Some("Unschedulable")
        });
        let rank = Rank {
            priority: Reverse(pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or(0)),
            created: pod.metadata.creation_timestamp.as_ref().map_or(Timestamp::MIN, |t| t.0),
            uid: uid.clone(),
        };
        let reported = condition.and_then(|c| c.message.as_deref()).map(Arc::from);
        let reported_since = condition.and_then(|c| c.last_transition_time.as_ref()).map(|t| t.0);
        if let Some(known) = self.pending.get_mut(uid) {
            known.generation = pod.metadata.generation;
            (known.reported, known.reported_since) = (reported.clone(), reported_since);
            if known.class == class && known.rank == rank {
                return;
            }
        }
        let failures = self.pending.get(uid).map_or(0, |known| known.failures);
        self.remove_pod(uid);
        let pending = PendingPod {
            namespace: pod.metadata.namespace.clone().unwrap_or_default(),
            name: pod.metadata.name.clone().unwrap_or_default(),
            generation: pod.metadata.generation,
            rank,
            class,
            demand: Arc::new(demand),
            reported,
            reported_since,
            failures,
        };
        self.enqueue(pending);
    }

    fn enqueue(&mut self, pod: PendingPod) {
        if self.queue.add(&pod.class, &pod.demand, pod.rank.clone()) {
            self.reports.joined(&pod.class, pod.rank.clone());
        }
        self.pending.insert(pod.rank.uid.clone(), pod);
    }

    fn leave_queue(&mut self, pod: &PendingPod) {
        self.queue.remove(&pod.class, &pod.rank);
        if self.queue.class(&pod.class).is_none() {
            self.reports.forget(&pod.class);
        }
    }

    /// The Pod is gone, has ended, or is nothing to the scheduler any more.
    pub(super) fn remove_pod(&mut self, uid: &Arc<str>) {
        if let Some(pending) = self.pending.remove(uid) {
            self.leave_queue(&pending);
        }
        self.binding.remove(uid);
        if let Some(assigned) = self.assigned.remove(uid) {
            if let Some(load) = self.loads.get_mut(&assigned.node) {
                load.remove(&assigned.usage);
                if load.pods == 0 {
                    self.loads.remove(&assigned.node);
                }
            }
            for claim in assigned.usage.claims {
                if let Some(users) = self.claim_users.get_mut(&claim) {
                    *users -= 1;
                    if *users == 0 {
                        self.claim_users.remove(&claim);
                    }
                }
            }
            self.needs_unblock = true;
        }
    }

    fn place(&mut self, uid: Arc<str>, node: &str, usage: Usage) {
        self.loads.entry(node.to_owned()).or_default().add(&usage);
        for claim in &usage.claims {
            *self.claim_users.entry(claim.clone()).or_default() += 1;
        }
        self.assigned.insert(uid, AssignedPod { node: node.to_owned(), usage });
    }

    pub(super) fn put_node(&mut self, node: &Node) {
        let machine = Machine::of(node);
        if self.machines.get(&machine.name) != Some(&machine) {
            self.machines.insert(machine.name.clone(), machine);
            self.needs_unblock = true;
        }
    }

    pub(super) fn remove_node(&mut self, name: &str) {
        // Fewer nodes help nobody, but what Pods are told counts them.
        self.needs_unblock |= self.machines.remove(name).is_some();
    }

    pub(super) fn put_claim(&mut self, claim: &PersistentVolumeClaim) {
        let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
        let modes = claim.spec.as_ref().and_then(|spec| spec.access_modes.as_ref());
        let state = Claim {
            bound: phase == Some("Bound"),
            deleting: claim.metadata.deletion_timestamp.is_some(),
            exclusive: modes.is_some_and(|modes| modes.iter().any(|m| m == "ReadWriteOncePod")),
        };
        let key = claim_key(claim);
        if self.claims.insert(key.clone(), state) != Some(state) {
            self.queue.unblock_claim(&key);
        }
    }

    pub(super) fn remove_claim(&mut self, key: &str) {
        if self.claims.remove(key).is_some() {
            self.queue.unblock_claim(key);
        }
    }

    // What is to be done.

    /// The next Pod to bind; it counts on its node from now on.
    pub(super) fn next_bind_request(&mut self, now: Instant) -> Option<BindRequest> {
        if std::mem::take(&mut self.needs_unblock) {
            self.queue.unblock_all();
        }
        while let Some((rank, class, demand)) = self.queue.first() {
            let (uid, class, demand) = (rank.uid.clone(), class.clone(), demand.clone());
            match self.choose(&demand) {
                Ok(node) => {
                    let pod = self.pending.remove(&uid).expect("who is in the queue waits");
                    self.leave_queue(&pod);
                    self.place(uid.clone(), &node, demand.usage.clone());
                    let bind_request = bind_request(&pod, &node);
                    self.binding.insert(uid, Binding { pod, node, unclear: false });
                    return Some(bind_request);
                }
                Err(reason) => {
                    if self.queue.block(&class, &reason) {
                        self.reports.changed(&class, now);
                    }
                }
            }
        }
        None
    }

    /// The node that suits best, or why none does.
    fn choose(&self, demand: &Demand) -> Result<String, String> {
        let none = Load::default();
        let count = self.machines.len();
        if count == 0 {
            return Err("no nodes available to schedule pods".to_owned());
        }
        if let Some(words) = demand.unsupported.map(str::to_owned).or_else(|| self.missing(demand))
        {
            return Err(format!("0/{count} nodes are available: {words}."));
        }
        let mut obstacles: BTreeMap<String, usize> = BTreeMap::new();
        let mut best: Option<(u128, &Machine)> = None;
        for machine in self.machines.values() {
            let load = self.loads.get(&machine.name).unwrap_or(&none);
            let found = machine.obstacles(load, demand);
            if found.is_empty() {
                let spare = machine.spare(load);
                if best.is_none_or(|(most, _)| spare > most) {
                    best = Some((spare, machine));
                }
            }
            for words in found {
                *obstacles.entry(words).or_default() += 1;
            }
        }
        if let Some((_, machine)) = best {
            return Ok(machine.name.clone());
        }
        let mut counted: Vec<String> =
            obstacles.iter().map(|(words, nodes)| format!("{nodes} {words}")).collect();
        counted.sort_unstable();
        Err(format!("0/{count} nodes are available: {}.", counted.join(", ")))
    }

    /// What is the matter with the Pod's claims, in words.
    fn missing(&self, demand: &Demand) -> Option<String> {
        let mut unbound = false;
        for key in &demand.usage.claims {
            let name = key.split_once('/').map_or(key.as_str(), |(_, name)| name);
            match self.claims.get(key) {
                None => return Some(format!("persistentvolumeclaim \"{name}\" not found")),
                Some(claim) if claim.deleting => {
                    return Some(format!("persistentvolumeclaim \"{name}\" is being deleted"));
                }
                Some(claim) if claim.exclusive && self.claim_users.contains_key(key) => {
                    return Some(
                        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod \
                         access mode already in-use by another pod"
                            .to_owned(),
                    );
                }
                Some(claim) => unbound |= !claim.bound,
            }
        }
        unbound.then(|| "pod has unbound immediate PersistentVolumeClaims".to_owned())
    }

    /// How a bind request ended.
    pub(super) fn record_outcome(&mut self, uid: &Arc<str>, outcome: BindOutcome, now: Instant) {
        let Some(binding) = self.binding.get_mut(uid) else { return };
        if outcome == BindOutcome::Bound {
            // It counts until the watch shows it there, and after.
            self.binding.remove(uid);
            return;
        }
        binding.pod.failures = binding.pod.failures.saturating_add(1);
        let due = now + backoff(binding.pod.failures);
        if outcome == BindOutcome::Unclear || binding.unclear {
            binding.unclear = true;
        } else {
            let pod = binding.pod.clone();
            self.remove_pod(uid);
            self.pending.insert(uid.clone(), pod);
        }
        self.again.insert((due, uid.clone()));
    }

    /// Bind requests that are to be sent once more, and Pods that are to be looked at once more.
    pub(super) fn next_retry(&mut self, now: Instant) -> Option<BindRequest> {
        while let Some((due, uid)) = self.again.first().cloned().filter(|(due, _)| *due <= now) {
            self.again.remove(&(due, uid.clone()));
            if let Some(binding) = self.binding.get(&uid) {
                return Some(bind_request(&binding.pod, &binding.node));
            }
            if let Some(pod) = self.pending.remove(&uid) {
                self.enqueue(pod);
            }
        }
        None
    }

    /// The next Pod to tell why it waits.
    pub(super) fn next_report(&mut self, now: Instant) -> Option<Report> {
        while let Some((uid, message)) = self.reports.next(&self.queue, now) {
            let Some(pod) = self.pending.get_mut(&uid) else { continue };
            if pod.reported.as_ref() == Some(&message) {
                continue;
            }
            // What is written now is known now; whatever the watch shows later is believed more.
            pod.reported = Some(message.clone());
            return Some(Report {
                namespace: pod.namespace.clone(),
                name: pod.name.clone(),
                uid,
                generation: pod.generation,
                message,
                since: pod.reported_since,
            });
        }
        None
    }

    /// A report could not be written.
    pub(super) fn report_failed(&mut self, uid: &Arc<str>, now: Instant) {
        let Some(pod) = self.pending.get_mut(uid) else { return };
        pod.reported = None;
        pod.failures = pod.failures.saturating_add(1);
        self.again.insert((now + backoff(pod.failures), uid.clone()));
    }

    /// When to look again although nothing happened.
    pub(super) fn wake(&self) -> Option<Instant> {
        let again = self.again.first().map(|(due, _)| *due);
        again.into_iter().chain(self.reports.wake()).min()
    }
}

fn bind_request(pod: &PendingPod, node: &str) -> BindRequest {
    BindRequest {
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        uid: pod.rank.uid.clone(),
        node: node.to_owned(),
    }
}

fn backoff(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(8);
    (MIN_BACKOFF * 2_u32.pow(doublings)).min(MAX_BACKOFF)
}

pub(super) fn claim_key(claim: &PersistentVolumeClaim) -> String {
    let namespace = claim.metadata.namespace.as_deref().unwrap_or_default();
    format!("{namespace}/{}", claim.metadata.name.as_deref().unwrap_or_default())
}
