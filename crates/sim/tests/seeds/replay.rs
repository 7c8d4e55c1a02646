//! A seed is a bug report: two runs of it do the same.

use crate::runner::{Run, families, run_all};

/// What is run twice, and another seed that differs from it.
const SEED: u64 = 7;
const OTHER_SEED: u64 = 8;
/// With fewer writes there is nothing to compare.
const MIN_WRITES: u64 = 500;

#[test]
fn a_seed_replays_to_the_last_write() {
    for family in families() {
        let run = |seed| Run {
            family: family.name(),
            seed,
            simulate: Box::new(move || family.run_replayable(seed)),
        };
        let outcomes = run_all(&[SEED, SEED, OTHER_SEED].map(run));
        let [one, two, other] = &outcomes[..] else { panic!("three runs") };
        let name = family.name();
        let missing = one.counts.short_of(&family.least_replayed());
        assert!(one.writes >= MIN_WRITES && missing.is_empty(), "too little: {name}: {one}");
        assert_eq!(one.first_difference(two), None, "{name}");
        assert_eq!(one.fingerprint, two.fingerprint, "{name}");
        assert_eq!((one.counts, one.writes), (two.counts, two.writes), "{name}");
        assert_ne!(one.fingerprint, other.fingerprint, "{name}");
    }
}
