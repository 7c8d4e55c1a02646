//! Publish: the only writer of the statuses of groups and machines, and of Events about them.
//!
//! The group's status is written first: it carries the version of the object that was looked at, so
//! of two processes that decide at the same time only one gets further. Then come the machines whose
//! status is another now.

use futures::FutureExt as _;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::core::ObjectMeta;
use kube::{Api, Resource as _, ResourceExt as _};
use sojourn_api::group::convert::{write_group, write_machine};
use sojourn_api::group::status::{
    Health, InstanceGroupStatus, KeptStatus, MachineStatus, NextStep, Reason as Cause, Replicas,
};
use sojourn_api::group::{InstanceGroup, Machine};
use sojourn_core::decision::Wake;
use sojourn_core::group::forecast::due_at;
use sojourn_core::group::observed::{self, Observed, ObservedMachine};
use sojourn_core::group::reason::Reason;
use sojourn_core::group::{on_demand, state};
use sojourn_core::known::Known;

use super::condition::{self, GroupConditionInputs, MachineConditionInputs, cause};
use super::execute::{Write, run_concurrently};
use super::family::Family;
use super::metrics::{EndingLabels, GroupFigures};
use super::on_demand_machine::DecidedMachine;
use super::reconcile::DecidedGroup;
use super::snapshot::{GroupSnapshot, Member, OnDemandMachine};
use super::status_fields::{blocked_by, open_rotations, replicas, selector};
use super::transition;
use super::view::{MachineView, StatusInputs};
use crate::condition::{Generation, merged};
use crate::frame::RequestError;
use crate::frame::write::ObjectVersion;

impl Family {
    /// Publishes what was decided about a group and what came of it.
    pub(super) async fn publish_group_status(
        &self,
        snapshot: &GroupSnapshot,
        seen: &Observed,
        decided: &DecidedGroup,
        executed: &Result<(), RequestError>,
    ) -> Result<Wake, RequestError> {
        let Some(group) = snapshot.group() else {
            tracing::warn!(group = %snapshot.key, problem = ?snapshot.wanted.as_ref().err(), "unreadable");
            return Ok(Wake::OnChange);
        };
        if is_outdated(executed) {
            return Ok(Wake::OnChange);
        }
        let before = group.status.clone().unwrap_or_default();
        let status = self.group_status(snapshot, group, seen, decided, &before);
        if status != before {
            self.write_group_status(snapshot, group, status.clone(), decided.now).await?;
        }
        let transitions = transition::of_conditions(&before.conditions, &status.conditions);
        self.events.publish_transitions(&group_reference(group), &transitions, decided.now);
        let Some(decision) = &decided.decision else { return Ok(Wake::OnChange) };
        self.write_machine_statuses(snapshot, seen, decided, &decision.next, &decision.why).await?;
        self.acknowledge_results(snapshot, seen);
        self.metrics.set(&snapshot.key, gauges(snapshot, &status, &decision.why));
        Ok(decision.wake)
    }

    fn group_status(
        &self,
        snapshot: &GroupSnapshot,
        group: &InstanceGroup,
        seen: &Observed,
        decided: &DecidedGroup,
        before: &InstanceGroupStatus,
    ) -> InstanceGroupStatus {
        let mut status = before.clone();
        status.observed_generation = group.metadata.generation;
        status.selector = Some(selector(&snapshot.key.name));
        let why = decided.decision.as_ref().map_or(&[][..], |decision| decision.why.as_slice());
        if let Some(decision) = &decided.decision {
            let wanted = snapshot.wanted.as_ref().map_or(0, |wanted| wanted.intent.size);
            write_group(&decision.next.group, &mut status);
            status.replicas = Some(replicas(&decision.next, seen, wanted));
            status.rotations = open_rotations(&decision.next);
            status.blocked_by = blocked_by(why);
        }
        let inputs = GroupConditionInputs {
            wanted: snapshot.wanted.as_ref().map_err(String::as_str),
            template: self.template_problem(group),
            configuration: self.config.problem(),
            replicas: &status.replicas.clone().unwrap_or_default(),
            why,
            is_changing: is_changing(&status),
            now: decided.now,
        };
        let told = condition::of_group(&inputs);
        let generation =
            Generation { now: group.metadata.generation, observed: before.observed_generation };
        status.conditions = merged(&before.conditions, told, generation, decided.now);
        status
    }

    /// What the provider has against the group's template.
    fn template_problem(&self, group: &InstanceGroup) -> Option<String> {
        let problems = self.providers.check(&group.spec.template);
        let words: Vec<String> = problems
            .into_iter()
            .map(|problem| problem.beneath("spec.template").to_string())
            .collect();
        (!words.is_empty()).then(|| words.join("; "))
    }

    async fn write_group_status(
        &self,
        snapshot: &GroupSnapshot,
        looked_at: &InstanceGroup,
        status: InstanceGroupStatus,
        now: Timestamp,
    ) -> Result<(), RequestError> {
        const WHAT: &str = "write the status of a group";
        let latest = self.caches.groups.get(&snapshot.key);
        let latest = latest.as_deref().and_then(|read| read.as_ref().ok()).unwrap_or(looked_at);
        if latest.status != looked_at.status || latest.uid() != looked_at.uid() {
            return Err(RequestError::Outdated { what: WHAT });
        }
        let (uid, version) = (latest.uid(), latest.resource_version());
        let (uid, version) = (uid.unwrap_or_default(), version.unwrap_or_default());
        let target = ObjectVersion { name: &snapshot.key.name, uid: &uid, version: &version };
        let api: Api<InstanceGroup> = Api::namespaced(self.client.clone(), &snapshot.key.namespace);
        let (object, written) =
            self.definitions.write_status((&api, WHAT), &target, &status, &self.events, now).await;
        if let Some(object) = object {
            self.caches.wrote_group(&snapshot.key, object);
        }
        written
    }

    /// Writes the statuses of the machines that are another now.
    async fn write_machine_statuses(
        &self,
        snapshot: &GroupSnapshot,
        seen: &Observed,
        decided: &DecidedGroup,
        next: &state::GroupState,
        why: &[Reason],
    ) -> Result<(), RequestError> {
        let intent = snapshot.wanted.as_ref().ok().map(|wanted| &wanted.intent);
        let inputs = StatusInputs::of(&intent.map(|intent| {
            (intent.expiry.eligible.span(), intent.expiry.forced.span(), intent.expiry.jitter)
        }));
        let unobserved = ObservedMachine::default();
        let held: Vec<Reason> = why.iter().filter(|why| is_hold(why)).cloned().collect();
        // A machine leaves because others stay, so the statuses of those are written first.
        let (mut staying, mut leaving): (Vec<Write<'_>>, Vec<Write<'_>>) = Default::default();
        // All three are in the order of names.
        let (mut states, mut observed) = (next.machines.walk(), seen.machines.walk());
        for (member, machine_intent) in snapshot.machines.iter().zip(&snapshot.machine_intents) {
            let Some(next) = states.find(&member.key.name) else { continue };
            let report = MachineReport {
                seen: observed.find(&member.key.name).unwrap_or(&unobserved),
                expires_at: &|| intent.and_then(|intent| due_at(machine_intent, intent)),
                inputs,
                next: None,
                problem: None,
                ignored: &[],
                why: &held,
                now: decided.now,
            };
            if let Some(status) = report.of(member, next) {
                let leaves = matches!(next.phase, state::Phase::Draining | state::Phase::Deleting);
                let writes = if leaves { &mut leaving } else { &mut staying };
                writes.push(self.write_machine_status(member, next, status, decided.now).boxed());
            }
        }
        run_concurrently(staying).await?;
        run_concurrently(leaving).await
    }

    /// Writes the status of a machine, and Events about what happened to it.
    async fn write_machine_status(
        &self,
        member: &Member,
        next: &state::Machine,
        status: MachineStatus,
        now: Timestamp,
    ) -> Result<(), RequestError> {
        const WHAT: &str = "write the status of a Machine";
        let view = member.view();
        let before = view.state();
        let mut transitions = transition::of_machine(&before, next, now);
        let was = view.published.conditions();
        transitions.extend(transition::of_conditions(&was, &status.conditions));
        let version = match self.latest_version(member, WHAT) {
            Ok(version) => version,
            Err(RequestError::Gone { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        let target = ObjectVersion { name: member.name(), uid: &view.uid, version: &version };
        let api: Api<Machine> = Api::namespaced(self.client.clone(), &member.key.namespace);
        let (object, written) =
            self.definitions.write_status((&api, WHAT), &target, &status, &self.events, now).await;
        let Some(object) = object else { return written };
        self.caches.wrote_machine(&member.key, object);
        written?;
        self.events.publish_transitions(&machine_reference(member), &transitions, now);
        self.count(&before, next, now);
        Ok(())
    }

    fn count(&self, before: &state::Machine, next: &state::Machine, now: Timestamp) {
        let id = |machine: &state::Machine| machine.rotation.as_ref().map(|one| one.id.clone());
        if let Some(rotation) = &next.rotation
            && id(before) != id(next)
        {
            let reason = super::metrics::ReasonLabel { reason: cause(rotation.cause) };
            self.metrics.rotations_begun.get_or_create(&reason).inc();
        }
        let Some(ending) = transition::rotation_ending(before, next, now) else { return };
        let rotation = next.rotation.as_ref().or(before.rotation.as_ref());
        let reason = rotation.map_or("none", |rotation| cause(rotation.cause));
        let labels = EndingLabels { reason, outcome: ending.as_str() };
        self.metrics.rotations_ended.get_or_create(&labels).inc();
        if let Some(drain) = rotation.and_then(|rotation| rotation.drain.as_ref()) {
            self.metrics.drain_seconds.observe(now.duration_since(drain.started_at).as_secs_f64());
        }
    }

    /// Forgets the results that the statuses hold now.
    fn acknowledge_results(&self, snapshot: &GroupSnapshot, seen: &Observed) {
        let mut observed = seen.machines.walk();
        for member in &snapshot.machines {
            if let Some(result) =
                observed.find(&member.key.name).and_then(|seen| seen.last_result.as_ref())
            {
                self.provider_queue.acknowledge(&member.view().uid, result);
            }
        }
        self.failed_creations.acknowledge(&snapshot.key, seen);
    }

    /// Publishes what was decided about a machine without a group.
    pub(super) async fn publish_on_demand_status(
        &self,
        machine: &OnDemandMachine,
        seen: &ObservedMachine,
        decided: &DecidedMachine,
        executed: &Result<(), RequestError>,
    ) -> Result<Wake, RequestError> {
        if is_outdated(executed) {
            return Ok(Wake::OnChange);
        }
        let member = &machine.member;
        let why = decided.decision.as_ref().map_or(&[][..], |decision| decision.why.as_slice());
        let state = member.view().state();
        let next = decided.decision.as_ref().map_or(&state, |decision| &decision.next);
        let intent = machine.intent.as_ref();
        let expires_at = intent.ok().and_then(|intent| on_demand::expires_at(next, intent));
        let gone = machine.group_gone.as_ref().map(|group| {
            let was = format!("it was lent from InstanceGroup {group}, which is gone");
            match expires_at {
                Some(end) => format!("{was}; it goes at {:.0}", round_up_to_second(end).0),
                None => format!("{was}; it stays until somebody deletes it"),
            }
        });
        let invalid = machine.intent.as_ref().err().map(|words| ("Invalid", words.as_str()));
        let report = MachineReport {
            seen,
            expires_at: &|| expires_at,
            inputs: StatusInputs::of(&expires_at),
            next: next_on_demand_step(next, expires_at, why),
            problem: invalid.or(gone.as_deref().map(|words| ("GroupGone", words))),
            ignored: &machine.ignored,
            why,
            now: decided.now,
        };
        if let Some(status) = report.of(member, next) {
            self.write_machine_status(member, next, status, decided.now).await?;
        }
        if let Some(result) = &seen.last_result {
            self.provider_queue.acknowledge(&member.view().uid, result);
        }
        Ok(decided.decision.as_ref().map_or(Wake::OnChange, |decision| decision.wake))
    }
}

/// Everything that the status of a machine is written from.
struct MachineReport<'a> {
    seen: &'a ObservedMachine,
    expires_at: &'a (dyn Fn() -> Option<Timestamp> + Sync),
    /// What that follows from, beside the object and what it remembers.
    inputs: StatusInputs,
    /// What comes next, for one that its group does not speak for.
    next: Option<NextStep>,
    /// What is wrong, with the reason that conditions give.
    problem: Option<(&'static str, &'a str)>,
    ignored: &'a [String],
    why: &'a [Reason],
    now: Timestamp,
}

impl MachineReport<'_> {
    /// The status of a machine, if it is another one now.
    fn of(&self, member: &Member, next: &state::Machine) -> Option<MachineStatus> {
        let view = member.view();
        let health = health(self.seen);
        let inputs = self.inputs(view, next, health);
        if inputs.is_some_and(|inputs| view.published.derives_from(inputs)) {
            return None;
        }
        let mut status = MachineStatus {
            observed_generation: view.generation,
            health: Some(health),
            expires_at: (self.expires_at)().map(round_up_to_second),
            keep: view.keep_until().map(|until| KeptStatus {
                until: Some(round_up_to_second(until)),
                asked: Some(round_up_to_second(until)),
            }),
            next: self.next.clone(),
            ..MachineStatus::default()
        };
        write_machine(next, &mut status);
        let (problem, ignored, why) = (self.problem, self.ignored, self.why);
        let condition_inputs = MachineConditionInputs { health, problem, ignored, why };
        let told = condition::of_machine(view, next, &condition_inputs);
        // The status speaks of one generation as a whole.
        let generation = Generation { now: None, observed: None };
        status.conditions = merged(&view.published.conditions(), told, generation, self.now);
        if view.needs_status_write(&status) {
            return Some(status);
        }
        if let Some(inputs) = inputs {
            view.published.record_inputs(inputs);
        }
        None
    }

    /// What the status is written from, unless there is more to it than with most machines.
    fn inputs(
        &self,
        view: &MachineView,
        next: &state::Machine,
        health: Health,
    ) -> Option<StatusInputs> {
        let usual = self.problem.is_none() && self.ignored.is_empty() && self.why.is_empty();
        (usual && view.has_state(next)).then(|| self.inputs.with(health as u8))
    }
}

/// Rounds up to whole seconds, which is all that the API keeps: nothing happens before its
/// published time.
fn round_up_to_second(at: Timestamp) -> Time {
    let up = i64::from(at.subsec_nanosecond() > 0);
    Time(Timestamp::from_second(at.as_second().saturating_add(up)).unwrap_or(at))
}

fn health(seen: &ObservedMachine) -> Health {
    match (&seen.health, &seen.provider) {
        (Known::Is(observed::Health::Ready), _) => Health::Healthy,
        (Known::Is(observed::Health::Unhealthy { .. }), _) | (Known::Absent, Known::Absent) => {
            Health::Unhealthy
        }
        (Known::Absent | Known::Unknown, _) => Health::Unknown,
    }
}

/// What comes next for a machine without a group.
fn next_on_demand_step(
    next: &state::Machine,
    expires_at: Option<Timestamp>,
    why: &[Reason],
) -> Option<NextStep> {
    let words = || why.first().map(ToString::to_string).unwrap_or_default();
    let rotation = next.rotation.as_ref();
    match (rotation, rotation.and_then(|rotation| rotation.drain.as_ref())) {
        (Some(rotation), Some(drain)) => Some(NextStep {
            reason: Some(rotation.cause.into()),
            at: Some(round_up_to_second(drain.deadline)),
            why: words(),
        }),
        (Some(_), None) => None,
        (None, _) => expires_at.map(|at| NextStep {
            reason: Some(Cause::OnDemand),
            at: Some(round_up_to_second(at)),
            why: words(),
        }),
    }
}

const fn is_hold(why: &Reason) -> bool {
    matches!(why, Reason::Paused | Reason::ObserveOnly)
}

const fn is_outdated(executed: &Result<(), RequestError>) -> bool {
    matches!(executed, Err(RequestError::Outdated { .. } | RequestError::Gone { .. }))
}

/// Whether machines of the group come or go by now.
fn is_changing(status: &InstanceGroupStatus) -> bool {
    let count = |count: fn(&Replicas) -> u32| status.replicas.as_ref().map_or(0, count);
    !status.rotations.is_empty()
        || !status.reserved.is_empty()
        || count(|replicas| replicas.starting) > 0
        || count(|replicas| replicas.draining) > 0
}

fn gauges(snapshot: &GroupSnapshot, status: &InstanceGroupStatus, why: &[Reason]) -> GroupFigures {
    let oldest = snapshot.machine_intents.iter().map(|machine| machine.created_at).min();
    let replicas = status.replicas.clone().unwrap_or_default();
    GroupFigures {
        oldest,
        surge: replicas.total.saturating_sub(replicas.desired),
        blocked: why.iter().find_map(condition::blocker),
    }
}

fn group_reference(group: &InstanceGroup) -> ObjectReference {
    group.object_ref(&())
}

fn machine_reference(member: &Member) -> ObjectReference {
    let machine = Machine {
        metadata: ObjectMeta {
            name: Some(member.key.name.to_string()),
            namespace: Some(member.key.namespace.to_string()),
            uid: Some(member.view().uid.to_string()),
            ..ObjectMeta::default()
        },
        ..Machine::default()
    };
    machine.object_ref(&())
}
