//! Windows of time that come back: a cron line, how long each lasts, and the zone it is meant in.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::moment::{saturating_add, saturating_sub};

pub use cron::{Cron, CronError};

mod cron;

/// Windows that follow each other without a break are taken for one, up to so many; then the end
/// of the last one is an edge like any other.
const MAX_JOINED_WINDOWS: usize = 64;

/// A window that opens whenever its cron line says so.
#[derive(Debug, Clone, PartialEq)]
pub struct Window {
    pub cron: Cron,
    pub duration: SignedDuration,
    pub zone: TimeZone,
}

/// Whether a window is open, and until when that holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowState {
    /// It closes then.
    Open { until: Timestamp },
    /// It opens then; never, if its cron line names no time that still comes.
    Closed { until: Option<Timestamp> },
}

impl Window {
    pub fn at(&self, now: Timestamp) -> WindowState {
        if !self.duration.is_positive() {
            return WindowState::Closed { until: None };
        }
        let opens = self.cron.next_after(saturating_sub(now, self.duration), &self.zone);
        let Some(mut opened) = opens.filter(|opens| *opens <= now) else {
            return WindowState::Closed { until: self.cron.next_after(now, &self.zone) };
        };
        let mut until = saturating_add(opened, self.duration);
        for _ in 0..MAX_JOINED_WINDOWS {
            match self.cron.next_after(opened, &self.zone) {
                Some(next) if next <= until => {
                    opened = next;
                    until = saturating_add(opened, self.duration);
                }
                _ => break,
            }
        }
        WindowState::Open { until }
    }
}

/// So many edges of windows are looked at for a time at which all of them let something begin.
const MAX_WINDOW_EDGES: usize = 64;

/// Why nothing may begin now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed {
    /// When it opens; none, if it does not as far as is foreseen.
    pub until: Option<Timestamp>,
    /// When to ask again; none, if no time will do.
    pub again: Option<Timestamp>,
}

/// Whether something may begin now: inside of any of `allow` (if there are any) and outside of all
/// of `deny`.
pub fn check_open(allow: &[Window], deny: &[Window], now: Timestamp) -> Result<(), Closed> {
    let Err(again) = is_open(allow, deny, now) else { return Ok(()) };
    let mut edge = again;
    for _ in 0..MAX_WINDOW_EDGES {
        // Windows that exclude each other never let anything begin.
        match edge.map(|at| is_open(allow, deny, at)) {
            Some(Ok(())) => return Err(Closed { until: edge, again }),
            Some(Err(next)) => edge = next,
            None => break,
        }
    }
    Err(Closed { until: None, again })
}

/// Whether something may begin then. If not, the next time at which that may be another.
fn is_open(allow: &[Window], deny: &[Window], now: Timestamp) -> Result<(), Option<Timestamp>> {
    let mut wait: Option<Timestamp> = None;
    for window in deny {
        if let WindowState::Open { until } = window.at(now) {
            wait = wait.max(Some(until));
        }
    }
    if !allow.is_empty() {
        let mut opens = None;
        for window in allow {
            match window.at(now) {
                WindowState::Open { .. } => return wait.map_or(Ok(()), |wait| Err(Some(wait))),
                WindowState::Closed { until } => opens = earliest(opens, until),
            }
        }
        return Err(opens.map(|opens| wait.map_or(opens, |wait| wait.max(opens))));
    }
    wait.map_or(Ok(()), |wait| Err(Some(wait)))
}

fn earliest(a: Option<Timestamp>, b: Option<Timestamp>) -> Option<Timestamp> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests;
