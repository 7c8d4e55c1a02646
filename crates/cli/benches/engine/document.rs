//! The document that keeps the figures of the last full run, between two marks.

use std::path::PathBuf;

use anyhow::{Context as _, Result};

const START: &str = "<!-- figures: written by `cargo xtask bench engine` -->\n";
const END: &str = "<!-- end of figures -->\n";

/// A document with a section for the figures.
#[derive(Debug)]
pub(crate) struct Document {
    path: PathBuf,
    before: String,
    after: String,
}

impl Document {
    /// Reads it; early, since nobody wants to hear after the measurements that it has no marks.
    pub(crate) fn open(path: PathBuf) -> Result<Self> {
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let marked = text.split_once(START).and_then(|(before, rest)| {
            let (_, after) = rest.split_once(END)?;
            Some((before.to_owned(), after.to_owned()))
        });
        let (before, after) =
            marked.with_context(|| format!("{} has no marks for figures", path.display()))?;
        Ok(Self { path, before, after })
    }

    pub(crate) fn write(self, figures: &str) -> Result<()> {
        let Self { path, before, after } = self;
        let figures = figures.trim_end();
        std::fs::write(&path, format!("{before}{START}\n{figures}\n\n{END}{after}"))
            .with_context(|| format!("cannot write {}", path.display()))
    }
}
