//! Times as Kubernetes reads and writes them: RFC 3339, to the second or to the microsecond.
//!
//! Reading follows Go's `time.Parse`, with its tolerance (fractions where none are asked for, hours
//! of one digit) and its words.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::Offset;

use super::quote_bytes;

/// What a time that Kubernetes writes ends in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Precision {
    Seconds,
    Micros,
}

impl Precision {
    const fn layout(self) -> Layout {
        match self {
            Self::Seconds => Layout::Seconds,
            Self::Micros => Layout::Micros,
        }
    }
}

/// What a text is read as. The names are those of the fractions that must be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    Seconds,
    Micros,
    /// Without a zone.
    Local,
}

impl Layout {
    const fn text(self) -> &'static str {
        match self {
            Self::Seconds => "2006-01-02T15:04:05Z07:00",
            Self::Micros => "2006-01-02T15:04:05.000000Z07:00",
            Self::Local => "2006-01-02T15:04:05",
        }
    }
}

/// What a calendar and a clock showed, and how many seconds they were ahead of UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ZonedTime {
    pub(crate) civil: DateTime,
    pub(crate) offset: i32,
}

/// A time in RFC 3339, with its zone.
pub(crate) fn parse(text: &str) -> Result<ZonedTime, String> {
    Parser::new(text, Layout::Seconds).time()
}

/// A time in RFC 3339 but for the zone; it is taken to be in UTC.
pub(crate) fn parse_local(text: &str) -> Result<ZonedTime, String> {
    Parser::new(text, Layout::Local).time()
}

/// The instant of a time in RFC 3339.
pub(crate) fn parse_instant(text: &str) -> Result<Timestamp, String> {
    Parser::new(text, Layout::Seconds).instant()
}

/// `2006-01-02`, a day that exists.
pub(crate) fn parse_date(text: &str) -> Option<Date> {
    let bytes = text.as_bytes();
    if bytes.len() != 10 || bytes[4] != b'-' || bytes[7] != b'-' {
        return None;
    }
    let number = |from: usize, to: usize| -> Option<i16> {
        text.get(from..to).filter(|digits| all_digits(digits))?.parse().ok()
    };
    let (month, day) = (i8::try_from(number(5, 7)?).ok()?, i8::try_from(number(8, 10)?).ok()?);
    Date::new(number(0, 4)?, month, day).ok()
}

/// The canonical form of a time: UTC. Go's zero time has none.
pub(crate) fn canonical(text: &str, precision: Precision) -> Result<Option<String>, String> {
    let instant = Parser::new(text, precision.layout()).instant()?;
    Ok(format(instant, precision))
}

/// Writes a time; Go's zero time is no time at all.
pub(crate) fn format(instant: Timestamp, precision: Precision) -> Option<String> {
    /// 0001-01-01T00:00:00Z, as seconds since 1970.
    const GO_ZERO: i64 = -62_135_596_800;
    if instant.as_second() == GO_ZERO && instant.subsec_nanosecond() == 0 {
        return None;
    }
    let utc = Offset::UTC.to_datetime(instant);
    let date = format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
        utc.year(),
        utc.month(),
        utc.day(),
        utc.hour(),
        utc.minute(),
        utc.second()
    );
    Some(match precision {
        Precision::Seconds => date + "Z",
        Precision::Micros => format!("{date}.{:06}Z", utc.subsec_nanosecond() / 1000),
    })
}

/// Whether a text is in canonical form already, which almost all are.
pub(crate) fn is_canonical(text: &str, precision: Precision) -> bool {
    let pattern: &[u8] = match precision {
        Precision::Seconds => b"0000-00-00T00:00:00Z",
        Precision::Micros => b"0000-00-00T00:00:00.000000Z",
    };
    let bytes = text.as_bytes();
    let matches = bytes.len() == pattern.len()
        && bytes.iter().zip(pattern).all(|(byte, wanted)| match wanted {
            b'0' => byte.is_ascii_digit(),
            _ => byte == wanted,
        });
    let number = |from: usize| (bytes[from] - b'0') * 10 + (bytes[from + 1] - b'0');
    // Days 29 to 31 and the years around Go's zero time take the long way.
    matches
        && (1..=12).contains(&number(5))
        && (1..=28).contains(&number(8))
        && number(11) < 24
        && number(14) < 60
        && number(17) < 60
        && bytes[..4] > b"0001"[..]
}

struct Parser<'a> {
    text: &'a str,
    rest: &'a str,
    layout: Layout,
}

impl<'a> Parser<'a> {
    const fn new(text: &'a str, layout: Layout) -> Self {
        Self { text, rest: text, layout }
    }

    fn instant(&mut self) -> Result<Timestamp, String> {
        let time = self.time()?;
        Offset::UTC
            .to_timestamp(time.civil)
            .and_then(|local| {
                local.checked_sub(jiff::SignedDuration::from_secs(time.offset.into()))
            })
            .map_err(|_| self.out_of_range("year"))
    }

    fn time(&mut self) -> Result<ZonedTime, String> {
        let year = self.year()?;
        self.separator("-")?;
        let month = self.number("01", true)?;
        if !(1..=12).contains(&month) {
            return Err(self.out_of_range("month"));
        }
        self.separator("-")?;
        let day = self.number("02", true)?;
        self.separator("T")?;
        let hour = self.number("15", false)?;
        if hour >= 24 {
            return Err(self.out_of_range("hour"));
        }
        self.separator(":")?;
        let minute = self.number("04", true)?;
        if minute >= 60 {
            return Err(self.out_of_range("minute"));
        }
        self.separator(":")?;
        let second = self.number("05", true)?;
        if second >= 60 {
            return Err(self.out_of_range("second"));
        }
        let nanos = match self.layout {
            Layout::Seconds | Layout::Local => self.optional_fraction(),
            Layout::Micros => self.micros()?,
        };
        let offset = match self.layout {
            Layout::Seconds | Layout::Micros => self.zone()?,
            Layout::Local => 0,
        };
        if !self.rest.is_empty() {
            return Err(self.worded(&format!(": extra text: {}", quote_bytes(self.rest))));
        }
        // The month is right, so that only the day can be wrong.
        let civil = DateTime::new(year, month, day, hour, minute, second, nanos)
            .map_err(|_| self.out_of_range("day"))?;
        Ok(ZonedTime { civil, offset })
    }

    fn year(&mut self) -> Result<i16, String> {
        let year = self.rest.get(..4).filter(|digits| all_digits(digits));
        let Some(year) = year.and_then(|digits| digits.parse().ok()) else {
            return Err(self.cannot_parse(self.rest, "2006"));
        };
        self.rest = &self.rest[4..];
        Ok(year)
    }

    fn separator(&mut self, wanted: &str) -> Result<(), String> {
        match self.rest.strip_prefix(wanted) {
            Some(rest) => {
                self.rest = rest;
                Ok(())
            }
            None => Err(self.cannot_parse(self.rest, wanted)),
        }
    }

    /// Two digits, or one where Go accepts one.
    fn number(&mut self, element: &str, fixed: bool) -> Result<i8, String> {
        let digits = self.rest.bytes().take(2).take_while(u8::is_ascii_digit).count();
        if digits == 0 || (fixed && digits == 1) {
            return Err(self.cannot_parse(self.rest, element));
        }
        let (number, rest) = self.rest.split_at(digits);
        self.rest = rest;
        Ok(number.bytes().fold(0, |sum, digit| sum * 10 + (digit - b'0').cast_signed()))
    }

    /// A fraction that the layout does not ask for.
    fn optional_fraction(&mut self) -> i32 {
        let Some(fraction) = self.rest.strip_prefix(['.', ',']) else {
            return 0;
        };
        let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return 0;
        }
        let (fraction, rest) = fraction.split_at(digits);
        self.rest = rest;
        nanoseconds(fraction)
    }

    /// Exactly six digits.
    fn micros(&mut self) -> Result<i32, String> {
        let fraction = self.rest.get(..7).and_then(|part| part.strip_prefix(['.', ',']));
        let Some(digits) = fraction.filter(|digits| all_digits(digits)) else {
            return Err(self.cannot_parse(self.rest, ".000000"));
        };
        self.rest = &self.rest[7..];
        Ok(nanoseconds(digits))
    }

    /// The offset from UTC in seconds.
    fn zone(&mut self) -> Result<i32, String> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(0);
        }
        let hold = self.rest;
        let [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2, ..] = hold.as_bytes() else {
            return Err(self.cannot_parse(hold, "Z07:00"));
        };
        let (Some(hours), Some(minutes)) = (two_digits(*h1, *h2), two_digits(*m1, *m2)) else {
            return Err(self.cannot_parse(hold, "Z07:00"));
        };
        self.rest = &hold[6..];
        if minutes > 60 {
            return Err(self.out_of_range("time zone offset minute"));
        }
        if hours > 24 {
            return Err(self.out_of_range("time zone offset hour"));
        }
        let offset = (hours * 60 + minutes) * 60;
        Ok(if *sign == b'-' { -offset } else { offset })
    }

    fn cannot_parse(&self, value: &str, element: &str) -> String {
        format!(
            "parsing time {} as {}: cannot parse {} as {}",
            quote_bytes(self.text),
            quote_bytes(self.layout.text()),
            quote_bytes(value),
            quote_bytes(element)
        )
    }

    fn out_of_range(&self, what: &str) -> String {
        self.worded(&format!(": {what} out of range"))
    }

    fn worded(&self, message: &str) -> String {
        format!("parsing time {}{message}", quote_bytes(self.text))
    }
}

fn all_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

fn two_digits(tens: u8, ones: u8) -> Option<i32> {
    (tens.is_ascii_digit() && ones.is_ascii_digit())
        .then(|| i32::from(tens - b'0') * 10 + i32::from(ones - b'0'))
}

fn nanoseconds(digits: &str) -> i32 {
    let digit = |position: usize| digits.as_bytes().get(position).map_or(0, |byte| byte - b'0');
    (0..9).fold(0, |sum, position| sum * 10 + i32::from(digit(position)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_become_utc() {
        use Precision::{Micros, Seconds};
        for (given, precision, wanted) in [
            ("2020-01-02T03:04:05Z", Seconds, "2020-01-02T03:04:05Z"),
            ("2020-01-02T03:04:05.999999999Z", Seconds, "2020-01-02T03:04:05Z"),
            ("2020-01-02T03:04:05+02:00", Seconds, "2020-01-02T01:04:05Z"),
            ("2020-03-01T00:04:05+02:30", Seconds, "2020-02-29T21:34:05Z"),
            ("2020-01-02T3:04:05Z", Seconds, "2020-01-02T03:04:05Z"),
            ("2020-01-02T03:04:05.123456+02:00", Micros, "2020-01-02T01:04:05.123456Z"),
            ("2020-02-29T23:59:59-24:00", Seconds, "2020-03-01T23:59:59Z"),
        ] {
            assert_eq!(canonical(given, precision), Ok(Some(wanted.to_owned())), "{given}");
            assert!(is_canonical(wanted, precision) || wanted.contains("-29T"), "{wanted}");
        }
        assert_eq!(canonical("0001-01-01T00:00:00Z", Seconds), Ok(None));
        assert!(!is_canonical("0001-01-01T00:00:00Z", Seconds));
        assert!(!is_canonical("2020-13-01T00:00:00Z", Seconds));
        assert!(!is_canonical("2020-01-01T00:00:60Z", Seconds));
    }

    #[test]
    fn zones_are_kept_where_they_are_asked_for() {
        let noon = DateTime::constant(2020, 1, 2, 12, 0, 0, 500_000_000);
        let read = parse("2020-01-02T12:00:00,5+02:60");
        assert_eq!(read, Ok(ZonedTime { civil: noon, offset: 3 * 3600 }));
        assert_eq!(parse_local("2020-01-02T12:00:00.5"), Ok(ZonedTime { civil: noon, offset: 0 }));
        for wrong in ["2020-01-02T12:00:00Z", "2020-01-02t12:00:00"] {
            assert!(parse_local(wrong).is_err(), "{wrong}");
        }
        for wrong in ["2020-1-02", "2020-02-30", "20200-1-1", "2020-01-02T", "+020-01-02"] {
            assert!(parse_date(wrong).is_none(), "{wrong}");
        }
        assert!(parse_date("0000-02-29").is_some());
    }

    /// Texts verified with Go's time package.
    #[test]
    fn errors_are_in_go_s_words() {
        use Precision::{Micros, Seconds};
        let as_seconds = r#"as "2006-01-02T15:04:05Z07:00": cannot parse"#;
        let as_micros = r#"as "2006-01-02T15:04:05.000000Z07:00": cannot parse"#;
        for (given, precision, wanted) in [
            ("x", Seconds, format!(r#"{as_seconds} "x" as "2006""#)),
            ("", Seconds, format!(r#"{as_seconds} "" as "2006""#)),
            ("2020", Seconds, format!(r#"{as_seconds} "" as "-""#)),
            ("2020-1-02T03:04:05Z", Seconds, format!(r#"{as_seconds} "1-02T03:04:05Z" as "01""#)),
            ("2020-01-02 03:04:05Z", Seconds, format!(r#"{as_seconds} " 03:04:05Z" as "T""#)),
            ("2020-01-02T03:04:05", Seconds, format!(r#"{as_seconds} "" as "Z07:00""#)),
            ("2020-01-02T03:04:05z", Seconds, format!(r#"{as_seconds} "z" as "Z07:00""#)),
            (
                "2020-01-02T03:04:05.123456789Z",
                Micros,
                format!(r#"{as_micros} "789Z" as "Z07:00""#),
            ),
            ("2020-01-02T03:04:05Z", Micros, format!(r#"{as_micros} "Z" as ".000000""#)),
        ] {
            let wanted = format!(r#"parsing time "{given}" {wanted}"#);
            assert_eq!(canonical(given, precision), Err(wanted), "{given}");
        }
        for (given, wanted) in [
            ("2020-13-02T03:04:05Z", "month out of range"),
            ("2021-02-29T03:04:05Z", "day out of range"),
            ("2020-01-02T24:04:05Z", "hour out of range"),
            ("2020-01-02T03:60:05Z", "minute out of range"),
            ("2020-01-02T03:04:60Z", "second out of range"),
            ("2020-01-02T03:04:05+25:00", "time zone offset hour out of range"),
            ("2020-01-02T03:04:05Zx", r#"extra text: "x""#),
        ] {
            let wanted = format!(r#"parsing time "{given}": {wanted}"#);
            assert_eq!(canonical(given, Seconds), Err(wanted), "{given}");
        }
    }
}
