//! From samples of a metric to use: pure, one series at a time.
//!
//! A counter of requests or opened connections says that something was used whenever it moves. How
//! it gets there matters: a series that was not there while its source was watched and then is, was
//! made by the first use; one that was away while nobody watched may just be back. A gauge of open
//! sessions says so as long as it is above zero.

#[cfg(test)]
mod tests;

use jiff::Timestamp;

/// Use that a series tells of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampledUse {
    /// Moments before the newest one that have to be told too, in order: the oldest one that is news,
    /// and before it those that may be. A look may have been too early to see what shows there now.
    pub earlier: Vec<Timestamp>,
    /// The newest moment at which it shows.
    pub last: Timestamp,
    /// By how much the counter grew, where growth was not counted before.
    pub count: u64,
}

/// What is known around the samples of a counter.
#[derive(Debug, Clone, Copy)]
pub struct CounterContext<'a> {
    /// The value that an earlier look ended with, if the source could not be seen since.
    pub before: Option<f64>,
    /// The times, in order, at which the source was watched. A series without a sample at such a
    /// time did not exist.
    pub watched: &'a [Timestamp],
    /// Up to here an earlier look told of use, as far as it could see it, and counted it.
    pub counted: Timestamp,
}

/// The newest time at which a counter differs from the sample before. Its first sample counts if the
/// series did not exist before; a reset counts. Samples are in order; NaN and infinities say nothing.
pub fn of_counter(samples: &[(Timestamp, f64)], context: CounterContext<'_>) -> Option<SampledUse> {
    let mut watched = context.watched.iter().copied().peekable();
    let mut previous = context.before;
    let mut found: Option<SampledUse> = None;
    for &(at, value) in samples {
        let appeared = watched.next_if(|&seen| seen < at).is_some();
        while watched.next_if(|&seen| seen <= at).is_some() {}
        if !value.is_finite() {
            continue;
        }
        let growth = match previous {
            Some(previous) if value > previous && !appeared => value - previous,
            Some(previous) if value != previous => value,
            _ if appeared && value > 0.0 => value,
            _ => 0.0,
        };
        let moved = growth > 0.0 || previous.is_some_and(|previous| previous != value);
        if moved {
            let told = at <= context.counted;
            let counted = if told { 0 } else { whole(growth) };
            found = Some(SampledUse::shows(found, at, counted, context.counted));
        }
        previous = Some(value);
    }
    found
}

/// When a gauge of open sessions is above zero, where `counted` is as in [`CounterContext`].
pub fn of_presence(samples: &[(Timestamp, f64)], counted: Timestamp) -> Option<SampledUse> {
    let open = |&&(_, value): &&(Timestamp, f64)| value.is_finite() && value > 0.0;
    let open = samples.iter().filter(open);
    open.fold(None, |found, &(at, _)| Some(SampledUse::shows(found, at, 0, counted)))
}

impl SampledUse {
    /// It shows at this moment too.
    fn shows(found: Option<Self>, at: Timestamp, count: u64, counted: Timestamp) -> Self {
        let Some(mut found) = found else {
            return Self { earlier: Vec::new(), last: at, count };
        };
        let is_news = |earlier: &Timestamp| *earlier > counted;
        if !found.earlier.last().is_some_and(is_news) {
            found.earlier.push(found.last);
        }
        found.last = at;
        found.count = found.count.saturating_add(count);
        found
    }
}

/// At least one: whatever moved was used.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast from a float saturates, which is right for a count"
)]
const fn whole(growth: f64) -> u64 {
    let rounded = growth as u64;
    if rounded == 0 { 1 } else { rounded }
}
