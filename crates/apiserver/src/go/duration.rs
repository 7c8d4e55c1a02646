//! Durations.

/// `1h30m`, `-1.5s`, as the `time` package reads it; in nanoseconds.
pub(crate) fn parse(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: u128 = 0;
    while !rest.is_empty() {
        let whole_length = rest.bytes().take_while(u8::is_ascii_digit).count();
        let whole: u128 = match &rest[..whole_length] {
            "" => 0,
            number => number.parse::<u64>().ok()?.into(),
        };
        rest = &rest[whole_length..];
        let mut fraction = "";
        if let Some(after) = rest.strip_prefix('.') {
            let length = after.bytes().take_while(u8::is_ascii_digit).count();
            fraction = &after[..length];
            rest = &after[length..];
        }
        if whole_length == 0 && fraction.is_empty() {
            return None;
        }
        let unit_length = rest.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(rest.len());
        let unit = unit_nanos(&rest[..unit_length])?;
        rest = &rest[unit_length..];
        total += whole * u128::from(unit);
        let mut place = unit;
        for digit in fraction.bytes() {
            place /= 10;
            total += u128::from(place) * u128::from(digit - b'0');
        }
        if total > 1 << 63 {
            return None;
        }
    }
    let signed = i128::try_from(total).ok()?;
    i64::try_from(if negative { -signed } else { signed }).ok()
}

const fn unit_nanos(unit: &str) -> Option<u64> {
    Some(match unit.as_bytes() {
        b"ns" => 1,
        b"us" => 1_000,
        b"ms" => 1_000_000,
        b"s" => 1_000_000_000,
        b"m" => 60_000_000_000,
        b"h" => 3_600_000_000_000,
        // Micro sign or Greek mu, then `s`.
        [0xc2, 0xb5, b's'] | [0xce, 0xbc, b's'] => 1_000,
        _ => return None,
    })
}

/// What fields of format `duration` take: Go's durations, and Scala's, in which somewhere in the text a
/// whole number is followed by a unit, as in `2 weeks 3 days`.
pub(crate) fn parse_lenient(text: &str) -> Option<i64> {
    /// The last of each list is matched as a prefix: `seconds`, `mins`, `weeks`.
    const UNITS: [(&[&str], i64); 8] = [
        (&["ns", "nano"], 1),
        (&["us", "µs", "micro"], 1_000),
        (&["ms", "milli"], 1_000_000),
        (&["s", "sec"], 1_000_000_000),
        (&["m", "min"], 60_000_000_000),
        (&["h", "hr", "hour"], 3_600_000_000_000),
        (&["d", "day"], 86_400_000_000_000),
        (&["w", "wk", "week"], 604_800_000_000_000),
    ];
    if let Some(nanos) = parse(text) {
        return Some(nanos);
    }
    let mut total: Option<i64> = None;
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let from = &rest[start..];
        let digits = from.bytes().take_while(u8::is_ascii_digit).count();
        let (number, tail) = from.split_at(digits);
        let word = tail.trim_start_matches(['\t', '\n', '\u{c}', '\r', ' ']);
        let length = word.find(|c: char| !c.is_ascii_alphabetic() && c != 'µ');
        let (unit, next) = word.split_at(length.unwrap_or(word.len()));
        rest = next;
        if unit.is_empty() {
            continue;
        }
        let number: i64 = number.parse().ok()?;
        let unit = unit.to_lowercase();
        for (names, nanos) in UNITS {
            let prefix = names.last().is_some_and(|longest| unit.starts_with(longest));
            if prefix || names.contains(&&*unit) {
                let added = number.wrapping_mul(nanos);
                total = Some(total.unwrap_or_default().wrapping_add(added));
            }
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_go_reads_them() {
        for (text, nanos) in [
            ("1h", 3_600_000_000_000),
            ("-1.5s", -1_500_000_000),
            ("1h2m3s", 3_723_000_000_000),
            ("100us", 100_000),
            ("5µs", 5_000),
            ("0", 0),
            (".5s", 500_000_000),
        ] {
            assert_eq!(parse(text), Some(nanos), "{text}");
        }
        for wrong in ["", "1", "s", "1d", "1 h", "99999999999999999999h", "-", "1h.", "1.2.3s"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn lenient_durations_have_words_for_units() {
        assert_eq!(parse_lenient("2 days 1hour"), Some(176_400_000_000_000));
        assert_eq!(parse_lenient("12 34s"), Some(34_000_000_000));
        for wrong in ["soon", "5", "99999999999999999999 days"] {
            assert_eq!(parse_lenient(wrong), None, "{wrong}");
        }
    }
}
