//! Who is told that a log has changed.
//!
//! The kernel tells what happens in a folder (inotify), but lets a user have few such connections
//! to it: all who follow a log share one.

use std::collections::HashMap;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;
use tokio::task::AbortHandle;

/// Room for many events at once; they hold short names.
const BUFFER: usize = 16 << 10;

/// Folders that are watched for change.
#[derive(Debug)]
pub(crate) struct Folders {
    shared: Arc<Shared>,
    task: AbortHandle,
}

#[derive(Debug)]
struct Shared {
    inotify: AsyncFd<OwnedFd>,
    watched: Mutex<HashMap<i32, Watched>>,
}

#[derive(Debug)]
struct Watched {
    changed: watch::Sender<()>,
    watchers: usize,
}

impl Folders {
    /// Must be called in a runtime.
    pub(crate) fn new() -> io::Result<Self> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        #[expect(unsafe_code, reason = "a descriptor can be registered in no other way")]
        // SAFETY: an `OwnedFd` is open, and the same descriptor, until it is dropped.
        let inotify = unsafe { AsyncFd::register_with_interest(inotify, Interest::READABLE) }?;
        let shared = Arc::new(Shared { inotify, watched: Mutex::default() });
        let task = tokio::spawn(notify_watchers(shared.clone())).abort_handle();
        Ok(Self { shared, task })
    }

    /// Watches a folder until what is returned is dropped.
    pub(super) fn watch(&self, folder: &Path) -> io::Result<Watch> {
        let flags = WatchFlags::CREATE
            | WatchFlags::MODIFY
            | WatchFlags::MOVED_TO
            | WatchFlags::ONLYDIR
            | WatchFlags::DONT_FOLLOW;
        let mut watched = self.shared.watched();
        // A folder that is watched already has the same number again.
        let number = inotify::add_watch(self.shared.inotify.get_ref(), folder, flags)?;
        let entry = watched
            .entry(number)
            .or_insert_with(|| Watched { changed: watch::Sender::new(()), watchers: 0 });
        entry.watchers += 1;
        let changed = entry.changed.subscribe();
        drop(watched);
        Ok(Watch { shared: self.shared.clone(), number, changed })
    }
}

impl Drop for Folders {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    fn watched(&self) -> MutexGuard<'_, HashMap<i32, Watched>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands on what the kernel tells, until it has no more to tell.
    fn dispatch(&self) -> Result<(), Errno> {
        let mut buffer = [MaybeUninit::uninit(); BUFFER];
        let mut reader = Reader::new(self.inotify.get_ref(), &mut buffer);
        loop {
            let event = match reader.next() {
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => continue,
                event => event?,
            };
            let watched = self.watched();
            if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                for entry in watched.values() {
                    entry.changed.send_replace(());
                }
            } else if let Some(entry) = watched.get(&event.wd()) {
                entry.changed.send_replace(());
            }
        }
    }
}

async fn notify_watchers(shared: Arc<Shared>) {
    loop {
        let result = match shared.inotify.readable().await {
            Ok(mut ready) => {
                let result = shared.dispatch().map_err(io::Error::from);
                ready.clear_ready();
                result
            }
            Err(error) => Err(error),
        };
        if let Err(error) = result {
            tracing::error!(%error, "changes of logs are no longer seen; followers look at times");
            shared.watched().clear();
            return;
        }
    }
}

/// A folder that is watched.
#[derive(Debug)]
pub(super) struct Watch {
    shared: Arc<Shared>,
    number: i32,
    changed: watch::Receiver<()>,
}

impl Watch {
    /// What happened so far has been taken note of.
    pub(super) fn mark(&mut self) {
        self.changed.mark_unchanged();
    }

    /// Something happened since the mark; an error if nobody will tell any more.
    pub(super) async fn changed(&mut self) -> Result<(), watch::error::RecvError> {
        self.changed.changed().await
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut watched = self.shared.watched();
        let Some(entry) = watched.get_mut(&self.number) else { return };
        entry.watchers -= 1;
        if entry.watchers == 0 {
            watched.remove(&self.number);
            // The folder may be gone, and the watch with it.
            let _ = inotify::remove_watch(self.shared.inotify.get_ref(), self.number);
        }
    }
}
