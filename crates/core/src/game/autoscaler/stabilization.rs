//! What was proposed for long enough. Upwards the least that was proposed within the window counts, downwards the most.

use jiff::{SignedDuration, Timestamp};

use crate::decision::Wake;
use crate::moment::{saturating_add, saturating_sub};

/// So many changes of mind are remembered within a window; of more, the oldest are joined.
const MAX_REMEMBERED: usize = 64;

/// What was wanted from then on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recommendation {
    pub at: Timestamp,
    pub replicas: u32,
}

/// Notes what is wanted now; answers what may be done, and when that may change by itself.
pub(super) fn stabilize(
    past: &mut Vec<Recommendation>,
    wanted: u32,
    current: u32,
    (up, down): (SignedDuration, SignedDuration),
    now: Timestamp,
) -> (u32, Wake) {
    if past.last().is_none_or(|last| last.replicas != wanted) {
        past.push(Recommendation { at: now, replicas: wanted });
    }
    let longest = up.max(down).max(SignedDuration::ZERO);
    // The newest of those before the window held when it began.
    let since = saturating_sub(now, longest);
    let begun = past.iter().rposition(|one| one.at <= since).unwrap_or(0);
    past.drain(..begun);
    if past.len() > MAX_REMEMBERED {
        let joined = past.len() - MAX_REMEMBERED;
        past.drain(..joined);
    }
    let within = |window: SignedDuration| {
        let since = saturating_sub(now, window.max(SignedDuration::ZERO));
        let begun = past.iter().rposition(|one| one.at <= since).unwrap_or(0);
        past[begun..].iter().map(|one| one.replicas)
    };
    let settled = if wanted > current {
        within(up).min().unwrap_or(wanted).max(current)
    } else if wanted < current {
        within(down).max().unwrap_or(wanted).min(current)
    } else {
        wanted
    };
    let window = if wanted > current { up } else { down };
    let wake = if settled == wanted {
        Wake::OnChange
    } else {
        // What was proposed counts until what came after it has held for the window.
        let since = saturating_sub(now, window);
        let after = past.iter().skip(1).find(|one| one.at > since);
        after.map_or(Wake::OnChange, |one| Wake::At(saturating_add(one.at, window)))
    };
    (settled, wake)
}
