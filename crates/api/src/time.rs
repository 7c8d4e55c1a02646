//! Times on the wire, which knows whole seconds only.
//!
//! They are rounded up: a deadline, an interval or an idle time that is read back is never shorter
//! than it was, so nothing happens earlier than announced because it was written down.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

pub(crate) fn up(at: Timestamp) -> Timestamp {
    let seconds = at.as_second() + i64::from(at.subsec_nanosecond() > 0);
    Timestamp::from_second(seconds).unwrap_or(at)
}

pub(crate) fn written(at: Option<Timestamp>) -> Option<Time> {
    at.map(|at| Time(up(at)))
}

pub(crate) fn read(time: Option<&Time>) -> Option<Timestamp> {
    time.map(|time| up(time.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_seconds_are_given_in_full() {
        let at = |text: &str| text.parse::<Timestamp>().expect("a time");
        assert_eq!(up(at("2026-11-16T09:00:00.000000001Z")), at("2026-11-16T09:00:01Z"));
        assert_eq!(up(at("2026-11-16T09:00:00Z")), at("2026-11-16T09:00:00Z"));
        assert_eq!(up(at("1969-12-31T23:59:58.5Z")), at("1969-12-31T23:59:59Z"));
        assert!(up(Timestamp::MAX) <= Timestamp::MAX);
    }
}
