//! Lists of indexes of a Job's Pods, written as `0,3-5,7`.

use crate::go;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum IndexError {
    #[error(
        "the fragment {} violates the requirement that an index interval can have at most two parts \
         separated by '-'",
        go::quote(.0)
    )]
    Parts(String),
    #[error("cannot convert string to integer for index: {}", go::quote(.0))]
    NotNumber(String),
    #[error("too large index: {}", go::quote(.0))]
    TooLarge(String),
    #[error("non-increasing order, previous: {0}, current: {1}")]
    Order(i64, i64),
}

/// How many indexes a list has; all must be below `completions`.
pub(super) fn count(list: &str, completions: i64) -> Result<i64, IndexError> {
    let mut last: Option<i64> = None;
    let mut total = 0;
    if list.is_empty() {
        return Ok(0);
    }
    for interval in list.split(',') {
        let (first, end) = parse(interval, completions)?;
        if let Some(last) = last.filter(|last| *last >= first) {
            return Err(IndexError::Order(last, first));
        }
        total += end - first + 1;
        last = Some(end);
    }
    Ok(total)
}

fn parse(interval: &str, completions: i64) -> Result<(i64, i64), IndexError> {
    let number = |text: &str| {
        // Go takes a plus sign too.
        let parsed: i64 = text.parse().map_err(|_| IndexError::NotNumber(text.to_owned()))?;
        if parsed >= completions {
            return Err(IndexError::TooLarge(text.to_owned()));
        }
        Ok(parsed)
    };
    let mut parts = interval.split('-');
    let (first, second) = (parts.next().unwrap_or_default(), parts.next());
    if parts.next().is_some() {
        return Err(IndexError::Parts(interval.to_owned()));
    }
    let first = number(first)?;
    let Some(second) = second else {
        return Ok((first, first));
    };
    let second = number(second)?;
    if first >= second {
        return Err(IndexError::Order(first, second));
    }
    Ok((first, second))
}

/// The first index that is in both lists. Parts that cannot be read are passed over.
pub(super) fn overlap(one: &str, other: &str, completions: i64) -> Option<i64> {
    let intervals = |list: &str| -> Vec<(i64, i64)> {
        list.split(',').filter_map(|interval| parse(interval, completions).ok()).collect()
    };
    let (one, other) = (intervals(one), intervals(other));
    let (mut i, mut j) = (0, 0);
    while let (Some(a), Some(b)) = (one.get(i), other.get(j)) {
        if a.0 <= b.1 && b.0 <= a.1 {
            return Some(a.0.max(b.0));
        }
        if a.0 <= b.0 {
            i += 1;
        } else {
            j += 1;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        assert_eq!(count("", 1), Ok(0));
        assert_eq!(count("0,3-5,7", 8), Ok(5));
        assert_eq!(count("2,1", 3), Err(IndexError::Order(2, 1)));
        assert_eq!(count("9", 3), Err(IndexError::TooLarge("9".into())));
        assert_eq!(overlap("0-3,8", "4,8-9", 10), Some(8));
        assert_eq!(overlap("0-3", "4-5", 10), None);
    }
}
