//! Checks each thing that the controllers did, by what the simulation recorded alone.

use jiff::{SignedDuration, Timestamp};
use sojourn_api::lab::LabConfig;
use sojourn_api::lab::status::{NextAction, NoticeState};
use sojourn_core::key::Key;
use sojourn_core::lab::source;
use sojourn_core::notice::OnUndeliverable;

use super::history::{SourceVisibility, seen_by_all};
use super::instance_history::{AcceptedNotice, InstanceHistory, ROUNDING};
use super::invariant::Invariant;
use super::{InstanceChecker, Policy, is_paused, parts, status};

/// So long a change of a template, a namespace or the configuration may go unnoticed: a watch that
/// lost it is silent for less than five minutes, and listing anew may fail a few times.
const PROPAGATION_TIMEOUT: SignedDuration = SignedDuration::from_mins(10);
/// So long after it was due something may be done once nothing fails any more.
const MAX_DELAY: SignedDuration = SignedDuration::from_hours(2);

/// The least that a policy asked for around a moment.
struct RequiredPolicy {
    span: SignedDuration,
    warnings: usize,
}

/// What of the policy concerns a ladder.
#[derive(Clone, Copy)]
struct LadderRules {
    name: &'static str,
    span: fn(&Policy) -> Option<SignedDuration>,
    interval: fn(&LabConfig) -> SignedDuration,
    warnings: fn(&Policy, &LabConfig) -> u32,
    enabled: fn(&LabConfig) -> bool,
    /// Which of a namespace's opt-outs keeps it away.
    opt_out: usize,
    /// Only time that was observed counts, instead of the clock's.
    observed: bool,
    /// What does not hold if it is climbed too early.
    term: Invariant,
}

fn alerts(policy: &Policy, config: &LabConfig) -> u32 {
    if !config.enable_inactivity_notifications {
        return 0;
    }
    policy.alerts.unwrap_or(config.inactive_termination_max_number_of_alerts)
}

const IDLE: LadderRules = LadderRules {
    name: "inactivity",
    span: |policy| policy.stop_after,
    interval: |config| config.inactive_termination_notification_interval,
    warnings: alerts,
    enabled: |config| config.enable_instance_inactive_termination,
    opt_out: 0,
    observed: true,
    term: Invariant::IdleWasObserved,
};

const STOPPED: LadderRules = LadderRules {
    name: "deletion",
    span: |policy| policy.delete_after_stopped,
    observed: false,
    term: Invariant::TermIsOver,
    ..IDLE
};

const EXPIRED: LadderRules = LadderRules {
    name: "expiry",
    span: |policy| policy.delete_after,
    interval: |config| config.expiration_notification_interval,
    warnings: |_, config| u32::from(config.enable_expiration_notifications),
    enabled: |config| config.enable_instance_expiration,
    opt_out: 1,
    observed: false,
    term: Invariant::TermIsOver,
};

/// The earliest time whose policy may still be in force at `at`.
fn lately(at: Timestamp) -> Timestamp {
    at.checked_sub(PROPAGATION_TIMEOUT).unwrap_or(Timestamp::MIN)
}

impl InstanceChecker {
    /// The least that was asked for at `at`; nothing, if nothing allowed the action then.
    fn asked(
        &self,
        history: &InstanceHistory,
        ladder: LadderRules,
        at: Timestamp,
    ) -> Option<RequiredPolicy> {
        let designs = self.designs.get(&history.template)?.during(lately(at), at);
        let policies: Vec<Policy> = designs.flatten().map(|design| design.policy).collect();
        let configs: Vec<_> = self.config.during(lately(at), at).collect();
        if !configs.iter().any(|config| (ladder.enabled)(config)) {
            return None;
        }
        let warnings = policies
            .iter()
            .flat_map(|policy| configs.iter().map(move |config| (ladder.warnings)(policy, config)));
        // A policy that lets time run on without an answer may leave warnings out.
        let may_skip =
            configs.iter().any(|config| config.on_undeliverable != OnUndeliverable::Hold);
        let warnings = if may_skip { 0 } else { warnings.min().unwrap_or(0) };
        Some(RequiredPolicy {
            span: policies.iter().filter_map(|policy| (ladder.span)(policy)).min()?,
            warnings: usize::try_from(warnings).unwrap_or(usize::MAX),
        })
    }

    /// The shortest interval that was asked for while a warning's ran.
    fn least_interval(
        &self,
        ladder: LadderRules,
        from: Timestamp,
        to: Timestamp,
    ) -> SignedDuration {
        let configs = self.config.during(lately(from), to);
        configs.map(|config| (ladder.interval)(config)).min().unwrap_or_default()
    }

    /// How much of a stretch of time counts on a ladder, by what could be known at its end.
    fn counted(&self, ladder: LadderRules, from: Timestamp, to: Timestamp) -> SignedDuration {
        if !ladder.observed {
            return to.duration_since(from);
        }
        seen_by_all(&self.required(), from, self.metrics.seen_until(to))
    }

    /// The sources that every template here requires.
    fn required(&self) -> Vec<&SourceVisibility> {
        self.sources.values().collect()
    }

    /// How long it takes until the ingress's use is known: a tick, and the step that is looked at
    /// again.
    fn reporting_delay(&self) -> SignedDuration {
        let config = self.config.last();
        config.activity_interval + config.query_step * 2 + SignedDuration::from_mins(1)
    }

    pub(super) fn check_holds(&mut self, history: &InstanceHistory) {
        let now = self.now();
        if is_paused(&history.last) {
            self.violated(Invariant::PauseHolds, &history.key, "it is paused".to_owned());
        }
        if let Some(until) = history.kept_until.filter(|until| now < *until)
            && status(&history.last).stop_reason
                != Some(sojourn_api::lab::status::StopReason::Terminated)
        {
            let message = format!("it is kept until {until}");
            self.violated(Invariant::KeepHolds, &history.key, message);
        }
    }

    fn check_opt_out(&mut self, history: &InstanceHistory, ladder: LadderRules) {
        let now = self.now();
        let Some(opt_outs) = self.opted_out.get(&*history.key.namespace) else { return };
        if opt_outs.during(lately(now), now).all(|out| out[ladder.opt_out]) {
            let message = format!("its namespace has opted out of {}", ladder.name);
            self.violated(Invariant::OptOutHolds, &history.key, message);
        }
    }

    fn check_announced_deadline(&mut self, history: &InstanceHistory, ladder: LadderRules) {
        let now = self.now();
        if let Some(deadline) =
            history.announced_deadline(ladder.name).filter(|deadline| now < *deadline)
        {
            let message = format!("its owner was told {deadline}");
            self.violated(Invariant::DeadlineKept, &history.key, message);
        }
    }

    /// A running instance was stopped or deleted because nobody used it.
    pub(super) fn check_idle(&mut self, history: &InstanceHistory) {
        let now = self.now();
        self.check_opt_out(history, IDLE);
        self.check_announced_deadline(history, IDLE);
        let late = self.reporting_delay();
        let sources =
            self.sources.iter().map(|(source, visibility)| (source.to_string(), visibility));
        let all = sources.chain([("the metrics server".to_owned(), &self.metrics)]);
        let blind = all.into_iter().find_map(|(name, visibility)| {
            let since = visibility.blind_since()?;
            (now.duration_since(since) > late).then(|| format!("{name} is blind since {since}"))
        });
        if let Some(message) = blind {
            self.violated(Invariant::NotWhileBlind, &history.key, message);
        }
        let known = |one: &super::instance_history::InstanceUse| {
            one.source == source::GATEWAY || now.duration_since(one.at) > late
        };
        let since = history.idle_since(known);
        // A warning of the time in which the last use was not known yet is one of an earlier ladder.
        let from = since.checked_add(late).unwrap_or(Timestamp::MAX);
        self.check_climb(history, IDLE, since, from);
    }

    /// A stopped instance was deleted.
    pub(super) fn check_stopped(&mut self, history: &InstanceHistory) {
        self.check_opt_out(history, STOPPED);
        self.check_announced_deadline(history, STOPPED);
        self.check_climb(history, STOPPED, history.changed_at, history.changed_at);
    }

    /// An instance was deleted because its lifespan is over.
    pub(super) fn check_expiration(&mut self, history: &InstanceHistory) {
        self.check_opt_out(history, EXPIRED);
        self.check_announced_deadline(history, EXPIRED);
        self.check_climb(history, EXPIRED, history.created_at, history.created_at);
    }

    pub(super) fn may_expire(&self, history: &InstanceHistory) -> bool {
        let now = self.now();
        self.asked(history, EXPIRED, now)
            .is_some_and(|asked| now.duration_since(history.created_at) >= asked.span)
    }

    /// The term was over by the policy of the time, both when the first warning came and when it
    /// was acted on; every warning that was asked for came after `from`, and each was given its
    /// interval.
    fn check_climb(
        &mut self,
        history: &InstanceHistory,
        ladder: LadderRules,
        since: Timestamp,
        from: Timestamp,
    ) {
        let now = self.now();
        let warnings: Vec<AcceptedNotice> =
            history.warnings(ladder.name, from).into_iter().cloned().collect();
        let first = warnings.first().map(|first| first.at);
        for at in first.into_iter().chain([now]) {
            let Some(asked) = self.asked(history, ladder, at) else {
                let message = format!("at {at} no policy lets it be taken for {}", ladder.name);
                self.violated(Invariant::ActionsHaveReasons, &history.key, message);
                continue;
            };
            let counted = self.counted(ladder, since, at);
            if counted + ROUNDING < asked.span {
                let message =
                    format!("from {since} to {at} only {counted:#} count, of {:#}", asked.span);
                self.violated(ladder.term, &history.key, message);
            }
        }
        let due = self.asked(history, ladder, now).map_or(0, |asked| asked.warnings);
        if warnings.len() < due {
            let told: Vec<&str> = warnings.iter().map(|one| one.stage.as_str()).collect();
            let message = format!("{due} warnings were due, and these were given: {told:?}");
            self.violated(Invariant::Warned, &history.key, message);
        }
        if due > 0 {
            self.check_intervals(history, ladder, &warnings);
        }
    }

    fn check_intervals(
        &mut self,
        history: &InstanceHistory,
        ladder: LadderRules,
        warnings: &[AcceptedNotice],
    ) {
        let ends = warnings.iter().skip(1).map(|one| one.at).chain([self.now()]);
        for (warning, end) in warnings.iter().zip(ends) {
            let given = self.counted(ladder, warning.at, end);
            let interval = self.least_interval(ladder, warning.at, end);
            if given + ROUNDING < interval {
                let message = format!(
                    "{} was told at {}, and of {interval:#} only {given:#} were given until {end}",
                    warning.stage, warning.at
                );
                self.violated(Invariant::IntervalGiven, &history.key, message);
            }
        }
    }

    pub(super) fn check_termination(&mut self, history: &InstanceHistory) {
        if !self.ended_exams.contains_key(&history.key) {
            let message = "nobody said that it has ended".to_owned();
            self.violated(Invariant::TerminationConfirmed, &history.key, message);
        }
    }

    /// A notice is about to be accepted.
    pub(super) fn check_notice(&mut self, uid: &str, key: &Key, new: &AcceptedNotice) {
        let Some(history) = self.histories.get(uid) else { return };
        let mut wrong = None;
        for old in &history.accepted {
            let same = old.stage == new.stage && old.deadline == new.deadline;
            if same && old.id != new.id && old.deadline.is_some() {
                wrong = Some(format!("{} and {} say the same", old.id, new.id));
            }
            let stored = history.notices.get(&new.id) == Some(&NoticeState::Delivered);
            let known = stored || (old.acknowledged && old.operator == new.operator);
            // Two that run at once do not know what the other has just sent.
            if old.id == new.id && new.alone && known {
                wrong = Some(format!("{} was accepted at {} already", new.id, old.at));
            }
        }
        if let Some(message) = wrong {
            self.violated(Invariant::NoticeOnce, key, message);
        }
    }

    /// What must hold at the end, when nothing has failed since `faults_stopped_at`.
    pub fn check_end(&mut self, faults_stopped_at: Timestamp) {
        let now = self.now();
        let mut wrong: Vec<(Invariant, Key, String)> = Vec::new();
        for history in self.histories.values().filter(|history| history.gone_at.is_none()) {
            let status = status(&history.last);
            for notice in &status.notices {
                let waits = notice.state == Some(NoticeState::Waiting);
                let stage = parts(&notice.id).map_or("", |(_, stage, _)| stage);
                // A final notice is sent only after the deletion.
                let due = notice.recorded_at.as_ref().is_some_and(|at| {
                    now.duration_since(at.0.max(faults_stopped_at)) > MAX_DELAY
                        && history.deleting == matches!(stage, "deleted" | "expired")
                });
                if waits && due && !is_paused(&history.last) {
                    let message = format!("{} was never told: {:?}", notice.id, notice.error);
                    wrong.push((Invariant::NoticeNotLost, history.key.clone(), message));
                }
            }
            let next = status.next.as_ref();
            let at = next.and_then(|next| next.at.as_ref()).map(|at| at.0.max(faults_stopped_at));
            let action = next.and_then(|next| next.action);
            if let Some(at) = at.filter(|at| now.duration_since(*at) > MAX_DELAY)
                && action.is_some_and(|action| action != NextAction::Submit)
                && !history.deleting
            {
                let message = format!("{action:?} was due at {at} and did not come");
                wrong.push((Invariant::Liveness, history.key.clone(), message));
            }
            if let Some(message) = self.overdue(history, faults_stopped_at) {
                wrong.push((Invariant::Liveness, history.key.clone(), message));
            }
            let settled = now.duration_since(history.changed_at.max(faults_stopped_at)) > MAX_DELAY;
            if let Some(message) = self.not_handed_in(history).filter(|_| settled) {
                wrong.push((Invariant::SubmissionNotLost, history.key.clone(), message));
            }
        }
        for (invariant, key, message) in wrong {
            self.violated(invariant, &key, message);
        }
    }

    /// What should have become of an instance by now, if everything went well since `faults_stopped_at`.
    fn overdue(&self, history: &InstanceHistory, faults_stopped_at: Timestamp) -> Option<String> {
        let now = self.now();
        let opted_out =
            self.opted_out.get(&*history.key.namespace).is_some_and(|out| out.last()[0]);
        let config = self.config.last();
        let policy = (*self.designs.get(&history.template)?.last())?.policy;
        if opted_out
            || is_paused(&history.last)
            || !history.running
            || history.deleting
            || !config.enable_instance_inactive_termination
        {
            return None;
        }
        let term = policy.stop_after?;
        let interval = config.inactive_termination_notification_interval;
        let alerts = i32::try_from(alerts(&policy, config)).ok()?;
        // What was used while its source was blind may be found out all the same, and counts then.
        let used = history.uses.last().map_or(Timestamp::MIN, |last| last.at);
        let kept = history.kept_until.unwrap_or(Timestamp::MIN);
        let begin = history.changed_at.max(used).max(kept);
        let idle = seen_by_all(&self.required(), begin, now);
        // Warnings that failed, and deadlines announced under another policy, put it off until faults stop.
        let without_faults_for = now.duration_since(faults_stopped_at.max(self.config.since()));
        let whole = interval * alerts + MAX_DELAY + MAX_DELAY;
        let promised = history
            .announced_deadline(IDLE.name)
            .is_none_or(|at| now.duration_since(at) > MAX_DELAY);
        (idle > term + whole && without_faults_for > whole && promised)
            .then(|| format!("not used for {idle:#} since {begin}, and still there"))
    }
}
