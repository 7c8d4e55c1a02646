//! How much a status can hold.

/// Numbers beyond this are not integers to an API server.
pub(crate) const LARGEST: u64 = i64::MAX.unsigned_abs();
/// As much of somebody's words as a status keeps, in characters.
pub(crate) const LONGEST_WORDS: usize = 1024;

/// As much of a text as a status keeps.
pub(crate) fn words(text: &str) -> String {
    text.chars().take(LONGEST_WORDS).collect()
}
