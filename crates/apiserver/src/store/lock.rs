//! One engine per data directory: a lock file that also says who holds it.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, Write};

use super::sqlite::OpenError;
use crate::folder::SafeFolder;

const LOCK_FILE: &str = "lock";

/// Held for as long as the store is open; the operating system frees it however we end.
#[derive(Debug)]
pub(crate) struct DirectoryLock(File);

impl DirectoryLock {
    pub(crate) fn take(folder: &SafeFolder) -> Result<Self, OpenError> {
        let directory = folder.path();
        let failed = |source| OpenError::Directory { path: directory.to_owned(), source };
        let mut file = folder.open_or_create(LOCK_FILE)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // The note is only for people: an unreadable one does not change the answer.
                if file.read_to_string(&mut holder).is_err() || holder.trim().is_empty() {
                    holder = "another process".to_owned();
                }
                let holder = holder.trim().to_owned();
                return Err(OpenError::Locked { path: directory.to_owned(), holder });
            }
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        let mut lock = Self(file);
        lock.write_holder(&format!("process {}", std::process::id())).map_err(failed)?;
        Ok(lock)
    }

    /// Writes who holds the lock, for the error message of the next process.
    pub(crate) fn write_holder(&mut self, text: &str) -> std::io::Result<()> {
        self.0.set_len(0)?;
        self.0.rewind()?;
        writeln!(self.0, "{text}")
    }
}
