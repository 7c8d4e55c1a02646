//! Values over time, and the spans in which a source could see.

use jiff::{SignedDuration, Timestamp};

/// A value that changes over time.
#[derive(Debug, Clone)]
pub struct History<T> {
    values: Vec<(Timestamp, T)>,
}

impl<T> History<T> {
    pub fn new(at: Timestamp, value: T) -> Self {
        Self { values: vec![(at, value)] }
    }

    pub fn set(&mut self, at: Timestamp, value: T) {
        self.values.push((at, value));
    }

    /// Everything that held at some time in `[from, to]`.
    pub fn during(&self, from: Timestamp, to: Timestamp) -> impl Iterator<Item = &T> {
        let first = self.values.partition_point(|(at, _)| *at <= from).saturating_sub(1);
        self.values[first..].iter().take_while(move |(at, _)| *at <= to).map(|(_, value)| value)
    }

    pub fn last(&self) -> &T {
        &self.values[self.values.len() - 1].1
    }

    /// Since when the last value holds.
    pub fn since(&self) -> Timestamp {
        self.values[self.values.len() - 1].0
    }
}

/// The stretches of time in which a source could see.
#[derive(Debug, Clone, Default)]
pub struct SourceVisibility {
    spans: Vec<(Timestamp, Option<Timestamp>)>,
}

impl SourceVisibility {
    pub fn seeing(since: Timestamp) -> Self {
        Self { spans: vec![(since, None)] }
    }

    pub fn sees(&self) -> bool {
        matches!(self.spans.last(), Some((_, None)))
    }

    pub fn set(&mut self, at: Timestamp, sees: bool) {
        match (self.sees(), sees) {
            (false, true) => self.spans.push((at, None)),
            (true, false) => {
                if let Some(last) = self.spans.last_mut() {
                    last.1 = Some(at);
                }
            }
            (true, true) | (false, false) => {}
        }
    }

    /// The last moment, up to `at`, in which it could see.
    pub fn seen_until(&self, at: Timestamp) -> Timestamp {
        let begun = self.spans.iter().rev().find(|(since, _)| *since <= at);
        begun.map_or(Timestamp::MIN, |(_, until)| until.map_or(at, |until| until.min(at)))
    }

    /// Since when it cannot see, if it cannot.
    pub fn blind_since(&self) -> Option<Timestamp> {
        match self.spans.last() {
            None => Some(Timestamp::MIN),
            Some((_, until)) => *until,
        }
    }
}

/// How much of `(from, to]` all of them could see.
pub fn seen_by_all(
    sources: &[&SourceVisibility],
    from: Timestamp,
    to: Timestamp,
) -> SignedDuration {
    let mut spans = vec![(from, to)];
    for visibility in sources {
        let mut both = Vec::new();
        for &(begin, end) in &spans {
            for &(since, until) in &visibility.spans {
                let (begin, end) = (begin.max(since), end.min(until.unwrap_or(to)));
                if begin < end {
                    both.push((begin, end));
                }
            }
        }
        spans = both;
    }
    spans.iter().map(|(begin, end)| end.duration_since(*begin)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn only_what_all_could_see_counts() {
        let mut one = SourceVisibility::seeing(at(0));
        one.set(at(10), false);
        one.set(at(20), true);
        let mut other = SourceVisibility::seeing(at(5));
        other.set(at(25), false);
        assert_eq!(other.blind_since(), Some(at(25)));
        let seen = seen_by_all(&[&one, &other], at(0), at(100));
        assert_eq!(seen, SignedDuration::from_secs(5 + 5));
        assert_eq!(seen_by_all(&[&one, &other], at(8), at(22)), SignedDuration::from_secs(2 + 2));
        let until = [5, 15, 22, 40].map(|second| one.seen_until(at(second)).as_second());
        assert_eq!(until, [5, 10, 22, 40]);
    }

    #[test]
    fn what_held_within_a_window_includes_what_held_at_its_beginning() {
        let mut history = History::new(at(0), 'a');
        history.set(at(10), 'b');
        history.set(at(20), 'c');
        let during = |from, to| history.during(at(from), at(to)).copied().collect::<String>();
        assert_eq!(during(5, 9), "a");
        assert_eq!(during(5, 10), "ab");
        assert_eq!(during(10, 30), "bc");
        assert_eq!(during(25, 30), "c");
    }
}
