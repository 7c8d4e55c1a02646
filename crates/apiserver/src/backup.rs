//! Copies of the database, taken while an engine uses it or while none does.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{ErrorCode, OpenFlags};

use crate::folder::{FolderError, SafeFolder, unguessable};
use crate::store::{DATABASE_FILE, check_database, connect};

/// What an unfinished copy is called, in part.
const PARTIAL: &str = "sojourn-backup";

/// Why no copy was made. Nothing is left behind then.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error("there is no database {}", path.display())]
    Missing { path: PathBuf },
    #[error("{} exists already", path.display())]
    Exists { path: PathBuf },
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error("cannot write the copy {}", path.display())]
    Target { path: PathBuf, source: std::io::Error },
    #[error("cannot copy the database {}", path.display())]
    Source { path: PathBuf, source: rusqlite::Error },
    #[error("the database {} is damaged", path.display())]
    Damaged { path: PathBuf, source: rusqlite::Error },
}

/// Copies the database in the data directory `data` to the file `to`, as it is at one moment, and
/// says how many bytes that took. Writers are not held up. Whoever puts the copy in the database's
/// place must take away the write-ahead log that belongs to the old one.
pub fn backup(data: &Path, to: &Path) -> Result<u64, BackupError> {
    let database = data.join(DATABASE_FILE);
    let source = match SafeFolder::open(data) {
        Err(error) if error.kind() == Some(ErrorKind::NotFound) => {
            return Err(BackupError::Missing { path: database });
        }
        source => source?,
    };
    if !check_database(&source)? {
        return Err(BackupError::Missing { path: database });
    }
    refuse_existing(to)?;
    let target = |source| BackupError::Target { path: to.to_owned(), source };
    let name = to.file_name().ok_or_else(|| target(ErrorKind::InvalidInput.into()))?;
    let folder = SafeFolder::open_shared(to.parent().unwrap_or(Path::new("/")))?;
    // Under its own name only once it is whole; until then under one that nobody can guess.
    let partial = Partial { folder: &folder, name: unguessable(PARTIAL)? };
    let file = folder.create_new(&partial.name)?;
    copy(&source, &folder.path().join(&partial.name)).map_err(|source| {
        match source.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => target(ErrorKind::StorageFull.into()),
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                BackupError::Damaged { path: database.clone(), source }
            }
            _ => BackupError::Source { path: database.clone(), source },
        }
    })?;
    // SQLite leaves this to its caller.
    file.sync_all().map_err(target)?;
    let bytes = file.metadata().map_err(target)?.len();
    match folder.rename_new(&partial.name, name) {
        Err(error) if error.kind() == Some(ErrorKind::AlreadyExists) => {
            return Err(BackupError::Exists { path: to.to_owned() });
        }
        renamed => renamed?,
    }
    folder.sync()?;
    Ok(bytes)
}

fn refuse_existing(path: &Path) -> Result<(), BackupError> {
    match path.symlink_metadata() {
        Ok(_) => Err(BackupError::Exists { path: path.to_owned() }),
        Err(_) => Ok(()),
    }
}

/// Leaves out what was deleted: free pages are not copied.
fn copy(source: &SafeFolder, to: &Path) -> Result<(), rusqlite::Error> {
    let connection = connect(source, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    let to = to.to_str().ok_or_else(|| rusqlite::Error::InvalidPath(to.to_owned()))?;
    connection.execute("VACUUM INTO ?1", [to]).map(|_| ())
}

/// A file that is removed unless it got its real name.
struct Partial<'a> {
    folder: &'a SafeFolder,
    name: String,
}

impl Drop for Partial<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.folder.remove(&self.name) {
            tracing::warn!(%error, "cannot remove an unfinished copy");
        }
    }
}
