//! How much a status can hold.

/// Numbers beyond this are not integers to an API server.
pub(crate) const MAX_INTEGER: u64 = i64::MAX.unsigned_abs();
/// As much of somebody's words as a status keeps, in characters.
pub(crate) const MAX_TEXT_CHARS: usize = 1024;

/// As much of a text as a status keeps.
pub(crate) fn truncated(text: &str) -> String {
    text.chars().take(MAX_TEXT_CHARS).collect()
}
