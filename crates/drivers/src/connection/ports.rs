//! Sets of TCP ports.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Where SSH listens unless somebody says otherwise.
const SSH: u16 = 22;
/// More than anybody writes by hand.
const MAX_PORT_RANGES: usize = 256;

/// Ports and ranges of ports; 22 unless something else is given.
#[derive(Clone, PartialEq, Eq)]
pub struct Ports {
    ranges: Vec<RangeInclusive<u16>>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PortsError {
    #[error("`{0}` is not a port such as 22, or a range such as 2200-2299")]
    Unreadable(String),
    #[error("no port is given")]
    Empty,
    #[error("over {MAX_PORT_RANGES} ports and ranges are given")]
    TooMany,
}

impl Ports {
    /// Each item may be several, with commas between them.
    pub fn parse<I>(items: I) -> Result<Self, PortsError>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let mut ranges = Vec::new();
        for item in items {
            for part in item.as_ref().split(',').map(str::trim) {
                let range = range(part).ok_or_else(|| PortsError::Unreadable(part.to_owned()))?;
                ranges.push(range);
                if ranges.len() > MAX_PORT_RANGES {
                    return Err(PortsError::TooMany);
                }
            }
        }
        if ranges.is_empty() {
            return Err(PortsError::Empty);
        }
        Ok(Self { ranges })
    }

    pub(super) fn contains(&self, port: u16) -> bool {
        self.ranges.iter().any(|range| range.contains(&port))
    }
}

impl Default for Ports {
    fn default() -> Self {
        Self { ranges: vec![SSH..=SSH] }
    }
}

impl FromStr for Ports {
    type Err = PortsError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse([text])
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, range) in self.ranges.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { "," })?;
            match (range.start(), range.end()) {
                (start, end) if start == end => write!(f, "{start}")?,
                (start, end) => write!(f, "{start}-{end}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

fn range(text: &str) -> Option<RangeInclusive<u16>> {
    let (start, end) = text.split_once('-').unwrap_or((text, text));
    let (start, end) = (port(start)?, port(end)?);
    (start <= end).then_some(start..=end)
}

fn port(text: &str) -> Option<u16> {
    let digits = text.trim();
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|port| is_number && *port > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_read_as_people_write_them() {
        let ports = Ports::parse(["22", "2200-2299, 65535"]).expect("it is right");
        for port in [22, 2200, 2250, 2299, 65535] {
            assert!(ports.contains(port), "{port}");
        }
        for port in [0, 21, 23, 2199, 2300, 65534] {
            assert!(!ports.contains(port), "{port}");
        }
        assert_eq!(ports.to_string(), "22,2200-2299,65535");
        assert_eq!(ports, ports.to_string().parse().expect("what is shown can be read"));
        assert_eq!(Ports::default().to_string(), "22");
    }

    #[test]
    fn what_is_no_port_is_refused_by_name() {
        for text in ["", "ssh", "0", "65536", "-1", "+22", "22-", "30-20", "1-2-3"] {
            let error = text.parse::<Ports>().expect_err(text);
            assert_eq!(error, PortsError::Unreadable(text.to_owned()));
        }
        assert_eq!(Ports::parse(Vec::<String>::new()), Err(PortsError::Empty));
        assert_eq!(Ports::parse(vec!["22"; 257]), Err(PortsError::TooMany));
    }
}
