//! What really happened to instances, recorded by the simulation and not by the operator, and checked
//! as it happens: what an observer saw of every instance, what the mail server accepted, and what was
//! handed in.

mod checks;
pub mod history;
pub mod instance_history;
pub mod invariant;
mod submission;

use sojourn_core::lab::source;
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use sojourn_api::config::parse;
use sojourn_api::lab::status::{InstanceStatus, NoticeState, StopReason, SubmissionState};
use sojourn_api::lab::{Instance, LabConfig};
use sojourn_api::name::shared;
use sojourn_core::activity::Source;
use sojourn_core::key::Key;
use sojourn_drivers::notify::Notice;
use sojourn_drivers::notify::fake::Effect;
use sojourn_operator::clock::VirtualClock;

use self::history::{History, SourceVisibility};
use self::instance_history::{AcceptedNotice, InstanceHistory};
use self::invariant::Invariant;
use super::people::Design;
use crate::event_counts::EventCounts;
use crate::event_log::EventLog;
use crate::simulation::Checker;
use crate::trace::Trace;

/// What a template says about how long its instances are lent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Policy {
    pub stop_after: Option<SignedDuration>,
    pub delete_after_stopped: Option<SignedDuration>,
    pub delete_after: Option<SignedDuration>,
    pub alerts: Option<u32>,
    pub persistent: bool,
}

/// Records everything that happens to instances, and checks it.
#[derive(Debug)]
pub struct InstanceChecker {
    log: EventLog,
    begin: Timestamp,
    /// By uid, of every instance that ever was.
    histories: BTreeMap<String, InstanceHistory>,
    /// Of the instances that are there.
    uids: BTreeMap<Key, String>,
    designs: BTreeMap<Key, History<Option<Design>>>,
    opted_out: BTreeMap<String, History<[bool; 2]>>,
    config: History<Arc<LabConfig>>,
    sources: BTreeMap<Source, SourceVisibility>,
    /// When the metrics server could be asked. What it saw meanwhile is known later, not then.
    metrics: SourceVisibility,
    operators: u32,
    /// Which replica ran last.
    replica: Option<u64>,
    kills: Vec<Timestamp>,
    /// What was handed in.
    server: submission::Server,
    trace: Trace,
    ended_exams: BTreeMap<Key, Timestamp>,
    counts: EventCounts,
}

impl InstanceChecker {
    pub(super) fn new(clock: Arc<VirtualClock>, trace: Trace) -> Self {
        let log = EventLog::new(clock);
        let begin = log.now();
        let mut sources = BTreeMap::new();
        sources.insert(source::NGINX, SourceVisibility::seeing(begin));
        sources.insert(source::GATEWAY, SourceVisibility::default());
        Self {
            log,
            begin,
            histories: BTreeMap::new(),
            uids: BTreeMap::new(),
            designs: BTreeMap::new(),
            opted_out: BTreeMap::new(),
            config: History::new(begin, Arc::default()),
            sources,
            metrics: SourceVisibility::seeing(begin),
            operators: 0,
            replica: None,
            kills: Vec::new(),
            server: BTreeMap::new(),
            trace,
            ended_exams: BTreeMap::new(),
            counts: EventCounts::default(),
        }
    }

    fn now(&self) -> Timestamp {
        self.log.now()
    }

    fn note(&mut self, message: impl Into<String>) {
        self.log.note(message);
    }

    fn violated(&mut self, invariant: Invariant, key: &Key, message: String) {
        self.log.violated(invariant.name(), key, message);
    }

    pub fn counts(&self) -> EventCounts {
        let blind_hours = u64::try_from(self.blind_for().as_hours()).unwrap_or_default();
        EventCounts { blind_hours, ..self.counts }
    }

    /// For how long something that must be known of everybody's use was not.
    fn blind_for(&self) -> SignedDuration {
        let all: Vec<&SourceVisibility> = self.sources.values().chain([&self.metrics]).collect();
        let (begin, now) = (self.begin, self.now());
        now.duration_since(begin) - history::seen_by_all(&all, begin, now)
    }

    pub fn history(&self, key: &Key) -> Option<&InstanceHistory> {
        self.histories.get(self.uids.get(key)?)
    }

    /// An object as it was last seen.
    pub fn last_seen(&self, key: &Key) -> Option<&Instance> {
        let mut histories = self.histories.values().filter(|history| history.key == *key);
        self.history(key).or_else(|| histories.next_back()).map(|history| &history.last)
    }

    fn history_mut(&mut self, key: &Key) -> Option<&mut InstanceHistory> {
        self.histories.get_mut(self.uids.get(key)?)
    }

    // What people and the environment do.

    pub fn set_design(&mut self, template: &Key, design: Option<Design>) {
        let now = self.now();
        self.note(format!("template {template} is {design:?}"));
        let history = self.designs.entry(template.clone());
        history.or_insert_with(|| History::new(now, None)).set(now, design);
    }

    /// Whether a namespace keeps inactivity and expiration away.
    pub fn set_opted_out(&mut self, namespace: &str, opted_out: [bool; 2]) {
        let now = self.now();
        self.note(format!("namespace {namespace} opts out of {opted_out:?}"));
        let history = self.opted_out.entry(namespace.to_owned());
        history.or_insert_with(|| History::new(now, [false; 2])).set(now, opted_out);
    }

    pub fn configured(&mut self, text: &str) {
        let data = BTreeMap::from([("lab.yaml".to_owned(), text.to_owned())]);
        match parse::<LabConfig>(&data) {
            Ok(config) => {
                let now = self.now();
                self.config.set(now, Arc::new(config));
            }
            Err(problem) => self.broken(&format!("the configuration is bad: {problem}")),
        }
    }

    pub fn used(&mut self, key: &Key, source: Source) {
        let now = self.now();
        let seen = self.sources.get(&source).is_some_and(history::SourceVisibility::sees);
        if let Some(history) = self.history_mut(key) {
            history.uses.push(instance_history::InstanceUse { at: now, source, seen });
            self.counts.uses += 1;
            self.note(format!("{key} is used through {source}"));
        }
    }

    pub fn ingress_sees(&mut self, sees: bool) {
        let now = self.now();
        self.note(format!("the ingress sees: {sees}"));
        self.sources.entry(source::NGINX).or_default().set(now, sees);
    }

    pub fn ingress_is_seeing(&self) -> bool {
        self.sources.get(&source::NGINX).is_some_and(SourceVisibility::sees)
    }

    /// Whether the metrics server can be asked.
    pub fn metrics_answer(&mut self, answer: bool) {
        let now = self.now();
        self.note(format!("the metrics server answers: {answer}"));
        self.metrics.set(now, answer);
    }

    /// There were more looks at objects than there should be.
    pub fn check_reconciles(&mut self, looks: u64, most: u64) {
        let message = format!("{looks} looks, of at most {most}");
        self.violated(Invariant::NoHotLoop, &Key::new("", ""), message);
    }

    /// An object was written without end.
    pub fn check_hot_object(&mut self, path: &str, last: &str) {
        let message = format!("{path} was written without end, at last: {last}");
        self.violated(Invariant::NoHotLoop, &Key::new("", ""), message);
    }

    /// The owner stops, starts or deletes it: what follows is not the controllers' doing.
    pub fn person_stops(&mut self, key: &Key) {
        if let Some(history) = self.history_mut(key).filter(|history| history.running) {
            history.person_stops = true;
        }
    }

    pub fn person_deletes(&mut self, key: &Key) {
        if let Some(history) = self.history_mut(key) {
            history.person_deletes = true;
        }
    }

    /// Somebody who may do so gives up what is owed.
    pub fn person_waives_submission(&mut self, key: &Key) {
        if let Some(history) = self.history_mut(key) {
            history.given_up = true;
        }
    }

    /// The owner asks to keep it.
    pub fn person_keeps(&mut self, key: &Key, until: Timestamp) {
        let now = self.now();
        self.note(format!("{key} is to be kept until {until}"));
        if let Some(history) = self.history_mut(key) {
            history.keep(until, now);
        }
    }

    pub fn exam_ends(&mut self, key: &Key) {
        let now = self.now();
        self.note(format!("the exam of {key} ends"));
        self.ended_exams.entry(key.clone()).or_insert(now);
    }

    /// An attempt to tell somebody something.
    pub fn attempted(&mut self, notice: &Notice, effect: &Effect) {
        let now = self.now();
        let object = &notice.facts.object;
        let key = Key::new(object.namespace.clone(), object.name.clone());
        let (accepted, acknowledged) = match effect {
            Effect::Accept => (true, true),
            Effect::FailAfter(_) => (true, false),
            Effect::Refuse(_) | Effect::FailBefore(_) => (false, false),
        };
        self.trace.add(&format!("{} {accepted}", notice.id));
        self.note(format!("{key} notice {} accepted: {accepted}", self.shown(notice)));
        if !accepted {
            self.counts.refused_notices += 1;
            return;
        }
        self.counts.notices += 1;
        let Some((uid, stage, _)) = parts(&notice.id) else {
            self.violated(Invariant::NoticeOnce, &key, format!("no such id: {}", notice.id));
            return;
        };
        let accepted = AcceptedNotice {
            at: now,
            id: notice.id.clone(),
            stage: stage.to_owned(),
            deadline: notice.facts.deadline,
            acknowledged,
            operator: self.kills.len(),
            alone: self.operators <= 1,
        };
        let uid = uid.to_owned();
        self.check_notice(&uid, &key, &accepted);
        if let Some(history) = self.histories.get_mut(&uid) {
            history.accepted.push(accepted);
        }
    }

    /// A notice without the uid of its object, which is drawn anew in every run.
    fn shown(&self, notice: &Notice) -> String {
        let id = parts(&notice.id).map_or("", |(_, stage, _)| stage);
        format!("{id} to {:?} by {:?}", notice.to.email, notice.facts.deadline)
    }

    // What the observer saw.

    pub fn saw(&mut self, instance: &Instance) {
        let uid = instance.metadata.uid.clone().unwrap_or_default();
        let now = self.now();
        let key = key_of(instance);
        if !self.histories.contains_key(&uid) {
            self.note(format!("{key} is there"));
            self.uids.insert(key.clone(), uid.clone());
            self.histories.insert(uid.clone(), InstanceHistory::new(instance, now));
        }
        let Some(mut history) = self.histories.remove(&uid) else { return };
        self.follow_notices(&mut history, instance);
        // There is work in it once something keeps what is written.
        history.has_work |= instance.spec.running
            && !status(instance).claims.is_empty()
            && status(&history.last).claims.is_empty();
        let (ended, has_ended) =
            (status(&history.last).ended.is_some(), status(instance).ended.is_some());
        // Reopened, it runs and is written to again.
        history.has_work |= ended && !has_ended && instance.spec.running;
        if !ended && has_ended {
            history.ends();
        }
        if history.running && !instance.spec.running {
            self.stopped(&mut history, instance);
        } else if !history.running && instance.spec.running {
            self.started(&mut history, instance);
        }
        if !history.deleting && instance.metadata.deletion_timestamp.is_some() {
            history.deleting = true;
            history.ends();
            self.deleted(&mut history, instance);
        }
        history.last = instance.clone();
        self.histories.insert(uid, history);
    }

    /// Somebody wants it to run. What has ended does not, whatever somebody wants.
    fn started(&mut self, history: &mut InstanceHistory, instance: &Instance) {
        history.running = true;
        history.changed_at = self.now();
        if status(instance).ended.is_some() {
            self.note(format!("{} is to run although it has ended", history.key));
            return;
        }
        history.has_work |= !status(instance).claims.is_empty();
        if status(&history.last).stop_reason == Some(StopReason::Inactivity) {
            self.counts.wakes += 1;
        }
        self.note(format!("{} is started", history.key));
    }

    pub fn saw_deleted(&mut self, instance: &Instance) {
        let uid = instance.metadata.uid.clone().unwrap_or_default();
        let now = self.now();
        let key = key_of(instance);
        self.note(format!("{key} is gone"));
        self.uids.remove(&key);
        let Some(mut history) = self.histories.remove(&uid) else { return };
        history.gone_at = Some(now);
        if let Some(message) = self.not_handed_in(&history) {
            self.violated(Invariant::SubmissionNotLost, &key, message);
        }
        let entries = status(&history.last).submission.clone();
        let open = entries.iter().find(|entry| is_open(entry.state));
        if let Some(open) = open.filter(|_| !history.given_up) {
            let message =
                format!("{} was still to be handed in: {:?}", open.environment, open.state);
            self.violated(Invariant::NothingLostMidSubmission, &key, message);
        }
        self.histories.insert(uid, history);
    }

    fn follow_notices(&mut self, history: &mut InstanceHistory, instance: &Instance) {
        for notice in &status(instance).notices {
            let state = notice.state.unwrap_or(NoticeState::Waiting);
            let known = history.notices.insert(notice.id.clone(), state);
            let newly_delivered =
                state == NoticeState::Delivered && known != Some(NoticeState::Delivered);
            if newly_delivered && !history.accepted.iter().any(|one| one.id == notice.id) {
                let message = format!("{} counts as delivered, and nobody accepted it", notice.id);
                self.violated(Invariant::DeliveredMeansAccepted, &history.key, message);
            }
        }
    }

    fn stopped(&mut self, history: &mut InstanceHistory, instance: &Instance) {
        let now = self.now();
        let by_person = std::mem::take(&mut history.person_stops);
        let reason = status(instance).stop_reason;
        let author = if by_person { "its owner".to_owned() } else { format!("{reason:?}") };
        self.note(format!("{} is stopped by {author}", history.key));
        if !by_person {
            self.check_holds(history);
            match reason {
                Some(StopReason::Inactivity) => {
                    self.counts.idle_stops += 1;
                    self.check_idle(history);
                }
                Some(StopReason::Terminated) => {
                    self.counts.terminated += 1;
                    self.check_termination(history);
                }
                // Checked by what it is stopped for.
                Some(StopReason::Expired) => self.check_expiration(history),
                // It has ended before, and somebody wanted it to run all the same.
                Some(StopReason::User) | None if status(instance).ended.is_some() => {}
                Some(StopReason::User) | None => {
                    let message = format!("nobody stopped it, and the reason is {reason:?}");
                    self.violated(Invariant::ActionsHaveReasons, &history.key, message);
                }
            }
        }
        history.running = false;
        history.changed_at = now;
    }

    fn deleted(&mut self, history: &mut InstanceHistory, instance: &Instance) {
        if history.person_deletes {
            self.note(format!("{} is deleted by its owner", history.key));
            return;
        }
        let said = |stage: &str| {
            status(instance).notices.iter().any(|notice| {
                parts(&notice.id).is_some_and(|(_, one, _)| one == stage)
                    && notice.state == Some(NoticeState::Waiting)
            })
        };
        self.check_holds(history);
        if said("expired") || (!said("deleted") && self.may_expire(history)) {
            self.note(format!("{} is deleted: expired", history.key));
            self.counts.expired += 1;
            self.check_expiration(history);
        } else {
            self.note(format!("{} is deleted: not used", history.key));
            self.counts.idle_deletes += 1;
            if history.running { self.check_idle(history) } else { self.check_stopped(history) }
        }
    }
}

impl Checker for InstanceChecker {
    fn log(&self) -> &EventLog {
        &self.log
    }

    fn broken(&mut self, message: &str) {
        self.violated(Invariant::NothingBreaks, &Key::new("", ""), message.to_owned());
    }

    fn operator_started(&mut self, replica: u64) {
        let now = self.now();
        let before = self.replica.replace(replica);
        if self.operators == 0 && before.is_some_and(|before| before != replica) {
            self.note("another replica takes over");
            self.counts.takeovers += 1;
        }
        self.operators += 1;
        self.note("the operator runs");
        self.sources.entry(source::GATEWAY).or_default().set(now, true);
    }

    fn operator_ended(&mut self) {
        let now = self.now();
        self.operators = self.operators.saturating_sub(1);
        self.kills.push(now);
        self.counts.kills += 1;
        self.note("the operator is killed");
        if self.operators == 0 {
            self.sources.entry(source::GATEWAY).or_default().set(now, false);
        }
    }
}

fn is_open(state: Option<SubmissionState>) -> bool {
    match state {
        Some(SubmissionState::Waiting | SubmissionState::Running | SubmissionState::Failed) => true,
        Some(SubmissionState::Done | SubmissionState::Waived | SubmissionState::Skipped) | None => {
            false
        }
    }
}

/// The uid, the stage and the deadline of a notice's id.
pub(crate) fn parts(id: &str) -> Option<(&str, &str, &str)> {
    let (rest, deadline) = id.rsplit_once('.')?;
    let (uid, stage) = rest.split_once('.')?;
    Some((uid, stage, deadline))
}

pub(crate) fn status(instance: &Instance) -> &InstanceStatus {
    static NONE: std::sync::OnceLock<InstanceStatus> = std::sync::OnceLock::new();
    instance.status.as_ref().unwrap_or_else(|| NONE.get_or_init(InstanceStatus::default))
}

pub(crate) fn key_of(instance: &Instance) -> Key {
    let meta = &instance.metadata;
    Key::new(meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
}

pub(crate) fn is_paused(instance: &Instance) -> bool {
    let annotations = instance.metadata.annotations.as_ref();
    annotations.and_then(|map| map.get(shared::PAUSED)).is_some_and(|value| value == "true")
}
