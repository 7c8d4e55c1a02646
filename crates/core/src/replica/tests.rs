use super::*;

const SILENCE: Silence = Silence {
    stops_after: SignedDuration::from_secs(270),
    given_up_after: SignedDuration::from_secs(300),
};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + second).unwrap()
}

fn secs(seconds: i64) -> SignedDuration {
    SignedDuration::from_secs(seconds)
}

fn live(serving_since: i64, settled: i64) -> Heartbeat {
    Heartbeat {
        serving_since: at(serving_since),
        settled: at(settled),
        silent_for: SignedDuration::ZERO,
        silent_looks: 0,
    }
}

fn lost(settled: i64) -> Heartbeat {
    Heartbeat {
        silent_for: SILENCE.given_up_after,
        silent_looks: MIN_SILENT_LOOKS,
        ..live(0, settled)
    }
}

fn served(since: i64, others: &[Heartbeat], now: i64) -> ServedTime {
    served_time(at(since), others, SILENCE, at(now))
}

#[test]
fn nothing_is_claimed_that_one_of_them_has_not_written() {
    let both = served(0, &[live(10, 70), live(20, 40)], 100);
    assert_eq!(
        both,
        ServedTime { since: at(0), until: at(40), gaps: Vec::new(), shared: true, waiting: false }
    );
    let alone = served(0, &[], 100);
    assert_eq!(alone.until, at(100));
    let ahead = served(0, &[live(10, 500)], 100);
    assert_eq!(ahead.until, at(100), "another clock does not say what will be");
}

#[test]
fn what_others_served_before_us_is_not_a_gap() {
    let mut coverage = Coverage::starting(at(0));
    coverage.mark_observed(at(0), at(50));
    coverage.mark_served(&served(90, &[live(10, 100)], 100));
    assert_eq!(coverage.observed(at(0), at(100)), secs(100));
    // Without the other, nobody was there from 50 to 90.
    let mut coverage = Coverage::starting(at(0));
    coverage.mark_observed(at(0), at(50));
    coverage.mark_served(&served(90, &[], 100));
    assert_eq!(coverage.observed(at(0), at(100)), secs(60));
}

#[test]
fn a_silent_replica_holds_everything_up_and_leaves_a_gap_when_it_is_given_up() {
    let mut coverage = Coverage::starting(at(0)).lagging(secs(62));
    coverage.mark_served(&served(0, &[live(0, 100)], 100));
    let silent = Heartbeat { silent_for: secs(299), silent_looks: 9, ..live(0, 100) };
    coverage.mark_served(&served(0, &[silent], 400));
    assert_eq!(coverage.until(), at(100));
    assert!(coverage.blind_since(at(400)).is_some(), "it is overdue");
    assert!(served(0, &[silent], 400).waiting);
    coverage.mark_served(&served(0, &[lost(100)], 430));
    assert_eq!(coverage.gaps().collect::<Vec<_>>(), [Gap { from: at(100), to: at(400) }]);
    assert_eq!(coverage.blind_since(at(430)), None, "it has stopped a while ago");
    coverage.mark_served(&served(0, &[], 460));
    assert_eq!(coverage.observed(at(0), at(460)), secs(160), "the gap stays");
    assert_eq!(coverage.blind_since(at(460)), None);
}

#[test]
fn after_an_outage_nobody_is_given_up_before_they_could_speak() {
    let silent = |looks| Heartbeat {
        silent_for: SignedDuration::from_hours(2),
        silent_looks: looks,
        ..live(0, 100)
    };
    assert!(!silent(MIN_SILENT_LOOKS - 1).is_lost(SILENCE));
    assert!(silent(MIN_SILENT_LOOKS).is_lost(SILENCE));
}

#[test]
fn a_clock_that_is_behind_holds_everything_up_by_so_much_and_loses_nothing() {
    // A minute behind: it says at 100 that what it saw up to 40 is in the objects.
    let mut coverage = Coverage::starting(at(0));
    for now in (100..=400).step_by(30) {
        coverage.mark_served(&served(0, &[live(-60, now - 60)], now));
    }
    assert_eq!(coverage.until(), at(340));
    assert_eq!(coverage.observed(at(0), at(340)), secs(340));
    // When it is given up, the gap begins a minute early rather than late.
    coverage.mark_served(&served(0, &[lost(340)], 700));
    assert_eq!(coverage.observed(at(0), at(700)), secs(370), "from 340 to 670 nothing is claimed");
}

#[test]
fn who_claims_to_have_served_for_ever_turns_no_gap_on_record_into_observed_time() {
    let mut coverage = Coverage::starting(at(0));
    coverage.mark_observed(at(0), at(50));
    coverage.mark_blind(at(50), at(90));
    coverage.mark_served(&served(90, &[live(-1_000_000, 100)], 100));
    assert_eq!(coverage.observed(at(0), at(100)), secs(60));
}
