use proptest::prelude::*;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn held(seconds: Option<i32>, since: Instant) -> Seen {
    Seen::after(None, "1".to_owned(), Standing::held("other", seconds), since)
}

#[test]
fn a_lease_is_taken_when_we_saw_no_change_of_it_for_its_duration() {
    let start = Instant::now();
    let seen = held(Some(15), start);
    for (after, expected) in [
        (0, Candidacy::LookAgain(start + 2 * SECOND)),
        (14, Candidacy::LookAgain(start + 15 * SECOND)),
        (15, Candidacy::Take),
        (1000, Candidacy::Take),
    ] {
        assert_eq!(campaign(&seen, start + after * SECOND), expected, "after {after} s");
    }
}

#[test]
fn any_change_starts_the_clock_anew_and_none_does_not() {
    let start = Instant::now();
    let seen = held(Some(15), start);
    let standing = seen.standing.clone();
    let later = start + 14 * SECOND;
    let same = Seen::after(Some(&seen), "1".to_owned(), standing.clone(), later);
    assert_eq!(campaign(&same, start + 15 * SECOND), Candidacy::Take);
    let changed = Seen::after(Some(&seen), "2".to_owned(), standing, later);
    assert_eq!(campaign(&changed, start + 28 * SECOND), Candidacy::LookAgain(start + 29 * SECOND));
}

#[test]
fn a_released_lease_is_taken_at_once() {
    let start = Instant::now();
    let seen = Seen::after(None, "1".to_owned(), Standing::Released, start);
    assert_eq!(campaign(&seen, start), Candidacy::Take);
    assert_eq!(seen.holder(), None);
}

#[test]
fn durations_that_make_no_sense_are_bounded() {
    let start = Instant::now();
    for (stated, expected) in [
        (None, DURATION),
        (Some(-1), DURATION),
        (Some(0), DURATION),
        (Some(1), DURATION),
        (Some(60), Duration::from_secs(60)),
        (Some(i32::MAX), LONGEST_DURATION),
    ] {
        let seen = held(stated, start);
        assert_ne!(campaign(&seen, start + expected - SECOND), Candidacy::Take, "{stated:?}");
        assert_eq!(campaign(&seen, start + expected), Candidacy::Take, "{stated:?}");
    }
}

#[test]
fn a_leader_renews_in_time_tries_again_and_steps_down() {
    let start = Instant::now();
    let at = |seconds| start + seconds * SECOND;
    for (tried, now, expected) in [
        (None, 0, Reign::Wait(at(3))),
        (None, 3, Reign::Renew),
        (Some(3), 4, Reign::Wait(at(5))),
        (Some(3), 5, Reign::Renew),
        (Some(9), 9, Reign::Wait(at(10))),
        (Some(9), 10, Reign::StepDown),
        (None, 10, Reign::StepDown),
        (None, 1000, Reign::StepDown),
    ] {
        let tried = tried.map(at);
        assert_eq!(reign(start, tried, at(now)), expected, "{tried:?} at {now} s");
    }
}

proptest! {
    /// Whatever the lease says, nobody takes it while the one who renewed it may still act.
    #[test]
    fn nobody_takes_what_somebody_may_still_act_on(
        stated in any::<Option<i32>>(),
        renewed in 0_u64..100_000,
        delay in 0_u64..100_000,
        now in 0_u64..400_000,
    ) {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let seen = held(stated, at(renewed + delay));
        let acts = reign(at(renewed), None, at(now)) != Reign::StepDown;
        let takes = campaign(&seen, at(now)) == Candidacy::Take;
        prop_assert!(!(acts && takes && now >= renewed));
    }
}
