//! Windows of time that come back, as people write them.

use std::sync::OnceLock;

use jiff::tz::{TimeZone, TimeZoneDatabase};
use sojourn_core::schedule::{Cron, CronError, Window};

use crate::grammar::{self, CRON, TIME_ZONE};
use crate::problem::Report;

pub(crate) fn window(
    cron: &str,
    duration: &str,
    time_zone: &str,
    report: &mut Report,
) -> Option<Window> {
    let cron = report.take("cron", self::cron(cron));
    let duration = report.take("duration", grammar::span(duration));
    let zone = report.take("timeZone", zone(time_zone));
    Some(Window { cron: cron?, duration: duration?, zone: zone? })
}

pub(crate) fn cron(text: &str) -> Result<Cron, String> {
    CRON.check(text)?;
    text.parse().map_err(|error: CronError| error.to_string())
}

/// A time zone by its name, out of the program itself.
pub(crate) fn zone(name: &str) -> Result<TimeZone, String> {
    static ZONES: OnceLock<TimeZoneDatabase> = OnceLock::new();
    TIME_ZONE.check(name)?;
    let found = ZONES.get_or_init(TimeZoneDatabase::bundled).get(name);
    found.map_err(|_| format!("{name:?} is no time zone that is known; Europe/Rome is one"))
}
