//! What really happened to clusters, as observers beside the operator and their provider saw it, and the invariants
//! that must hold in every run.

mod checks;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use sojourn_api::cluster::ClusterDeployment;
use sojourn_api::cluster::deployment::WantedPowerState;
use sojourn_api::cluster::name::condition;
use sojourn_api::cluster::status::{ClusterDeploymentStatus, Direction, PowerState, Trigger};
use sojourn_api::name::shared::MANAGER;
use sojourn_core::cluster::MachineState;
use sojourn_core::key::Key;
use sojourn_drivers::notify::fake::Received;
use sojourn_operator::clock::VirtualClock;

use super::fleet::{Fleet, Move};
use super::simulation::key;
use crate::event_log::{EventLog, invariants};
use crate::mail::Mail;
use crate::simulation::Checker;

/// So long a call may begin after something came on record that forbids it: its answer was lost, so that the operator
/// does not know yet.
const UNKNOWN_FOR: SignedDuration = SignedDuration::from_secs(10);
/// So long after others moved a machine nobody need know.
const UNSEEN_FOR: SignedDuration = SignedDuration::from_mins(15);
/// So long before a hibernation contacts are told, as configured.
pub(super) const ANNOUNCED: SignedDuration = SignedDuration::from_mins(15);

invariants! {
    /// What must hold of clusters in every run.
    Invariant {
        /// A cluster is never ready and hibernating.
        NeverBoth,
        /// When a cluster is said to run or to hibernate, its machines do, and nothing is in flight that ends that.
        SaysWhatIs,
        /// No machine is called that is not on record, nor outside of an operation that is.
        RecordedFirst,
        /// No machine is stopped once a later resume is on record, nor started once a later hibernation is.
        LatestWins,
        /// No machine is called of a cluster that is paused or gone.
        HandsOff,
        /// A power state is written by its owner, or for a reason that the owner gave.
        OwnersWill,
        /// Contacts are told of a hibernation that comes by itself, and it comes no earlier than they were told.
        ToldBefore,
        /// What is kept does not hibernate by itself.
        Kept,
        /// Once nothing fails any more, a cluster is as it was last wanted, with every machine that it ever had.
        Converges,
        /// At rest nothing is written, and a restart changes nothing.
        Rest,
        /// No task of the operator ends by itself, no observer is cut off, and nothing is written all the time.
        NothingBreaks,
    }
}

/// Since when something forbids calls.
#[derive(Debug, Clone, Copy, Default)]
struct Forbidden {
    paused: Option<Timestamp>,
    gone: Option<Timestamp>,
}

/// Records what is there and what happens to it, and checks it.
#[derive(Debug)]
pub struct ClusterChecker {
    log: EventLog,
    fleet: Fleet,
    mail: Mail,
    pub clusters: BTreeMap<String, ClusterDeployment>,
    pub pods: BTreeMap<String, Pod>,
    forbidden: BTreeMap<String, Forbidden>,
    /// When the operation that is on record came on record.
    operations: BTreeMap<String, (i64, Timestamp)>,
    /// When a cluster was made, or was last to run: what was told before is over.
    woken: BTreeMap<String, Timestamp>,
    /// Clusters whose status people took away, and when.
    forgotten: BTreeMap<String, Timestamp>,
    pub hibernations: u64,
    pub resumes: u64,
    pub by_itself: u64,
    pub calls: u64,
}

impl Checker for ClusterChecker {
    fn log(&self) -> &EventLog {
        &self.log
    }

    fn broken(&mut self, message: &str) {
        self.log.violated(Invariant::NothingBreaks.name(), &Key::new("", ""), message.to_owned());
    }

    fn operator_started(&mut self, replica: u64) {
        self.log.note(format!("replica {replica} runs"));
    }

    fn operator_ended(&mut self) {
        self.log.note("the operator is killed");
    }
}

/// Whether a condition of a cluster is True.
pub fn is_true(cluster: &ClusterDeployment, kind: &str) -> bool {
    let conditions = cluster.status.as_ref().map(|status| status.conditions.as_slice());
    conditions.unwrap_or_default().iter().any(|one| one.type_ == kind && one.status == "True")
}

pub fn status(cluster: &ClusterDeployment) -> ClusterDeploymentStatus {
    cluster.status.clone().unwrap_or_default()
}

pub fn power_state(cluster: &ClusterDeployment) -> Option<PowerState> {
    cluster.status.as_ref()?.power_state
}

/// What a cluster is to be.
pub fn is_to_hibernate(cluster: &ClusterDeployment) -> bool {
    cluster.spec.power_state == WantedPowerState::Hibernating
}

/// Whether its machines are Pods.
pub fn is_of_pods(cluster: &ClusterDeployment) -> bool {
    cluster.spec.platform.pod.is_some()
}

/// Whether the operator was the last to write the power state.
fn is_written_by_operator(cluster: &ClusterDeployment) -> bool {
    let owners = cluster.managed_fields().iter().filter(|entry| {
        let fields = entry.fields_v1.as_ref().map(|fields| &fields.0);
        fields.is_some_and(|fields| fields["f:spec"].get("f:powerState").is_some())
    });
    let mut managers = owners.map(|entry| entry.manager.as_deref());
    managers.any(|manager| manager == Some(MANAGER))
}

impl ClusterChecker {
    pub(super) fn new(clock: Arc<VirtualClock>, fleet: Fleet, mail: Mail) -> Self {
        Self {
            log: EventLog::new(clock),
            fleet,
            mail,
            clusters: BTreeMap::new(),
            pods: BTreeMap::new(),
            forbidden: BTreeMap::new(),
            operations: BTreeMap::new(),
            woken: BTreeMap::new(),
            forgotten: BTreeMap::new(),
            hibernations: 0,
            resumes: 0,
            by_itself: 0,
            calls: 0,
        }
    }

    pub fn note(&mut self, words: String) {
        self.log.note(words);
    }

    /// How often something happened, by the words of the log.
    pub fn count(&self, words: &str) -> usize {
        self.log.count(words)
    }

    pub fn violated(&mut self, invariant: Invariant, name: &str, message: String) {
        self.log.violated(invariant.name(), &key(name), message);
    }

    /// People are about to change a cluster.
    pub(super) fn people_change(&mut self, name: &str, what: &str) {
        self.log.note(format!("people: {name} {what}"));
    }

    /// People are about to take the status of a cluster away.
    pub(super) fn people_forget(&mut self, name: &str) {
        self.people_change(name, "loses its status");
        self.forgotten.insert(name.to_owned(), self.log.now());
        self.operations.remove(name);
    }

    fn lately(&self, since: Option<&Timestamp>, span: SignedDuration) -> bool {
        since.is_some_and(|since| self.log.now().duration_since(*since) <= span)
    }

    /// What was told last of a cluster since it is to run, as it arrived first.
    fn told(&self, name: &str) -> Option<Received> {
        let since = self.woken.get(name).copied();
        let mut received = self.mail.received();
        received.retain(|one| one.notice.facts.object.name == name);
        let last = received.last().filter(|one| since.is_none_or(|since| since <= one.at))?;
        let id = last.notice.id.clone();
        received.into_iter().find(|one| one.notice.id == id)
    }

    /// A machine is stopped or started; a moment before, everybody saw what is on record.
    pub(super) fn called(&mut self, name: &str, machine: &str, way: Move) {
        self.calls += 1;
        self.log.note(format!("{way:?} {name}/{machine}"));
        let forbidden = self.forbidden.get(name).copied().unwrap_or_default();
        for (since, why) in [(forbidden.paused, "is paused"), (forbidden.gone, "is gone")] {
            if since.is_some_and(|_| !self.lately(since.as_ref(), UNKNOWN_FOR)) {
                let message = format!("{way:?} of {machine}, and it {why}");
                self.violated(Invariant::HandsOff, name, message);
            }
        }
        let Some(cluster) = self.clusters.get(name) else { return };
        if self.lately(self.forgotten.get(name), UNKNOWN_FOR) {
            return;
        }
        let status = status(cluster);
        let Some(operation) = status.operation else {
            let message = format!("{way:?} of {machine}, and no operation is on record");
            return self.violated(Invariant::RecordedFirst, name, message);
        };
        let recorded = self.operations.get(name).map(|(_, at)| *at);
        let is_new = self.lately(recorded.as_ref(), UNKNOWN_FOR);
        let direction = match way {
            Move::Stop => Direction::Hibernate,
            Move::Start => Direction::Resume,
        };
        if operation.direction != Some(direction) {
            if !is_new {
                let is = operation.direction;
                let message = format!("{way:?} of {machine}, and {is:?} is on record");
                self.violated(Invariant::LatestWins, name, message);
            }
            return;
        }
        let inventory = status.inventory.unwrap_or_default();
        if !inventory.machines.iter().any(|one| one.id == machine) {
            let message = format!("{way:?} of {machine}, which is not on record");
            self.violated(Invariant::RecordedFirst, name, message);
        }
    }

    pub(super) fn saw_cluster(&mut self, cluster: ClusterDeployment) {
        let name = cluster.name_any();
        let before = self.clusters.get(&name).cloned();
        let now = self.log.now();
        let forbidden = self.forbidden.entry(name.clone()).or_default();
        forbidden.gone = None;
        let is_paused = status(&cluster)
            .conditions
            .iter()
            .any(|one| one.type_ == condition::READY && one.reason == "PowerStatePaused");
        forbidden.paused = is_paused.then(|| forbidden.paused.unwrap_or(now));
        if before.as_ref().and_then(power_state) != power_state(&cluster) {
            self.log.note(format!("{name} is {:?}", power_state(&cluster)));
        }
        let operation = cluster.status.as_ref().and_then(|status| status.operation.clone());
        if let Some(id) = operation.as_ref().and_then(|operation| operation.id)
            && self.operations.get(&name).map(|(known, _)| *known) != Some(id)
        {
            let direction = operation.as_ref().and_then(|operation| operation.direction);
            let trigger = operation.as_ref().and_then(|operation| operation.trigger);
            self.log.note(format!("{name}: operation {id}, {direction:?} for {trigger:?}"));
            self.operations.insert(name.clone(), (id, now));
        }
        let turned = |kind| {
            is_true(&cluster, kind) && !before.as_ref().is_some_and(|one| is_true(one, kind))
        };
        let (asleep, awake) = (turned(condition::HIBERNATING), turned(condition::READY));
        self.check_conditions(&name, &cluster, asleep, awake);
        self.hibernations += u64::from(asleep);
        self.resumes += u64::from(awake && before.is_some());
        let slept = before.as_ref().is_none_or(is_to_hibernate);
        if let Some(before) = before.filter(|one| one.uid() == cluster.uid())
            && is_to_hibernate(&before) != is_to_hibernate(&cluster)
        {
            self.check_power_write(&name, &before, &cluster);
        }
        if slept && !is_to_hibernate(&cluster) {
            self.woken.insert(name.clone(), now);
        }
        self.clusters.insert(name, cluster);
    }

    pub(super) fn saw_cluster_deleted(&mut self, cluster: &ClusterDeployment) {
        let name = cluster.name_any();
        self.log.note(format!("{name} is gone"));
        let now = self.log.now();
        self.forbidden.entry(name.clone()).or_default().gone = Some(now);
        self.operations.remove(&name);
        self.clusters.remove(&name);
    }

    pub(super) fn saw_pod(&mut self, pod: Pod) {
        self.pods.insert(pod.name_any(), pod);
    }

    pub(super) fn saw_pod_deleted(&mut self, pod: &Pod) {
        self.pods.remove(&pod.name_any());
    }

    /// The machines of a cluster, as they really are.
    pub fn machines(&self, cluster: &ClusterDeployment) -> BTreeMap<String, MachineState> {
        if !is_of_pods(cluster) {
            return self.fleet.machines(&cluster.spec.infra_id);
        }
        let state = |pod: &Pod| {
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            match (pod.metadata.deletion_timestamp.is_some(), phase) {
                (true, _) => MachineState::Stopping,
                (false, Some("Running")) => MachineState::Running,
                (false, _) => MachineState::Pending,
            }
        };
        self.pods.iter().map(|(name, pod)| (name.clone(), state(pod))).collect()
    }
}
