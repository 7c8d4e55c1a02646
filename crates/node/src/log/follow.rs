//! The stream of an answer: what is there, and if the log is followed, what comes, until the
//! container has ended and everything was sent.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, watch};

use super::notify::{Folders, Watch};
use super::query::Query;
use super::read::{ReadStep, Reading};
use crate::folder::PodFolder;

/// How many blocks may wait for a slow reader; then reading waits, too.
const MAX_QUEUED_BLOCKS: usize = 2;
/// Where changes cannot be told, followers look this often.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The log of one run of a container.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub folder: PodFolder,
    pub container: String,
    pub attempt: u32,
    /// Becomes true when the run has ended and its log is complete. If nobody can say so any more,
    /// that counts as the end.
    pub ended: watch::Receiver<bool>,
}

/// Opens a log; `None` if there is none. The stream ends early with an error if reading fails, and
/// nothing goes on when the receiver is dropped.
pub(crate) async fn open(
    source: Source,
    query: Query,
    folders: Arc<Folders>,
) -> io::Result<Option<mpsc::Receiver<io::Result<Bytes>>>> {
    let Source { folder, container, attempt, ended } = source;
    // Before anything is read, so that no change is missed.
    let watch = query.follow.then(|| {
        let watch = folders.watch(&folder.logs(&container));
        watch.map_err(|error| {
            tracing::warn!(%error, container, "changes of a log are not seen; looking at times");
        })
    });
    let (newer, older) = (folder.log(&container, attempt), folder.older_log(&container, attempt));
    let follow = query.follow;
    let reading = blocking(move || Reading::open(newer, older, &query)).await?;
    if reading.is_absent() && !follow {
        return Ok(None);
    }
    let (sender, receiver) = mpsc::channel(MAX_QUEUED_BLOCKS);
    let answer = Answer { reading: Some(reading), sender };
    match watch {
        None => drop(tokio::spawn(answer.once())),
        Some(watch) => {
            let following = Following { watch: watch.ok(), ended, _folders: folders };
            drop(tokio::spawn(answer.follow(following)));
        }
    }
    Ok(Some(receiver))
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}

/// Why an answer is over: nobody listens, or nothing more is wanted.
struct StreamEnd;

struct Answer {
    /// Away while it is being read from.
    reading: Option<Reading>,
    sender: mpsc::Sender<io::Result<Bytes>>,
}

impl Answer {
    async fn once(mut self) {
        if self.send_all(Reading::read_block).await.is_ok() {
            drop(self.send_all(finish).await);
        }
    }

    async fn follow(mut self, mut following: Following) {
        loop {
            following.mark();
            // Asked before reading: a log is complete when its end is known, so what is read after
            // that is all.
            let ended = following.is_over();
            if self.send_all(renew).await.is_err() {
                return;
            }
            if ended {
                drop(self.send_all(finish).await);
                return;
            }
            tokio::select! {
                () = following.changed() => {}
                () = self.sender.closed() => return,
            }
        }
    }

    /// Takes turns of reading until there is nothing more, and sends what they give.
    async fn send_all(
        &mut self,
        read_block: fn(&mut Reading, &mut Vec<u8>) -> io::Result<ReadStep>,
    ) -> Result<(), StreamEnd> {
        loop {
            let Some(mut reading) = self.reading.take() else { return Err(StreamEnd) };
            let read = blocking(move || {
                let mut out = Vec::new();
                let read_block = read_block(&mut reading, &mut out)?;
                Ok((reading, read_block, out))
            });
            let read_block = match read.await {
                Ok((reading, read_block, out)) => {
                    self.reading = Some(reading);
                    if !out.is_empty() {
                        self.sender.send(Ok(out.into())).await.map_err(|_| StreamEnd)?;
                    }
                    read_block
                }
                Err(error) => {
                    tracing::warn!(%error, "a log cannot be read");
                    // Whoever listens should know that this is not all; if nobody does, all is well.
                    let _ = self.sender.send(Err(error)).await;
                    return Err(StreamEnd);
                }
            };
            match read_block {
                ReadStep::More => {}
                ReadStep::End => return Ok(()),
                ReadStep::Full => return Err(StreamEnd),
            }
        }
    }
}

/// Reads on, at the end of a file in the one that the log has moved to, if it has.
fn renew(reading: &mut Reading, out: &mut Vec<u8>) -> io::Result<ReadStep> {
    match reading.read_block(out)? {
        ReadStep::End if reading.renew()? => Ok(ReadStep::More),
        other => Ok(other),
    }
}

fn finish(reading: &mut Reading, out: &mut Vec<u8>) -> io::Result<ReadStep> {
    reading.finish_line(out);
    Ok(ReadStep::End)
}

/// What a follower waits for.
struct Following {
    watch: Option<Watch>,
    ended: watch::Receiver<bool>,
    /// Keeps the one going who tells of changes.
    _folders: Arc<Folders>,
}

impl Following {
    fn mark(&mut self) {
        if let Some(watch) = &mut self.watch {
            watch.mark();
        }
    }

    fn is_over(&self) -> bool {
        *self.ended.borrow() || self.ended.has_changed().is_err()
    }

    async fn changed(&mut self) {
        let ended = async {
            // An error is the end, too.
            drop(self.ended.wait_for(|ended| *ended).await);
        };
        let poll = tokio::time::sleep(POLL_INTERVAL);
        match &mut self.watch {
            Some(watch) => {
                tokio::select! {
                    told = watch.changed() => if told.is_err() { self.watch = None },
                    () = ended => {}
                }
            }
            None => {
                tokio::select! {
                    () = poll => {}
                    () = ended => {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
