//! Where the servers keep their data: on the disk that the build is on, since a folder for
//! temporary files may be memory. It is gone at the end.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn make(name: &str) -> Result<Self> {
        let path =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path)
            .with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// An empty folder, in place of the last one.
    pub(crate) fn folder(&self) -> Result<PathBuf> {
        let folder = self.0.join("server");
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        std::fs::create_dir(&folder)?;
        Ok(folder)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Files that are left in the build's folder harm nobody.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
