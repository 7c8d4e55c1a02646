use proptest::prelude::*;

use super::*;
use crate::cluster::test_cluster::{HOUR, MINUTE, at, schedule, start};

fn firing(at: Timestamp, to: Wanted) -> Option<Firing> {
    Some(Firing { at, to })
}

#[test]
fn only_the_latest_firing_counts() {
    let schedules = [schedule(Some("0 20 * * *"), Some("0 8 * * *"))];
    let latest = |until| latest_firing(&schedules, start(), until);
    assert_eq!(latest(at(HOUR * 7)), None);
    assert_eq!(latest(at(HOUR * 8)), firing(at(HOUR * 8), Wanted::Running));
    assert_eq!(
        latest(at(HOUR * 24 * 300)),
        firing(at(HOUR * (24 * 299 + 20)), Wanted::Hibernating)
    );
    let since = at(HOUR * 20);
    assert_eq!(latest_firing(&schedules, since, at(HOUR * 31)), None, "that one was seen");
}

#[test]
fn who_is_to_hibernate_and_to_resume_at_once_resumes() {
    let both = [schedule(Some("0 8 * * *"), None), schedule(None, Some("0 8 * * *"))];
    let latest = latest_firing(&both, start(), at(HOUR * 9));
    assert_eq!(latest, firing(at(HOUR * 8), Wanted::Running));
}

#[test]
fn the_next_firing_is_the_first_of_all_that_lead_there() {
    let schedules =
        [schedule(Some("0 20 * * *"), None), schedule(Some("0 18 * * *"), Some("0 6 * * *"))];
    let next = |to| next_firing(&schedules, to, start());
    assert_eq!(next(Wanted::Hibernating), firing(at(HOUR * 18), Wanted::Hibernating));
    assert_eq!(next(Wanted::Running), firing(at(HOUR * 6), Wanted::Running));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_latest_firing_is_the_last_of_all(
        line in prop::sample::select(vec!["* * * * *", "*/7 * * * *", "30 4 * * *", "0 0 1 * *", "0 12 * * mon"]),
        after in 0_i64..100_000,
        minutes in 0_i64..3_000,
    ) {
        let schedules = [schedule(Some(line), None)];
        let after = start() + MINUTE * i32::try_from(after).unwrap();
        let until = after + MINUTE * i32::try_from(minutes).unwrap();
        let mut last = None;
        let mut from = after;
        while let Some(next) = next_firing(&schedules, Wanted::Hibernating, from)
            .filter(|next| next.at <= until)
        {
            from = next.at;
            last = Some(next);
        }
        prop_assert_eq!(latest_firing(&schedules, after, until), last);
    }
}
