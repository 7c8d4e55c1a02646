//! Texts for `Warning` headers, as many as one answer may carry.
//!
//! The bounds are upstream's: up to [`MAX_TOTAL_CHARS`] every text is sent whole; once there are more, each
//! is cut to [`MAX_TEXT_CHARS`] and no more are taken when the cut texts fill the total too. So the size of
//! the answer does not depend on the body, and whoever compares elements pair by pair may stop as soon
//! as [`Warnings::is_full`].

use std::collections::HashSet;

const MAX_TOTAL_CHARS: usize = 4 * 1024;
/// The length of each text when not all fit.
const MAX_TEXT_CHARS: usize = 256;

/// What a client is to be warned of: each text once, in the order in which they were found.
#[derive(Debug, Default)]
pub(crate) struct Warnings {
    texts: Vec<String>,
    /// The texts before they were cut.
    seen: HashSet<String>,
    chars: usize,
    cutting: bool,
}

impl Warnings {
    pub(crate) fn push(&mut self, text: impl Into<String>) {
        let text = text.into();
        if text.is_empty() || self.is_full() || self.seen.contains(&text) {
            return;
        }
        self.seen.insert(text.clone());
        let fits = self.chars + char_count(&text, MAX_TOTAL_CHARS + 1) <= MAX_TOTAL_CHARS;
        self.texts.push(text);
        if fits || self.cutting {
            self.cut_last();
        } else {
            self.cut_all();
        }
    }

    /// Whether further texts would be dropped.
    pub(crate) fn is_full(&self) -> bool {
        self.cutting && self.chars >= MAX_TOTAL_CHARS
    }

    pub(crate) fn into_texts(self) -> Vec<String> {
        self.texts
    }

    fn cut_last(&mut self) {
        if let Some(text) = self.texts.last_mut() {
            if self.cutting {
                cut(text);
            }
            self.chars += char_count(text, MAX_TOTAL_CHARS);
        }
    }

    fn cut_all(&mut self) {
        self.cutting = true;
        self.chars = 0;
        for text in &mut self.texts {
            cut(text);
            self.chars += char_count(text, MAX_TEXT_CHARS);
        }
    }
}

impl<T: Into<String>> Extend<T> for Warnings {
    fn extend<I: IntoIterator<Item = T>>(&mut self, texts: I) {
        for text in texts {
            if self.is_full() {
                return;
            }
            self.push(text);
        }
    }
}

/// The number of characters, `limit` at most.
fn char_count(text: &str, limit: usize) -> usize {
    text.chars().take(limit).count()
}

fn cut(text: &mut String) {
    if let Some((end, _)) = text.char_indices().nth(MAX_TEXT_CHARS) {
        text.truncate(end);
        text.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(given: impl IntoIterator<Item = String>) -> Vec<String> {
        let mut warnings = Warnings::default();
        warnings.extend(given);
        warnings.into_texts()
    }

    #[test]
    fn few_texts_are_sent_whole_and_once() {
        let long = "x".repeat(MAX_TOTAL_CHARS - 1);
        let given = [long.clone(), "é".to_owned(), long.clone()];
        assert_eq!(texts(given), [long, "é".to_owned()]);
    }

    #[test]
    fn texts_that_do_not_fit_are_all_cut() {
        let given = (0..3).map(|i| format!("{i}{}", "é".repeat(MAX_TOTAL_CHARS / 2)));
        let cut = texts(given);
        assert_eq!(cut.len(), 3);
        assert!(cut.iter().all(|text| text.chars().count() == MAX_TEXT_CHARS), "{cut:?}");
    }

    #[test]
    fn the_total_is_bounded() {
        let mut warnings = Warnings::default();
        warnings.extend((0..1_000_000).map(|i| format!("{i} {}", "x".repeat(1_000))));
        assert!(warnings.is_full());
        assert_eq!(warnings.into_texts().len(), MAX_TOTAL_CHARS / MAX_TEXT_CHARS);
    }
}
