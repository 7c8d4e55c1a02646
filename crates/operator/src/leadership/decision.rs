//! What a candidate and a leader do about the lease: pure functions of what was seen of it, when,
//! and what time it is by our own monotonic clock.

use std::time::Duration;

use tokio::time::Instant;

use super::{DURATION, LONGEST_DURATION, RENEW_DEADLINE, RENEW_EVERY, RETRY};

/// Whose the lease is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Standing {
    /// Its last holder gave it up, having stopped before.
    Released,
    /// Somebody holds it, or may: who edited the holder away did not stop it.
    Held { by: String, duration: Duration },
}

impl Standing {
    /// As a lease says it. A holder acts for [`RENEW_DEADLINE`] whatever an edit makes of the
    /// duration, so a shorter one is not believed; nor is one that nobody would live to see end.
    pub(super) fn held(by: &str, seconds: Option<i32>) -> Self {
        let stated = seconds.and_then(|seconds| u64::try_from(seconds).ok());
        let stated = stated.map_or(DURATION, Duration::from_secs);
        Self::Held { by: by.to_owned(), duration: stated.clamp(DURATION, LONGEST_DURATION) }
    }
}

/// The lease in one of its versions, and when *we* first saw that version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    version: String,
    standing: Standing,
    since: Instant,
}

impl Seen {
    /// What is seen now, after what was seen before. Any change starts the clock anew.
    pub(super) fn after(
        before: Option<&Self>,
        version: String,
        standing: Standing,
        now: Instant,
    ) -> Self {
        let same = before.filter(|before| before.version == version);
        let since = same.map_or(now, |before| before.since);
        Self { version, standing, since }
    }

    /// Who has it, as far as is known.
    pub(super) fn holder(&self) -> Option<&str> {
        match &self.standing {
            Standing::Released => None,
            Standing::Held { by, .. } => Some(by).filter(|by| !by.is_empty()).map(String::as_str),
        }
    }
}

/// What a candidate does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Candidacy {
    Take,
    LookAgain(Instant),
}

/// Our own name in a lease that we do not hold means nothing: it may be left of a write that was
/// given up, or somebody's edit.
pub(super) fn campaign(seen: &Seen, now: Instant) -> Candidacy {
    match seen.standing {
        Standing::Released => Candidacy::Take,
        Standing::Held { duration, .. } => {
            let free = seen.since + duration;
            if now >= free { Candidacy::Take } else { Candidacy::LookAgain(free.min(now + RETRY)) }
        }
    }
}

/// What a leader does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reign {
    Renew,
    Wait(Instant),
    StepDown,
}

/// `renewed`: when the last renewal that took effect was sent. `tried`: when one last failed.
pub(super) fn reign(renewed: Instant, tried: Option<Instant>, now: Instant) -> Reign {
    let end = renewed + RENEW_DEADLINE;
    if now >= end {
        return Reign::StepDown;
    }
    let due = renewed + RENEW_EVERY;
    let due = tried.map_or(due, |tried| due.max(tried + RETRY));
    if now >= due { Reign::Renew } else { Reign::Wait(due.min(end)) }
}

#[cfg(test)]
mod tests;
