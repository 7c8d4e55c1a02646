//! Spans of time as people write them: `never`, `90s`, `1d12h`, `1.5h`.
//!
//! One grammar for every field: units w, d, h, m, s and ms in any combination and order, decimals
//! on h, m and s as Go writes them. A day is 24 hours, whatever the calendar says.

use std::fmt;
use std::str::FromStr;

use jiff::SignedDuration;

/// How long something lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Term {
    /// A span; zero is one, too, and means "at once".
    Span(SignedDuration),
    /// Ordered after every span.
    Never,
}

/// Why a text is no term.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TermError {
    #[error("is empty; write `never` or a span such as 90s, 12h or 1d12h")]
    Empty,
    #[error("{0:?} is not `never` or a span such as 90s, 12h or 1d12h")]
    Shape(String),
    #[error("{0:?} has no unit; add one of w, d, h, m, s, ms")]
    NoUnit(String),
    #[error("{0:?}: decimals are for h, m and s only")]
    Decimals(String),
    #[error("{0:?} names a unit twice")]
    Twice(String),
    #[error("{0:?} is longer than a hundred years; write `never`")]
    TooLong(String),
}

const MAX_SPAN: SignedDuration = SignedDuration::from_hours(100 * 366 * 24);
/// Longer texts are no spans, and are not repeated in messages.
const MAX_TEXT_LENGTH: usize = 64;
const NANOS: i128 = 1_000_000_000;
/// Units from the longest to the shortest, in nanoseconds.
const UNITS: [(&str, i128); 6] = [
    ("w", 7 * 24 * 3600 * NANOS),
    ("d", 24 * 3600 * NANOS),
    ("h", 3600 * NANOS),
    ("m", 60 * NANOS),
    ("s", NANOS),
    ("ms", 1_000_000),
];

impl Term {
    pub const ZERO: Self = Self::Span(SignedDuration::ZERO);

    pub const fn span(self) -> Option<SignedDuration> {
        match self {
            Self::Span(span) => Some(span),
            Self::Never => None,
        }
    }

    pub const fn is_never(self) -> bool {
        matches!(self, Self::Never)
    }
}

impl FromStr for Term {
    type Err = TermError;

    fn from_str(text: &str) -> Result<Self, TermError> {
        if text == "never" {
            return Ok(Self::Never);
        }
        if text.is_empty() {
            return Err(TermError::Empty);
        }
        if text.len() > MAX_TEXT_LENGTH {
            let start: String = text.chars().take(MAX_TEXT_LENGTH).collect();
            return Err(TermError::Shape(format!("{start}…")));
        }
        parse_span(text).map(Self::Span)
    }
}

fn parse_span(text: &str) -> Result<SignedDuration, TermError> {
    let shape = || TermError::Shape(text.to_owned());
    let mut rest = text;
    let mut total: i128 = 0;
    let mut used = [false; UNITS.len()];
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (whole, after) = rest.split_at(digits);
        let (decimals, after) = match after.strip_prefix('.') {
            Some(after) => {
                let end = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
                let (decimals, after) = after.split_at(end);
                (Some(decimals), after)
            }
            None => (None, after),
        };
        if whole.is_empty() || decimals == Some("") {
            return Err(shape());
        }
        let end = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        if unit.is_empty() {
            return Err(if after.is_empty() {
                TermError::NoUnit(text.to_owned())
            } else {
                shape()
            });
        }
        let index = UNITS.iter().position(|(name, _)| *name == unit).ok_or_else(shape)?;
        if std::mem::replace(&mut used[index], true) {
            return Err(TermError::Twice(text.to_owned()));
        }
        let (name, nanos) = UNITS[index];
        if decimals.is_some() && !matches!(name, "h" | "m" | "s") {
            return Err(TermError::Decimals(text.to_owned()));
        }
        total = total
            .checked_add(amount(whole, decimals, nanos).ok_or_else(shape)?)
            .filter(|total| *total <= MAX_SPAN.as_nanos())
            .ok_or_else(|| TermError::TooLong(text.to_owned()))?;
        rest = after;
    }
    let seconds = i64::try_from(total / NANOS).map_err(|_| shape())?;
    let nanos = i32::try_from(total % NANOS).map_err(|_| shape())?;
    Ok(SignedDuration::new(seconds, nanos))
}

/// `whole.decimals` units in nanoseconds; what is finer than that is cut off, as Go does.
fn amount(whole: &str, decimals: Option<&str>, nanos: i128) -> Option<i128> {
    let mut total = whole.parse::<i128>().ok()?.checked_mul(nanos)?;
    let mut unit = nanos;
    for digit in decimals.unwrap_or_default().chars() {
        unit /= 10;
        total += i128::from(digit.to_digit(10)?) * unit;
    }
    Some(total)
}

impl fmt::Display for Term {
    /// The shortest text that reads back as the same term.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Never => f.write_str("never"),
            Self::Span(span) => f.write_str(&words(*span)),
        }
    }
}

/// A span in the grammar above. Negative ones, which no field holds, get a minus sign.
pub fn words(span: SignedDuration) -> String {
    let mut rest = span.as_nanos().unsigned_abs();
    let mut text = String::new();
    if span.is_negative() {
        text.push('-');
    }
    let mut any = false;
    for (name, nanos) in UNITS {
        // Weeks are for people to write; read back, days are clearer.
        if name == "w" {
            continue;
        }
        let nanos = nanos.unsigned_abs();
        let count = rest / nanos;
        let below = rest % nanos;
        if name == "s" && !below.is_multiple_of(1_000_000) {
            // Finer than milliseconds: decimals of a second.
            let decimals = format!("{below:09}");
            text.push_str(&format!("{count}.{}s", decimals.trim_end_matches('0')));
            return text;
        }
        if count > 0 {
            text.push_str(&format!("{count}{name}"));
            any = true;
        }
        rest = below;
    }
    if !any {
        text.push_str("0s");
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn span(text: &str) -> SignedDuration {
        text.parse::<Term>().expect("a term").span().expect("a span")
    }

    // case: lab D1, D2
    #[test]
    fn days_and_hours() {
        assert_eq!(span("7d"), SignedDuration::from_hours(168));
        assert_eq!(span("72h"), SignedDuration::from_hours(72));
    }

    #[test]
    fn any_combination_in_any_order() {
        assert_eq!(span("1d12h"), SignedDuration::from_hours(36));
        assert_eq!(span("12h1d"), SignedDuration::from_hours(36));
        assert_eq!(span("2w"), SignedDuration::from_hours(336));
        assert_eq!(span("90s"), SignedDuration::from_secs(90));
        assert_eq!(span("1m500ms"), SignedDuration::from_millis(60_500));
        assert_eq!(span("1.5h"), SignedDuration::from_mins(90));
        assert_eq!(span("0.001s"), SignedDuration::from_millis(1));
    }

    // case: lab D4
    #[test]
    fn texts_that_are_no_terms_are_refused() {
        for text in
            ["abc", "xd", "10x", "1h2", "h", "-1h", "+1h", "1 h", " 1h", "1.h", ".5h", "Never"]
        {
            assert!(
                matches!(text.parse::<Term>(), Err(TermError::Shape(_) | TermError::NoUnit(_))),
                "{text}"
            );
        }
        assert_eq!("1.5d".parse::<Term>(), Err(TermError::Decimals("1.5d".to_owned())));
        assert_eq!("1h1h".parse::<Term>(), Err(TermError::Twice("1h1h".to_owned())));
        assert_eq!("".parse::<Term>(), Err(TermError::Empty));
        assert!(matches!("999999w".parse::<Term>(), Err(TermError::TooLong(_))));
        assert!(matches!("9".repeat(60).as_str().parse::<Term>(), Err(TermError::NoUnit(_))));
        assert!(matches!("9".repeat(99).as_str().parse::<Term>(), Err(TermError::Shape(_))));
    }

    // case: lab D5
    #[test]
    fn a_number_needs_a_unit() {
        assert_eq!("10".parse::<Term>(), Err(TermError::NoUnit("10".to_owned())));
    }

    // case: lab D6
    #[test]
    fn never_is_a_term_like_any_other() {
        assert_eq!("never".parse(), Ok(Term::Never));
        assert_eq!(Term::Never.span(), None);
        assert!(Term::Never > Term::Span(MAX_SPAN));
    }

    #[test]
    fn zero_is_a_span() {
        assert_eq!(span("0m"), SignedDuration::ZERO);
        assert_eq!(Term::ZERO.to_string(), "0s");
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(nanos in 0_i64..i64::MAX / 4) {
            let term = Term::Span(SignedDuration::from_nanos(nanos));
            prop_assert_eq!(term.to_string().parse(), Ok(term));
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,80}") {
            let _ = text.parse::<Term>();
        }
    }
}
