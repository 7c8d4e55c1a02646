//! Dates, times and durations.

/// `2006-01-02`, a day that exists.
pub(super) fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    if bytes.len() != 10 || bytes[4] != b'-' || bytes[7] != b'-' {
        return false;
    }
    let number = |from: usize, to: usize| -> Option<u32> {
        let digits = &bytes[from..to];
        let all = digits.iter().all(u8::is_ascii_digit);
        all.then(|| digits.iter().fold(0, |n, d| n * 10 + u32::from(d - b'0')))
    };
    let (Some(year), Some(month), Some(day)) = (number(0, 4), number(5, 7), number(8, 10)) else {
        return false;
    };
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return false,
    };
    (1..=days).contains(&day)
}

/// A date, `T`, a time to the second with an optional fraction, and a zone. What follows a second
/// `t` is not looked at, and the mark before the fraction may be any character: upstream's check
/// is like that.
pub(super) fn is_date_time(text: &str) -> bool {
    let mut parts = text.split(['t', 'T']);
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else {
        return false;
    };
    is_date(date) && is_time_with_zone(time)
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
