use proptest::prelude::*;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn held(seconds: Option<i32>, since: Instant) -> ObservedLease {
    ObservedLease::after(None, "1".to_owned(), LeaseState::held("other", seconds), since)
}

#[test]
fn a_lease_is_taken_when_we_saw_no_change_of_it_for_its_duration() {
    let start = Instant::now();
    let seen = held(Some(15), start);
    for (after, expected) in [
        (0, CandidateAction::CheckAgain(start + 2 * SECOND)),
        (14, CandidateAction::CheckAgain(start + 15 * SECOND)),
        (15, CandidateAction::Take),
        (1000, CandidateAction::Take),
    ] {
        assert_eq!(candidate_action(&seen, start + after * SECOND), expected, "after {after} s");
    }
}

#[test]
fn any_change_starts_the_clock_anew_and_none_does_not() {
    let start = Instant::now();
    let seen = held(Some(15), start);
    let lease_state = seen.lease_state.clone();
    let later = start + 14 * SECOND;
    let same = ObservedLease::after(Some(&seen), "1".to_owned(), lease_state.clone(), later);
    assert_eq!(candidate_action(&same, start + 15 * SECOND), CandidateAction::Take);
    let changed = ObservedLease::after(Some(&seen), "2".to_owned(), lease_state, later);
    assert_eq!(
        candidate_action(&changed, start + 28 * SECOND),
        CandidateAction::CheckAgain(start + 29 * SECOND)
    );
}

#[test]
fn a_released_lease_is_taken_at_once() {
    let start = Instant::now();
    let seen = ObservedLease::after(None, "1".to_owned(), LeaseState::Released, start);
    assert_eq!(candidate_action(&seen, start), CandidateAction::Take);
    assert_eq!(seen.holder(), None);
}

#[test]
fn durations_that_make_no_sense_are_bounded() {
    let start = Instant::now();
    for (stated, expected) in [
        (None, LEASE_DURATION),
        (Some(-1), LEASE_DURATION),
        (Some(0), LEASE_DURATION),
        (Some(1), LEASE_DURATION),
        (Some(60), Duration::from_secs(60)),
        (Some(i32::MAX), MAX_LEASE_DURATION),
    ] {
        let seen = held(stated, start);
        assert_ne!(
            candidate_action(&seen, start + expected - SECOND),
            CandidateAction::Take,
            "{stated:?}"
        );
        assert_eq!(candidate_action(&seen, start + expected), CandidateAction::Take, "{stated:?}");
    }
}

#[test]
fn a_leader_renews_in_time_tries_again_and_steps_down() {
    let start = Instant::now();
    let at = |seconds| start + seconds * SECOND;
    for (tried, now, expected) in [
        (None, 0, LeaderAction::Wait(at(3))),
        (None, 3, LeaderAction::Renew),
        (Some(3), 4, LeaderAction::Wait(at(5))),
        (Some(3), 5, LeaderAction::Renew),
        (Some(9), 9, LeaderAction::Wait(at(10))),
        (Some(9), 10, LeaderAction::StepDown),
        (None, 10, LeaderAction::StepDown),
        (None, 1000, LeaderAction::StepDown),
    ] {
        let tried = tried.map(at);
        assert_eq!(leader_action(start, tried, at(now)), expected, "{tried:?} at {now} s");
    }
}

proptest! {
    /// Whatever the lease says, nobody takes it while the one who renewed it may still act.
    #[test]
    fn no_lease_is_taken_while_its_holder_may_act(
        stated in any::<Option<i32>>(),
        renewed in 0_u64..100_000,
        delay in 0_u64..100_000,
        now in 0_u64..400_000,
    ) {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let seen = held(stated, at(renewed + delay));
        let acts = leader_action(at(renewed), None, at(now)) != LeaderAction::StepDown;
        let takes = candidate_action(&seen, at(now)) == CandidateAction::Take;
        prop_assert!(!(acts && takes && now >= renewed));
    }
}
