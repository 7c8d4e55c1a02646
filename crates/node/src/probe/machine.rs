//! One probe over time: when it runs next, and what its results amount to. A pure state machine,
//! for one run of a container; the next run of the container gets a new one.

use std::fmt;
use std::time::Duration;

use k8s_openapi::api::core::v1::Probe;
use tokio::time::Instant;

/// What Kubernetes assumes where a probe does not say.
const DEFAULT_PERIOD: i32 = 10;
const DEFAULT_TIMEOUT: i32 = 1;
const DEFAULT_SUCCESS_THRESHOLD: i32 = 1;
const DEFAULT_FAILURE_THRESHOLD: i32 = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Startup,
    Liveness,
    Readiness,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Startup => "Startup",
            Self::Liveness => "Liveness",
            Self::Readiness => "Readiness",
        })
    }
}

/// A probe's numbers, with everything that was left out filled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) kind: Kind,
    pub(super) initial_delay: Duration,
    pub(super) period: Duration,
    pub(super) timeout: Duration,
    pub(super) success_threshold: u32,
    pub(super) failure_threshold: u32,
}

impl Settings {
    /// Numbers that the API would have refused count as left out.
    pub(super) fn of(kind: Kind, probe: &Probe) -> Self {
        let positive = |given: Option<i32>, default: i32| {
            given.filter(|number| *number > 0).unwrap_or(default).unsigned_abs()
        };
        let seconds = |number: u32| Duration::from_secs(u64::from(number));
        Self {
            kind,
            initial_delay: seconds(positive(probe.initial_delay_seconds, 0)),
            period: seconds(positive(probe.period_seconds, DEFAULT_PERIOD)),
            timeout: seconds(positive(probe.timeout_seconds, DEFAULT_TIMEOUT)),
            success_threshold: positive(probe.success_threshold, DEFAULT_SUCCESS_THRESHOLD),
            failure_threshold: positive(probe.failure_threshold, DEFAULT_FAILURE_THRESHOLD),
        }
    }

    /// When the first run is due, for a container that has been running for `age`. `spread` is how
    /// long a run that was adopted waits at least, so that a node that comes back does not probe
    /// everything at once.
    pub(super) fn first(&self, age: Duration, spread: Duration, now: Instant) -> Instant {
        let delay = self.initial_delay.saturating_sub(age).max(spread);
        now.checked_add(delay).unwrap_or(now)
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Machine {
    settings: Settings,
    next: Instant,
    last: Option<bool>,
    /// How many times in a row `last` came.
    streak: u32,
    over: bool,
}

impl Machine {
    pub(super) const fn new(settings: Settings, first: Instant) -> Self {
        Self { settings, next: first, last: None, streak: 0, over: false }
    }

    /// When the probe is to run.
    pub(super) const fn next(&self) -> Instant {
        self.next
    }

    /// Whether nothing is left to find out in this run of the container: a startup probe was
    /// decided, or a liveness probe failed.
    pub(super) const fn is_over(&self) -> bool {
        self.over
    }

    /// The container has started now: until then the probe was held back.
    pub(super) fn open(&mut self, now: Instant) {
        self.next = self.next.max(now);
    }

    /// Takes the result of the run that was due: `None` if it could not be run, which says nothing
    /// about the container. Returns a result when there were enough results of the same kind.
    pub(super) fn observe(&mut self, result: Option<bool>, now: Instant) -> Option<bool> {
        self.next = self.tick_after(now);
        let result = result?;
        if self.last == Some(result) {
            self.streak = self.streak.saturating_add(1);
        } else {
            self.last = Some(result);
            self.streak = 1;
        }
        let threshold =
            if result { self.settings.success_threshold } else { self.settings.failure_threshold };
        if self.streak < threshold {
            return None;
        }
        self.over = match self.settings.kind {
            Kind::Startup => true,
            Kind::Liveness => !result,
            Kind::Readiness => false,
        };
        Some(result)
    }

    /// Runs keep to the period's beat. Of the beats that were missed because a run took long, only
    /// the last is made up for.
    fn tick_after(&self, now: Instant) -> Instant {
        let period = self.settings.period;
        let missed = now.saturating_duration_since(self.next).as_nanos() / period.as_nanos().max(1);
        let beats = u32::try_from(missed).unwrap_or(u32::MAX).max(1);
        let ahead = period.checked_mul(beats).and_then(|ahead| self.next.checked_add(ahead));
        ahead.unwrap_or(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(number: u64) -> Duration {
        Duration::from_secs(number)
    }

    fn settings(kind: Kind, success: u32, failure: u32) -> Settings {
        Settings {
            kind,
            initial_delay: seconds(5),
            period: seconds(10),
            timeout: seconds(1),
            success_threshold: success,
            failure_threshold: failure,
        }
    }

    #[test]
    fn what_is_left_out_is_filled_in() {
        let plain = Settings::of(Kind::Liveness, &Probe::default());
        let expected = Settings {
            kind: Kind::Liveness,
            initial_delay: Duration::ZERO,
            period: seconds(10),
            timeout: seconds(1),
            success_threshold: 1,
            failure_threshold: 3,
        };
        assert_eq!(plain, expected);
        let nonsense = Probe {
            initial_delay_seconds: Some(-1),
            period_seconds: Some(0),
            timeout_seconds: Some(i32::MIN),
            success_threshold: Some(0),
            failure_threshold: Some(-3),
            ..Probe::default()
        };
        assert_eq!(Settings::of(Kind::Liveness, &nonsense), expected);
        let given = Probe {
            initial_delay_seconds: Some(1),
            period_seconds: Some(2),
            timeout_seconds: Some(3),
            success_threshold: Some(4),
            failure_threshold: Some(5),
            ..Probe::default()
        };
        let given = Settings::of(Kind::Readiness, &given);
        assert_eq!((given.initial_delay, given.period, given.timeout), {
            (seconds(1), seconds(2), seconds(3))
        });
        assert_eq!((given.success_threshold, given.failure_threshold), (4, 5));
    }

    #[test]
    fn the_first_run_waits_for_the_initial_delay() {
        let now = Instant::now();
        let cases = [
            // (age of the container, spread, wait)
            (0, 0, 5),
            (2, 0, 3),
            (5, 0, 0),
            (900, 0, 0),
            (900, 7, 7),
            (0, 7, 7),
            (0, 3, 5),
        ];
        for (age, spread, wait) in cases {
            let first = settings(Kind::Readiness, 1, 1).first(seconds(age), seconds(spread), now);
            assert_eq!(first - now, seconds(wait), "age {age}, spread {spread}");
        }
        let endless = settings(Kind::Readiness, 1, 1).first(seconds(0), Duration::MAX, now);
        assert_eq!(endless, now);
    }

    #[test]
    fn results_become_verdicts_at_their_thresholds() {
        // s: success, f: failure, ?: could not be run. In the second string: what is decided by it,
        // in the third: whether it was the last run.
        let cases = [
            (Kind::Readiness, 1, 3, "fffsf?ff", "--fs---f", "--------"),
            (Kind::Readiness, 2, 1, "ssfsfss", "-sf-f-s", "-------"),
            (Kind::Readiness, 1, 3, "ffsffs", "--s--s", "------"),
            // A run that could not be made neither counts nor breaks a row.
            (Kind::Readiness, 1, 3, "f?f?f", "----f", "-----"),
            (Kind::Liveness, 1, 3, "ssfff", "ss--f", "----!"),
            (Kind::Liveness, 1, 1, "f", "f", "!"),
            (Kind::Startup, 1, 3, "ffs", "--s", "--!"),
            (Kind::Startup, 1, 3, "f?ff", "---f", "---!"),
        ];
        for (kind, success, failure, results, verdicts, ends) in cases {
            let now = Instant::now();
            let mut machine = Machine::new(settings(kind, success, failure), now);
            let (mut decided, mut over) = (String::new(), String::new());
            for result in results.chars() {
                let result = (result != '?').then_some(result == 's');
                decided.push(match machine.observe(result, now) {
                    None => '-',
                    Some(true) => 's',
                    Some(false) => 'f',
                });
                over.push(if machine.is_over() { '!' } else { '-' });
            }
            assert_eq!((&*decided, &*over), (verdicts, ends), "{kind} {results}");
        }
    }

    #[test]
    fn runs_keep_to_the_beat() {
        let start = Instant::now();
        let mut machine = Machine::new(settings(Kind::Readiness, 1, 1), start);
        // (when the run was over, when the next is due)
        let cases = [(0, 10), (11, 20), (29, 30), (30, 40), (95, 90), (95, 100), (3_700, 3_700)];
        for (ended, due) in cases {
            machine.observe(Some(true), start + seconds(ended));
            assert_eq!(machine.next() - start, seconds(due), "ended at {ended}");
        }
    }

    #[test]
    fn a_probe_that_was_held_back_runs_as_soon_as_it_may() {
        let start = Instant::now();
        let mut machine = Machine::new(settings(Kind::Readiness, 1, 1), start + seconds(5));
        machine.open(start + seconds(1));
        assert_eq!(machine.next(), start + seconds(5));
        machine.open(start + seconds(42));
        assert_eq!(machine.next(), start + seconds(42));
        machine.observe(Some(true), start + seconds(43));
        assert_eq!(machine.next(), start + seconds(52));
    }
}
