//! Dates with times.

use crate::go::time::parse_date;

/// A date, `T`, a time to the second with an optional fraction, and a zone. What follows a second
/// `t` is not looked at, and the mark before the fraction may be any character: upstream's check
/// is like that.
pub(super) fn is_date_time(text: &str) -> bool {
    let mut parts = text.split(['t', 'T']);
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else {
        return false;
    };
    parse_date(date).is_some() && is_time_with_zone(time)
}

fn is_time_with_zone(time: &str) -> bool {
    let Some((clock, rest)) = time.split_at_checked(8) else {
        return false;
    };
    let bytes = clock.as_bytes();
    let digits = |at: usize| bytes[at].is_ascii_digit() && bytes[at + 1].is_ascii_digit();
    let separated = bytes[2] == b':' && bytes[5] == b':';
    if !(separated && digits(0) && digits(3) && digits(6)) {
        return false;
    }
    if &clock[..2] > "23" || &clock[3..5] > "59" || &clock[6..] > "59" {
        return false;
    }
    if is_zone(rest) {
        return true;
    }
    let mut fraction = rest.chars();
    if fraction.next().is_none_or(|mark| mark == '\n') {
        return false;
    }
    let after_mark = fraction.as_str();
    let zone = after_mark.trim_start_matches(|c: char| c.is_ascii_digit());
    zone.len() < after_mark.len() && is_zone(zone)
}

fn is_zone(text: &str) -> bool {
    let bytes = text.as_bytes();
    match bytes {
        [b'z' | b'Z'] => true,
        [b'+' | b'-', h1, h2, b':', m1, m2] => [h1, h2, m1, m2].iter().all(|d| d.is_ascii_digit()),
        _ => false,
    }
}
