//! Copies of the database, taken while an engine uses it or while none does.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::store::DATABASE_FILE;

/// Why no copy was made. Nothing is left behind then.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error("there is no database {}", path.display())]
    Missing { path: PathBuf },
    #[error("{} exists already", path.display())]
    Exists { path: PathBuf },
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
    if !database.is_file() {
        return Err(BackupError::Missing { path: database });
    }
    refuse_existing(to)?;
    let target = |source| BackupError::Target { path: to.to_owned(), source };
    // Under its own name only once it is whole.
    let mut partial = to.as_os_str().to_owned();
    partial.push(format!(".partial-{}", std::process::id()));
    let partial = Partial(PathBuf::from(partial));
    let file = private_file(&partial.0).map_err(target)?;
    copy(&database, &partial.0).map_err(|source| match source.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => target(std::io::ErrorKind::StorageFull.into()),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            BackupError::Damaged { path: database.clone(), source }
        }
        _ => BackupError::Source { path: database.clone(), source },
    })?;
    // SQLite leaves this to its caller.
    file.sync_all().map_err(target)?;
    let bytes = file.metadata().map_err(target)?.len();
    refuse_existing(to)?;
    std::fs::rename(&partial.0, to).map_err(target)?;
    sync_folder_of(to).map_err(target)?;
    Ok(bytes)
}

fn refuse_existing(path: &Path) -> Result<(), BackupError> {
    match path.symlink_metadata() {
        Ok(_) => Err(BackupError::Exists { path: path.to_owned() }),
        Err(_) => Ok(()),
    }
}

/// Leaves out what was deleted: free pages are not copied.
fn copy(database: &Path, to: &Path) -> Result<(), rusqlite::Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(database, flags)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    let to = to.to_str().ok_or_else(|| rusqlite::Error::InvalidPath(to.to_owned()))?;
    connection.execute("VACUUM INTO ?1", [to]).map(|_| ())
}

/// A file that is removed unless it got its real name.
struct Partial(PathBuf);

impl Drop for Partial {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.0)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(%error, path = %self.0.display(), "cannot remove an unfinished copy");
        }
    }
}

/// An empty file that its owner alone can read. SQLite writes only into files that are empty.
fn private_file(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Makes the new name durable.
fn sync_folder_of(path: &Path) -> std::io::Result<()> {
    if cfg!(not(unix)) {
        return Ok(());
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}
