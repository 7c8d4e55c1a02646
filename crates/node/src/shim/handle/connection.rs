//! The task that talks to a shim: many commands at a time, answers as they come.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::shim::handle::ShimProcess;
use crate::shim::protocol::{Answer, Line, MAX_LINE_BYTES, Record, Refusal, Request, ShimCommand};

/// How many ends are read ahead of the node. A container that ended was started by a command, so
/// only a node that sends and never reads comes here.
const READ_AHEAD: usize = 1024;
/// How long a shim whose connection broke may take to be gone before we say that it is.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);

/// A command, and who waits for the answer.
#[derive(Debug)]
pub(super) struct PendingCommand {
    pub(super) command: ShimCommand,
    pub(super) answer: oneshot::Sender<Answer>,
}

/// Talks until the connection breaks or nobody holds the handle any more.
pub(super) async fn run_connection(
    stream: UnixStream,
    asked: mpsc::Receiver<PendingCommand>,
    ends: mpsc::Sender<Record>,
    process: Option<Arc<ShimProcess>>,
) {
    let mut connection = ShimConnection {
        stream,
        input: Vec::new(),
        waiting: HashMap::new(),
        asked_so_far: 0,
        ended: VecDeque::new(),
    };
    if let Err(error) = connection.run(asked, &ends).await {
        tracing::debug!(%error, "the connection to a shim broke");
        // Whoever waits for an answer learns it now; that the shim is gone, when it is.
        connection.waiting.clear();
        for record in connection.ended {
            if ends.send(record).await.is_err() {
                return;
            }
        }
        if let Some(process) = process {
            let _ = timeout(EXIT_TIMEOUT, process.ended()).await;
        }
    }
}

struct ShimConnection {
    stream: UnixStream,
    input: Vec<u8>,
    waiting: HashMap<u64, oneshot::Sender<Answer>>,
    asked_so_far: u64,
    /// Ends that the node has not taken yet.
    ended: VecDeque<Record>,
}

impl ShimConnection {
    async fn run(
        &mut self,
        mut asked: mpsc::Receiver<PendingCommand>,
        ends: &mpsc::Sender<Record>,
    ) -> io::Result<()> {
        loop {
            tokio::select! {
                command = asked.recv() => match command {
                    Some(command) => self.ask(command).await?,
                    None => return Ok(()),
                },
                read = self.stream.read_buf(&mut self.input), if self.ended.len() < READ_AHEAD => {
                    if read? == 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    self.handle_lines()?;
                }
                room = ends.reserve(), if !self.ended.is_empty() => {
                    match (room, self.ended.pop_front()) {
                        (Ok(room), Some(record)) => room.send(record),
                        // Nobody wants to know.
                        _ => self.ended.clear(),
                    }
                }
            }
        }
    }

    async fn ask(&mut self, PendingCommand { command, answer }: PendingCommand) -> io::Result<()> {
        self.waiting.retain(|_, answer| !answer.is_closed());
        self.asked_so_far += 1;
        let id = self.asked_so_far;
        let mut line = serde_json::to_vec(&Request { id, command })?;
        line.push(b'\n');
        if line.len() > MAX_LINE_BYTES {
            // Sent, it would break the connection.
            let message = format!("its {} bytes are more than {MAX_LINE_BYTES}", line.len());
            let _ = answer.send(Answer::Refused { reason: Refusal::BadRequest, message });
            return Ok(());
        }
        self.waiting.insert(id, answer);
        // The shim always reads, whatever it has to say, so this cannot wait for us.
        self.stream.write_all(&line).await
    }

    /// Takes the whole lines out of what was read.
    fn handle_lines(&mut self) -> io::Result<()> {
        let mut taken = 0;
        while let Some(end) = self.input[taken..].iter().position(|byte| *byte == b'\n') {
            let line = serde_json::from_slice(&self.input[taken..taken + end])?;
            taken += end + 1;
            match line {
                Line::Answer { id, answer } => {
                    if let Some(waiting) = self.waiting.remove(&id) {
                        let _ = waiting.send(answer);
                    }
                }
                Line::Ended(record) => self.ended.push_back(record),
            }
        }
        self.input.drain(..taken);
        if self.input.len() > MAX_LINE_BYTES {
            return Err(io::Error::other("the shim sent a line without end"));
        }
        Ok(())
    }
}
