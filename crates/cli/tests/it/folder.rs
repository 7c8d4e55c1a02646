//! A folder for one test, gone with it.

#[path = "control_group.rs"]
mod control_group;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("sojourn-test-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).expect("a new folder in the temporary one");
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The control groups of nodes in here.
    pub(crate) fn control_groups(&self) -> Vec<PathBuf> {
        control_group::of(&self.0)
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A node that was killed could not. Afterwards nobody could tell whose they are.
        self.control_groups().iter().for_each(|group| control_group::remove(group));
        // Left-over files in the temporary folder harm nobody.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
