//! Spans as Go writes them: decimals on every unit down to nanoseconds, and days and weeks as elsewhere.

use jiff::SignedDuration;
use serde_json::{Value, json};
use sojourn_core::term::Term;

use super::{AGE_MESSAGE, MAX_TERM_SECONDS, seconds_expression};

const SHAPE: &str = "^([0-9]+(w|d)|[0-9]+([.][0-9]+)?(h|m|s|ms|us|µs|μs|ns))+$";
const TWICE: &str = "w.*w|d.*d|h.*h|ms.*ms|(u|µ|μ)s.*(u|µ|μ)s|ns.*ns|[0-9]s.*[0-9]s|[0-9]m([0-9]|[0-9].*[0-9])m([0-9]|$)";
/// One nanosecond: what is shorter is nothing.
const MIN_SECONDS: &str = "0.000000001";
const MESSAGE: &str = "must be `never` or a span such as 90s, 1.5h or 500ms: each of w, d, h, m, s, ms, us and ns at most once, decimals on h and below only, at most a hundred years";
const MAX_TEXT_CHARS: usize = 64;
const MAX_NANOS: i128 = 100 * 366 * 24 * 3600 * NANOS;
const NANOS: i128 = 1_000_000_000;

struct Unit {
    names: &'static [&'static str],
    nanos: i128,
    decimals: bool,
}

const UNITS: [Unit; 8] = [
    Unit { names: &["w"], nanos: 7 * 24 * 3600 * NANOS, decimals: false },
    Unit { names: &["d"], nanos: 24 * 3600 * NANOS, decimals: false },
    Unit { names: &["h"], nanos: 3600 * NANOS, decimals: true },
    Unit { names: &["m"], nanos: 60 * NANOS, decimals: true },
    Unit { names: &["s"], nanos: NANOS, decimals: true },
    Unit { names: &["ms"], nanos: 1_000_000, decimals: true },
    // Go takes either of the two letters for mu.
    Unit { names: &["us", "µs", "μs"], nanos: 1_000, decimals: true },
    Unit { names: &["ns"], nanos: 1, decimals: true },
];

/// Rules of a term that must be longer than nothing.
pub(crate) fn go_age_rules() -> Value {
    let it = "self";
    let finer = format!(
        "double('0' + {it}.find('[0-9.]+(u|µ|μ)s').find('[0-9.]+')) * 0.000001 + double('0' + {it}.find('[0-9.]+ns').find('[0-9.]+')) * 0.000000001"
    );
    let total = format!("{} + {finer}", seconds_expression(it));
    let reads = format!(
        "{it} == 'never' || ({it}.matches('{SHAPE}') && !{it}.matches('{TWICE}') && {total} <= {MAX_TERM_SECONDS})"
    );
    let lasts = format!("{it} == 'never' || {total} >= {MIN_SECONDS}");
    json!([
        { "rule": reads, "message": MESSAGE },
        { "rule": lasts, "message": AGE_MESSAGE },
    ])
}

/// A term that must be longer than nothing.
pub(crate) fn go_age(text: &str) -> Result<Term, String> {
    if text == "never" {
        return Ok(Term::Never);
    }
    let span = parse(text).ok_or_else(|| MESSAGE.to_owned())?;
    if span.is_zero() { Err(AGE_MESSAGE.to_owned()) } else { Ok(Term::Span(span)) }
}

fn parse(text: &str) -> Option<SignedDuration> {
    if text.is_empty() || text.chars().count() > MAX_TEXT_CHARS {
        return None;
    }
    let mut rest = text;
    let mut used = [false; UNITS.len()];
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let (whole, after) = digits(rest);
        let (decimals, after) = match after.strip_prefix('.') {
            Some(after) => {
                let (decimals, after) = digits(after);
                (Some(decimals), after)
            }
            None => (None, after),
        };
        let end = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (name, after) = after.split_at(end);
        let index = UNITS.iter().position(|unit| unit.names.contains(&name))?;
        let unit = &UNITS[index];
        let is_bad =
            whole.is_empty() || decimals == Some("") || (decimals.is_some() && !unit.decimals);
        if is_bad || std::mem::replace(&mut used[index], true) {
            return None;
        }
        let amount = amount(whole, decimals.unwrap_or_default(), unit.nanos)?;
        total = total.checked_add(amount).filter(|total| *total <= MAX_NANOS)?;
        rest = after;
    }
    let seconds = i64::try_from(total / NANOS).ok()?;
    Some(SignedDuration::new(seconds, i32::try_from(total % NANOS).ok()?))
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// So many units in nanoseconds; what is finer than that is cut off, as Go does.
fn amount(whole: &str, decimals: &str, nanos: i128) -> Option<i128> {
    let mut total = whole.parse::<i128>().ok()?.checked_mul(nanos)?;
    // Of at most 64 digits no more than these matter: an hour has fewer nanoseconds.
    let counted = &decimals[..decimals.len().min(18)];
    if !counted.is_empty() {
        let scale = 10_i128.checked_pow(u32::try_from(counted.len()).ok()?)?;
        total += counted.parse::<i128>().ok()?.checked_mul(nanos)? / scale;
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(text: &str) -> SignedDuration {
        go_age(text).expect("a term").span().expect("a span")
    }

    #[test]
    fn fractions_and_units_below_a_second_are_read_as_go_reads_them() {
        for (text, nanos) in [
            ("8h", 8 * 3600 * NANOS),
            ("1.5h", 5400 * NANOS),
            ("1h30m0.5s", 5_400_500_000_000),
            ("300ms", 300_000_000),
            ("1.5ms", 1_500_000),
            ("2us", 2_000),
            ("2µs", 2_000),
            ("2μs", 2_000),
            ("7ns", 7),
            ("5m3ms", 300_003_000_000),
            ("1s2ms3us4ns", 1_002_003_004),
            ("0.1h", 360 * NANOS),
            ("1d12h", 36 * 3600 * NANOS),
            ("2w", 14 * 24 * 3600 * NANOS),
            ("0.0000000019s", 1),
        ] {
            assert_eq!(span(text).as_nanos(), nanos, "{text}");
        }
        assert_eq!(go_age("never"), Ok(Term::Never));
    }

    #[test]
    fn nothing_is_refused_and_so_is_what_is_no_span() {
        for zero in ["0s", "0h0m", "0.0s", "0.9ns", "0.0000000005s"] {
            assert_eq!(go_age(zero), Err(AGE_MESSAGE.to_owned()), "{zero}");
        }
        let long = "1".repeat(64) + "s";
        for bad in [
            "",
            "8",
            "h",
            "-8h",
            "+8h",
            "8 h",
            ".5h",
            "1.h",
            "1.5d",
            "1h1h",
            "1us1µs",
            "8H",
            "1y",
            "101000d",
            "forever",
            "1h ",
            long.as_str(),
        ] {
            assert_eq!(go_age(bad), Err(MESSAGE.to_owned()), "{bad:?}");
        }
    }

    #[test]
    fn the_schema_has_the_same_shape() {
        let (shape, twice) = (regex::Regex::new(SHAPE), regex::Regex::new(TWICE));
        let (shape, twice) = (shape.expect("a pattern"), twice.expect("a pattern"));
        for text in [
            "8h",
            "1.5h",
            "1h30m0.5s",
            "1s2ms3us4ns",
            "5m3ms",
            "3ms5m",
            "2µs",
            "1.5ms1.5m",
            "1w1d",
            "",
            "1h1h",
            "1.5d",
            "1us1µs",
            "1ms1ms",
            "1s1s",
            "1m1m",
            "1m2h3m",
            "1ns1ns",
            "1s1ms",
            ".5h",
            "1.h",
        ] {
            let read = parse(text).is_some();
            assert_eq!(shape.is_match(text) && !twice.is_match(text), read, "{text:?}");
        }
    }
}
