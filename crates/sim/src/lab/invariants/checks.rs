//! Checks each thing that the controllers did, by the truth alone.

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
        life: &InstanceHistory,
        ladder: LadderRules,
        at: Timestamp,
    ) -> Option<RequiredPolicy> {
        let designs = self.designs.get(&life.template)?.during(lately(at), at);
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
        self.sights.values().collect()
    }

    /// How long it takes until the ingress's use is known: a tick, and the step that is looked at
    /// again.
    fn reporting_delay(&self) -> SignedDuration {
        let config = self.config.last();
        config.activity_interval + config.query_step * 2 + SignedDuration::from_mins(1)
    }

    pub(super) fn check_holds(&mut self, life: &InstanceHistory) {
        let now = self.now();
        if is_paused(&life.last) {
            self.violated(Invariant::PauseHolds, &life.key, "it is paused".to_owned());
        }
        if let Some(until) = life.kept_until.filter(|until| now < *until)
            && status(&life.last).stop_reason
                != Some(sojourn_api::lab::status::StopReason::Terminated)
        {
            let words = format!("it is kept until {until}");
            self.violated(Invariant::KeepHolds, &life.key, words);
        }
    }

    fn check_opt_out(&mut self, life: &InstanceHistory, ladder: LadderRules) {
        let now = self.now();
        let Some(history) = self.opted_out.get(&*life.key.namespace) else { return };
        if history.during(lately(now), now).all(|out| out[ladder.opt_out]) {
            let words = format!("its namespace has opted out of {}", ladder.name);
            self.violated(Invariant::OptOutHolds, &life.key, words);
        }
    }

    fn check_promise(&mut self, life: &InstanceHistory, ladder: LadderRules) {
        let now = self.now();
        if let Some(deadline) = life.promised(ladder.name).filter(|deadline| now < *deadline) {
            let words = format!("its owner was told {deadline}");
            self.violated(Invariant::DeadlineKept, &life.key, words);
        }
    }

    /// A running instance was stopped or deleted because nobody used it.
    pub(super) fn check_idle(&mut self, life: &InstanceHistory) {
        let now = self.now();
        self.check_opt_out(life, IDLE);
        self.check_promise(life, IDLE);
        let late = self.reporting_delay();
        let sights = self.sights.iter().map(|(source, sight)| (source.to_string(), sight));
        let all = sights.chain([("the metrics server".to_owned(), &self.metrics)]);
        let blind = all.into_iter().find_map(|(name, sight)| {
            let since = sight.blind_since()?;
            (now.duration_since(since) > late).then(|| format!("{name} is blind since {since}"))
        });
        if let Some(words) = blind {
            self.violated(Invariant::NotWhileBlind, &life.key, words);
        }
        let known = |one: &super::instance_history::InstanceUse| {
            one.source == source::GATEWAY || now.duration_since(one.at) > late
        };
        let since = life.idle_since(known);
        // A warning of the time in which the last use was not known yet is one of an earlier ladder.
        let from = since.checked_add(late).unwrap_or(Timestamp::MAX);
        self.check_climb(life, IDLE, since, from);
    }

    /// A stopped instance was deleted.
    pub(super) fn check_stopped(&mut self, life: &InstanceHistory) {
        self.check_opt_out(life, STOPPED);
        self.check_promise(life, STOPPED);
        self.check_climb(life, STOPPED, life.changed_at, life.changed_at);
    }

    /// An instance was deleted because its lifespan is over.
    pub(super) fn check_expiration(&mut self, life: &InstanceHistory) {
        self.check_opt_out(life, EXPIRED);
        self.check_promise(life, EXPIRED);
        self.check_climb(life, EXPIRED, life.created_at, life.created_at);
    }

    pub(super) fn may_expire(&self, life: &InstanceHistory) -> bool {
        let now = self.now();
        self.asked(life, EXPIRED, now)
            .is_some_and(|asked| now.duration_since(life.created_at) >= asked.span)
    }

    /// The term was over by the policy of the time, both when the first warning came and when it
    /// was acted on; every warning that was asked for came after `from`, and each was given its
    /// interval.
    fn check_climb(
        &mut self,
        life: &InstanceHistory,
        ladder: LadderRules,
        since: Timestamp,
        from: Timestamp,
    ) {
        let now = self.now();
        let warnings: Vec<AcceptedNotice> =
            life.warnings(ladder.name, from).into_iter().cloned().collect();
        let first = warnings.first().map(|first| first.at);
        for at in first.into_iter().chain([now]) {
            let Some(asked) = self.asked(life, ladder, at) else {
                let words = format!("at {at} no policy lets it be taken for {}", ladder.name);
                self.violated(Invariant::ActionsHaveReasons, &life.key, words);
                continue;
            };
            let counted = self.counted(ladder, since, at);
            if counted + ROUNDING < asked.span {
                let words =
                    format!("from {since} to {at} only {counted:#} count, of {:#}", asked.span);
                self.violated(ladder.term, &life.key, words);
            }
        }
        let due = self.asked(life, ladder, now).map_or(0, |asked| asked.warnings);
        if warnings.len() < due {
            let told: Vec<&str> = warnings.iter().map(|one| one.stage.as_str()).collect();
            let words = format!("{due} warnings were due, and these were given: {told:?}");
            self.violated(Invariant::Warned, &life.key, words);
        }
        if due > 0 {
            self.check_intervals(life, ladder, &warnings);
        }
    }

    fn check_intervals(
        &mut self,
        life: &InstanceHistory,
        ladder: LadderRules,
        warnings: &[AcceptedNotice],
    ) {
        let ends = warnings.iter().skip(1).map(|one| one.at).chain([self.now()]);
        for (warning, end) in warnings.iter().zip(ends) {
            let given = self.counted(ladder, warning.at, end);
            let interval = self.least_interval(ladder, warning.at, end);
            if given + ROUNDING < interval {
                let words = format!(
                    "{} was told at {}, and of {interval:#} only {given:#} were given until {end}",
                    warning.stage, warning.at
                );
                self.violated(Invariant::IntervalGiven, &life.key, words);
            }
        }
    }

    pub(super) fn check_termination(&mut self, life: &InstanceHistory) {
        if !self.ended_exams.contains_key(&life.key) {
            let words = "nobody said that it has ended".to_owned();
            self.violated(Invariant::TerminationConfirmed, &life.key, words);
        }
    }

    /// A notice is about to be accepted.
    pub(super) fn check_notice(&mut self, uid: &str, key: &Key, new: &AcceptedNotice) {
        let Some(life) = self.lives.get(uid) else { return };
        let mut wrong = None;
        for old in &life.accepted {
            let same = old.stage == new.stage && old.deadline == new.deadline;
            if same && old.id != new.id && old.deadline.is_some() {
                wrong = Some(format!("{} and {} say the same", old.id, new.id));
            }
            let stored = life.notices.get(&new.id) == Some(&NoticeState::Delivered);
            let known = stored || (old.told_so && old.operator == new.operator);
            // Two that run at once do not know what the other has just sent.
            if old.id == new.id && new.alone && known {
                wrong = Some(format!("{} was accepted at {} already", new.id, old.at));
            }
        }
        if let Some(words) = wrong {
            self.violated(Invariant::NoticeOnce, key, words);
        }
    }

    /// What must hold at the end, when nothing has failed since `calm`.
    pub fn check_end(&mut self, calm: Timestamp) {
        let now = self.now();
        let mut wrong: Vec<(Invariant, Key, String)> = Vec::new();
        for life in self.lives.values().filter(|life| life.gone_at.is_none()) {
            let status = status(&life.last);
            for notice in &status.notices {
                let waits = notice.state == Some(NoticeState::Waiting);
                let stage = parts(&notice.id).map_or("", |(_, stage, _)| stage);
                // A final notice is sent only after the deletion.
                let due = notice.recorded_at.as_ref().is_some_and(|at| {
                    now.duration_since(at.0.max(calm)) > MAX_DELAY
                        && life.deleting == matches!(stage, "deleted" | "expired")
                });
                if waits && due && !is_paused(&life.last) {
                    let words = format!("{} was never told: {:?}", notice.id, notice.error);
                    wrong.push((Invariant::NoticeNotLost, life.key.clone(), words));
                }
            }
            let next = status.next.as_ref();
            let at = next.and_then(|next| next.at.as_ref()).map(|at| at.0.max(calm));
            let action = next.and_then(|next| next.action);
            if let Some(at) = at.filter(|at| now.duration_since(*at) > MAX_DELAY)
                && action.is_some_and(|action| action != NextAction::Submit)
                && !life.deleting
            {
                let words = format!("{action:?} was due at {at} and did not come");
                wrong.push((Invariant::Alive, life.key.clone(), words));
            }
            if let Some(words) = self.overdue(life, calm) {
                wrong.push((Invariant::Alive, life.key.clone(), words));
            }
            let settled = now.duration_since(life.changed_at.max(calm)) > MAX_DELAY;
            if let Some(words) = self.not_handed_in(life).filter(|_| settled) {
                wrong.push((Invariant::SubmissionNotLost, life.key.clone(), words));
            }
        }
        for (property, key, words) in wrong {
            self.violated(property, &key, words);
        }
    }

    /// What should have become of an instance by now, if everything went well since `calm`.
    fn overdue(&self, life: &InstanceHistory, calm: Timestamp) -> Option<String> {
        let now = self.now();
        let opted_out = self.opted_out.get(&*life.key.namespace).is_some_and(|out| out.last()[0]);
        let config = self.config.last();
        let policy = (*self.designs.get(&life.template)?.last())?.policy;
        if opted_out
            || is_paused(&life.last)
            || !life.running
            || life.deleting
            || !config.enable_instance_inactive_termination
        {
            return None;
        }
        let term = policy.stop_after?;
        let interval = config.inactive_termination_notification_interval;
        let alerts = i32::try_from(alerts(&policy, config)).ok()?;
        // What was used while its source was blind may be found out all the same, and counts then.
        let used = life.uses.last().map_or(Timestamp::MIN, |last| last.at);
        let kept = life.kept_until.unwrap_or(Timestamp::MIN);
        let begin = life.changed_at.max(used).max(kept);
        let idle = seen_by_all(&self.required(), begin, now);
        // Warnings that failed, and promises made under another policy, put it off until the calm.
        let calm_for = now.duration_since(calm.max(self.config.since()));
        let whole = interval * alerts + MAX_DELAY + MAX_DELAY;
        let promised = life.promised(IDLE.name).is_none_or(|at| now.duration_since(at) > MAX_DELAY);
        (idle > term + whole && calm_for > whole && promised)
            .then(|| format!("not used for {idle:#} since {begin}, and still there"))
    }
}
