//! Our own program where Pods can see it: submissions run it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::exit::Failure;

/// The folder that Pods may read, with nothing else in it.
const FOLDER: &str = "bin";
const NAME: &str = "sojourn";

/// A folder in `data` with our program in it, as it is now.
#[derive(Debug)]
pub(super) struct OwnProgram {
    pub(super) folder: PathBuf,
}

impl OwnProgram {
    pub(super) fn offer(data: &Path) -> Result<Self, Failure> {
        let folder = data.join(FOLDER);
        place(&folder)
            .with_context(|| format!("cannot put our program into {}", folder.display()))
            .map_err(|error| Failure::unavailable(error, "Pods that hand in data run it."))?;
        Ok(Self { folder })
    }

    pub(super) fn path(&self) -> PathBuf {
        self.folder.join(NAME)
    }
}

/// A second name for the file where that can be had, else a copy.
fn place(folder: &Path) -> io::Result<()> {
    let program = std::env::current_exe()?;
    fs::create_dir_all(folder)?;
    readable(folder)?;
    let new = folder.join("sojourn.new");
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    if fs::hard_link(&program, &new).is_err() {
        fs::copy(&program, &new)?;
        readable(&new)?;
    }
    // Whoever runs the old one goes on with it.
    fs::rename(&new, folder.join(NAME))
}

/// Lets everybody read and run it: Pods run as users of their own.
#[cfg(unix)]
fn readable(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

#[cfg(not(unix))]
fn readable(_: &Path) -> io::Result<()> {
    Ok(())
}
