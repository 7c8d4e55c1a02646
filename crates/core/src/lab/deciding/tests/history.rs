//! Random histories: whatever happens, and whatever is lost, promises are kept.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

use super::super::super::LabDecision;
use super::super::super::effect::Effect;
use super::super::super::state::{InstanceState, NoticeKind, StopReason};
use super::super::super::test_instance::{DAY, HOUR, MINUTE, TestInstance, start};
use crate::decision::Wake;
use crate::moment;
use crate::notice::{Delivery, DeliveryFailure, DeliveryOutcome, Notice, OnUndeliverable};
use crate::term::Term;

const MILLI: SignedDuration = SignedDuration::from_millis(1);

/// Something that happens.
#[derive(Debug, Clone)]
enum Event {
    Pass(SignedDuration),
    /// Time passes up to when the last decision wanted to look again.
    Wake,
    Use,
    Blind,
    Heal,
    StopAfter(Term),
    DeleteAfterStopped(Term),
    DeleteAfter(Term),
    Interval(SignedDuration),
    Alerts(u32),
    Margin(SignedDuration),
    Notify(bool, bool),
    Enabled(bool, bool),
    Persistent(bool),
    Power(bool),
    Pause(bool),
    Observe(bool),
    Keep(SignedDuration),
    Repair,
    Waive,
    Policy(OnUndeliverable),
}

/// What becomes of a decision.
#[derive(Debug, Clone, Copy)]
enum Fate {
    Published,
    /// The process dies with the decision.
    Lost,
    /// It dies after the effects, before they are on record.
    EffectsOnly,
}

/// What becomes of a notice.
#[derive(Debug, Clone, Copy)]
enum Post {
    Accepted,
    Refused,
    /// It is accepted and an error comes back, or nothing.
    AcceptedButError,
    AcceptedButSilent,
    /// The process dies before it hears anything.
    AcceptedButLost,
}

fn span() -> impl Strategy<Value = SignedDuration> {
    prop::sample::select(vec![
        SignedDuration::ZERO,
        SignedDuration::from_millis(400),
        SignedDuration::from_secs(1),
        SignedDuration::from_secs(31),
        MINUTE * 2,
        MINUTE * 11,
        HOUR,
        HOUR * 7,
        DAY,
        DAY * 3,
    ])
}

fn term() -> impl Strategy<Value = Term> {
    prop_oneof![4 => span().prop_map(Term::Span), 1 => Just(Term::Never)]
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => span().prop_map(Event::Pass),
        10 => Just(Event::Wake),
        1 => Just(Event::Use),
        1 => Just(Event::Blind),
        2 => Just(Event::Heal),
        1 => term().prop_map(Event::StopAfter),
        1 => term().prop_map(Event::DeleteAfterStopped),
        1 => term().prop_map(Event::DeleteAfter),
        1 => span().prop_map(|span| Event::Interval(span.max(SignedDuration::from_secs(1)))),
        1 => (0_u32..4).prop_map(Event::Alerts),
        1 => span().prop_map(Event::Margin),
        1 => (prop::bool::weighted(0.8), prop::bool::weighted(0.8))
            .prop_map(|(a, b)| Event::Notify(a, b)),
        1 => (prop::bool::weighted(0.8), prop::bool::weighted(0.8))
            .prop_map(|(a, b)| Event::Enabled(a, b)),
        1 => any::<bool>().prop_map(Event::Persistent),
        1 => any::<bool>().prop_map(Event::Power),
        1 => prop::bool::weighted(0.3).prop_map(Event::Pause),
        1 => prop::bool::weighted(0.3).prop_map(Event::Observe),
        1 => span().prop_map(Event::Keep),
        1 => Just(Event::Repair),
        1 => Just(Event::Waive),
        1 => prop_oneof![
            Just(OnUndeliverable::Hold),
            span().prop_map(OnUndeliverable::ProceedAfter)
        ]
        .prop_map(Event::Policy),
    ]
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![8 => Just(Fate::Published), 1 => Just(Fate::Lost), 2 => Just(Fate::EffectsOnly)]
}

fn post() -> impl Strategy<Value = Post> {
    prop_oneof![
        5 => Just(Post::Accepted),
        1 => Just(Post::Refused),
        1 => Just(Post::AcceptedButError),
        1 => Just(Post::AcceptedButSilent),
        1 => Just(Post::AcceptedButLost),
    ]
}

/// An instance whose decisions may get lost, and what its owner was told.
#[derive(Debug)]
struct LossyInstance {
    instance: TestInstance,
    wake: Option<Timestamp>,
    last_use: Timestamp,
    /// The latest deadline that may have been told, by kind.
    told: BTreeMap<&'static str, Timestamp>,
    /// Which id told a warning of this kind, number and deadline, on the ladder that it is on.
    ids: BTreeMap<(&'static str, u32, Timestamp), String>,
}

fn name(kind: NoticeKind) -> &'static str {
    match kind {
        NoticeKind::InactivityWarning => "inactivity",
        NoticeKind::Stopped => "stopped",
        NoticeKind::DeletionWarning => "deletion",
        NoticeKind::Deleted => "deleted",
        NoticeKind::ExpiryWarning => "expiry",
        NoticeKind::Expired => "expired",
        NoticeKind::SubmissionFailed => "submission",
    }
}

impl LossyInstance {
    fn new() -> Self {
        let mut instance = TestInstance::new();
        instance.intent.inactivity.stop_after = Term::Span(HOUR * 3);
        instance.intent.inactivity.delete_after_stopped = Term::Span(HOUR * 9);
        instance.intent.inactivity.interval = HOUR * 2;
        instance.intent.inactivity.max_alerts = 2;
        instance.intent.expiration.delete_after = Term::Span(DAY * 2);
        instance.intent.expiration.interval = HOUR * 5;
        instance.intent.delivery = SignedDuration::from_secs(3);
        let last_use = start();
        Self { instance, wake: None, last_use, told: BTreeMap::new(), ids: BTreeMap::new() }
    }

    fn happen(&mut self, event: &Event) {
        let instance = &mut self.instance;
        let intent = &mut instance.intent;
        match event.clone() {
            Event::Pass(span) => instance.advance_to(instance.now + span),
            Event::Wake => {
                if let Some(wake) = self.wake.filter(|wake| *wake > instance.now) {
                    instance.advance_to(wake.min(instance.now + DAY * 40));
                }
            }
            Event::Use => {
                instance.used();
                self.last_use = instance.now;
            }
            Event::Blind => instance.blind = instance.blind.or(Some(instance.now)),
            Event::Heal => {
                if instance.blind.is_some() {
                    instance.now += MILLI;
                    instance.unblind_sources();
                }
            }
            Event::StopAfter(term) => intent.inactivity.stop_after = term,
            Event::DeleteAfterStopped(term) => intent.inactivity.delete_after_stopped = term,
            Event::DeleteAfter(term) => intent.expiration.delete_after = term,
            Event::Interval(span) => {
                intent.inactivity.interval = span;
                intent.expiration.interval = span;
            }
            Event::Alerts(count) => intent.inactivity.max_alerts = count,
            Event::Margin(span) => intent.inactivity.margin = span,
            Event::Notify(idle, end) => {
                intent.inactivity.notify = idle;
                intent.expiration.notify = end;
            }
            Event::Enabled(idle, end) => {
                intent.inactivity.enabled = idle;
                intent.expiration.enabled = end;
            }
            Event::Persistent(persistent) => intent.persistent = persistent,
            Event::Power(running) => {
                if running && !intent.running {
                    self.last_use = instance.now;
                    instance.pods_since = Some(instance.now);
                }
                intent.running = running;
            }
            Event::Pause(paused) => intent.paused = paused,
            Event::Observe(observe) => intent.observe = observe,
            Event::Keep(span) => intent.keep_until = Some(instance.now + span),
            Event::Repair => instance.channels_changed_at = Some(instance.now),
            Event::Waive => intent.notices_waived = Some(instance.now),
            Event::Policy(policy) => intent.on_undeliverable = policy,
        }
    }

    /// One reconcile, with its fate.
    fn reconcile(&mut self, fate: Fate, post: Post) {
        let decision = self.instance.decision();
        assert_eq!(decision, self.instance.decision(), "the same question has the same answer");
        self.judge_state(&decision);
        for effect in &decision.effects {
            self.judge(effect);
        }
        self.wake = decision.wake.at();
        match fate {
            Fate::Lost => return,
            Fate::EffectsOnly => self.execute(&decision.effects, post),
            Fate::Published => {
                self.instance.state = stored(decision.next.clone());
                self.instance.activity = None;
                self.instance.outcomes.clear();
                self.execute(&decision.effects, post);
            }
        }
        if matches!(fate, Fate::Published) && self.instance.outcomes.is_empty() {
            self.comes_to_rest();
        }
    }

    /// Asked again with nothing new, it has nothing more to write within three rounds, and then
    /// wakes later or has something to do.
    fn comes_to_rest(&self) {
        let mut instance = self.instance.clone();
        for _ in 0..3 {
            let before = instance.state.clone();
            instance.state = stored(instance.decision().next);
            if instance.state == before {
                break;
            }
        }
        let decision = instance.decision();
        assert_eq!(stored(decision.next.clone()), instance.state, "no rest at {}", instance.now);
        if let Wake::At(at) = decision.wake {
            assert!(at > instance.now || !decision.effects.is_empty(), "a hot loop: {decision:?}");
        }
    }

    fn judge_state(&mut self, decision: &LabDecision) {
        let before = &self.instance.state;
        if let (Some(was), Some(is)) = (before.ladder.deadline, decision.next.ladder.deadline) {
            let left = decision.next.ladder.alerts_sent < before.ladder.alerts_sent
                || decision.next.power != before.power;
            assert!(is >= was || left, "the deadline moved from {was} to {is}");
        }
        if decision.next.ladder.last_notice.is_none() {
            self.ids.retain(|(kind, ..), _| *kind == name(NoticeKind::ExpiryWarning));
        }
        if decision.next.expiration.expires_at != before.expiration.expires_at {
            self.ids.retain(|(kind, ..), _| *kind != name(NoticeKind::ExpiryWarning));
        }
        if self.instance.intent.paused || self.instance.intent.observe {
            assert_eq!(decision.effects, [], "paused or observed");
        }
    }

    fn judge(&mut self, effect: &Effect) {
        let (instance, now) = (&self.instance, self.instance.now);
        let told = |kind: NoticeKind| self.told.get(name(kind)).copied();
        let kept = instance.state.keep.until.is_some_and(|until| moment::floor_second(now) < until);
        match effect {
            Effect::Notify(notice) => self.judge_notice(&notice.clone()),
            Effect::Stop(reason) => {
                assert_eq!(*reason, StopReason::Inactivity);
                assert_eq!(instance.state.power.stop_reason, Some(StopReason::Inactivity));
                assert!(instance.blind.is_none() && !kept);
                assert!(told(NoticeKind::InactivityWarning).is_none_or(|told| told <= now));
                self.judge_idleness();
            }
            Effect::Delete => {
                let warned_by = match (instance.intent.running, instance.intent.persistent) {
                    (true, true) => None,
                    (true, false) => Some(NoticeKind::InactivityWarning),
                    (false, _) => Some(NoticeKind::DeletionWarning),
                };
                let over = |kind: NoticeKind| told(kind).is_none_or(|told| told <= now);
                let idle = warned_by.is_some_and(over)
                    && (instance.blind.is_none() || !instance.intent.running)
                    && instance.state.ladder.deadline.is_some_and(|deadline| deadline <= now);
                let expired = over(NoticeKind::ExpiryWarning)
                    && instance.state.expiration.deadline.is_some_and(|deadline| deadline <= now);
                assert!(idle || expired, "deleted before what was told");
                assert!(!kept && !instance.state.submissions.pending());
            }
            Effect::Check
            | Effect::Submit { .. }
            | Effect::RemoveJob { .. }
            | Effect::AddClaimFinalizer { .. }
            | Effect::RemoveClaimFinalizer { .. }
            | Effect::RemoveFinalizer => {
                panic!("{effect:?} was never asked for")
            }
        }
    }

    /// What is stopped was unused for its whole term, and its last interval was given in full.
    fn judge_idleness(&self) {
        let (instance, now) = (&self.instance, self.instance.now);
        let policy = &instance.intent.inactivity;
        let Term::Span(term) = policy.stop_after else { panic!("never means never") };
        assert!(now.duration_since(self.last_use) >= term, "used {} ago", now - self.last_use);
        if policy.notify && policy.max_alerts > 0 {
            let warned = instance.state.ladder.warned_at.expect("it was warned");
            assert!(instance.state.ladder.alerts_sent >= policy.max_alerts);
            assert!(now.duration_since(warned) >= policy.interval, "the last interval");
        }
    }

    fn judge_notice(&mut self, notice: &Notice<NoticeKind>) {
        let (instance, now) = (&self.instance, self.instance.now);
        let recorded = instance.state.outbox.find(&notice.id).expect("it is on record");
        assert_eq!(recorded.deadline, notice.deadline);
        assert!(!notice.kind.is_final(), "it is still there");
        let (Some(deadline), Some((alert, of))) = (notice.deadline, notice.alert) else { return };
        let kind = name(notice.kind);
        if notice.kind == NoticeKind::InactivityWarning {
            assert!(instance.blind.is_none() && instance.intent.running);
        }
        let before = self.told.insert(kind, deadline);
        assert!(before.is_none_or(|before| before <= deadline), "told {before:?}, then {deadline}");
        let interval = match notice.kind {
            NoticeKind::ExpiryWarning => instance.intent.expiration.interval,
            _ => instance.intent.inactivity.interval,
        };
        let promised = interval * i32::try_from(of - alert + 1).unwrap();
        assert!(deadline >= now + promised, "{deadline} does not give {promised}");
        let id = self.ids.entry((kind, alert, deadline)).or_insert_with(|| notice.id.to_string());
        assert_eq!(*id, notice.id.to_string(), "one thing told under two names");
    }

    fn execute(&mut self, effects: &[Effect], post: Post) {
        for effect in effects {
            match effect {
                Effect::Notify(notice) => {
                    let result = match post {
                        Post::Accepted => Some(Ok(())),
                        Post::Refused | Post::AcceptedButError => {
                            Some(Err(DeliveryFailure::Refused("no".to_owned())))
                        }
                        Post::AcceptedButSilent => None,
                        Post::AcceptedButLost => Some(Err(DeliveryFailure::Lost)),
                    };
                    let (id, at) = (notice.id.clone(), self.instance.now);
                    self.instance.outcomes.extend(result.map(|result| DeliveryOutcome {
                        id,
                        at,
                        result,
                    }));
                }
                Effect::Stop(_) => self.instance.intent.running = false,
                // The history goes on as if somebody had the object restored.
                Effect::Delete
                | Effect::Check
                | Effect::Submit { .. }
                | Effect::RemoveJob { .. }
                | Effect::AddClaimFinalizer { .. }
                | Effect::RemoveClaimFinalizer { .. }
                | Effect::RemoveFinalizer => {}
            }
        }
    }
}

/// The state as the API gives it back: in whole seconds.
fn stored(mut state: InstanceState) -> InstanceState {
    let cut = |at: &mut Timestamp| *at = moment::floor_second(*at);
    let InstanceState { power, activity, ladder, expiration, termination, keep, outbox, .. } =
        &mut state;
    let times = [
        &mut power.started_at,
        &mut power.ready_at,
        &mut power.stopped_at,
        &mut activity.last,
        &mut activity.since,
        &mut activity.blind,
        &mut ladder.warned_at,
        &mut ladder.deadline,
        &mut expiration.expires_at,
        &mut expiration.warned_at,
        &mut expiration.deadline,
        &mut termination.last_check,
        &mut termination.deadline,
        &mut keep.until,
    ];
    times.into_iter().flatten().for_each(cut);
    for notice in &mut outbox.notices {
        cut(&mut notice.recorded_at);
        notice.deadline.iter_mut().for_each(cut);
        match &mut notice.delivery {
            Delivery::Waiting { next: at }
            | Delivery::Delivered { at }
            | Delivery::Waived { at } => cut(at),
        }
    }
    state
}

proptest! {
    #[test]
    fn promises_are_kept(history in prop::collection::vec((event(), fate(), post()), 1..80)) {
        let mut lossy = LossyInstance::new();
        for (event, fate, post) in history {
            lossy.happen(&event);
            for fate in [fate, Fate::Published, fate] {
                lossy.reconcile(fate, post);
            }
        }
    }
}
