//! The file: opening, migrating, loading, and the statements of one commit.

use std::collections::HashMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, params};

use super::object::{LoadError, StoredObject};
use super::table::Objects;
use crate::clock::NoRandomness;
use crate::folder::{FolderError, SafeFolder};

pub(crate) const DATABASE_FILE: &str = "sojourn.db";
/// Given back to the file system when the disk is full, so that deletes can still be written.
const RESERVE_FILE: &str = "reserve";
const RESERVE_BYTES: u64 = 8 << 20;
const MIGRATIONS: &[&str] = &[include_str!("migrations/0001.sql")];
/// Versions are reserved in blocks, so that one written but not committed is never given again.
const VERSION_BLOCK: u64 = 10_000;
/// The log is copied into the database once it has grown by this many pages: half of the reserve, so
/// that it can still be copied when the disk is full.
const CHECKPOINT_PAGES: i64 = 1_000;
/// A log of this many pages is started anew, even if the writer has to wait for it.
const MAX_WAL_PAGES: u64 = 4_000;
const PAGE_BYTES: usize = 4_096;
/// Free pages that are given back to the file system at a time.
const VACUUM_PAGES: i64 = 1_000;

/// Why the store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("cannot use the data directory {}", path.display())]
    Directory { path: PathBuf, source: std::io::Error },
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error("{} is in use by {holder}", path.display())]
    Locked { path: PathBuf, holder: String },
    #[error("cannot open the database {}", path.display())]
    Database { path: PathBuf, source: rusqlite::Error },
    #[error(
        "the database {} was written by a newer version of Sojourn (format {found}, this one reads up to {known}); nothing was changed",
        path.display()
    )]
    Newer { path: PathBuf, found: usize, known: usize },
    #[error("the database {} is damaged: {why}; nothing was changed", path.display())]
    Damaged { path: PathBuf, why: String },
    #[error("cannot make keys and uids")]
    NoRandomness(#[from] NoRandomness),
}

/// Why a commit did not take place.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum CommitError {
    #[error("the disk is full")]
    Full,
    #[error("the database cannot be written: {0}")]
    Unwritable(String),
}

#[derive(Debug)]
pub(crate) struct Database {
    connection: Connection,
    folder: Arc<SafeFolder>,
    /// Versions below this are recorded on disk as used.
    reserved_version: u64,
    has_reserve: bool,
    /// Set when the log could not be copied for want of space.
    wal_is_stuck: Arc<AtomicBool>,
    log: Arc<WalUsage>,
    inline_checkpoint: bool,
}

/// Pages of the write-ahead log, shared by the writer and the checkpointer. The size of its file says
/// nothing: it is written from the start again once all is copied, and never gets shorter.
#[derive(Debug, Default)]
struct WalUsage {
    /// Pages that were added since it was last copied, about.
    fresh: AtomicU64,
    /// Pages in it when it was last copied.
    length: AtomicU64,
}

/// What one commit changes in the file.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) resource: i64,
    pub(crate) object: Arc<StoredObject>,
    pub(crate) removed: bool,
}

#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) resources: HashMap<(String, String), (i64, Objects)>,
    pub(crate) version: u64,
}

impl Database {
    pub(crate) fn open(
        folder: Arc<SafeFolder>,
        inline_checkpoint: bool,
    ) -> Result<Self, OpenError> {
        let path = folder.path().join(DATABASE_FILE);
        let failed = |source| OpenError::Database { path: path.clone(), source };
        check_database(&folder)?;
        folder.check_file(RESERVE_FILE)?;
        folder.open_or_create(DATABASE_FILE)?;
        let connection = connect(&folder, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(failed)?;
        // What turns out to be damaged stays as it was found, its log included.
        connection
            .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
            .map_err(failed)?;
        connection.busy_timeout(std::time::Duration::from_secs(5)).map_err(failed)?;
        let found = stored_format(&connection).map_err(|e| damaged_or(&path, e))?;
        if found > MIGRATIONS.len() {
            return Err(OpenError::Newer { path, found, known: MIGRATIONS.len() });
        }
        configure(&connection, found == 0, inline_checkpoint).map_err(|e| damaged_or(&path, e))?;
        migrate(&connection, found).map_err(|e| damaged_or(&path, e))?;
        let mut database = Self {
            connection,
            folder,
            reserved_version: 0,
            has_reserve: false,
            wal_is_stuck: Arc::default(),
            log: Arc::default(),
            inline_checkpoint,
        };
        database.has_reserve = database.write_reserve_file();
        Ok(database)
    }

    /// Reads everything. The next version is above all that were ever given out.
    pub(crate) fn load(&mut self) -> Result<Loaded, OpenError> {
        let path = self.folder.path().join(DATABASE_FILE);
        let loaded = load(&self.connection).map_err(|e| match e {
            LoadFailure::Sqlite(source) => damaged_or(&path, source),
            LoadFailure::Object(why) => {
                OpenError::Damaged { path: path.clone(), why: why.to_string() }
            }
        })?;
        self.reserved_version = loaded.version;
        Ok(loaded)
    }

    /// The database was read without errors, so closing it may checkpoint the log into it.
    pub(crate) fn enable_checkpoint_on_close(&self) -> Result<(), OpenError> {
        let enabled =
            self.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false);
        enabled.map(|_| ()).map_err(|source| OpenError::Database {
            path: self.folder.path().join(DATABASE_FILE),
            source,
        })
    }

    pub(crate) fn resource_id(&self, group: &str, plural: &str) -> Result<i64, CommitError> {
        self.connection
            .query_row(
                "INSERT INTO resource (grp, plural) VALUES (?1, ?2)
                 ON CONFLICT DO UPDATE SET grp = grp RETURNING id",
                params![group, plural],
                |row| row.get(0),
            )
            .map_err(|e| commit_error(&e))
    }

    /// Whether new content may be written. After the disk was full, that is once the reserve could
    /// be taken again; what deleted objects have left is given back for that.
    pub(crate) fn has_room(&mut self) -> bool {
        if self.wal_is_stuck.swap(false, Ordering::Relaxed) {
            self.remove_reserve();
        }
        if !self.has_reserve {
            self.has_reserve = self.make_room().unwrap_or_else(|error| {
                tracing::warn!(%error, "cannot give free space back");
                false
            });
        }
        self.has_reserve
    }

    /// Gives back what deleted objects have left, until the reserve fits beside the rest.
    fn make_room(&self) -> Result<bool, rusqlite::Error> {
        let free_pages = || -> Result<i64, rusqlite::Error> {
            self.connection.query_row("PRAGMA freelist_count", [], |row| row.get(0))
        };
        let empty_log =
            || self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        let vacuum = || -> Result<(), rusqlite::Error> {
            let pragma = format!("PRAGMA incremental_vacuum({VACUUM_PAGES})");
            let mut vacuum = self.connection.prepare(&pragma)?;
            // Each step gives one page back.
            let mut pages = vacuum.query([])?;
            while pages.next()?.is_some() {}
            Ok(())
        };
        empty_log()?;
        loop {
            let before = free_pages()?;
            vacuum()?;
            empty_log()?;
            if self.write_reserve_file() {
                return Ok(true);
            }
            if free_pages()? >= before {
                return Ok(false);
            }
        }
    }

    /// Writes the rows in one durable transaction. On a full disk, what frees space is written in
    /// place of the reserve, and the rest if room can be made for it.
    pub(crate) fn commit(&mut self, rows: &[Row]) -> Result<(), CommitError> {
        let highest = rows.iter().map(|r| r.object.version).max().unwrap_or(0);
        let version_block = (highest >= self.reserved_version).then(|| highest + VERSION_BLOCK);
        let mut written = self.try_commit(rows, version_block).map_err(|e| commit_error(&e));
        let frees = || rows.iter().all(|row| row.removed || row.object.index.deleting);
        if matches!(written, Err(CommitError::Full))
            && self.remove_reserve()
            && (frees() || self.has_room())
        {
            written = self.try_commit(rows, version_block).map_err(|e| commit_error(&e));
        }
        written?;
        self.reserved_version = version_block.unwrap_or(self.reserved_version);
        self.checkpoint_if_long(rows);
        Ok(())
    }

    /// Writes something of no consequence, to find out whether writes that add something take place.
    pub(crate) fn probe(&mut self) -> Result<(), CommitError> {
        if !self.has_room() {
            return Err(CommitError::Full);
        }
        // What is there already, but through the log and to the disk like anything else.
        self.set_setting("version", self.reserved_version.to_string().as_bytes())?;
        self.log.fresh.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    pub(crate) const fn has_reserve(&self) -> bool {
        self.has_reserve
    }

    /// Counts what was added to the log. Under a steady stream of writes the checkpointer is never
    /// done, so the log only grows; then the writer copies the little that is left itself, after
    /// which the log starts anew.
    fn checkpoint_if_long(&self, rows: &[Row]) {
        let pages: usize = rows.iter().map(|row| 1 + row.object.len() / PAGE_BYTES).sum();
        self.log.fresh.fetch_add(u64::try_from(pages).unwrap_or(0), Ordering::Relaxed);
        if self.log.length.load(Ordering::Relaxed) > MAX_WAL_PAGES {
            self.log.length.store(0, Ordering::Relaxed);
            if let Err(error) = checkpoint_passive(&self.connection) {
                tracing::warn!(%error, "cannot checkpoint the write-ahead log");
            }
        }
    }

    fn try_commit(
        &mut self,
        rows: &[Row],
        version_block: Option<u64>,
    ) -> Result<(), rusqlite::Error> {
        let transaction = self.connection.transaction()?;
        {
            let mut put = transaction.prepare_cached(
                "INSERT INTO object (resource, key, version, expires, data)
                 VALUES (?1, ?2, ?3, ?4, ?5)
                 ON CONFLICT (resource, key) DO UPDATE
                 SET version = excluded.version, expires = excluded.expires, data = excluded.data",
            )?;
            let mut remove = transaction
                .prepare_cached("DELETE FROM object WHERE resource = ?1 AND key = ?2")?;
            for row in rows {
                let object = &row.object;
                if row.removed {
                    remove.execute(params![row.resource, &*object.key])?;
                } else {
                    let version = i64::try_from(object.version).unwrap_or(i64::MAX);
                    let expires = object.index.expires;
                    put.execute(params![
                        row.resource,
                        &*object.key,
                        version,
                        expires,
                        object.json()
                    ])?;
                }
            }
            if let Some(version_block) = version_block {
                let text = version_block.to_string();
                transaction
                    .prepare_cached("INSERT OR REPLACE INTO setting VALUES ('version', ?1)")?
                    .execute(params![text.as_bytes()])?;
            }
        }
        transaction.commit()
    }

    pub(crate) fn setting(&self, name: &str) -> Result<Option<Vec<u8>>, CommitError> {
        self.connection
            .query_row("SELECT value FROM setting WHERE name = ?1", params![name], |r| r.get(0))
            .optional()
            .map_err(|e| commit_error(&e))
    }

    pub(crate) fn set_setting(&self, name: &str, value: &[u8]) -> Result<(), CommitError> {
        self.connection
            .execute("INSERT OR REPLACE INTO setting VALUES (?1, ?2)", params![name, value])
            .map(|_| ())
            .map_err(|e| commit_error(&e))
    }

    /// A second connection that copies the log into the database beside the writer.
    pub(crate) fn checkpointer(&self) -> Option<Checkpointer> {
        if self.inline_checkpoint {
            return None;
        }
        let connection = connect(&self.folder, OpenFlags::SQLITE_OPEN_READ_WRITE).ok()?;
        connection.busy_timeout(std::time::Duration::from_secs(1)).ok()?;
        Some(Checkpointer {
            connection,
            log: self.log.clone(),
            is_stuck: self.wal_is_stuck.clone(),
        })
    }

    fn write_reserve_file(&self) -> bool {
        if self.folder.length(RESERVE_FILE) == Some(RESERVE_BYTES) {
            return true;
        }
        let filled = self.folder.open_or_create(RESERVE_FILE).is_ok_and(|mut file| {
            let zeros = vec![0_u8; usize::try_from(RESERVE_BYTES).unwrap_or(0)];
            file.set_len(0).and_then(|()| file.write_all(&zeros)).is_ok()
        });
        if !filled {
            self.remove_reserve_file();
        }
        filled
    }

    /// Says whether there was one.
    fn remove_reserve(&mut self) -> bool {
        self.remove_reserve_file();
        std::mem::take(&mut self.has_reserve)
    }

    fn remove_reserve_file(&self) {
        if let Err(error) = self.folder.remove(RESERVE_FILE) {
            tracing::warn!(%error, "cannot give back the reserved disk space");
        }
    }
}

/// Copies the write-ahead log into the database without holding up the writer.
#[derive(Debug)]
pub(crate) struct Checkpointer {
    connection: Connection,
    log: Arc<WalUsage>,
    is_stuck: Arc<AtomicBool>,
}

impl Checkpointer {
    pub(crate) fn run_if_due(&self) {
        if self.log.fresh.load(Ordering::Relaxed) < CHECKPOINT_PAGES.unsigned_abs() {
            return;
        }
        self.log.fresh.store(0, Ordering::Relaxed);
        match checkpoint_passive(&self.connection) {
            Ok(length) => self.log.length.store(length, Ordering::Relaxed),
            Err(error) => {
                tracing::warn!(%error, "cannot checkpoint the write-ahead log");
                // To be tried again after the next write.
                self.log.fresh.store(CHECKPOINT_PAGES.unsigned_abs(), Ordering::Relaxed);
                let full = matches!(commit_error(&error), CommitError::Full);
                self.is_stuck.store(full, Ordering::Relaxed);
            }
        }
    }
}

/// Copies what is in the log and not yet in the database; returns how many pages the log has.
fn checkpoint_passive(connection: &Connection) -> Result<u64, rusqlite::Error> {
    let length = |row: &rusqlite::Row<'_>| row.get::<_, i64>(1);
    let length = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], length)?;
    Ok(u64::try_from(length).unwrap_or(0))
}

fn configure(
    connection: &Connection,
    is_new: bool,
    inline_checkpoint: bool,
) -> Result<(), rusqlite::Error> {
    if is_new {
        // So that deleted objects' pages can go back to the file system. Only a new file heeds it,
        // and one that is not would be written to.
        connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    }
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "fullfsync", "ON")?;
    connection.pragma_update(None, "foreign_keys", "ON")?;
    connection.pragma_update(None, "cache_size", "-2000")?;
    let pages = if inline_checkpoint { CHECKPOINT_PAGES } else { 0 };
    connection.pragma_update(None, "wal_autocheckpoint", pages)
}

fn stored_format(connection: &Connection) -> Result<usize, rusqlite::Error> {
    let format: i64 = connection.query_row("PRAGMA user_version", [], |r| r.get(0))?;
    Ok(usize::try_from(format).unwrap_or(usize::MAX))
}

fn migrate(connection: &Connection, found: usize) -> Result<(), rusqlite::Error> {
    for (index, script) in MIGRATIONS.iter().enumerate().skip(found) {
        let number = index + 1;
        connection.execute_batch(&format!(
            "BEGIN IMMEDIATE; {script} PRAGMA user_version = {number}; COMMIT;"
        ))?;
    }
    Ok(())
}

enum LoadFailure {
    Sqlite(rusqlite::Error),
    Object(LoadError),
}

impl From<rusqlite::Error> for LoadFailure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

fn load(connection: &Connection) -> Result<Loaded, LoadFailure> {
    let reserved_version: Option<Vec<u8>> = connection
        .query_row("SELECT value FROM setting WHERE name = 'version'", [], |r| r.get(0))
        .optional()?;
    let reserved_version =
        reserved_version.and_then(|m| String::from_utf8(m).ok()).and_then(|m| m.parse().ok());
    let mut version: u64 = reserved_version.unwrap_or(0);
    let mut resources = HashMap::new();
    let mut by_id = HashMap::new();
    let mut statement = connection.prepare("SELECT id, grp, plural FROM resource")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let name: (String, String) = (row.get(1)?, row.get(2)?);
        by_id.insert(row.get::<_, i64>(0)?, name.clone());
        resources.insert(name, (row.get(0)?, Objects::new()));
    }
    let mut statement =
        connection.prepare("SELECT resource, key, version, expires, data FROM object")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let key: String = row.get(1)?;
        let at: i64 = row.get(2)?;
        let data = row.get_ref(4)?.as_blob().map_err(rusqlite::Error::from)?;
        let object = StoredObject::load(key.into(), at.unsigned_abs(), row.get(3)?, data)
            .map_err(LoadFailure::Object)?;
        version = version.max(object.version);
        let resource = by_id.get(&row.get::<_, i64>(0)?).and_then(|n| resources.get_mut(n));
        if let Some((_, objects)) = resource {
            objects.insert(object.key.clone(), Arc::new(object));
        }
    }
    Ok(Loaded { resources, version })
}

fn damaged_or(path: &Path, error: rusqlite::Error) -> OpenError {
    let path = path.to_owned();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            OpenError::Damaged { path, why: error.to_string() }
        }
        _ => OpenError::Database { path, source: error },
    }
}

fn commit_error(error: &rusqlite::Error) -> CommitError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => CommitError::Full,
        _ => CommitError::Unwritable(error.to_string()),
    }
}

/// Sees that what SQLite will open by itself is ours. Says whether there is a database.
pub(crate) fn check_database(folder: &SafeFolder) -> Result<bool, FolderError> {
    for suffix in ["-wal", "-shm", "-journal"] {
        folder.check_file(&format!("{DATABASE_FILE}{suffix}"))?;
    }
    folder.check_file(DATABASE_FILE)
}

/// A connection to the database of a folder, which must have no links in its path.
pub(crate) fn connect(
    folder: &SafeFolder,
    access: OpenFlags,
) -> Result<Connection, rusqlite::Error> {
    let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    Connection::open_with_flags(folder.path().join(DATABASE_FILE), flags)
}
