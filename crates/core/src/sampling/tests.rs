use jiff::Timestamp;
use proptest::prelude::*;

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn samples(values: &[(i64, f64)]) -> Vec<(Timestamp, f64)> {
    values.iter().map(|&(second, value)| (at(second), value)).collect()
}

/// Watched at every tenth second; growth after `counted` is new.
fn counter(values: &[(i64, f64)], counted: i64) -> Option<(i64, u64)> {
    let watched: Vec<_> = (0..10).map(|point| at(point * 10)).collect();
    let context = CounterContext { before: None, watched: &watched, counted: at(counted) };
    of_counter(&samples(values), context).map(|found| (found.last.as_second(), found.count))
}

#[test]
fn the_newest_change_counts_and_growth_is_added_up() {
    assert_eq!(
        counter(&[(0, 5.0), (10, 5.0), (20, 7.0), (30, 10.0), (40, 10.0)], 0),
        Some((30, 5))
    );
    assert_eq!(counter(&[(0, 5.0), (10, 5.0)], 0), None, "nothing moved");
    assert_eq!(counter(&[], 0), None);
}

// case: lab A12
#[test]
fn the_first_sample_of_a_series_counts_if_it_was_not_there_before() {
    assert_eq!(counter(&[(20, 1.0), (30, 1.0)], 0), Some((20, 1)), "one login, never again");
    assert_eq!(counter(&[(0, 1.0), (10, 1.0)], 0), None, "it was there when the window began");
    assert_eq!(counter(&[(20, 0.0), (30, 0.0)], 0), None, "made, but not used");
    assert_eq!(counter(&[(20, 0.0), (30, 2.0)], 0), Some((30, 2)));
}

#[test]
fn a_series_that_was_away_while_its_source_was_watched_was_made_anew() {
    let same = [(0, 1.0), (30, 1.0)];
    assert_eq!(counter(&same, 0), Some((30, 1)), "the exporter restarted, then somebody came");
    let blind = CounterContext { before: None, watched: &[at(0), at(30)], counted: at(0) };
    assert_eq!(of_counter(&samples(&same), blind), None, "nobody looked: it is only back");
    let moved = of_counter(&samples(&[(0, 1.0), (30, 3.0)]), blind);
    assert_eq!(
        moved,
        Some(SampledUse { earlier: vec![], last: at(30), count: 2 }),
        "used in the dark"
    );
}

#[test]
fn a_reset_counts() {
    assert_eq!(counter(&[(0, 9.0), (10, 9.0), (20, 2.0)], 0), Some((20, 2)));
    assert_eq!(counter(&[(0, 9.0), (10, 0.0)], 0), Some((10, 1)), "used, and then reset");
}

#[test]
fn the_value_of_an_earlier_look_is_the_one_before() {
    let watched = [at(20)];
    let context =
        |before| CounterContext { before: Some(before), watched: &watched, counted: at(0) };
    let back = samples(&[(20, 4.0), (30, 4.0)]);
    assert_eq!(of_counter(&back, context(4.0)), None);
    assert_eq!(
        of_counter(&back, context(3.0)),
        Some(SampledUse { earlier: vec![], last: at(20), count: 1 })
    );
}

#[test]
fn growth_that_was_counted_is_use_but_not_counted_twice() {
    assert_eq!(counter(&[(0, 1.0), (10, 4.0), (20, 4.0)], 10), Some((10, 0)));
    assert_eq!(counter(&[(0, 1.0), (10, 4.0), (20, 6.0)], 10), Some((20, 2)));
}

#[test]
fn the_oldest_change_is_told_too() {
    let growing = samples(&[(0, 1.0), (10, 2.0), (20, 3.0), (30, 4.0), (40, 4.0)]);
    let found = |counted| {
        of_counter(&growing, CounterContext { before: None, watched: &[], counted: at(counted) })
    };
    let told = |earlier: &[i64], count| {
        let earlier = earlier.iter().map(|&earlier| at(earlier)).collect();
        Some(SampledUse { earlier, last: at(30), count })
    };
    assert_eq!(found(0), told(&[10], 3));
    // What shows at a time that was counted may show only now.
    assert_eq!(found(10), told(&[10, 20], 2));
    assert_eq!(found(30), told(&[10, 20], 0));
}

#[test]
fn what_is_not_a_number_says_nothing() {
    let odd = [(0, 1.0), (10, f64::NAN), (20, f64::INFINITY), (30, 1.0), (40, f64::NEG_INFINITY)];
    assert_eq!(counter(&odd, 0), None);
    assert_eq!(counter(&[(10, f64::NAN), (20, 3.0)], 0), None, "it was there, who knows how");
    assert_eq!(counter(&[(0, 0.0), (10, 1e300)], 0), Some((10, u64::MAX)));
    assert_eq!(counter(&[(0, 0.0), (10, 0.25)], 0), Some((10, 1)), "anything that moves is use");
    let gauge = samples(&[(0, 1.0), (10, f64::NAN), (20, f64::INFINITY), (30, -1.0)]);
    assert_eq!(
        of_presence(&gauge, at(0)),
        Some(SampledUse { earlier: vec![], last: at(0), count: 0 })
    );
}

#[test]
fn an_open_session_is_use_for_as_long_as_it_lasts() {
    assert_eq!(
        of_presence(&samples(&[(0, 1.0), (10, 2.0), (20, 2.0), (25, 1.0), (30, 0.0)]), at(0)),
        Some(SampledUse { earlier: vec![at(0), at(10)], last: at(25), count: 0 })
    );
    assert_eq!(of_presence(&samples(&[(0, 0.0)]), at(0)), None);
}

proptest! {
    #[test]
    fn use_is_at_the_time_of_a_sample_and_counts_at_least_one(
        values in prop::collection::vec(prop::num::f64::ANY, 0..20),
        watched in prop::collection::btree_set(0..200_i64, 0..20),
    ) {
        let samples: Vec<_> = values.iter().zip(0..).map(|(v, i)| (at(i * 10), *v)).collect();
        let watched: Vec<_> = watched.into_iter().map(at).collect();
        let context = CounterContext { before: None, watched: &watched, counted: Timestamp::MIN };
        if let Some(found) = of_counter(&samples, context) {
            prop_assert!(samples.iter().any(|(at, v)| *at == found.last && v.is_finite()));
            prop_assert!(found.count >= 1 && found.earlier.iter().all(|earlier| *earlier < found.last));
        }
    }
}
