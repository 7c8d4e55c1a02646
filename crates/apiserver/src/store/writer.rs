//! The only writer of state: compare, write to disk, publish, answer, in that order.
//!
//! Requests submit compare-and-swap operations; the writer takes all that are waiting, commits
//! them in one transaction and answers them together, so the cost of a durable write is shared.
//! With threads, the writer has one of its own. On a paused clock it runs inside the caller,
//! because a runtime that waits for a thread believes itself idle and lets time jump.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use tokio::sync::{mpsc, oneshot, watch};

use super::object::{Draft, StoredObject};
use super::readiness::Readiness;
use super::sqlite::{CommitError, Database, Row};
use super::table::{ChangeEvent, ResourceTable};

/// Operations waiting for the writer. More than this and clients are asked to come back.
const MAX_QUEUED_WRITES: usize = 4_096;
/// Operations in one transaction.
const MAX_BATCH_WRITES: usize = 512;

/// What must hold of the stored object for a write to take place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Precondition {
    Absent,
    Version(u64),
}

#[derive(Debug)]
pub(crate) enum Change {
    Put(Box<Draft>),
    Remove,
}

#[derive(Debug)]
pub(crate) struct WriteOperation {
    pub(crate) table: Arc<ResourceTable>,
    pub(crate) key: Arc<str>,
    pub(crate) precondition: Precondition,
    pub(crate) change: Change,
}

/// Why a write did not take place.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum WriteError {
    /// Somebody else was first; this is what is there now.
    #[error("the object has changed")]
    Changed(Option<Arc<StoredObject>>),
    #[error("too many writes are waiting")]
    Busy,
    #[error(transparent)]
    Commit(#[from] CommitError),
    #[error("the store is closed")]
    Closed,
}

type WriteResult = Result<Arc<StoredObject>, WriteError>;

/// A job of the writer's thread.
#[derive(Debug)]
pub(crate) enum WriterJob {
    Write(WriteOperation, oneshot::Sender<WriteResult>),
    Probe(oneshot::Sender<Result<(), WriteError>>),
}

#[derive(Debug)]
pub(crate) enum Writer {
    Thread { jobs: Mutex<Option<mpsc::Sender<WriterJob>>>, thread: Mutex<Option<JoinHandle<()>>> },
    Inline(Mutex<Option<Committer>>),
}

/// Owns the file and the version counter.
#[derive(Debug)]
pub(crate) struct Committer {
    pub(crate) database: Option<Database>,
    pub(crate) version: Arc<AtomicU64>,
    changes: watch::Sender<u64>,
    readiness: Arc<Readiness>,
    next: u64,
}

impl Committer {
    pub(crate) fn new(database: Option<Database>, version: Arc<AtomicU64>) -> Self {
        let next = version.load(Ordering::Acquire) + 1;
        let changes = watch::Sender::new(next - 1);
        Self { database, version, changes, readiness: Arc::default(), next }
    }

    /// Moves with every commit.
    pub(crate) fn changes(&self) -> watch::Sender<u64> {
        self.changes.clone()
    }

    /// The result of the last write.
    pub(crate) fn readiness(&self) -> Arc<Readiness> {
        self.readiness.clone()
    }

    /// Finds out whether writes take place.
    fn probe(&mut self) -> Result<(), WriteError> {
        let probed = self.database.as_mut().map_or(Ok(()), Database::probe);
        self.readiness.record(probed.clone().map_err(|error| error.to_string()));
        Ok(probed?)
    }

    /// Records a commit that took place: on a full disk that says nothing about what needs room.
    fn record_commit(&self, found_room: Option<bool>) {
        let has_reserve = self.database.as_ref().is_none_or(Database::has_reserve);
        let is_full = found_room == Some(false) || !has_reserve;
        let result = if is_full { Err(CommitError::Full.to_string()) } else { Ok(()) };
        self.readiness.record(result);
    }

    fn has_room(&mut self) -> bool {
        self.database.as_mut().is_none_or(Database::has_room)
    }

    /// Commits a batch and answers each operation.
    fn run(&mut self, batch: Vec<WriteOperation>) -> Vec<WriteResult> {
        let mut pending: HashMap<(i64, Arc<str>), Option<Arc<StoredObject>>> = HashMap::new();
        let mut rows = Vec::with_capacity(batch.len());
        let mut events: BTreeMap<i64, (Arc<ResourceTable>, Vec<Arc<ChangeEvent>>)> =
            BTreeMap::new();
        let mut outcomes = Vec::with_capacity(batch.len());
        // Asked at most once a batch: on a full disk only what frees space is let through.
        let mut has_room = None;
        for operation in batch {
            let WriteOperation { table, key, precondition, change } = operation;
            let slot = (table.id, key);
            let current = pending.get(&slot).cloned().unwrap_or_else(|| table.get(&slot.1));
            let matches = match precondition {
                Precondition::Absent => current.is_none(),
                Precondition::Version(v) => current.as_ref().is_some_and(|c| c.version == v),
            };
            if !matches {
                outcomes.push(Err(WriteError::Changed(current)));
                continue;
            }
            let grows = matches!(&change, Change::Put(draft) if !draft.index.deleting);
            if grows && !*has_room.get_or_insert_with(|| self.has_room()) {
                outcomes.push(Err(CommitError::Full.into()));
                continue;
            }
            let version = self.next;
            self.next += 1;
            let (object, removed) = match (change, &current) {
                (Change::Put(draft), _) => (draft.at_version(slot.1.clone(), version), false),
                (Change::Remove, Some(current)) => (current.at_version(version), true),
                (Change::Remove, None) => {
                    outcomes.push(Err(WriteError::Changed(None)));
                    continue;
                }
            };
            let object = Arc::new(object);
            pending.insert(slot, (!removed).then(|| object.clone()));
            rows.push(Row { resource: table.id, object: object.clone(), removed });
            let event = ChangeEvent { version, object: object.clone(), previous: current, removed };
            events.entry(table.id).or_insert_with(|| (table, Vec::new())).1.push(Arc::new(event));
            outcomes.push(Ok(object));
        }
        if let (Some(database), false) = (&mut self.database, rows.is_empty())
            && let Err(error) = database.commit(&rows)
        {
            tracing::error!(%error, writes = rows.len(), "a commit failed; its writes are refused");
            self.readiness.record(Err(error.to_string()));
            return outcomes.into_iter().map(|o| o.and(Err(error.clone().into()))).collect();
        }
        if !rows.is_empty() || has_room.is_some() {
            self.record_commit(has_room);
        }
        for (table, events) in events.values_mut() {
            table.publish(std::mem::take(events));
        }
        let last = self.next - 1;
        self.version.store(last, Ordering::Release);
        for (table, _) in events.values() {
            table.tick(last);
        }
        self.changes.send_replace(last);
        outcomes
    }
}

impl Writer {
    pub(crate) fn inline(committer: Committer) -> Self {
        Self::Inline(Mutex::new(Some(committer)))
    }

    pub(crate) fn thread(mut committer: Committer) -> std::io::Result<Self> {
        let (jobs, mut waiting) = mpsc::channel::<WriterJob>(MAX_QUEUED_WRITES);
        let checkpointer = committer.database.as_ref().and_then(Database::checkpointer);
        let (due, wakes) = std::sync::mpsc::sync_channel::<()>(1);
        if let Some(checkpointer) = checkpointer {
            std::thread::Builder::new().name("sojourn-checkpoint".to_owned()).spawn(move || {
                while wakes.recv().is_ok() {
                    checkpointer.run_if_due();
                }
            })?;
        }
        let thread =
            std::thread::Builder::new().name("sojourn-writer".to_owned()).spawn(move || {
                let mut batch = Vec::with_capacity(MAX_BATCH_WRITES);
                let mut answers = Vec::with_capacity(MAX_BATCH_WRITES);
                let mut probes = Vec::new();
                while let Some(first) = waiting.blocking_recv() {
                    let more = std::iter::from_fn(|| waiting.try_recv().ok());
                    for job in std::iter::once(first).chain(more).take(MAX_BATCH_WRITES) {
                        match job {
                            WriterJob::Write(operation, answer) => {
                                batch.push(operation);
                                answers.push(answer);
                            }
                            WriterJob::Probe(answer) => probes.push(answer),
                        }
                    }
                    let outcomes = committer.run(std::mem::take(&mut batch));
                    for (answer, outcome) in answers.drain(..).zip(outcomes) {
                        // Nobody waits any more when the client has gone; the write stands.
                        drop(answer.send(outcome));
                    }
                    if !probes.is_empty() {
                        let probed = committer.probe();
                        for answer in probes.drain(..) {
                            drop(answer.send(probed.clone()));
                        }
                    }
                    // A full channel means that a wake-up is already on its way.
                    let _ = due.try_send(());
                }
            })?;
        Ok(Self::Thread { jobs: Mutex::new(Some(jobs)), thread: Mutex::new(Some(thread)) })
    }

    pub(crate) async fn write(&self, operation: WriteOperation) -> WriteResult {
        match self {
            Self::Thread { jobs, .. } => {
                let (send, answer) = oneshot::channel();
                submit(jobs, WriterJob::Write(operation, send))?;
                answer.await.map_err(|_| WriteError::Closed)?
            }
            Self::Inline(committer) => {
                let mut committer = committer.lock().unwrap_or_else(PoisonError::into_inner);
                let committer = committer.as_mut().ok_or(WriteError::Closed)?;
                committer.run(vec![operation]).pop().unwrap_or(Err(WriteError::Closed))
            }
        }
    }

    /// Finds out whether writes take place.
    pub(crate) async fn probe(&self) -> Result<(), WriteError> {
        match self {
            Self::Thread { jobs, .. } => {
                let (send, answer) = oneshot::channel();
                submit(jobs, WriterJob::Probe(send))?;
                answer.await.map_err(|_| WriteError::Closed)?
            }
            Self::Inline(committer) => {
                let mut committer = committer.lock().unwrap_or_else(PoisonError::into_inner);
                committer.as_mut().ok_or(WriteError::Closed)?.probe()
            }
        }
    }

    /// Finishes what is waiting, then closes the file.
    pub(crate) fn close(&self) {
        match self {
            Self::Thread { jobs, thread } => {
                jobs.lock().unwrap_or_else(PoisonError::into_inner).take();
                let thread = thread.lock().unwrap_or_else(PoisonError::into_inner).take();
                if let Some(thread) = thread
                    && thread.join().is_err()
                {
                    tracing::error!("the writer thread panicked");
                }
            }
            Self::Inline(committer) => {
                committer.lock().unwrap_or_else(PoisonError::into_inner).take();
            }
        }
    }
}

fn submit(jobs: &Mutex<Option<mpsc::Sender<WriterJob>>>, job: WriterJob) -> Result<(), WriteError> {
    let jobs = jobs.lock().unwrap_or_else(PoisonError::into_inner);
    let jobs = jobs.as_ref().ok_or(WriteError::Closed)?;
    jobs.try_send(job).map_err(|e| match e {
        mpsc::error::TrySendError::Full(_) => WriteError::Busy,
        mpsc::error::TrySendError::Closed(_) => WriteError::Closed,
    })
}
