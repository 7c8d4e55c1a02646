//! Ages as people read them: `5m`, `3d2h`.

use std::fmt;

use jiff::{SignedDuration, Timestamp};

/// How long ago something was; no duration when that is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Age(Option<SignedDuration>);

impl Age {
    /// The age of a time as it stands in an object. What is no time is not known.
    pub(super) fn since(time: &str, now: Timestamp) -> Self {
        Self::of(parse(time), now)
    }

    pub(super) fn of(time: Option<Timestamp>, now: Timestamp) -> Self {
        Self(time.map(|time| now.duration_since(time)))
    }

    /// The time between two times in an object.
    pub(super) fn between(start: Timestamp, end: Timestamp) -> Self {
        Self(Some(end.duration_since(start)))
    }
}

/// A time in RFC 3339; no other notation is one to Kubernetes.
pub(super) fn parse(text: &str) -> Option<Timestamp> {
    crate::go::time::parse_instant(text).ok()
}

impl fmt::Display for Age {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(duration) = self.0 else {
            return f.write_str("<unknown>");
        };
        // A clock that is a second ahead is none to worry about.
        let seconds = duration.as_secs();
        if seconds < -1 {
            return f.write_str("<invalid>");
        }
        let seconds = seconds.max(0);
        let (minutes, hours) = (seconds / 60, seconds / 3600);
        let days = hours / 24;
        let two = |f: &mut fmt::Formatter<'_>, major: i64, unit, minor: i64, minor_unit| {
            write!(f, "{major}{unit}")?;
            if minor == 0 { Ok(()) } else { write!(f, "{minor}{minor_unit}") }
        };
        match () {
            () if seconds < 120 => write!(f, "{seconds}s"),
            () if minutes < 10 => two(f, minutes, 'm', seconds % 60, 's'),
            () if minutes < 180 => write!(f, "{minutes}m"),
            () if hours < 8 => two(f, hours, 'h', minutes % 60, 'm'),
            () if hours < 48 => write!(f, "{hours}h"),
            () if days < 8 => two(f, days, 'd', hours % 24, 'h'),
            () if days < 365 * 2 => write!(f, "{days}d"),
            () if days < 365 * 8 => two(f, days / 365, 'y', days % 365, 'd'),
            // Longer than Go's durations reach is shown as that reach.
            () => write!(f, "{}y", (days / 365).min(292)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_upstream_prints_them() {
        const HOUR: i64 = 3600;
        const DAY: i64 = 24 * HOUR;
        for (seconds, expected) in [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (121, "2m1s"),
            (599, "9m59s"),
            (600, "10m"),
            (179 * 60 + 59, "179m"),
            (3 * HOUR, "3h"),
            (3 * HOUR + 60, "3h1m"),
            (8 * HOUR - 1, "7h59m"),
            (8 * HOUR, "8h"),
            (48 * HOUR - 1, "47h"),
            (2 * DAY, "2d"),
            (2 * DAY + HOUR, "2d1h"),
            (8 * DAY - 1, "7d23h"),
            (8 * DAY, "8d"),
            (730 * DAY - 1, "729d"),
            (730 * DAY, "2y"),
            (731 * DAY, "2y1d"),
            (8 * 365 * DAY - 1, "7y364d"),
            (8 * 365 * DAY, "8y"),
            (1000 * 365 * DAY, "292y"),
        ] {
            assert_eq!(Age(Some(SignedDuration::from_secs(seconds))).to_string(), expected);
        }
        assert_eq!(Age(None).to_string(), "<unknown>");
    }

    #[test]
    fn only_rfc_3339_is_a_time() {
        for good in
            ["2020-01-02T03:04:05Z", "2020-01-02T03:04:05.123456Z", "2020-01-02T03:04:05+01:00"]
        {
            assert!(parse(good).is_some(), "{good}");
        }
        for bad in [
            "",
            "red",
            "2020-01-02",
            "2020-01-02 03:04:05Z",
            "2020-01-02T03:04:05",
            "2020-13-02T03:04:05Z",
        ] {
            assert!(parse(bad).is_none(), "{bad}");
        }
    }
}
