//! The one place where state changes: compare, write to disk, publish, answer, in that order.
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

use super::object::{Draft, Stored};
use super::readiness::Readiness;
use super::sqlite::{CommitError, Database, Row};
use super::table::{Event, Table};

/// Operations waiting for the writer. More than this and clients are asked to come back.
const QUEUE: usize = 4_096;
/// Operations in one transaction.
const BATCH: usize = 512;

/// What must hold for a write to take place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expect {
    Absent,
    Version(u64),
}

#[derive(Debug)]
pub(crate) enum Change {
    Put(Box<Draft>),
    Remove,
}

#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) table: Arc<Table>,
    pub(crate) key: Arc<str>,
    pub(crate) expect: Expect,
    pub(crate) change: Change,
}

/// Why a write did not take place.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum WriteError {
    /// Somebody else was first; this is what is there now.
    #[error("the object has changed")]
    Changed(Option<Arc<Stored>>),
    #[error("too many writes are waiting")]
    Busy,
    #[error(transparent)]
    Commit(#[from] CommitError),
    #[error("the store is closed")]
    Closed,
}

type Outcome = Result<Arc<Stored>, WriteError>;

/// What the writer's thread is asked for.
#[derive(Debug)]
pub(crate) enum Job {
    Write(Operation, oneshot::Sender<Outcome>),
    Probe(oneshot::Sender<Result<(), WriteError>>),
}

#[derive(Debug)]
pub(crate) enum Writer {
    Thread { jobs: Mutex<Option<mpsc::Sender<Job>>>, thread: Mutex<Option<JoinHandle<()>>> },
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

    /// What became of the last write.
    pub(crate) fn readiness(&self) -> Arc<Readiness> {
        self.readiness.clone()
    }

    /// Finds out whether writes take place.
    fn probe(&mut self) -> Result<(), WriteError> {
        let probed = self.database.as_mut().map_or(Ok(()), Database::probe);
        self.readiness.note(probed.clone().map_err(|error| error.to_string()));
        Ok(probed?)
    }

    /// Notes a commit that took place: on a full disk that says nothing about what needs room.
    fn note_commit(&self, found_room: Option<bool>) {
        let holds_reserve = self.database.as_ref().is_none_or(Database::holds_reserve);
        let is_full = found_room == Some(false) || !holds_reserve;
        let result = if is_full { Err(CommitError::Full.to_string()) } else { Ok(()) };
        self.readiness.note(result);
    }

    fn has_room(&mut self) -> bool {
        self.database.as_mut().is_none_or(Database::has_room)
    }

    /// Commits a batch and answers each operation.
    fn run(&mut self, batch: Vec<Operation>) -> Vec<Outcome> {
        let mut pending: HashMap<(i64, Arc<str>), Option<Arc<Stored>>> = HashMap::new();
        let mut rows = Vec::with_capacity(batch.len());
        let mut events: BTreeMap<i64, (Arc<Table>, Vec<Arc<Event>>)> = BTreeMap::new();
        let mut outcomes = Vec::with_capacity(batch.len());
        // Asked at most once a batch: on a full disk only what frees space is let through.
        let mut roomy = None;
        for operation in batch {
            let Operation { table, key, expect, change } = operation;
            let slot = (table.id, key);
            let current = pending.get(&slot).cloned().unwrap_or_else(|| table.get(&slot.1));
            let matches = match expect {
                Expect::Absent => current.is_none(),
                Expect::Version(v) => current.as_ref().is_some_and(|c| c.version == v),
            };
            if !matches {
                outcomes.push(Err(WriteError::Changed(current)));
                continue;
            }
            let grows = matches!(&change, Change::Put(draft) if !draft.index.deleting);
            if grows && !*roomy.get_or_insert_with(|| self.has_room()) {
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
            let event = Event { version, object: object.clone(), previous: current, removed };
            events.entry(table.id).or_insert_with(|| (table, Vec::new())).1.push(Arc::new(event));
            outcomes.push(Ok(object));
        }
        if let (Some(database), false) = (&mut self.database, rows.is_empty())
            && let Err(error) = database.commit(&rows)
        {
            tracing::error!(%error, writes = rows.len(), "a commit failed; its writes are refused");
            self.readiness.note(Err(error.to_string()));
            return outcomes.into_iter().map(|o| o.and(Err(error.clone().into()))).collect();
        }
        if !rows.is_empty() || roomy.is_some() {
            self.note_commit(roomy);
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
        let (jobs, mut waiting) = mpsc::channel::<Job>(QUEUE);
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
                let mut batch = Vec::with_capacity(BATCH);
                let mut answers = Vec::with_capacity(BATCH);
                let mut probes = Vec::new();
                while let Some(first) = waiting.blocking_recv() {
                    let more = std::iter::from_fn(|| waiting.try_recv().ok());
                    for job in std::iter::once(first).chain(more).take(BATCH) {
                        match job {
                            Job::Write(operation, answer) => {
                                batch.push(operation);
                                answers.push(answer);
                            }
                            Job::Probe(answer) => probes.push(answer),
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

    pub(crate) async fn write(&self, operation: Operation) -> Outcome {
        match self {
            Self::Thread { jobs, .. } => {
                let (send, answer) = oneshot::channel();
                submit(jobs, Job::Write(operation, send))?;
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
                submit(jobs, Job::Probe(send))?;
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

fn submit(jobs: &Mutex<Option<mpsc::Sender<Job>>>, job: Job) -> Result<(), WriteError> {
    let jobs = jobs.lock().unwrap_or_else(PoisonError::into_inner);
    let jobs = jobs.as_ref().ok_or(WriteError::Closed)?;
    jobs.try_send(job).map_err(|e| match e {
        mpsc::error::TrySendError::Full(_) => WriteError::Busy,
        mpsc::error::TrySendError::Closed(_) => WriteError::Closed,
    })
}
