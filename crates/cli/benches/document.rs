//! The document that keeps the figures of the last full run, between two marks.

use std::path::PathBuf;

use anyhow::{Context as _, Result};

const END: &str = "<!-- end of figures -->\n";

/// A document with a section for the figures.
#[derive(Debug)]
pub(crate) struct Document {
    path: PathBuf,
    start: String,
    before: String,
    after: String,
}

impl Document {
    /// Reads the one that keeps the figures of this benchmark; early, since nobody wants to hear
    /// after the measurements that it has no marks.
    pub(crate) fn open(path: PathBuf, benchmark: &str) -> Result<Self> {
        let start = format!("<!-- figures: written by `cargo xtask bench {benchmark}` -->\n");
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let marked = text.split_once(&start).and_then(|(before, rest)| {
            let (_, after) = rest.split_once(END)?;
            Some((before.to_owned(), after.to_owned()))
        });
        let (before, after) =
            marked.with_context(|| format!("{} has no marks for these figures", path.display()))?;
        Ok(Self { path, start, before, after })
    }

    pub(crate) fn write(self, figures: &str) -> Result<()> {
        let Self { path, start, before, after } = self;
        let figures = figures.trim_end();
        std::fs::write(&path, format!("{before}{start}\n{figures}\n\n{END}{after}"))
            .with_context(|| format!("cannot write {}", path.display()))
    }
}
