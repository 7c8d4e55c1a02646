//! Our own program where Pods can see it: submissions run it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sojourn_apiserver::folder::{SafeFolder, unguessable};

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
    pub(super) fn install(data: &SafeFolder, printer: Printer) -> Self {
        let folder = data.path().join(FOLDER);
        let placed = link_or_copy(data);
        if let Err(error) = &placed {
            let folder = folder.display();
            printer.warning(format_args!(
                "no data can be handed in, because our program cannot be put into {folder}: \
                 {error:#}"
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

/// A second name for the file where that can be had, else a copy. Pods run as users of their own, so
/// everybody may read and run it.
fn link_or_copy(data: &SafeFolder) -> anyhow::Result<()> {
    let program = std::env::current_exe()?;
    let folder = data.subfolder(FOLDER)?;
    folder.let_others_read()?;
    remove_unfinished(&folder);
    let fresh = unguessable(NAME)?;
    let placed = folder.link(&program, &fresh).or_else(|_| copy(&folder, &program, &fresh));
    // Whoever runs the old one goes on with it.
    placed.and_then(|()| Ok(folder.rename(&fresh, NAME)?)).inspect_err(|_| {
        // Half a copy only takes room; what was never made cannot be removed.
        drop(folder.remove(&fresh));
    })
}

fn copy(folder: &SafeFolder, program: &Path, fresh: &str) -> anyhow::Result<()> {
    let mut copy = folder.create_new(fresh)?;
    io::copy(&mut fs::File::open(program)?, &mut copy)?;
    Ok(rustix::fs::fchmod(&copy, rustix::fs::Mode::from_raw_mode(0o755))?)
}

/// Removes what a start that was killed has left: the program is large, and nothing else is in here.
fn remove_unfinished(folder: &SafeFolder) {
    let entries = fs::read_dir(folder.path()).into_iter().flatten().flatten();
    for name in entries.filter_map(|entry| entry.file_name().into_string().ok()) {
        if name != NAME
            && let Err(error) = folder.remove(&name)
        {
            tracing::warn!(%error, "cannot remove what is left of an earlier start");
        }
    }
}
