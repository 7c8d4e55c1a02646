//! The store: every object in memory, every acknowledged write on disk.
//!
//! Reads never touch the file. A write is acknowledged after its transaction is durable and the
//! change is visible to every reader; in that order, so that "list, then watch" has no gap.

mod interned_text;
mod lock;
mod object;
mod readiness;
mod sqlite;
mod table;

mod writer;

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) use object::{Draft, StoredObject, header, key};
pub use sqlite::OpenError;
pub(crate) use sqlite::{CommitError, DATABASE_FILE, check_database, connect};
pub(crate) use table::{ChangeEvent, Gone, Objects, ResourceTable};
pub(crate) use writer::{Change, Precondition, WriteError, WriteOperation};

use crate::folder::SafeFolder;
use lock::DirectoryLock;
use readiness::Readiness;
use sqlite::Database;
use tokio::sync::watch;
use writer::{Committer, Writer};

#[derive(Debug)]
pub(crate) struct Store {
    version: Arc<AtomicU64>,
    tables: Mutex<HashMap<(String, String), Arc<ResourceTable>>>,
    writer: Writer,
    /// Moves with every commit.
    changes: watch::Sender<u64>,
    readiness: Arc<Readiness>,
    /// Resource ids and settings; the writer has a connection of its own.
    settings_database: Mutex<Option<Database>>,
    lock: Mutex<Option<DirectoryLock>>,
}

/// Whether the writer has a thread of its own or runs inside the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriterMode {
    Thread,
    Inline,
}

impl Store {
    /// A store that is gone when it is dropped.
    pub(crate) fn in_memory(mode: WriterMode) -> std::io::Result<Self> {
        let version = Arc::new(AtomicU64::new(0));
        let committer = Committer::new(None, version.clone());
        Ok(Self {
            version,
            tables: Mutex::default(),
            changes: committer.changes(),
            readiness: committer.readiness(),
            writer: start(committer, mode)?,
            settings_database: Mutex::new(None),
            lock: Mutex::new(None),
        })
    }

    pub(crate) fn open(directory: &Path, mode: WriterMode) -> Result<Self, OpenError> {
        let failed = |source| OpenError::Directory { path: directory.to_owned(), source };
        let folder = Arc::new(SafeFolder::create(directory)?);
        let lock = DirectoryLock::take(&folder)?;
        let mut database = Database::open(folder.clone(), mode == WriterMode::Inline)?;
        let loaded = database.load()?;
        let settings_database = Database::open(folder, true)?;
        database.enable_checkpoint_on_close()?;
        settings_database.enable_checkpoint_on_close()?;
        let version = Arc::new(AtomicU64::new(loaded.version));
        let tables = loaded
            .resources
            .into_iter()
            .map(|(name, (id, objects))| {
                (name, Arc::new(ResourceTable::new(id, objects, loaded.version)))
            })
            .collect();
        let committer = Committer::new(Some(database), version.clone());
        Ok(Self {
            version,
            tables: Mutex::new(tables),
            changes: committer.changes(),
            readiness: committer.readiness(),
            writer: start(committer, mode).map_err(failed)?,
            settings_database: Mutex::new(Some(settings_database)),
            lock: Mutex::new(Some(lock)),
        })
    }

    /// The newest version that every reader can see.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Wakes with every commit, whatever it changed.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// The table of a resource, made when it is first asked for.
    pub(crate) fn table(
        &self,
        group: &str,
        plural: &str,
    ) -> Result<Arc<ResourceTable>, CommitError> {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        let name = (group.to_owned(), plural.to_owned());
        if let Some(table) = tables.get(&name) {
            return Ok(table.clone());
        }
        let settings_database =
            self.settings_database.lock().unwrap_or_else(PoisonError::into_inner);
        let id = match settings_database.as_ref() {
            Some(database) => database.resource_id(group, plural)?,
            None => i64::try_from(tables.len()).unwrap_or(i64::MAX),
        };
        let table = Arc::new(ResourceTable::new(id, Objects::new(), self.version()));
        tables.insert(name, table.clone());
        Ok(table)
    }

    /// Every table, in the order in which they were made: what is done in this order does not
    /// depend on chance.
    pub(crate) fn tables(&self) -> Vec<Arc<ResourceTable>> {
        let tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        let mut tables: Vec<Arc<ResourceTable>> = tables.values().cloned().collect();
        tables.sort_unstable_by_key(|table| table.id);
        tables
    }

    /// Compares and swaps. What comes back is the object as it is now stored; for a removal, its
    /// last state under the removal's version.
    pub(crate) async fn write(
        &self,
        operation: WriteOperation,
    ) -> Result<Arc<StoredObject>, WriteError> {
        self.writer.write(operation).await
    }

    /// Whether writes take place, and else why not.
    pub(crate) async fn check_writes(&self) -> Result<(), String> {
        self.readiness.check(self.writer.probe()).await
    }

    pub(crate) fn setting(&self, name: &str) -> Result<Option<Vec<u8>>, CommitError> {
        match self.settings_database.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            Some(database) => database.setting(name),
            None => Ok(None),
        }
    }

    pub(crate) fn set_setting(&self, name: &str, value: &[u8]) -> Result<(), CommitError> {
        match self.settings_database.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            Some(database) => database.set_setting(name, value),
            None => Ok(()),
        }
    }

    /// Sets the text that another process that wants this data directory is shown.
    pub(crate) fn set_lock_holder(&self, text: &str) {
        let mut lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lock) = lock.as_mut()
            && let Err(error) = lock.write_holder(text)
        {
            tracing::warn!(%error, "cannot write into the lock file");
        }
    }

    /// Finishes queued writes and closes the files.
    pub(crate) fn close(&self) {
        self.writer.close();
        self.settings_database.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.lock.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.close();
    }
}

fn start(committer: Committer, mode: WriterMode) -> std::io::Result<Writer> {
    match mode {
        WriterMode::Thread => Writer::thread(committer),
        WriterMode::Inline => Ok(Writer::inline(committer)),
    }
}
