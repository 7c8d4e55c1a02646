//! Moments and durations.

use std::fmt;

use jiff::SignedDuration;
use jiff::civil::DateTime;
use jiff::tz::Offset;

use crate::go::{self, time::ZonedTime};

/// The years that timestamps may be in: 1 to 9999.
const FIRST_SECOND: i64 = -62_135_596_800;
const LAST_SECOND: i64 = 253_402_300_799;

const NANOS_PER_SECOND: i128 = 1_000_000_000;

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

#[derive(Debug, thiserror::Error)]
pub(super) enum TimeError {
    #[error("timestamp overflow")]
    TimestampOverflow,
    #[error("integer overflow")]
    DurationOverflow,
    #[error("unknown time zone {0}")]
    UnknownZone(String),
}

/// A moment, with the offset it was written in; the offset shows but does not compare.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timestamp {
    /// Nanoseconds since 1970.
    nanos: i128,
    offset: Offset,
}

impl Timestamp {
    pub(super) fn from_seconds(seconds: i64) -> Result<Self, TimeError> {
        Self { nanos: i128::from(seconds) * NANOS_PER_SECOND, offset: Offset::UTC }.checked()
    }

    fn checked(self) -> Result<Self, TimeError> {
        if (FIRST_SECOND..=LAST_SECOND).contains(&self.seconds()) {
            Ok(self)
        } else {
            Err(TimeError::TimestampOverflow)
        }
    }

    pub(super) fn seconds(self) -> i64 {
        i64::try_from(self.nanos.div_euclid(NANOS_PER_SECOND)).unwrap_or(i64::MAX)
    }

    pub(super) const fn nanos(self) -> i128 {
        self.nanos
    }

    pub(super) fn plus(self, duration: i128) -> Result<Self, TimeError> {
        Self { nanos: self.nanos + duration, ..self }.checked()
    }

    pub(super) fn since(self, earlier: Self) -> Result<i64, TimeError> {
        i64::try_from(self.nanos - earlier.nanos).map_err(|_| TimeError::DurationOverflow)
    }

    fn civil(self, offset: Offset) -> DateTime {
        let seconds = self.seconds() + i64::from(offset.seconds());
        let nanos = i32::try_from(self.nanos.rem_euclid(NANOS_PER_SECOND)).unwrap_or_default();
        EPOCH.saturating_add(SignedDuration::new(seconds, nanos))
    }

    /// The calendar and clock in a zone: `UTC`, or an offset such as `-08:00`.
    pub(super) fn in_zone(self, zone: &str) -> Result<DateTime, TimeError> {
        Ok(self.civil(zone_offset(zone)?))
    }

    pub(super) fn in_utc(self) -> DateTime {
        self.civil(Offset::UTC)
    }
}

impl PartialEq for Timestamp {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let civil = self.civil(self.offset);
        write!(
            f,
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
            civil.year(),
            civil.month(),
            civil.day(),
            civil.hour(),
            civil.minute(),
            civil.second()
        )?;
        let nanos = civil.subsec_nanosecond();
        if nanos != 0 {
            write!(f, ".{}", format!("{nanos:09}").trim_end_matches('0'))?;
        }
        match self.offset.seconds() {
            0 => f.write_str("Z"),
            seconds => {
                let sign = if seconds < 0 { '-' } else { '+' };
                let minutes = seconds.abs() / 60;
                write!(f, "{sign}{:02}:{:02}", minutes / 60, minutes % 60)
            }
        }
    }
}

fn zone_offset(zone: &str) -> Result<Offset, TimeError> {
    let unknown = || TimeError::UnknownZone(zone.to_owned());
    if matches!(zone, "" | "UTC") {
        return Ok(Offset::UTC);
    }
    let (hours, minutes) = zone.split_once(':').ok_or_else(unknown)?;
    let hours_number: i32 = hours.parse().map_err(|_| unknown())?;
    let minutes: i32 = minutes.parse().map_err(|_| unknown())?;
    let minutes = if hours.starts_with('-') { -minutes } else { minutes };
    let seconds = hours_number
        .checked_mul(60)
        .and_then(|total| total.checked_add(minutes))
        .and_then(|total| total.checked_mul(60))
        .ok_or_else(unknown)?;
    Offset::from_seconds(seconds).map_err(|_| unknown())
}

/// RFC 3339, as `timestamp('…')` reads it.
pub(super) fn parse_timestamp(text: &str) -> Option<Timestamp> {
    at_offset(go::time::parse(text).ok()?)?.checked().ok()
}

/// A string of format `date-time`: the zone may be missing, and nothing means 1970.
pub(super) fn parse_date_time(text: &str) -> Option<Timestamp> {
    if text.is_empty() {
        return Timestamp::from_seconds(0).ok();
    }
    at_offset(go::time::parse(text).or_else(|_| go::time::parse_local(text)).ok()?)
}

/// A string of format `date`.
pub(super) fn parse_date(text: &str) -> Option<Timestamp> {
    let civil = go::time::parse_date(text)?.to_datetime(jiff::civil::Time::midnight());
    at_offset(ZonedTime { civil, offset: 0 })
}

fn at_offset(time: ZonedTime) -> Option<Timestamp> {
    let offset = Offset::from_seconds(time.offset).ok()?;
    let nanos = time.civil.duration_since(EPOCH).as_nanos();
    Some(Timestamp { nanos: nanos - i128::from(offset.seconds()) * NANOS_PER_SECOND, offset })
}

/// `90.5s`.
pub(super) fn duration_text(nanos: i64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "shown with the precision of a double")]
    let seconds = (nanos / 1_000_000_000) as f64 + (nanos % 1_000_000_000) as f64 / 1e9;
    format!("{seconds}s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_shown_in_seconds() {
        assert_eq!(duration_text(90_500_000_000), "90.5s");
    }

    #[test]
    fn timestamps_keep_their_offset_but_compare_without() {
        let one = parse_timestamp("2020-02-29T12:00:00.5+02:00").unwrap();
        let other = parse_timestamp("2020-02-29T10:00:00.5Z").unwrap();
        assert_eq!(one, other);
        assert_eq!(one.to_string(), "2020-02-29T12:00:00.5+02:00");
        assert_eq!(other.in_zone("-08:30").unwrap().hour(), 1);
        assert!(other.in_zone("Mars/Phobos").is_err());
        for wrong in ["2020-02-30T00:00:00Z", "2020-01-01", "2020-01-01T00:00:00", "x"] {
            assert!(parse_timestamp(wrong).is_none(), "{wrong}");
        }
        assert!(parse_timestamp("2020-01-01T0:00:00Z").is_some());
        assert!(parse_date_time("2020-01-01T00:00:00").is_some());
        assert!(parse_date("2020-01-01").is_some());
        assert!(Timestamp::from_seconds(i64::MAX).is_err());
    }
}
