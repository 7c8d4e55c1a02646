//! The answers for one span of time: when the source was available, and which objects were used.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use jiff::Timestamp;
use sojourn_core::activity::Source;
use sojourn_core::sampling::{self, CounterContext, SampledUse};
use sojourn_drivers::metrics::{Answer, Labels, Series, Window};

use super::directory::{self, Directory};
use super::options::Identity;
use crate::tracker::Tracker;

/// How many series are remembered while their source is blind. Of further ones, use in the dark
/// that shows only afterwards is not seen; idle time does not count there anyway.
const MAX_CARRIED_VALUES: usize = 1_000_000;
/// How names of gauges of open sessions end; whatever else has a name, or none, is a counter.
const OPEN_CONNECTIONS_SUFFIX: &str = "_open_connections";

/// A moment that was asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) at: Timestamp,
    pub(super) available: bool,
}

/// The points of a window, with what an availability query says about them.
pub(super) fn points(window: Window, answer: &Answer) -> Vec<Point> {
    let mut values: BTreeMap<Timestamp, bool> = BTreeMap::new();
    for &(at, value) in answer.series.iter().flat_map(|series| &series.samples) {
        let available = value.is_finite() && value > 0.0;
        values.entry(at).and_modify(|all| *all &= available).or_insert(available);
    }
    let point = |at| Point { at, available: values.get(&at).copied().unwrap_or(false) };
    window.points().map(point).collect()
}

/// The last values of series whose source went blind, by the hash of their labels: when it sees
/// again, a value that moved in the meantime shows.
#[derive(Debug, Default)]
pub(super) struct CarriedValues(HashMap<u64, f64>);

impl CarriedValues {
    /// Goes on from a chunk: with nothing if the source could see at its end, because the next one
    /// begins with that point.
    pub(super) fn go_on(&mut self, points: &[Point], found: &ChunkResult) {
        if points.last().is_some_and(|last| last.available) {
            self.0.clear();
            return;
        }
        for &(series, value) in &found.ends {
            if self.0.len() < MAX_CARRIED_VALUES || self.0.contains_key(&series) {
                self.0.insert(series, value);
            }
        }
    }

    fn get(&self, series: u64) -> Option<f64> {
        self.0.get(&series).copied()
    }
}

/// Answered data, and what is known around it.
#[derive(Debug)]
pub(super) struct Chunk<'a> {
    pub(super) source: Source,
    pub(super) identity: &'a Identity,
    pub(super) points: &'a [Point],
    pub(super) carried: &'a CarriedValues,
    /// Growth up to here was counted before.
    pub(super) counted: Timestamp,
}

/// What a chunk told.
#[derive(Debug, Default)]
pub(super) struct ChunkResult {
    pub(super) matched: usize,
    pub(super) unmatched: usize,
    /// The last value of each series of ours, where the source was blind at the end.
    ends: Vec<(u64, f64)>,
}

impl Chunk<'_> {
    /// Reports the use that the series tell of.
    pub(super) fn report(
        &self,
        series: &[Series],
        directory: &dyn Directory,
        tracker: &Tracker,
    ) -> ChunkResult {
        let watched: Vec<Timestamp> =
            self.points.iter().filter(|point| point.available).map(|point| point.at).collect();
        let mut found = ChunkResult::default();
        for series in series {
            let Some(key) = directory::find(directory, &series.labels, self.identity) else {
                found.unmatched += 1;
                continue;
            };
            found.matched += 1;
            if let Some(SampledUse { earlier, last, count }) =
                self.used(series, &watched, &mut found)
            {
                // Earlier uses are recorded too, so that no time since the first unwritten one counts as settled.
                for earlier in earlier {
                    tracker.record(&key, self.source, earlier, 0);
                }
                tracker.record(&key, self.source, last, count);
            }
        }
        found
    }

    fn used(
        &self,
        series: &Series,
        watched: &[Timestamp],
        found: &mut ChunkResult,
    ) -> Option<SampledUse> {
        let samples = self.asked_for(&series.samples);
        if series.labels.get("__name__").is_some_and(|name| name.ends_with(OPEN_CONNECTIONS_SUFFIX))
        {
            return sampling::of_presence(samples, self.counted);
        }
        let blind = |point: &Point| !point.available;
        let begins_blind = self.points.first().is_some_and(blind);
        let ends_blind = self.points.last().is_some_and(blind);
        let id = if begins_blind || ends_blind { fingerprint(&series.labels) } else { 0 };
        let before = if begins_blind { self.carried.get(id) } else { None };
        if ends_blind && let Some(&(_, value)) = samples.iter().rfind(|(_, v)| v.is_finite()) {
            found.ends.push((id, value));
        }
        sampling::of_counter(samples, CounterContext { before, watched, counted: self.counted })
    }

    /// Without samples of times that were not asked for: a server could tell of the future.
    fn asked_for<'s>(&self, samples: &'s [(Timestamp, f64)]) -> &'s [(Timestamp, f64)] {
        let (Some(first), Some(last)) = (self.points.first(), self.points.last()) else {
            return &[];
        };
        let begin = samples.partition_point(|&(at, _)| at < first.at);
        let end = samples.partition_point(|&(at, _)| at <= last.at);
        samples.get(begin..end).unwrap_or_default()
    }
}

fn fingerprint(labels: &Labels) -> u64 {
    let mut hasher = DefaultHasher::new();
    labels.hash(&mut hasher);
    hasher.finish()
}
