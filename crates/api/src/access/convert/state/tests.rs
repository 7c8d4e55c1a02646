use jiff::{SignedDuration, Timestamp};
use sojourn_core::access::{
    Action, Approval, BASE, NoticeKind, Reason, ReasonEnded, ReplicaUse, SessionState, State, Usage,
};
use sojourn_core::notice::{Delivery, Notice, NoticeId, Outbox};

use super::*;
use crate::access::BreakglassSessionStatus;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_900_000_000 + second).expect("a time")
}

fn notice(kind: NoticeKind, delivery: Delivery) -> Notice<NoticeKind> {
    Notice {
        id: NoticeId::stored(format!("{kind:?}")),
        kind,
        alert: None,
        deadline: Some(at(90)),
        recorded_at: at(1),
        attempts: 2,
        delivery,
        error: Some("nobody is there".to_owned()),
    }
}

fn state() -> SessionState {
    SessionState {
        state: Some(State::IdleExpired),
        approvals: vec![
            Approval {
                user: "grace".to_owned(),
                email: Some("grace@example.org".to_owned()),
                at: at(2),
                reason: Some("go".to_owned()),
            },
            Approval { user: "bob".to_owned(), email: None, at: at(3), reason: None },
        ],
        approved_at: Some(at(3)),
        activated_at: Some(at(4)),
        expires_at: Some(at(3_604)),
        extensions: 2,
        idle_restarted_at: Some(at(50)),
        idle_deadline: Some(at(60)),
        idle_expired_at: Some(at(61)),
        reason_ended: Some(ReasonEnded::IdleTimeout),
        ended_by: Some("ada".to_owned()),
        ended_because: Some("done".to_owned()),
        ended_at: Some(at(61)),
        retained_until: Some(at(9_000)),
        outbox: Outbox {
            notices: vec![
                notice(NoticeKind::Requested, Delivery::Delivered { at: at(2) }),
                notice(NoticeKind::IdleWarning, Delivery::Waived { at: at(40) }),
                notice(NoticeKind::IdleExpired, Delivery::Waiting { next: at(70) }),
            ],
        },
        upcoming: None,
    }
}

#[test]
fn a_state_is_read_back_as_it_was_written() {
    let mut status = BreakglassSessionStatus::default();
    for state in [SessionState::default(), state()] {
        write_state(&state, &mut status);
        let text = serde_json::to_string(&status).expect("JSON");
        let again: BreakglassSessionStatus = serde_json::from_str(&text).expect("a status");
        assert_eq!(read_state(Some(&again)), state);
    }
    assert_eq!(read_state(None), SessionState::default());
}

#[test]
fn what_comes_next_is_shown_and_not_read_back() {
    let why = Reason::ExpiresAt { at: at(7) };
    let upcoming = domain::UpcomingAction { action: Action::Expire, at: at(7), why: why.clone() };
    let state = SessionState { upcoming: Some(upcoming), ..SessionState::default() };
    let mut status = BreakglassSessionStatus::default();
    write_state(&state, &mut status);
    assert_eq!(status.next.as_ref().map(|next| next.why.clone()), Some(why.to_string()));
    assert_eq!(read_state(Some(&status)).upcoming, None);
}

#[test]
fn times_are_rounded_up_so_that_nothing_ends_early() {
    let between = at(7) + SignedDuration::from_millis(1);
    let state = SessionState { expires_at: Some(between), ..SessionState::default() };
    let mut status = BreakglassSessionStatus::default();
    write_state(&state, &mut status);
    assert_eq!(read_state(Some(&status)).expires_at, Some(at(8)));
}

#[test]
fn an_approval_of_nobody_counts_for_nothing() {
    let whole = ApprovalStatus {
        user: "grace".to_owned(),
        at: written(Some(at(1))),
        ..ApprovalStatus::default()
    };
    let approvals = vec![
        ApprovalStatus { user: String::new(), ..whole.clone() },
        ApprovalStatus { at: None, ..whole.clone() },
        whole,
    ];
    let mut status = BreakglassSessionStatus { approvals, ..BreakglassSessionStatus::default() };
    let mut state = read_state(Some(&status));
    assert_eq!(state.approvals.len(), 1);
    let another = Approval { user: "bob".to_owned(), ..state.approvals[0].clone() };
    state.approvals.push(another);
    for _ in 0..2 {
        write_state(&state, &mut status);
        assert_eq!(status.approvals.len(), 4, "none is forgotten, and none comes twice");
        assert_eq!(read_state(Some(&status)), state);
    }
}

#[test]
fn the_use_of_a_session_is_read_back_and_folded_entries_are_taken_away() {
    let entry = |count, second| ReplicaUse { count, last: Some(at(second)) };
    let replicas = [("a".to_owned(), entry(3, 9)), (BASE.to_owned(), entry(4, 5))];
    let usage = Usage {
        first: Some(at(1)),
        last: Some(at(9)),
        count: 7,
        replicas: replicas.into_iter().collect(),
    };
    let mut status = BreakglassSessionStatus::default();
    write_usage(&usage, &mut status);
    assert_eq!(read_usage(Some(&status)), usage);

    let mut folded = usage.clone();
    assert_eq!(folded.fold(|name| name == "a"), ["a"]);
    write_usage(&folded, &mut status);
    let patch = serde_json::to_value(&status).expect("JSON");
    assert!(patch["activityByReplica"].as_object().is_some_and(|all| all["a"].is_null()));
    assert_eq!(patch["activityByReplica"][BASE]["count"], 7);
    assert_eq!(read_usage(Some(&status)), folded);
    assert_eq!(read_usage(None), Usage::default());

    let whole = Usage { count: u64::MAX, ..Usage::default() };
    write_usage(&whole, &mut status);
    assert_eq!(status.activity_count, u64::MAX >> 1);
}
