//! What an archive tells about the volume that it does not show.

use std::fmt::Write as _;
use std::path::Path;

/// When the notes have this many bytes, further ones are only counted.
const MAX_NOTES_BYTES: usize = 256 * 1024;

#[derive(Default)]
pub(super) struct Notes {
    lines: String,
    unwritten: u64,
    skipped: u64,
}

impl Notes {
    pub(super) fn left_out(&mut self, path: &str, why: &'static str) {
        self.skipped += 1;
        self.note(format_args!("left out {path:?}: {why}"));
    }

    pub(super) fn renamed(&mut self, real: &Path, clean: &str) {
        self.note(format_args!("renamed {real:?} to {clean:?}"));
    }

    pub(super) fn changed(&mut self, path: &str) {
        self.note(format_args!("changed while it was read: {path:?}"));
    }

    pub(super) fn skipped(&self) -> u64 {
        self.skipped
    }

    /// One note on each line, when there is any.
    pub(super) fn text(mut self) -> Option<String> {
        if self.unwritten > 0 {
            _ = writeln!(self.lines, "and {} more", self.unwritten);
        }
        (!self.lines.is_empty()).then_some(self.lines)
    }

    fn note(&mut self, note: std::fmt::Arguments<'_>) {
        if self.lines.len() >= MAX_NOTES_BYTES {
            self.unwritten += 1;
        } else {
            // Writing to a String cannot fail.
            _ = writeln!(self.lines, "{note}");
        }
    }
}
