//! The five fields of cron: minute, hour, day of the month, month, day of the week.
//!
//! Lists, ranges and steps; names of months and days; `@daily` and its like. If neither day field
//! begins with a star, either of them is enough.
//!
//! Where clocks change, a line that names its hours runs once: in an hour that is skipped, at the
//! moment of the change; in one that comes twice, the first time. A line that names no hours runs in
//! every hour that there is.

use std::ops::RangeInclusive;
use std::str::FromStr;

use jiff::Timestamp;
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{AmbiguousOffset, TimeZone};

/// The 29th of February falls on a given day of the week every 28 years, or 40 around a year such
/// as 2100.
const MAX_SEARCHED_DAYS: usize = 41 * 366;
/// Longer texts are no cron lines, and are not repeated in messages.
const MAX_TEXT_BYTES: usize = 256;
const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
/// The longest that each month gets.
const LENGTHS: [u32; 12] = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
const SHORTHANDS: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// When something comes back, by the clock on the wall. Each field is a set of bits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cron {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Both day fields name days: either is enough.
    either_day: bool,
}

/// Why a text is no cron line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CronError {
    #[error("has {0} fields; write five: minute, hour, day of the month, month, day of the week")]
    Fields(usize),
    #[error("is too long for a cron line")]
    TooLong,
    #[error("{text:?} is no {field}; write {form}")]
    Field { field: &'static str, form: &'static str, text: String },
    #[error("names a day that none of its months has")]
    NoSuchDay,
}

/// What one of the five fields may hold.
struct Field {
    name: &'static str,
    form: &'static str,
    range: RangeInclusive<u32>,
    names: &'static [&'static str],
}

const MINUTE: Field =
    Field { name: "minute", form: "0 to 59, such as 0,30 or */15", range: 0..=59, names: &[] };
const HOUR: Field =
    Field { name: "hour", form: "0 to 23, such as 9-17 or */2", range: 0..=23, names: &[] };
const DAY: Field =
    Field { name: "day of the month", form: "1 to 31, such as 1,15", range: 1..=31, names: &[] };
const MONTH: Field =
    Field { name: "month", form: "1 to 12 or jan to dec", range: 1..=12, names: &MONTHS };
const WEEKDAY: Field = Field {
    name: "day of the week",
    form: "0 to 7 or sun to sat, such as mon-fri",
    range: 0..=7,
    names: &WEEKDAYS,
};

impl FromStr for Cron {
    type Err = CronError;

    fn from_str(text: &str) -> Result<Self, CronError> {
        if text.len() > MAX_TEXT_BYTES {
            return Err(CronError::TooLong);
        }
        let text = text.trim();
        let text =
            SHORTHANDS.iter().find(|(short, _)| *short == text).map_or(text, |(_, long)| long);
        let fields: Vec<&str> = text.split_ascii_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields[..] else {
            return Err(CronError::Fields(fields.len()));
        };
        let mut weekdays = WEEKDAY.parse(weekday)?;
        if weekdays & (1 << 7) != 0 {
            // Seven is Sunday, too.
            weekdays = (weekdays | 1) & 0x7f;
        }
        let cron = Self {
            minutes: MINUTE.parse(minute)?,
            hours: HOUR.parse(hour)?,
            days: DAY.parse(day)?,
            months: MONTH.parse(month)?,
            weekdays,
            either_day: !day.starts_with('*') && !weekday.starts_with('*'),
        };
        let exists = |month: u32| {
            holds(cron.months, month)
                && (1..=LENGTHS[month as usize - 1]).any(|day| holds(cron.days, day))
        };
        if !cron.either_day && !(1..=12).any(exists) {
            return Err(CronError::NoSuchDay);
        }
        Ok(cron)
    }
}

impl Field {
    fn parse(&self, text: &str) -> Result<u64, CronError> {
        let mut bits = 0;
        for part in text.split(',') {
            bits |= self.part(part).ok_or_else(|| CronError::Field {
                field: self.name,
                form: self.form,
                text: text.to_owned(),
            })?;
        }
        Ok(bits)
    }

    /// `*`, `a`, `a-b`, and each of them with `/step`.
    fn part(&self, text: &str) -> Option<u64> {
        let (range, step) = match text.split_once('/') {
            Some((range, step)) => (range, Some(number(step).filter(|step| *step > 0)?)),
            None => (text, None),
        };
        let (from, to) = match range.split_once('-') {
            _ if range == "*" => (*self.range.start(), self.last()),
            Some((from, to)) => (self.value(from)?, self.value(to)?),
            None => {
                let value = self.value(range)?;
                (value, if step.is_some() { self.last() } else { value })
            }
        };
        if from > to {
            return None;
        }
        let step = usize::try_from(step.unwrap_or(1)).ok()?;
        Some((from..=to).step_by(step).fold(0, |bits, value| bits | (1 << value)))
    }

    /// The end of `*`: the second Sunday is for ranges that people write.
    fn last(&self) -> u32 {
        if self.name == WEEKDAY.name { 6 } else { *self.range.end() }
    }

    fn value(&self, text: &str) -> Option<u32> {
        let named = self.names.iter().position(|name| name.eq_ignore_ascii_case(text));
        let value = match named {
            Some(index) => u32::try_from(index).ok()? + *self.range.start(),
            None => number(text)?,
        };
        self.range.contains(&value).then_some(value)
    }
}

/// Digits alone: no sign, and no more than any field has.
fn number(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.len() <= 3 && text.bytes().all(|b| b.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}

const fn holds(bits: u64, value: u32) -> bool {
    bits & (1 << value) != 0
}

impl Cron {
    /// The first time after `after`, by the clocks of `zone`.
    pub fn next_after(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let from = zone.to_datetime(after);
        let mut date = from.date();
        let mut first_hour = from.hour();
        for _ in 0..MAX_SEARCHED_DAYS {
            if self.is_on(date) {
                // Clocks that are set back repeat a part of one hour, so hours come in order.
                let found = (first_hour..24)
                    .filter(|hour| holds(self.hours, u32::from(hour.unsigned_abs())))
                    .find_map(|hour| self.first_in(date, hour, after, zone));
                if found.is_some() {
                    return found;
                }
            }
            date = date.tomorrow().ok()?;
            first_hour = 0;
        }
        None
    }

    fn is_on(&self, date: Date) -> bool {
        let day = holds(self.days, u32::from(date.day().unsigned_abs()));
        let weekday = date.weekday().to_sunday_zero_offset();
        let weekday = holds(self.weekdays, u32::from(weekday.unsigned_abs()));
        let day = if self.either_day { day || weekday } else { day && weekday };
        day && holds(self.months, u32::from(date.month().unsigned_abs()))
    }

    /// The first time after `after` in this hour.
    fn first_in(
        &self,
        date: Date,
        hour: i8,
        after: Timestamp,
        zone: &TimeZone,
    ) -> Option<Timestamp> {
        let mut first: Option<Timestamp> = None;
        for minute in 0..60_i8 {
            if !holds(self.minutes, u32::from(minute.unsigned_abs())) {
                continue;
            }
            let at = date.to_datetime(Time::constant(hour, minute, 0, 0));
            for at in self.instants(at, zone).into_iter().flatten() {
                if at > after && first.is_none_or(|first| at < first) {
                    first = Some(at);
                }
            }
            // Only an hour that is repeated has an earlier one behind a later one.
            if first.is_some() && !zone.to_ambiguous_timestamp(at).is_ambiguous() {
                break;
            }
        }
        first
    }

    /// When the clocks of `zone` show this and it counts.
    fn instants(&self, at: DateTime, zone: &TimeZone) -> [Option<Timestamp>; 2] {
        let every_hour = self.hours == (1 << 24) - 1;
        match zone.to_ambiguous_timestamp(at).offset() {
            AmbiguousOffset::Unambiguous { offset } => [offset.to_timestamp(at).ok(), None],
            AmbiguousOffset::Gap { .. } if every_hour => [None, None],
            AmbiguousOffset::Gap { before, .. } => {
                let change = |at| zone.preceding(at).next().map(|change| change.timestamp());
                [before.to_timestamp(at).ok().and_then(change), None]
            }
            AmbiguousOffset::Fold { before, after } => {
                let again = after.to_timestamp(at).ok().filter(|_| every_hour);
                [before.to_timestamp(at).ok(), again]
            }
        }
    }
}

#[cfg(test)]
mod tests;
