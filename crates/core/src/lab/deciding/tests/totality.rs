//! No state, however wrong, makes a decision fail; and from any of them it comes to rest.

use jiff::{SignedDuration, Timestamp};
use proptest::option;
use proptest::prelude::*;

use super::super::super::effect::Effect;
use super::super::super::forecast;
use super::super::super::observed::{Observed, Pods, StatusAnswer, StatusCheckResult};
use super::super::super::state::{
    EndReason, Ended, ExpirationState, InstanceState, Keep, Ladder, NoticeKind, Power, Stage,
    StopReason, SubmissionEntry, SubmissionState, Submissions, TerminationState,
};
use super::super::super::test_instance::{DAY, MINUTE, TestInstance, start};
use super::super::decide;
use crate::activity::Activity;
use crate::coverage::Coverage;
use crate::decision::Wake;
use crate::notice::{Delivery, Notice, NoticeId, OnUndeliverable, Outbox};
use crate::term::Term;

fn time() -> impl Strategy<Value = Timestamp> {
    prop_oneof![
        8 => (-4_000_000_i64..4_000_000).prop_map(|s| start() + SignedDuration::from_secs(s)),
        1 => Just(Timestamp::MIN),
        1 => Just(Timestamp::MAX),
        1 => (-9_000_000_000_i64..9_000_000_000).prop_map(|ms| Timestamp::from_millisecond(ms).unwrap()),
    ]
}

/// Any time at which there is still a later one.
fn now() -> impl Strategy<Value = Timestamp> {
    time().prop_map(|at| at.min(Timestamp::MAX - DAY))
}

fn span() -> impl Strategy<Value = SignedDuration> {
    prop_oneof![
        8 => (0_i64..4_000_000).prop_map(SignedDuration::from_secs),
        2 => (0_i64..4_000).prop_map(SignedDuration::from_millis),
        1 => Just(SignedDuration::MAX),
        1 => Just(SignedDuration::MIN),
        1 => Just(SignedDuration::ZERO),
    ]
}

fn term() -> impl Strategy<Value = Term> {
    prop_oneof![4 => span().prop_map(Term::Span), 1 => Just(Term::Never)]
}

fn kind() -> impl Strategy<Value = NoticeKind> {
    prop::sample::select(vec![
        NoticeKind::InactivityWarning,
        NoticeKind::Stopped,
        NoticeKind::DeletionWarning,
        NoticeKind::Deleted,
        NoticeKind::ExpiryWarning,
        NoticeKind::Expired,
        NoticeKind::SubmissionFailed,
    ])
}

fn id() -> impl Strategy<Value = NoticeId> {
    (0_u8..6).prop_map(|n| NoticeId::stored(format!("n{n}")))
}

fn notice() -> impl Strategy<Value = Notice<NoticeKind>> {
    let delivery = (0_u8..3, time()).prop_map(|(state, at)| match state {
        0 => Delivery::Waiting { next: at },
        1 => Delivery::Delivered { at },
        _ => Delivery::Waived { at },
    });
    let alert = option::of((any::<u32>(), any::<u32>()));
    (id(), kind(), alert, option::of(time()), time(), any::<u32>(), delivery).prop_map(
        |(id, kind, alert, deadline, recorded_at, attempts, delivery)| Notice {
            id,
            kind,
            alert,
            deadline,
            recorded_at,
            attempts,
            delivery,
            error: None,
        },
    )
}

fn stage() -> impl Strategy<Value = Stage> {
    prop::sample::select(vec![
        Stage::Active,
        Stage::Idle,
        Stage::Warned,
        Stage::Grace,
        Stage::Stopped,
        Stage::DestroyWarned,
        Stage::DestroyGrace,
    ])
}

fn submission() -> impl Strategy<Value = SubmissionEntry> {
    let state = prop::sample::select(vec![
        SubmissionState::Waiting,
        SubmissionState::Running,
        SubmissionState::Done,
        SubmissionState::Failed,
        SubmissionState::Waived,
        SubmissionState::Skipped,
    ]);
    let asked = (option::of(time()), any::<bool>());
    (0_u8..3, state, any::<u32>(), asked).prop_map(|(n, state, series, (asked_at, earlier))| {
        let fresh = SubmissionEntry::new(format!("e{n}"), state);
        SubmissionEntry { series, asked_at, earlier, attempts: series, ..fresh }
    })
}

fn reason() -> impl Strategy<Value = StopReason> {
    prop::sample::select(vec![
        StopReason::User,
        StopReason::Inactivity,
        StopReason::Terminated,
        StopReason::Expired,
    ])
}

fn end() -> impl Strategy<Value = EndReason> {
    prop::sample::select(vec![EndReason::Terminated, EndReason::Expired, EndReason::Unused])
}

fn state() -> impl Strategy<Value = InstanceState> {
    let t = || option::of(time());
    let power = (t(), t(), t(), option::of(reason())).prop_map(
        |(started_at, ready_at, stopped_at, stop_reason)| Power {
            started_at,
            ready_at,
            stopped_at,
            stop_reason,
        },
    );
    let ladder = (stage(), any::<u32>(), option::of(id()), t(), t()).prop_map(
        |(stage, alerts_sent, last_notice, warned_at, deadline)| Ladder {
            stage,
            alerts_sent,
            last_notice,
            warned_at,
            deadline,
        },
    );
    let expiration = (t(), option::of(id()), t(), t()).prop_map(
        |(expires_at, last_notice, warned_at, deadline)| ExpirationState {
            expires_at,
            last_notice,
            warned_at,
            deadline,
        },
    );
    let rest = (
        (t(), t(), t(), any::<u32>()),
        (any::<u32>(), t(), t()),
        prop::collection::vec(submission(), 0..4),
        prop::collection::vec(notice(), 0..6),
        (t(), any::<u64>(), option::of((time(), end())), t()),
    );
    (power, ladder, expiration, rest).prop_map(|(power, ladder, expiration, rest)| {
        let (
            (last_check, answered, deadline, misses),
            (used, until, asked),
            entries,
            notices,
            activity,
        ) = rest;
        InstanceState {
            power,
            activity: Activity { last: activity.0, count: activity.1, ..Activity::default() },
            ladder,
            expiration,
            termination: TerminationState { last_check, answered, deadline, misses },
            submissions: Submissions { entries, ..Submissions::default() },
            keep: Keep { used, until, asked },
            ended: activity.2.map(|(at, reason)| Ended { at, reason }),
            reopened: activity.3,
            claims: vec!["e0".to_owned(), "e2".to_owned()],
            outbox: Outbox { notices },
            shadow: None,
            upcoming: None,
        }
    })
}

/// A policy with anything in it.
fn instance() -> impl Strategy<Value = TestInstance> {
    let spans = (term(), term(), term(), span(), span(), span());
    let flags = prop::array::uniform9(any::<bool>());
    let requests = (option::of(time()), any::<u32>(), option::of(span()), time());
    (spans, flags, requests).prop_map(|(spans, flags, requests)| {
        let mut instance = TestInstance::submitting(&[("e0", None), ("e1", Some("no"))]);
        let intent = &mut instance.intent;
        let (stop, delete, lifespan, interval, margin, tick) = spans;
        intent.inactivity.stop_after = stop;
        intent.inactivity.delete_after_stopped = delete;
        intent.inactivity.interval = interval;
        intent.inactivity.margin = margin;
        intent.inactivity.tick = tick;
        intent.expiration.delete_after = lifespan;
        intent.expiration.interval = margin;
        intent.expiration.margin = interval;
        if let Some(check) = &mut intent.termination.check {
            check.interval = tick;
        }
        let [running, deleting, paused, observe, notify, tells, persistent, idles, ends] = flags;
        (intent.running, intent.deleting) = (running, deleting);
        (intent.paused, intent.observe, intent.persistent) = (paused, observe, persistent);
        (intent.inactivity.notify, intent.expiration.notify) = (notify, tells);
        (intent.inactivity.enabled, intent.expiration.enabled) = (idles, ends);
        let (keep_until, alerts, timeout, created_at) = requests;
        intent.keep_until = keep_until;
        intent.inactivity.max_alerts = alerts;
        intent.on_undeliverable =
            timeout.map_or(OnUndeliverable::Hold, OnUndeliverable::ProceedAfter);
        intent.created_at = created_at;
        instance
    })
}

proptest! {
    #[test]
    fn any_state_is_decided_on(
        state in state(),
        instance in instance(),
        now in now(),
        since in time(),
        check in option::of(time()),
    ) {
        let mut coverage = Coverage::starting(since);
        coverage.mark_observed(since, now);
        let answer = StatusAnswer::Keeps { deadline: check };
        let mut seen = Observed {
            coverage: &[&coverage],
            pods: Pods::Gone,
            check: check.map(|at| StatusCheckResult { at, answer }),
            claims: &instance.claims,
            jobs: &instance.jobs,
            ..Observed::default()
        };
        let steps = forecast(state.clone(), &seen, &instance.intent, now, 3).len();
        prop_assert!(steps <= 3);
        let mut state = decide(state, &seen, &instance.intent, now).next;
        seen.check = None;
        // A ladder whose intervals are nothing may be climbed at once, rung by rung.
        for _ in 0..12 {
            state = decide(state, &seen, &instance.intent, now).next;
        }
        let decision = decide(state.clone(), &seen, &instance.intent, now);
        let quick = instance.intent.inactivity.interval < MINUTE
            || instance.intent.expiration.interval < MINUTE;
        if !quick {
            prop_assert_eq!(&decision.next, &state);
            let acts = decision.effects.iter().any(|effect| *effect != Effect::Check);
            if let Wake::At(at) = decision.wake {
                prop_assert!(acts || at > now || at == Timestamp::MAX, "hot at {}: {:?}", at, decision);
            }
        }
    }
}
