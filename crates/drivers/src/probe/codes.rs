//! Sets of HTTP status codes, as people write them: `2xx`, `404`, `200-299`, or several of them.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// The codes that HTTP has.
const ALL: RangeInclusive<u16> = 100..=599;
/// More than anybody writes by hand.
const MAX_CODE_RANGES: usize = 64;

/// Codes that mean the same.
#[derive(Clone, PartialEq, Eq)]
pub struct Codes {
    ranges: Vec<RangeInclusive<u16>>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CodesError {
    #[error("`{0}` is not a status code, a class such as 2xx, or a range such as 200-299")]
    Unreadable(String),
    #[error("`{0}` ends before it starts")]
    Backwards(String),
    #[error("no status code is given")]
    Empty,
    #[error("over {MAX_CODE_RANGES} status codes and ranges are given")]
    TooMany,
}

impl Codes {
    /// `2xx`: what keeps an instance unless its owner says otherwise.
    pub fn success() -> Self {
        Self { ranges: vec![200..=299] }
    }

    /// `404`: what ends an instance unless its owner says otherwise.
    pub fn not_found() -> Self {
        Self { ranges: vec![404..=404] }
    }

    /// Each item may be several, with commas between them.
    pub fn parse<I>(items: I) -> Result<Self, CodesError>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let mut ranges = Vec::new();
        for item in items {
            for part in item.as_ref().split(',') {
                ranges.push(range(part.trim())?);
                if ranges.len() > MAX_CODE_RANGES {
                    return Err(CodesError::TooMany);
                }
            }
        }
        if ranges.is_empty() {
            return Err(CodesError::Empty);
        }
        Ok(Self { ranges })
    }

    pub fn contains(&self, code: u16) -> bool {
        self.ranges.iter().any(|range| range.contains(&code))
    }
}

impl FromStr for Codes {
    type Err = CodesError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse([text])
    }
}

impl fmt::Display for Codes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, range) in self.ranges.iter().enumerate() {
            let (start, end) = (range.start(), range.end());
            f.write_str(if index == 0 { "" } else { "," })?;
            match (start % 100, end - start) {
                (_, 0) => write!(f, "{start}")?,
                (0, 99) => write!(f, "{}xx", start / 100)?,
                _ => write!(f, "{start}-{end}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Codes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

fn range(text: &str) -> Result<RangeInclusive<u16>, CodesError> {
    let unreadable = || CodesError::Unreadable(text.to_owned());
    let (start, end) = match text.split_once('-') {
        Some((start, end)) => (code(start), code(end)),
        None => match text.strip_suffix("xx").or_else(|| text.strip_suffix("XX")) {
            Some(class) => (code(&format!("{class}00")), code(&format!("{class}99"))),
            None => (code(text), code(text)),
        },
    };
    let (start, end) = (start.ok_or_else(unreadable)?, end.ok_or_else(unreadable)?);
    if start > end {
        return Err(CodesError::Backwards(text.to_owned()));
    }
    Ok(start..=end)
}

fn code(text: &str) -> Option<u16> {
    let digits = text.trim();
    let is_code = digits.len() == 3 && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|code| is_code && ALL.contains(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_read_as_people_write_them() {
        for (text, inside, outside) in [
            ("2xx", [200, 204, 299], [199, 300, 404]),
            ("404,410, 403", [404, 410, 403], [405, 400, 411]),
            ("200-204", [200, 202, 204], [199, 205, 404]),
            ("4XX,500", [400, 499, 500], [501, 399, 599]),
            ("100-599", [100, 300, 599], [0, 99, 600]),
        ] {
            let codes: Codes = text.parse().expect(text);
            assert!(inside.iter().all(|code| codes.contains(*code)), "{text}");
            assert!(!outside.iter().any(|code| codes.contains(*code)), "{text}");
        }
    }

    #[test]
    fn lists_may_be_lists_of_lists_and_are_shown_in_one_line() {
        let codes = Codes::parse(["2xx", "404, 410-499"]).expect("it is right");
        assert_eq!(codes.to_string(), "2xx,404,410-499");
        assert_eq!(codes, codes.to_string().parse().expect("what is shown can be read"));
        assert_eq!(Codes::success().to_string(), "2xx");
        assert_eq!(Codes::not_found().to_string(), "404");
    }

    #[test]
    fn what_is_no_code_is_refused_by_name() {
        for text in
            ["", "x", "20", "2000", "6xx", "0xx", "xx", "2x", "99", "600", "200-", "-200", "+20"]
        {
            let error = text.parse::<Codes>().expect_err(text);
            assert_eq!(error, CodesError::Unreadable(text.to_owned()));
        }
        assert_eq!("200,,404".parse::<Codes>(), Err(CodesError::Unreadable(String::new())));
        assert_eq!("404-200".parse::<Codes>(), Err(CodesError::Backwards("404-200".to_owned())));
        assert_eq!(Codes::parse(Vec::<String>::new()), Err(CodesError::Empty));
        assert_eq!(Codes::parse(vec!["200"; 65]), Err(CodesError::TooMany));
    }
}
