use super::super::test_group::{DAY, HOUR, TestGroup, at};
use super::*;

#[test]
fn jitter_delays_and_never_past_the_forced_age() {
    let mut test_group = TestGroup::of(&[DAY; 20]);
    let eligible = at(DAY * 20);
    test_group.intent.expiry.jitter = HOUR * 5;
    let times = |test_group: &TestGroup| -> Vec<Timestamp> {
        let due = |machine| eligible_at(machine, &test_group.intent).unwrap();
        test_group.machines.iter().map(due).collect()
    };
    let spread = times(&test_group);
    assert!(spread.iter().all(|due| *due >= eligible && *due < eligible + HOUR * 5));
    assert!(spread.iter().any(|due| *due != spread[0]));
    assert_eq!(times(&test_group), spread);
    test_group.intent.expiry.jitter = DAY * 400;
    assert!(times(&test_group).iter().all(|due| *due <= at(DAY * 29)));
}

#[test]
fn with_ages_in_the_wrong_order_the_forced_one_applies() {
    let mut test_group = TestGroup::of(&[DAY * 10]);
    test_group.intent.expiry.forced = Term::Span(DAY * 11);
    test_group.now = at(DAY * 2);
    test_group.settle();
    assert_eq!(test_group.rotation("a").unwrap().cause, Cause::Forced);
}
