//! Why something happens or does not, and the words for it.

use std::fmt;

use jiff::{SignedDuration, Timestamp};

use super::state::Cause;
use crate::moment::Utc;
use crate::term::words;

/// Every reason that a decision of this family gives.
#[derive(Debug, Clone, PartialEq)]
pub enum Reason {
    // Nothing happens, because …
    Paused,
    ObserveOnly,
    /// Nothing is old, unhealthy, changed or in excess.
    AllWell,
    /// Nothing ever expires.
    NoAges,
    FrozenUntil(Timestamp),
    NotOldYet {
        machine: String,
        due: Timestamp,
    },
    KeptUntil {
        machine: String,
        until: Timestamp,
    },
    Kept {
        machine: String,
    },
    /// One after the other: another rotation is open.
    RotationOpen {
        machine: String,
    },
    Unhealthy {
        machines: u32,
    },
    Unknown {
        machines: u32,
    },
    Starting {
        machines: u32,
    },
    BelowSize {
        missing: u32,
    },
    OverScaled {
        excess: u32,
    },
    /// `size`, `surge` and, for forced ones, `forcedSurge` are used up.
    NoRoom {
        max: u32,
    },
    MinHealthy {
        ready: u32,
        min: u32,
    },
    StormGuard {
        unhealthy: u32,
        max: u32,
    },
    /// A budget is used up, or its window is closed; until then, if time alone clears it.
    Budget {
        path: String,
        until: Option<Timestamp>,
    },
    WindowClosed {
        path: String,
        until: Option<Timestamp>,
    },
    /// As many rotations are open in all groups as the configuration lets be.
    FleetBudget {
        max: u32,
    },
    /// Machines cannot be made: what was said last, and when another is tried; none while one is.
    CreateFailing {
        failures: u32,
        error: Option<String>,
        until: Option<Timestamp>,
    },
    /// Machines of this template end by themselves soon after they became ready.
    DyingYoung {
        deaths: u32,
        machine: String,
        ready_for: SignedDuration,
        /// When another is tried; none while one is.
        until: Option<Timestamp>,
    },
    /// No machine of this template has been ready for long enough yet; this one is tried.
    Trial {
        machine: String,
        until: Option<Timestamp>,
    },
    WaitsForReplacement {
        machine: String,
        replacement: Option<String>,
    },
    DrainOpen {
        machine: String,
        until: Timestamp,
    },
    ProviderFailing {
        machine: String,
        attempts: u32,
        until: Timestamp,
    },
    /// The machine cannot be made; nothing is tried again by itself.
    CannotBeMade {
        machine: String,
    },
    // Something happens, because …
    Begins {
        machine: String,
        cause: Cause,
    },
    ForcedAt {
        machine: String,
        at: Timestamp,
    },
    DrainAcknowledged {
        machine: String,
    },
    DrainTimedOut {
        machine: String,
    },
    Gone {
        machine: String,
    },
    Stopped {
        machine: String,
    },
    Failed {
        machine: String,
    },
    ScalesUp {
        by: u32,
    },
    ScalesDown {
        by: u32,
    },
    WarnedUntil(Timestamp),
    ExpiresAt(Timestamp),
    Deleting,
}

impl Reason {
    /// When it is over, if time alone ends it.
    pub const fn clears_at(&self) -> Option<Timestamp> {
        match self {
            Self::FrozenUntil(until) | Self::KeptUntil { until, .. } => Some(*until),
            Self::Budget { until, .. }
            | Self::WindowClosed { until, .. }
            | Self::CreateFailing { until, .. }
            | Self::Trial { until, .. } => *until,
            _ => None,
        }
    }

    /// Whether it goes away by itself while machines of the group come and go: in a roll each one
    /// waits for the one before it.
    pub const fn is_progress(&self) -> bool {
        matches!(
            self,
            Self::RotationOpen { .. }
                | Self::Starting { .. }
                | Self::BelowSize { .. }
                | Self::OverScaled { .. }
                | Self::Trial { .. }
                | Self::FleetBudget { .. }
        ) || self.may_be_progress()
    }

    /// Whether it goes away by itself if machines of the group come and go.
    pub const fn may_be_progress(&self) -> bool {
        matches!(
            self,
            Self::NoRoom { .. } | Self::MinHealthy { .. } | Self::Budget { until: None, .. }
        )
    }
}

impl fmt::Display for Reason {
    /// A short sentence without a full stop. Times are UTC, to the second.
    #[expect(clippy::too_many_lines, reason = "a table: one sentence for each reason")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Paused => f.write_str("paused: nothing is decided, open drains end"),
            Self::ObserveOnly => f.write_str("observed only: decided, and nothing is begun"),
            Self::AllWell => f.write_str("nothing is old, ill, changed or in excess"),
            Self::NoAges => f.write_str("no age is set: nothing expires"),
            Self::FrozenUntil(until) => write!(f, "frozen until {}", Utc(*until)),
            Self::NotOldYet { machine, due } => {
                write!(f, "{machine} is old enough after {}", Utc(*due))
            }
            Self::KeptUntil { machine, until } => {
                write!(f, "{machine} is kept until {}", Utc(*until))
            }
            Self::Kept { machine } => write!(f, "{machine} must not be disrupted"),
            Self::RotationOpen { machine } => {
                write!(f, "one at a time: {machine} is being rotated or removed")
            }
            Self::Unhealthy { machines } => write!(f, "{} unhealthy", Machines(*machines)),
            Self::Unknown { machines } => {
                write!(f, "nothing is known of {}", Objects(*machines))
            }
            Self::Starting { machines } => write!(f, "{} not ready yet", Machines(*machines)),
            Self::BelowSize { missing } => write!(f, "{} missing", Machines(*missing)),
            Self::OverScaled { excess } => write!(f, "{} more than wanted", Machines(*excess)),
            Self::NoRoom { max } => write!(f, "no room: at most {max} machines at a time"),
            Self::MinHealthy { ready, min } => {
                write!(f, "{ready} ready, and at least {min} must stay")
            }
            Self::StormGuard { unhealthy, max } => {
                write!(f, "{unhealthy} unhealthy, more than {max}: none is replaced for it")
            }
            Self::Budget { path, until } => {
                write!(f, "{path} is used up{}", Until(*until))
            }
            Self::WindowClosed { path, until: Some(until) } => {
                write!(f, "{path} is outside of its windows until {}", Utc(*until))
            }
            Self::WindowClosed { path, until: None } => {
                write!(f, "{path} is outside of its windows, which never open")
            }
            Self::FleetBudget { max } => {
                write!(f, "{max} rotations are open in all groups, and maxRotations is {max}")
            }
            Self::CreateFailing { failures, error, until } => {
                let times = if *failures == 1 { "time" } else { "times" };
                write!(f, "machines could not be made, {failures} {times} in a row")?;
                if let Some(error) = error {
                    write!(f, ": {error}")?;
                }
                match until {
                    Some(until) => write!(f, "; tried again at {}", Utc(*until)),
                    None => f.write_str("; another one is being tried"),
                }
            }
            Self::DyingYoung { deaths, machine, ready_for, until } => {
                let themselves = if *deaths == 1 { "itself" } else { "themselves" };
                write!(
                    f,
                    "{} of this template ended by {themselves} soon after becoming ready, {machine} \
                     after {}; no rotation begins until one lives longer",
                    Objects(*deaths),
                    words(*ready_for)
                )?;
                match until {
                    Some(until) => write!(f, ", and another is tried at {}", Utc(*until)),
                    None => Ok(()),
                }
            }
            Self::Trial { machine, until: Some(until) } => {
                write!(
                    f,
                    "{machine} is the first of its template: others follow at {}",
                    Utc(*until)
                )
            }
            Self::Trial { machine, until: None } => {
                write!(f, "{machine} is the first of its template: others follow once it lives")
            }
            Self::WaitsForReplacement { machine, replacement: Some(replacement) } => {
                write!(f, "{machine} waits until {replacement} is ready")
            }
            Self::WaitsForReplacement { machine, replacement: None } => {
                write!(f, "{machine} waits for another replacement")
            }
            Self::DrainOpen { machine, until } => {
                write!(f, "{machine} drains until {} at the latest", Utc(*until))
            }
            Self::ProviderFailing { machine, attempts, until } => write!(
                f,
                "the provider failed {attempts} times for {machine}: asked again at {}",
                Utc(*until)
            ),
            Self::CannotBeMade { machine } => write!(f, "the provider does not make {machine}"),
            Self::Begins { machine, cause } => write!(f, "{machine} {}", Because(*cause)),
            Self::ForcedAt { machine, at } => {
                write!(f, "{machine} reaches its forced age at {}", Utc(*at))
            }
            Self::DrainAcknowledged { machine } => write!(f, "{machine} is drained"),
            Self::DrainTimedOut { machine } => {
                write!(f, "the time to drain {machine} is over")
            }
            Self::Gone { machine } => write!(f, "{machine} is gone at its provider"),
            Self::Stopped { machine } => write!(f, "{machine} has stopped at its provider"),
            Self::Failed { machine } => write!(f, "{machine} did not come up"),
            Self::ScalesUp { by } => write!(f, "{} to be made", Machines(*by)),
            Self::ScalesDown { by } => write!(f, "{} too many", Machines(*by)),
            Self::WarnedUntil(until) => write!(f, "warned, and given time until {}", Utc(*until)),
            Self::ExpiresAt(at) => write!(f, "expires at {}", Utc(*at)),
            Self::Deleting => f.write_str("being deleted"),
        }
    }
}

/// Why a machine goes, as the rest of a sentence about it.
struct Because(Cause);

impl fmt::Display for Because {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Cause::Expired => "is older than its eligible age",
            Cause::Forced => "is older than its forced age",
            Cause::Unhealthy => "is unhealthy",
            Cause::Drifted => "was made from another template",
            Cause::Interrupted => "will be taken away by its provider",
            Cause::OnDemand => "was lent for a time that is over",
            Cause::Scale => "is in excess",
            Cause::Manual => "is to go: somebody asked for it",
        })
    }
}

struct Until(Option<Timestamp>);

impl fmt::Display for Until {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(until) => write!(f, " until {}", Utc(until)),
            None => Ok(()),
        }
    }
}

/// A number of machines, as the subject of a sentence.
struct Machines(u32);

impl fmt::Display for Machines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            1 => f.write_str("1 machine is"),
            count => write!(f, "{count} machines are"),
        }
    }
}

struct Objects(u32);

impl fmt::Display for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            1 => f.write_str("1 machine"),
            count => write!(f, "{count} machines"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_short_and_times_are_utc_to_the_second() {
        let at: Timestamp = "2026-11-17T08:00:00.75+01:00".parse().unwrap();
        let machine = || "web-q5tnb".to_owned();
        for (reason, words) in [
            (Reason::FrozenUntil(at), "frozen until 2026-11-17T07:00:00Z"),
            (
                Reason::WindowClosed { path: "budgets[1]".to_owned(), until: None },
                "budgets[1] is outside of its windows, which never open",
            ),
            (
                Reason::CreateFailing {
                    failures: 2,
                    error: Some("quota exceeded".to_owned()),
                    until: Some(at),
                },
                "machines could not be made, 2 times in a row: quota exceeded; tried again at \
                 2026-11-17T07:00:00Z",
            ),
            (
                Reason::DyingYoung {
                    deaths: 2,
                    machine: machine(),
                    ready_for: SignedDuration::from_secs(3),
                    until: None,
                },
                "2 machines of this template ended by themselves soon after becoming ready, \
                 web-q5tnb after 3s; no rotation begins until one lives longer",
            ),
            (
                Reason::Trial { machine: machine(), until: Some(at) },
                "web-q5tnb is the first of its template: others follow at 2026-11-17T07:00:00Z",
            ),
            (Reason::Unhealthy { machines: 1 }, "1 machine is unhealthy"),
            (Reason::Starting { machines: 2 }, "2 machines are not ready yet"),
            (Reason::Unknown { machines: 2 }, "nothing is known of 2 machines"),
            (Reason::MinHealthy { ready: 2, min: 2 }, "2 ready, and at least 2 must stay"),
            (
                Reason::WindowClosed { path: "budgets[1]".to_owned(), until: Some(at) },
                "budgets[1] is outside of its windows until 2026-11-17T07:00:00Z",
            ),
            (
                Reason::Budget { path: "budgets[0]".to_owned(), until: None },
                "budgets[0] is used up",
            ),
            (
                Reason::Begins { machine: machine(), cause: Cause::Drifted },
                "web-q5tnb was made from another template",
            ),
            (
                Reason::WaitsForReplacement { machine: machine(), replacement: None },
                "web-q5tnb waits for another replacement",
            ),
        ] {
            assert_eq!(reason.to_string(), words);
        }
    }
}
