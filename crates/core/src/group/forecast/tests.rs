use super::super::state::Cause;
use super::super::test_group::{DAY, HOUR, MINUTE, Mode, SECOND, TestGroup, at, start};
use super::*;
use crate::term::Term;

fn foresee(test_group: &TestGroup, steps: usize) -> Vec<(String, Cause, Option<Timestamp>)> {
    let state = test_group.state.clone();
    forecast(
        state,
        &test_group.machines,
        &test_group.seen(),
        &test_group.intent,
        test_group.now,
        steps,
    )
    .into_iter()
    .map(|next_rotation| (next_rotation.machine, next_rotation.cause, next_rotation.at))
    .collect()
}

#[test]
fn one_after_the_other_with_times() {
    let test_group = TestGroup::of(&[DAY * 22, DAY * 22, DAY * 20]);
    let just = jiff::SignedDuration::from_millis(1);
    assert_eq!(
        foresee(&test_group, 3),
        [
            ("a".to_owned(), Cause::Expired, Some(start())),
            ("b".to_owned(), Cause::Expired, Some(at(MINUTE * 7))),
            ("c".to_owned(), Cause::Expired, Some(at(DAY + just))),
        ]
    );
    // What was foreseen happens.
    let mut real = test_group;
    real.boot = TYPICAL_BOOT;
    real.pass(MINUTE * 7);
    assert!(real.rotation("b").is_some() && !real.is_there("a"));
}

#[test]
fn what_is_blocked_for_no_known_time_comes_last() {
    let mut test_group = TestGroup::of(&[DAY * 22, DAY, DAY]);
    test_group.intent.expiry.forced = Term::Never;
    test_group.vm("b").health_unknown = true;
    assert_eq!(foresee(&test_group, 5), [("a".to_owned(), Cause::Expired, None)]);
    test_group.mode = Mode::Down;
    assert_eq!(foresee(&test_group, 5).len(), 1);
}

#[test]
fn nothing_comes_where_nothing_expires() {
    let mut test_group = TestGroup::of(&[DAY * 22, DAY, DAY]);
    test_group.intent.expiry.forced = Term::Never;
    test_group.intent.expiry.eligible = Term::Never;
    assert_eq!(foresee(&test_group, 5), []);
    assert_eq!(due_at(&test_group.machines[0], &test_group.intent), None);
}

#[test]
fn in_a_roll_the_next_one_comes_when_the_open_one_is_through() {
    let mut test_group = TestGroup::of(&[DAY * 22, DAY * 22, DAY]);
    test_group.boot = TYPICAL_BOOT;
    test_group.pass(MINUTE * 3);
    let deadline = test_group.deadline("a");
    let decision = test_group.settle();
    // Its forced age is days away, and that is not what it waits for.
    let next_rotation = decision.next.group.next_rotation.clone().unwrap();
    assert_eq!(
        (&*next_rotation.machine, next_rotation.cause, next_rotation.at),
        ("b", Cause::Expired, None)
    );
    let told = |test_group: &TestGroup| {
        let state = test_group.settle_copy();
        next(&state, &test_group.machines, &test_group.seen(), &test_group.intent, test_group.now)
            .unwrap()
    };
    assert_eq!((&*told(&test_group).machine, told(&test_group).at), ("b", Some(deadline)));
    assert_eq!(foresee(&test_group, 1)[0].2, Some(deadline), "the same for whoever asks");
    // Nor does it move with whoever looks.
    test_group.now += MINUTE;
    assert_eq!(told(&test_group).at, Some(deadline));
    test_group.intent.freeze_until = Some(at(HOUR));
    assert_eq!(told(&test_group).at, Some(at(HOUR)), "frozen, it comes when that ends");
}

#[test]
fn where_nothing_else_helps_the_forced_age_does_and_says_so() {
    let mut test_group = TestGroup::of(&[DAY * 22, DAY, DAY]);
    test_group.vm("b").health_unknown = true;
    let next_rotation = test_group.settle().next.group.next_rotation.unwrap();
    assert_eq!((next_rotation.cause, next_rotation.at), (Cause::Forced, Some(at(DAY * 8))));
    assert!(matches!(next_rotation.why, Reason::ForcedAt { .. }), "{:?}", next_rotation.why);
}

#[test]
fn what_was_never_ready_is_not_foreseen_to_be_replaced_at_times_that_move() {
    for mode in [Mode::NeverBoots, Mode::Refuses, Mode::NeverReady] {
        let mut test_group = TestGroup::empty();
        (test_group.mode, test_group.intent.expiry.eligible) = (mode, Term::Span(HOUR));
        test_group.settle();
        test_group.pass(MINUTE);
        let first = foresee(&test_group, 5);
        test_group.now += SECOND * 7;
        assert_eq!(foresee(&test_group, 5), first, "{mode:?}");
    }
}
