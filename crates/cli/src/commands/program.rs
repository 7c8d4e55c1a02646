//! Our own program where Pods can see it: submissions run it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::printer::Printer;

/// The folder that Pods may read, with nothing else in it.
const FOLDER: &str = "bin";
const NAME: &str = "sojourn";

/// A folder in `data` with our program in it, as it is now.
#[derive(Debug)]
pub(super) struct OwnProgram {
    folder: PathBuf,
    is_there: bool,
}

impl OwnProgram {
    /// Where there is no room for it, everything else works all the same: whoever needs to make room
    /// must be able to start us.
    pub(super) fn offer(data: &Path, printer: Printer) -> Self {
        let folder = data.join(FOLDER);
        let placed = place(&folder);
        if let Err(error) = &placed {
            let folder = folder.display();
            printer.warning(format_args!(
                "no data can be handed in, because our program cannot be put into {folder}: {error}"
            ));
        }
        Self { folder, is_there: placed.is_ok() }
    }

    /// The folder, if Pods find the program in it.
    pub(super) fn folder(&self) -> Option<&Path> {
        self.is_there.then_some(self.folder.as_path())
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
        // Half a copy only takes room.
        fs::copy(&program, &new).and_then(|_| readable(&new)).inspect_err(|_| {
            drop(fs::remove_file(&new));
        })?;
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
