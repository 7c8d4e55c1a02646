//! Which known name was probably meant.

/// Names with more than one difference per so many letters are not alike.
const CHARS_PER_EDIT: usize = 3;
/// Longer names are not compared.
const MAX_NAME_BYTES: usize = 128;

/// The known name nearest to `name`, if it is near.
pub(super) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > MAX_NAME_BYTES {
        return None;
    }
    let wanted = name.to_lowercase();
    let near = |candidate: &'a str| {
        let edit_distance = edit_distance(&wanted, &candidate.to_lowercase());
        (edit_distance <= candidate.chars().count().div_ceil(CHARS_PER_EDIT))
            .then_some((edit_distance, candidate))
    };
    known.filter_map(near).min().map(|(_, candidate)| candidate)
}

/// How many letters must be put in, taken out or replaced to make one text the other.
fn edit_distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (index, letter) in from.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], index + 1);
        for (column, other) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *other);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted() {
        assert_eq!(edit_distance("kitten", "sitting"), 3);
        assert_eq!(edit_distance("", "abc"), 3);
        assert_eq!(edit_distance("abc", ""), 3);
        assert_eq!(edit_distance("same", "same"), 0);
    }

    #[test]
    fn a_near_miss_is_found_and_a_far_one_is_not() {
        let known = || ["margin", "queryStep", "publicURL"].into_iter();
        assert_eq!(nearest("marign", known()), Some("margin"));
        assert_eq!(nearest("publicUrl", known()), Some("publicURL"));
        assert_eq!(nearest("frequency", known()), None);
        assert_eq!(nearest(&"x".repeat(500), known()), None);
    }
}
