use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;
use sojourn_core::lab::reason::Reason;
use sojourn_core::lab::source;
use sojourn_core::notice::{Delivery, MAX_NOTICES, Notice, Outbox};

use super::*;
use crate::limit::MAX_TEXT_CHARS;
use sojourn_core::moment::ceil_second;

/// Whole seconds, which is what the wire knows, in the times that it can write.
fn time() -> impl Strategy<Value = Timestamp> {
    (0_i64..4_000_000_000).prop_map(|seconds| Timestamp::from_second(seconds).expect("in range"))
}

fn maybe() -> impl Strategy<Value = Option<Timestamp>> {
    option::of(time())
}

fn number() -> impl Strategy<Value = u64> {
    0..=MAX_INTEGER
}

fn id() -> impl Strategy<Value = NoticeId> {
    "[a-z0-9.-]{1,40}".prop_map(NoticeId::stored)
}

fn power() -> impl Strategy<Value = domain::Power> {
    use domain::StopReason::{Expired, Inactivity, Terminated, User};
    (maybe(), maybe(), maybe(), option::of(select(vec![User, Inactivity, Terminated, Expired])))
        .prop_map(|(started_at, ready_at, stopped_at, stop_reason)| domain::Power {
            started_at,
            ready_at,
            stopped_at,
            stop_reason,
        })
}

fn activity() -> impl Strategy<Value = Activity> {
    (maybe(), option::of(select(source::ALL.to_vec())), number(), maybe(), maybe()).prop_map(
        |(last, source, count, since, blind)| Activity { last, source, count, since, blind },
    )
}

fn ladder() -> impl Strategy<Value = domain::Ladder> {
    use domain::Stage::*;
    let stage = select(vec![Active, Idle, Warned, Grace, Stopped, DestroyWarned, DestroyGrace]);
    (stage, any::<u32>(), option::of(id()), maybe(), maybe()).prop_map(
        |(stage, alerts_sent, last_notice, warned_at, deadline)| domain::Ladder {
            stage,
            alerts_sent,
            last_notice,
            warned_at,
            deadline,
        },
    )
}

fn expiration() -> impl Strategy<Value = domain::ExpirationState> {
    (maybe(), option::of(id()), maybe(), maybe()).prop_map(
        |(expires_at, last_notice, warned_at, deadline)| domain::ExpirationState {
            expires_at,
            last_notice,
            warned_at,
            deadline,
        },
    )
}

fn submission() -> impl Strategy<Value = domain::SubmissionEntry> {
    use domain::SubmissionState::*;
    let state = select(vec![Waiting, Running, Done, Failed, Waived, Skipped]);
    let counts = (any::<u32>(), any::<u32>(), option::of(number()));
    let words = (option::of("\\PC{0,20}"), option::of("\\PC{0,20}"), option::of("\\PC{0,20}"));
    let asked = (time(), any::<bool>(), maybe());
    ("[a-z]{1,20}", state, counts, words, maybe(), asked).prop_map(
        |(environment, state, counts, (sha256, receipt, error), submitted_at, asked)| {
            let ((series, attempts, size), (asked_at, earlier, retry_at)) = (counts, asked);
            domain::SubmissionEntry {
                environment,
                state,
                series,
                asked_at: Some(asked_at),
                earlier,
                attempts,
                retry_at,
                size,
                sha256,
                receipt,
                submitted_at,
                error,
            }
        },
    )
}

fn notice() -> impl Strategy<Value = Notice<domain::NoticeKind>> {
    use domain::NoticeKind::*;
    let kind = select(vec![
        InactivityWarning,
        Stopped,
        DeletionWarning,
        Deleted,
        ExpiryWarning,
        Expired,
        SubmissionFailed,
    ]);
    let delivery = prop_oneof![
        time().prop_map(|next| Delivery::Waiting { next }),
        time().prop_map(|at| Delivery::Delivered { at }),
        time().prop_map(|at| Delivery::Waived { at }),
    ];
    let alert = option::of((any::<u32>(), any::<u32>()));
    let words = option::of("\\PC{0,20}");
    (id(), kind, alert, maybe(), time(), any::<u32>(), delivery, words).prop_map(
        |(id, kind, alert, deadline, recorded_at, attempts, delivery, error)| Notice {
            id,
            kind,
            alert,
            deadline,
            recorded_at,
            attempts,
            delivery,
            error,
        },
    )
}

fn submissions() -> impl Strategy<Value = domain::Submissions> {
    (vec(submission(), 0..4), maybe(), maybe(), maybe()).prop_map(
        |(entries, requested, retried, waived)| domain::Submissions {
            entries,
            requested,
            retried,
            waived,
        },
    )
}

fn state() -> impl Strategy<Value = domain::InstanceState> {
    use domain::Action::{Delete, Stop, Warn};
    use domain::EndReason::{Expired, Terminated, Unused};
    let termination = (maybe(), maybe(), maybe(), any::<u32>()).prop_map(
        |(last_check, answered, deadline, misses)| domain::TerminationState {
            last_check,
            answered,
            deadline,
            misses,
        },
    );
    let end = (time(), select(vec![Terminated, Expired, Unused]));
    let end = end.prop_map(|(at, reason)| domain::Ended { at, reason });
    // What was terminated has ended, unless somebody took that back.
    let end = (option::of(end), time(), vec("[a-z]{1,20}", 0..3))
        .prop_map(|(ended, reopened, claims)| (ended, ended.is_none().then_some(reopened), claims));
    let keep = (any::<u32>(), maybe(), maybe()).prop_map(|(used, until, asked)| domain::Keep {
        used,
        until,
        asked,
    });
    let outbox = vec(notice(), 0..=MAX_NOTICES).prop_map(|notices| Outbox { notices });
    let step = (select(vec![Warn, Stop, Delete]), time(), "[a-z ]{0,20}");
    let step = step.prop_map(|(action, at, why)| domain::ShadowStep { action, at, why });
    let shadow = (any::<bool>(), maybe(), maybe(), ladder(), expiration(), vec(step, 0..3));
    let shadow = shadow.prop_map(|(running, stopped_at, gone_at, ladder, expiration, steps)| {
        let stop_reason = running.then_some(domain::StopReason::Inactivity);
        domain::Shadow { running, stopped_at, stop_reason, gone_at, ladder, expiration, steps }
    });
    let told = (outbox, end, option::of(shadow));
    (power(), activity(), ladder(), expiration(), termination, submissions(), keep, told).prop_map(
        |(power, activity, ladder, expiration, termination, submissions, keep, told)| {
            let (outbox, (ended, reopened, claims), shadow) = told;
            let claims: std::collections::BTreeSet<String> = claims.into_iter().collect();
            domain::InstanceState {
                power,
                activity,
                ladder,
                expiration,
                termination,
                submissions,
                keep,
                ended,
                reopened,
                claims: claims.into_iter().collect(),
                outbox,
                shadow: shadow.map(Box::new),
                upcoming: None,
            }
        },
    )
}

/// Through the status and through its JSON, which is what the API keeps.
fn there_and_back(state: &domain::InstanceState) -> domain::InstanceState {
    let mut status = InstanceStatus::default();
    write_state(state, &mut status);
    let json = serde_json::to_string(&status).expect("a status writes");
    read_state(Some(&serde_json::from_str(&json).expect("a status reads")))
}

proptest! {
    #[test]
    fn a_state_comes_back_as_it_was(state in state()) {
        prop_assert_eq!(there_and_back(&state), state);
    }

    #[test]
    fn no_time_comes_back_earlier(nanos in 0_i64..4_000_000_000_000_000_000) {
        let deadline = Timestamp::from_nanosecond(nanos.into()).expect("in range");
        let ladder = domain::Ladder { deadline: Some(deadline), ..domain::Ladder::default() };
        let back = there_and_back(&domain::InstanceState { ladder, ..domain::InstanceState::default() });
        let read = back.ladder.deadline.expect("a deadline");
        prop_assert!(read >= deadline && read.duration_since(deadline).as_secs() < 1);
        prop_assert_eq!(read, ceil_second(read));
    }
}

#[test]
fn what_comes_next_is_for_people() {
    let at: Timestamp = "2026-11-17T09:00:00.5Z".parse().expect("a time");
    let why = Reason::IntervalRuns { until: at };
    let upcoming =
        domain::UpcomingAction { action: domain::Action::Stop, at: Some(at), why: why.clone() };
    let state =
        domain::InstanceState { upcoming: Some(upcoming), ..domain::InstanceState::default() };
    let mut status = InstanceStatus::default();
    write_state(&state, &mut status);
    let next = status.next.expect("something comes");
    assert_eq!(next.action, Some(NextAction::Stop));
    assert_eq!(next.at.map(|time| time.0.to_string()), Some("2026-11-17T09:00:01Z".to_owned()));
    assert_eq!(next.why, why.to_string());
}

#[test]
fn what_an_api_would_refuse_is_cut_to_what_it_takes() {
    let entry = domain::SubmissionEntry {
        environment: "web".to_owned(),
        state: domain::SubmissionState::Failed,
        series: 1,
        asked_at: None,
        earlier: false,
        attempts: 10,
        retry_at: None,
        size: Some(u64::MAX),
        sha256: None,
        receipt: None,
        submitted_at: None,
        error: Some("é".repeat(5000)),
    };
    let mut state = domain::InstanceState::default();
    state.activity.count = u64::MAX;
    state.submissions.entries.push(entry);
    let back = there_and_back(&state);
    assert_eq!(back.activity.count, MAX_INTEGER);
    assert_eq!(back.submissions.entries[0].size, Some(MAX_INTEGER));
    let error = back.submissions.entries[0].error.as_deref();
    assert_eq!(error.map(|text| text.chars().count()), Some(MAX_TEXT_CHARS));
}

#[test]
fn what_others_wrote_into_a_status_stays() {
    let mut status = InstanceStatus { url: Some("http://x/".to_owned()), ..Default::default() };
    write_state(&domain::InstanceState::default(), &mut status);
    assert_eq!(status.url.as_deref(), Some("http://x/"));
    assert_eq!(status.lifecycle.and_then(|lifecycle| lifecycle.stage), Some(Stage::Active));
    assert_eq!(status.activity, None);
}

fn read_json(value: serde_json::Value) -> domain::InstanceState {
    read_state(Some(&serde_json::from_value(value).expect("a status reads")))
}

#[test]
fn a_last_use_that_is_garbage_is_unknown_and_not_long_ago() {
    let state = read_json(json!({
        "activity": { "last": "yesterday", "count": 3, "source": "Gateway" },
        "lifecycle": { "stage": "Warned", "warnedAt": 5 },
    }));
    assert_eq!(state.activity.last, None);
    assert_eq!(state.activity.count, 3);
    assert_eq!(state.ladder.warned_at, None);
    assert_eq!(state.ladder.stage, domain::Stage::Warned);
}

#[test]
fn a_notice_that_makes_no_sense_was_never_given() {
    let time = "2026-11-16T09:00:00Z";
    let state = read_json(json!({ "notices": [
        { "kind": "Stopped", "state": "Delivered", "deliveredAt": time },
        { "id": "a", "state": "Delivered", "deliveredAt": time },
        { "id": "b", "kind": "Stopped", "deliveredAt": time },
        { "id": "c", "kind": "Stopped", "state": "Delivered" },
        { "id": "d", "kind": "Stopped", "state": "Delivered", "recordedAt": time },
        { "id": "e", "kind": "Stopped", "state": "Delivered", "deliveredAt": time, "alert": 1 },
    ] }));
    let at: Timestamp = time.parse().expect("a time");
    let kept: Vec<_> =
        state.outbox.notices.iter().map(|n| (n.id.as_str(), n.delivery, n.alert)).collect();
    assert_eq!(
        kept,
        [
            // Recorded, and marked as delivered at no time: it is sent again, under the same id.
            ("d", Delivery::Waiting { next: at }, None),
            ("e", Delivery::Delivered { at }, None),
        ]
    );
}

#[test]
fn a_submission_without_a_state_begins_anew_and_one_of_nobody_goes() {
    let state = read_json(json!({ "submission": [
        { "environment": "web", "state": "Uploaded", "series": 2 },
        { "state": "Done" },
    ] }));
    let entries: Vec<_> =
        state.submissions.entries.iter().map(|e| (e.environment.as_str(), e.state)).collect();
    assert_eq!(entries, [("web", domain::SubmissionState::Waiting)]);
}

#[test]
fn an_end_is_never_read_as_none() {
    let ended = |value| read_json(value).ended.map(|ended| ended.reason);
    let stopped = "2026-11-16T09:00:00Z";
    use domain::EndReason::{Expired, Terminated};
    assert_eq!(ended(json!({ "ended": { "at": stopped, "reason": "Expired" } })), Some(Expired));
    assert_eq!(ended(json!({ "ended": {} })), Some(Terminated));
    assert_eq!(ended(json!({ "ended": { "reason": "Other", "at": 5 } })), Some(Terminated));
    // Before ends were written down.
    let before = json!({ "stopReason": "Terminated", "lastStoppedAt": stopped });
    assert_eq!(read_json(before.clone()).ended.map(|ended| ended.at), stopped.parse().ok());
    let mut taken_back = before;
    taken_back["reopened"] = json!(stopped);
    assert_eq!(ended(taken_back), None);
    assert_eq!(ended(json!({ "stopReason": "User", "lastStoppedAt": stopped })), None);
}

#[test]
fn what_an_earlier_version_wrote_about_claims_and_submissions_still_counts() {
    let state = read_json(json!({
        "lastStartedAt": "2026-11-16T09:00:00Z",
        "environments": [{ "name": "web", "claim": "ada-web" }, { "name": "cache" }],
        "claims": ["db"],
        "submission": [
            { "environment": "db", "state": "Done", "submittedAt": "2026-11-16T08:00:00Z" },
            { "environment": "web", "state": "Done", "submittedAt": "2026-11-16T10:00:00Z" },
        ],
    }));
    assert_eq!(state.claims, ["db", "web"]);
    let earlier: Vec<_> = state.submissions.entries.iter().map(|entry| entry.earlier).collect();
    assert_eq!(earlier, [true, false], "it was started since");
}
