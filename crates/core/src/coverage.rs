//! What was really observed, and what that says about idleness.
//!
//! A source (an ingress, a bastion, our own gateway) is not always watched: its exporter dies,
//! Prometheus is away, this process restarts. [`Coverage`] remembers, per source, which stretches of
//! time were seen and which were not. Idle time is what *all* sources that matter have seen since the
//! last use, so that whatever happened in the dark counts for the user and never against them.
//!
//! Times are stretches `(from, to]`. What is not known to be seen is blind.

#[cfg(test)]
mod tests;

use jiff::{SignedDuration, Timestamp};

use crate::moment::saturating_add;

/// How many gaps are kept apart. Beyond it the two that are closest become one, and what was seen
/// between them counts as blind.
pub const MAX_GAPS: usize = 256;

/// How soon to look again when a look that should have come is late.
const LATE_LOOK_DELAY: SignedDuration = SignedDuration::from_secs(5);

/// When a source could see and when it was blind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coverage {
    since: Timestamp,
    until: Timestamp,
    lag: SignedDuration,
    /// In order, apart from each other, all within `(since, until]`.
    gaps: Vec<IndexedGap>,
}

/// A stretch of time in which nothing was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    pub from: Timestamp,
    pub to: Timestamp,
}

/// A gap, and how much blind time lies before it: sums over many gaps are two lookups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct IndexedGap {
    from: Timestamp,
    to: Timestamp,
    before: SignedDuration,
}

impl Coverage {
    /// Nothing seen yet; time before `at` never will be.
    pub const fn starting(at: Timestamp) -> Self {
        Self { since: at, until: at, lag: SignedDuration::ZERO, gaps: Vec::new() }
    }

    /// How far [`until`](Self::until) stays behind the clock while all is well. A source that is
    /// looked at every so often is not blind between two looks.
    #[must_use]
    pub const fn lagging(mut self, lag: SignedDuration) -> Self {
        self.lag = lag;
        self
    }

    pub const fn lag(&self) -> SignedDuration {
        self.lag
    }

    /// From what was stored. Takes anything: gaps in any order, overlapping, outside of the rest.
    pub fn restore(
        since: Timestamp,
        until: Timestamp,
        gaps: impl IntoIterator<Item = Gap>,
    ) -> Self {
        let mut coverage = Self::starting(since);
        coverage.until = until.max(since);
        for gap in gaps {
            coverage.mark_blind(gap.from.min(until), gap.to.min(until));
        }
        coverage
    }

    pub const fn since(&self) -> Timestamp {
        self.since
    }

    /// The end of what is known. Whatever comes after is not observed yet.
    pub const fn until(&self) -> Timestamp {
        self.until
    }

    pub fn gaps(&self) -> impl ExactSizeIterator<Item = Gap> {
        self.gaps.iter().map(|gap| Gap { from: gap.from, to: gap.to })
    }

    /// The last moment that was observed; `since` if none was.
    pub fn last_seen(&self) -> Timestamp {
        match self.gaps.last() {
            Some(gap) if gap.to == self.until => gap.from,
            _ => self.until,
        }
    }

    /// The source saw everything in `(from, to]`, whatever was thought of that time before.
    pub fn mark_observed(&mut self, from: Timestamp, to: Timestamp) {
        let from = from.max(self.since);
        if to <= from {
            return;
        }
        if from > self.until {
            self.insert(self.until, from);
        }
        self.until = self.until.max(to);
        self.cut(from, to);
        self.settle();
    }

    /// The source saw nothing in `(from, to]`, whatever was thought of that time before.
    pub fn mark_blind(&mut self, from: Timestamp, to: Timestamp) {
        let mut from = from.max(self.since);
        if to <= from {
            return;
        }
        if to > self.until {
            from = from.min(self.until);
            self.until = to;
        }
        self.insert(from, to);
        self.settle();
    }

    /// Whether nothing is known of the moment `at`.
    pub fn is_blind_at(&self, at: Timestamp) -> bool {
        let next = self.gaps.partition_point(|gap| gap.to < at);
        at <= self.since || at > self.until || self.gaps.get(next).is_some_and(|gap| gap.from < at)
    }

    /// Since when the source has been blind, if it is now: what it last said was that it sees
    /// nothing, it never said anything, or it is overdue.
    pub fn blind_since(&self, now: Timestamp) -> Option<Timestamp> {
        let last_seen = self.last_seen();
        let tolerance = self.lag.saturating_mul(2);
        let ends_blind = last_seen < self.until || last_seen == self.since;
        (ends_blind || now.duration_since(self.until) > tolerance).then_some(last_seen)
    }

    /// Observed time in `(from, to]`: what is before `since`, after `until` or in a gap does not
    /// count.
    pub fn observed(&self, from: Timestamp, to: Timestamp) -> SignedDuration {
        let from = from.max(self.since);
        let to = to.min(self.until);
        if to <= from {
            return SignedDuration::ZERO;
        }
        let whole = to.duration_since(from);
        if !self.has_gap_after(from) {
            return whole;
        }
        whole - (self.blind_before(to) - self.blind_before(from))
    }

    fn has_gap_after(&self, from: Timestamp) -> bool {
        self.gaps.last().is_some_and(|gap| gap.to > from)
    }

    /// All the blind time between `since` and `at`.
    fn blind_before(&self, at: Timestamp) -> SignedDuration {
        let started = self.gaps.partition_point(|gap| gap.from < at);
        match started.checked_sub(1).map(|last| &self.gaps[last]) {
            Some(gap) => gap.before + at.min(gap.to).duration_since(gap.from),
            None => SignedDuration::ZERO,
        }
    }

    /// The first gap that is not over at `at`.
    fn next_gap(&self, at: Timestamp) -> Option<&IndexedGap> {
        self.gaps.get(self.gaps.partition_point(|gap| gap.to <= at))
    }

    /// Adds a gap, one with those that it touches.
    fn insert(&mut self, mut from: Timestamp, mut to: Timestamp) {
        let first = self.gaps.partition_point(|gap| gap.to < from);
        let end = self.gaps.partition_point(|gap| gap.from <= to);
        if first < end {
            from = from.min(self.gaps[first].from);
            to = to.max(self.gaps[end - 1].to);
        }
        self.gaps.splice(first..end, [IndexedGap::new(from, to)]);
    }

    /// Takes `(from, to]` out of the gaps.
    fn cut(&mut self, from: Timestamp, to: Timestamp) {
        let first = self.gaps.partition_point(|gap| gap.to <= from);
        let end = self.gaps.partition_point(|gap| gap.from < to);
        if first >= end {
            return;
        }
        let left = IndexedGap::new(self.gaps[first].from, from);
        let right = IndexedGap::new(to, self.gaps[end - 1].to);
        let rest = [left, right].into_iter().filter(|gap| gap.from < gap.to);
        self.gaps.splice(first..end, rest);
    }

    /// Keeps the number of gaps and their sums right after a change.
    fn settle(&mut self) {
        while self.gaps.len() > MAX_GAPS {
            let closest = (1..self.gaps.len())
                .min_by_key(|&i| self.gaps[i].from.duration_since(self.gaps[i - 1].to));
            let Some(closest) = closest else { break };
            self.gaps[closest - 1].to = self.gaps[closest].to;
            self.gaps.remove(closest);
        }
        let mut before = SignedDuration::ZERO;
        for gap in &mut self.gaps {
            gap.before = before;
            before += gap.to.duration_since(gap.from);
        }
    }
}

impl IndexedGap {
    const fn new(from: Timestamp, to: Timestamp) -> Self {
        Self { from, to, before: SignedDuration::ZERO }
    }
}

/// Time in `(from, to]` that **every** source observed. Without any source nothing is observed.
pub fn observed_by_all(sources: &[&Coverage], from: Timestamp, to: Timestamp) -> SignedDuration {
    let [first, others @ ..] = sources else { return SignedDuration::ZERO };
    let mut start = from.max(first.since);
    let mut end = to.min(first.until);
    for source in others {
        start = start.max(source.since);
        end = end.min(source.until);
    }
    if end <= start {
        return SignedDuration::ZERO;
    }
    let mut gapped = sources.iter().filter(|source| source.has_gap_after(start));
    match (gapped.next(), gapped.next()) {
        (None, _) => end.duration_since(start),
        (Some(one), None) => one.observed(start, end),
        (Some(_), Some(_)) => seen_between_gaps(sources, start, end),
    }
}

/// The slow way, when gaps of several sources may overlap: from one to the next.
fn seen_between_gaps(sources: &[&Coverage], start: Timestamp, end: Timestamp) -> SignedDuration {
    let mut at = start;
    let mut seen = SignedDuration::ZERO;
    while at < end {
        let Some(gap) = next_gap(sources, at) else {
            return seen + end.duration_since(at);
        };
        if gap.from > at {
            seen += gap.from.min(end).duration_since(at);
        }
        at = gap.to;
    }
    seen
}

/// The gap that begins first among those of all sources that are not over at `at`.
fn next_gap<'a>(sources: &[&'a Coverage], at: Timestamp) -> Option<&'a IndexedGap> {
    sources.iter().filter_map(|source| source.next_gap(at)).min_by_key(|gap| gap.from)
}

/// When an amount of observed time will have passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reach {
    /// The moment at which it is reached.
    pub at: Timestamp,
    /// When that will be known: the sources tell with a delay. This is when to look again.
    pub known: Timestamp,
}

/// When the time since `from` that all sources observed reaches `span`, if they stay healthy.
/// `None` while one of them is blind, and without any source.
pub fn reaches(
    sources: &[&Coverage],
    from: Timestamp,
    span: SignedDuration,
    now: Timestamp,
) -> Option<Reach> {
    if sources.is_empty() || sources.iter().any(|source| source.blind_since(now).is_some()) {
        return None;
    }
    let mut at = sources.iter().map(|source| source.since).fold(from, Timestamp::max);
    let mut missing = span;
    while let Some(gap) = next_gap(sources, at) {
        if gap.from > at {
            let seen = gap.from.duration_since(at);
            if seen >= missing {
                break;
            }
            missing -= seen;
        }
        at = gap.to;
    }
    at = saturating_add(at, missing);
    let behind = sources.iter().filter(|source| source.until < at).map(|source| source.lag).max();
    let known = match behind.map(|lag| saturating_add(at, lag)) {
        None => at,
        Some(known) if known > now => known,
        Some(_) => saturating_add(now, LATE_LOOK_DELAY),
    };
    Some(Reach { at, known })
}
