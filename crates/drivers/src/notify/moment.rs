//! Moments and spans in words for people. Only the time zone that is named decides how they read:
//! not the machine's, and no locale.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// A time zone with the name by which people know it.
#[derive(Debug, Clone)]
pub struct Zone {
    name: String,
    rules: TimeZone,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no time zone of the IANA database; write one like Europe/Rome or UTC")]
pub struct UnknownZone(String);

impl Zone {
    pub fn utc() -> Self {
        Self { name: "UTC".to_owned(), rules: TimeZone::UTC }
    }

    pub fn named(name: &str) -> Result<Self, UnknownZone> {
        let unknown = || UnknownZone(super::plain::one_line(name, 64));
        let rules = TimeZone::get(name).map_err(|_| unknown())?;
        let name = rules.iana_name().ok_or_else(unknown)?.to_owned();
        Ok(Self { name, rules })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// What clocks show there.
    pub const fn rules(&self) -> &TimeZone {
        &self.rules
    }

    /// "Tuesday 17 November 2026, 09:00 Europe/Rome". Seconds are left out, so it never reads later
    /// than it is. In the hour that a clock shows twice, the offset says which one is meant.
    pub fn show(&self, at: Timestamp) -> String {
        let local = at.to_zoned(self.rules.clone());
        let shown = local.strftime("%A %-d %B %Y, %H:%M");
        if self.rules.to_ambiguous_timestamp(local.datetime()).is_ambiguous() {
            format!("{shown} {} (UTC{})", self.name, local.strftime("%:z"))
        } else {
            format!("{shown} {}", self.name)
        }
    }
}

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// "3 days", "1 day and 5 hours", "23 hours and 59 minutes", "45 minutes", "20 seconds".
///
/// To the nearest minute from an hour on, because "3 days" is meant where two seconds have passed
/// since; then at most two units.
pub(crate) fn span_in_words(span: SignedDuration) -> String {
    let Ok(seconds) = u64::try_from(span.as_secs()) else { return "no time".to_owned() };
    if seconds == 0 {
        return "no time".to_owned();
    }
    let minutes = seconds.saturating_add(MINUTE / 2) / MINUTE;
    let rounded = minutes * MINUTE;
    if rounded >= DAY {
        pair((rounded / DAY, "day"), (rounded % DAY / HOUR, "hour"))
    } else if rounded >= HOUR {
        pair((rounded / HOUR, "hour"), (rounded % HOUR / MINUTE, "minute"))
    } else if seconds >= 10 * MINUTE {
        count(minutes, "minute")
    } else if seconds >= MINUTE {
        pair((seconds / MINUTE, "minute"), (seconds % MINUTE, "second"))
    } else {
        count(seconds, "second")
    }
}

fn pair(large: (u64, &str), small: (u64, &str)) -> String {
    let large = count(large.0, large.1);
    if small.0 == 0 { large } else { format!("{large} and {}", count(small.0, small.1)) }
}

fn count(number: u64, unit: &str) -> String {
    if number == 1 { format!("1 {unit}") } else { format!("{number} {unit}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn a_moment_is_shown_in_the_named_zone() {
        let rome = Zone::named("europe/rome").unwrap();
        assert_eq!(
            rome.show(at("2026-11-17T08:00:59Z")),
            "Tuesday 17 November 2026, 09:00 Europe/Rome"
        );
        assert_eq!(
            rome.show(at("2026-07-01T22:05:00Z")),
            "Thursday 2 July 2026, 00:05 Europe/Rome"
        );
        assert_eq!(
            Zone::utc().show(at("2026-11-17T09:00:00Z")),
            "Tuesday 17 November 2026, 09:00 UTC"
        );
    }

    #[test]
    fn the_hour_that_comes_twice_says_which() {
        let rome = Zone::named("Europe/Rome").unwrap();
        let first = "Sunday 25 October 2026, 02:30 Europe/Rome (UTC+02:00)";
        let second = "Sunday 25 October 2026, 02:30 Europe/Rome (UTC+01:00)";
        assert_eq!(rome.show(at("2026-10-25T00:30:00Z")), first);
        assert_eq!(rome.show(at("2026-10-25T01:30:00Z")), second);
    }

    #[test]
    fn the_ends_of_time_can_be_shown() {
        for zone in ["UTC", "Pacific/Kiritimati", "Pacific/Niue"] {
            let zone = Zone::named(zone).unwrap();
            assert!(zone.show(Timestamp::MAX).contains("9999"), "{}", zone.name());
            assert!(zone.show(Timestamp::MIN).ends_with(zone.name()));
        }
    }

    #[test]
    fn only_zones_of_the_database_are_known() {
        for name in ["Europe/Rom", "", "Local", "Etc/Unknown", "../../etc/passwd", "UTC+1\r\nx"] {
            let error = Zone::named(name).unwrap_err();
            assert!(error.to_string().contains("is no time zone"), "{name:?}: {error}");
            assert!(!error.to_string().contains('\n'));
        }
    }

    #[test]
    fn spans() {
        let words = |seconds| span_in_words(SignedDuration::from_secs(seconds));
        assert_eq!(words(72 * 3600), "3 days");
        assert_eq!(words(72 * 3600 - 2), "3 days");
        assert_eq!(words(29 * 3600), "1 day and 5 hours");
        assert_eq!(words(24 * 3600 - 60), "23 hours and 59 minutes");
        assert_eq!(words(3600), "1 hour");
        assert_eq!(words(3599), "1 hour");
        assert_eq!(words(45 * 60 + 10), "45 minutes");
        assert_eq!(words(65), "1 minute and 5 seconds");
        assert_eq!(words(20), "20 seconds");
        assert_eq!(words(1), "1 second");
        assert_eq!(words(0), "no time");
        assert_eq!(words(-5), "no time");
        assert_eq!(span_in_words(SignedDuration::MAX), "106751991167300 days and 15 hours");
        assert_eq!(span_in_words(SignedDuration::MIN), "no time");
    }
}
