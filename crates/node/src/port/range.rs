//! The ports that are drawn from.

use std::io;
use std::ops::RangeInclusive;

/// Where the kernel says which ports it gives to outgoing connections.
const EPHEMERAL: &str = "/proc/sys/net/ipv4/ip_local_port_range";
/// What Linux has there unless told otherwise.
const USUAL_EPHEMERAL: RangeInclusive<u16> = 32_768..=60_999;
const DEFAULT: RangeInclusive<u16> = 10_000..=19_999;

#[derive(Debug, thiserror::Error)]
pub enum RangeError {
    #[error("{text:?} is not a range of ports such as 10000-19999")]
    Malformed { text: String },
    #[error(
        "every port from {first} to {last} is one that the kernel gives to outgoing connections \
         ({EPHEMERAL}); choose another range"
    )]
    Ephemeral { first: u16, last: u16 },
    #[error("reading {EPHEMERAL}")]
    Read(#[source] io::Error),
}

/// A range of ports without those that the kernel gives to outgoing connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PortRange {
    below: RangeInclusive<u16>,
    above: RangeInclusive<u16>,
}

impl PortRange {
    /// The range that is asked for as `FIRST-LAST`, or the usual one, on this machine.
    pub(crate) fn here(asked: Option<&str>) -> Result<Self, RangeError> {
        let ephemeral = match std::fs::read_to_string(EPHEMERAL) {
            Ok(text) => parse(&text, char::is_whitespace)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => USUAL_EPHEMERAL,
            Err(error) => return Err(RangeError::Read(error)),
        };
        let asked = asked.map(|text| parse(text, |c| c == '-')).transpose()?;
        Self::without(asked.unwrap_or(DEFAULT), &ephemeral)
    }

    /// `asked` without `ephemeral`.
    pub(crate) fn without(
        asked: RangeInclusive<u16>,
        ephemeral: &RangeInclusive<u16>,
    ) -> Result<Self, RangeError> {
        let (first, last) = (*asked.start(), *asked.end());
        if asked.is_empty() || first == 0 {
            return Err(RangeError::Malformed { text: format!("{first}-{last}") });
        }
        let range = if ephemeral.is_empty() {
            Self { below: asked, above: empty_range() }
        } else {
            let below = ephemeral.start().checked_sub(1).map(|end| first..=last.min(end));
            let above = ephemeral.end().checked_add(1).map(|start| first.max(start)..=last);
            Self {
                below: below.unwrap_or_else(empty_range),
                above: above.unwrap_or_else(empty_range),
            }
        };
        if range.len() == 0 { Err(RangeError::Ephemeral { first, last }) } else { Ok(range) }
    }

    pub(super) fn len(&self) -> usize {
        self.below.len() + self.above.len()
    }

    pub(super) fn get(&self, at: usize) -> Option<u16> {
        let split = self.below.len();
        if at < split { self.below.clone().nth(at) } else { self.above.clone().nth(at - split) }
    }

    pub(super) fn contains(&self, port: u16) -> bool {
        self.below.contains(&port) || self.above.contains(&port)
    }

    /// The lowest and the highest.
    pub(super) fn bounds(&self) -> (u16, u16) {
        let (first, last) = if self.below.is_empty() {
            (&self.above, &self.above)
        } else if self.above.is_empty() {
            (&self.below, &self.below)
        } else {
            (&self.below, &self.above)
        };
        (*first.start(), *last.end())
    }
}

#[expect(clippy::reversed_empty_ranges, reason = "an empty range is what is meant")]
const fn empty_range() -> RangeInclusive<u16> {
    1..=0
}

fn parse(text: &str, separator: impl Fn(char) -> bool) -> Result<RangeInclusive<u16>, RangeError> {
    let malformed = || RangeError::Malformed { text: text.trim().to_owned() };
    let (first, last) = text.trim().split_once(separator).ok_or_else(malformed)?;
    let number = |text: &str| text.trim().parse::<u16>().map_err(|_| malformed());
    let range = number(first)?..=number(last)?;
    if range.is_empty() { Err(malformed()) } else { Ok(range) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports(range: &PortRange) -> Vec<u16> {
        (0..range.len()).filter_map(|at| range.get(at)).collect()
    }

    #[test]
    fn ephemeral_ports_are_left_out() {
        for (asked, ephemeral, expected) in [
            (10..=12, 32_768..=60_999, vec![10, 11, 12]),
            (10..=15, 12..=13, vec![10, 11, 14, 15]),
            (10..=15, 1..=13, vec![14, 15]),
            (10..=15, 0..=12, vec![13, 14, 15]),
            (10..=15, 14..=65_535, vec![10, 11, 12, 13]),
            (65_534..=65_535, 1..=65_534, vec![65_535]),
            (10..=11, empty_range(), vec![10, 11]),
        ] {
            let range = PortRange::without(asked.clone(), &ephemeral).expect("some are left");
            assert_eq!(ports(&range), expected, "{asked:?} without {ephemeral:?}");
            assert_eq!(range.bounds(), (expected[0], expected[expected.len() - 1]));
            assert!(expected.iter().all(|port| range.contains(*port)));
            assert!(ephemeral.clone().all(|port| !range.contains(port)));
        }
    }

    #[test]
    fn a_range_of_nothing_is_refused() {
        let message = |result: Result<PortRange, RangeError>| {
            result.expect_err("nothing is left").to_string()
        };
        let all = PortRange::without(40_000..=40_010, &(32_768..=60_999));
        assert!(message(all).starts_with("every port from 40000 to 40010"));
        let zero = PortRange::without(0..=5, &(32_768..=60_999));
        assert!(message(zero).starts_with("\"0-5\" is not a range of ports"));
    }

    #[test]
    fn texts_are_read() {
        for (text, expected) in [
            ("20000-29999", Some(20_000..=29_999)),
            (" 20000 - 29999 \n", Some(20_000..=29_999)),
            ("5-5", Some(5..=5)),
            ("6-5", None),
            ("5", None),
            ("a-b", None),
            ("1-70000", None),
            ("", None),
        ] {
            assert_eq!(parse(text, |c| c == '-').ok(), expected, "{text:?}");
        }
        let kernels = parse("32768\t60999\n", char::is_whitespace).expect("as in /proc");
        assert_eq!(kernels, 32_768..=60_999);
    }

    #[test]
    fn this_machine_has_ports_to_draw() {
        let range = PortRange::here(None).expect("the usual range");
        assert!(range.len() > 1_000);
        // Below what game servers are given by default, and above what services of a machine have.
        assert!(range.contains(10_000) && range.contains(19_999));
        assert!(!range.contains(9_999) && !range.contains(20_000));
    }
}
