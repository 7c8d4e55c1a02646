//! One run of a program, from its first word to its end.
//!
//! Everything that is known of requests under way ends with the run: whoever waits for an answer is told
//! that the outcome is unknown.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::{Duration, Instant};

use super::client::{Abilities, Call, CallError, ProgramEvent, Shared};
use super::launch::{Launched, ProgramProcess};
use super::line::{LineError, Lines};
use super::message::{
    Answered, Event, Hello, MAX_LINE_BYTES, Message, Operation, Request, hello, printable,
};
use super::schema::Schema;

/// What a process has written before it ended is read within this time.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// Of a line on stderr, so much is logged.
const MAX_LOG_LINE_BYTES: usize = 4 << 10;
/// Lines on stderr that are logged in one [`LOG_INTERVAL`]; the others are counted.
const MAX_LOG_LINES: u32 = 100;
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Why a run ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum RunEnd {
    /// It was asked to.
    #[error("it was stopped")]
    Stopped,
    #[error("{0}")]
    Failed(String),
}

fn failed(why: impl std::fmt::Display) -> RunEnd {
    RunEnd::Failed(why.to_string())
}

/// Who waits for an answer.
enum Waiting {
    Call(Call),
    /// We do, for the answer to `watch`.
    Watch,
}

/// A request under way.
struct UnderWay {
    waiting: Waiting,
    /// When it has been silent for too long.
    deadline: Instant,
}

struct Session<'a> {
    shared: &'a Shared,
    abilities: Arc<Abilities>,
    lines: Lines<Box<dyn AsyncRead + Send + Unpin>>,
    /// None once it is asked to end.
    writer: Option<mpsc::Sender<Bytes>>,
    /// In the order in which they were sent, so the first one has the first deadline.
    under_way: BTreeMap<u64, UnderWay>,
    next_id: u64,
    budget: EventBudget,
    /// Answers to nobody.
    strays: u64,
}

/// Runs the program until it ends, or is ended. `calls` are sent once it is up.
pub(super) async fn run(
    launched: Launched,
    shared: &Shared,
    calls: &mut mpsc::Receiver<Call>,
    stop: &mut watch::Receiver<bool>,
) -> RunEnd {
    let Launched { input, output, errors, process } = launched;
    shared.set_process(process.id());
    // So many lines may wait to be written: all requests, the first word and `watch`.
    let (writer, lines) = mpsc::channel(shared.limits.requests + 2);
    let writing = AbortOnDrop(tokio::spawn(write(input, lines)).abort_handle());
    let log = tokio::spawn(log(errors, shared.name.clone()));
    let log = AbortOnDrop(log.abort_handle());
    let lines = Lines::new(output, MAX_LINE_BYTES);
    let end = greet_and_serve(shared, lines, writer, &process, calls, stop).await;
    shared.set_process(None);
    drop(writing);
    let status = process.kill().await;
    drop(log);
    match (end, status) {
        (RunEnd::Failed(why), Some(status)) if status.code().is_some() => {
            RunEnd::Failed(format!("{why} ({status})"))
        }
        (end, _) => end,
    }
}

async fn greet_and_serve(
    shared: &Shared,
    mut lines: Lines<Box<dyn AsyncRead + Send + Unpin>>,
    writer: mpsc::Sender<Bytes>,
    process: &ProgramProcess,
    calls: &mut mpsc::Receiver<Call>,
    stop: &mut watch::Receiver<bool>,
) -> RunEnd {
    let greeted = tokio::select! {
        greeted = greet(shared, &mut lines, &writer) => greeted,
        () = stopped(stop) => return RunEnd::Stopped,
    };
    let abilities = match greeted {
        Ok(abilities) => Arc::new(abilities),
        Err(end) => return end,
    };
    let session = Session {
        shared,
        abilities,
        lines,
        writer: Some(writer),
        under_way: BTreeMap::new(),
        next_id: 1,
        budget: EventBudget::new(shared.limits.events),
        strays: 0,
    };
    session.serve(process, calls, stop).await
}

/// Says the first word, and waits for the program's.
async fn greet(
    shared: &Shared,
    lines: &mut Lines<Box<dyn AsyncRead + Send + Unpin>>,
    writer: &mpsc::Sender<Bytes>,
) -> Result<Abilities, RunEnd> {
    // It ends when the program does not read, which is seen below.
    let _ = writer.send(hello().into()).await;
    let line = tokio::time::timeout(shared.limits.hello, lines.next()).await;
    let line = line.map_err(|_| {
        failed(format_args!("it said nothing within {} s", shared.limits.hello.as_secs_f64()))
    })?;
    let line = line.map_err(|error| failed(chain(&error)))?.ok_or_else(|| failed("it ended"))?;
    let hello = Hello::read(&line).map_err(failed)?;
    let can: BTreeSet<Operation> = hello.can().collect();
    let schema = Schema::read(&hello.schema).map_err(failed)?;
    Ok(Abilities { can, schema })
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    if stop.wait_for(|stopped| *stopped).await.is_err() {
        // Nobody can ask for it any more; whoever drops the task ends it.
        std::future::pending::<()>().await;
    }
}

impl Session<'_> {
    async fn serve(
        mut self,
        process: &ProgramProcess,
        calls: &mut mpsc::Receiver<Call>,
        stop: &mut watch::Receiver<bool>,
    ) -> RunEnd {
        let mut up = false;
        if self.abilities.can.contains(&Operation::Watch) {
            self.watch();
        } else {
            self.set_up(&mut up);
        }
        let mut ending: Option<(Instant, RunEnd)> = None;
        let end = loop {
            let silence = self.under_way.values().next().map(|first| first.deadline);
            let ends = ending.as_ref().map(|(at, _)| *at);
            tokio::select! {
                line = self.lines.next() => match self.take(line, &mut up).await {
                    Ok(()) => {}
                    Err(end) => break ending.map_or(end, |(_, end)| end),
                },
                Some(call) = calls.recv(), if up && ending.is_none() => self.send(call),
                () = until(silence), if silence.is_some() => {
                    let span = self.shared.limits.answer.as_secs_f64();
                    break failed(format_args!("it did not answer a request within {span} s"));
                }
                () = stopped(stop), if ending.is_none() => {
                    // The end of its input tells it to end; what it still answers counts.
                    self.writer = None;
                    ending = Some((Instant::now() + self.shared.limits.end, RunEnd::Stopped));
                }
                () = process.ended(), if ending.is_none() => {
                    ending = Some((Instant::now() + DRAIN_TIMEOUT, failed("it ended")));
                }
                () = until(ends), if ends.is_some() => {
                    break ending.map_or(RunEnd::Stopped, |(_, end)| end);
                }
            }
        };
        // Whoever hears that a request failed is not told any more what was seen before it.
        self.shared.down(&end.to_string());
        for waiting in std::mem::take(&mut self.under_way).into_values().map(|one| one.waiting) {
            if let Waiting::Call(call) = waiting {
                call.answer(Err(CallError::Unknown(format!("the program failed: {end}"))));
            }
        }
        end
    }

    fn id(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    fn write(&mut self, line: Vec<u8>) {
        // There is room for every request that may be under way. A program that does not read, or has
        // closed its input, does not answer either.
        if let Some(writer) = &self.writer {
            let _ = writer.try_send(line.into());
        }
    }

    fn deadline(&self) -> Instant {
        Instant::now() + self.shared.limits.answer
    }

    fn watch(&mut self) {
        let Some(text) = Request::new(Operation::Watch).text() else { return };
        let id = self.id();
        self.write(text.with_id(id));
        let deadline = self.deadline();
        self.under_way.insert(id, UnderWay { waiting: Waiting::Watch, deadline });
    }

    fn send(&mut self, call: Call) {
        if call.is_abandoned() {
            return;
        }
        let id = self.id();
        self.write(call.text().with_id(id));
        let deadline = self.deadline();
        self.under_way.insert(id, UnderWay { waiting: Waiting::Call(call), deadline });
    }

    fn set_up(&self, up: &mut bool) {
        *up = true;
        self.shared.up(self.abilities.clone());
    }

    async fn take(
        &mut self,
        line: Result<Option<Bytes>, LineError>,
        up: &mut bool,
    ) -> Result<(), RunEnd> {
        let line = line.map_err(|error| failed(chain(&error)))?;
        let Some(line) = line else { return Err(failed("it ended")) };
        match Message::read(&line).map_err(failed)? {
            Message::Event(event) => {
                self.budget.take().await;
                self.shared.tell(match event {
                    Event::Machine(report) => ProgramEvent::Machine(Arc::new(report)),
                    Event::Relist => ProgramEvent::Relist,
                });
                Ok(())
            }
            Message::Answer { id, result } => match self.under_way.remove(&id) {
                Some(UnderWay { waiting: Waiting::Call(call), .. }) => {
                    call.answer(result.map_err(|answered| match answered {
                        Answered::Error(error) => CallError::Answered(error),
                        Answered::Unclear(why) => CallError::Unknown(why),
                    }));
                    Ok(())
                }
                Some(UnderWay { waiting: Waiting::Watch, .. }) => self.watched(result, up),
                None => {
                    self.budget.take().await;
                    self.strays += 1;
                    // A program that does so all the time is not in the log all the time.
                    if self.strays.is_power_of_two() {
                        let (program, answers) = (&*self.shared.name, self.strays);
                        tracing::warn!(
                            program,
                            id,
                            answers,
                            "the program answers what nobody asked"
                        );
                    }
                    Ok(())
                }
            },
        }
    }

    fn watched(&self, result: Result<Value, Answered>, up: &mut bool) -> Result<(), RunEnd> {
        match result {
            Ok(_) => {
                self.set_up(up);
                Ok(())
            }
            Err(Answered::Error(error)) => Err(failed(format_args!("it cannot watch: {error}"))),
            Err(Answered::Unclear(why)) => Err(failed(format_args!("it cannot watch: {why}"))),
        }
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// An error with its causes.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

/// Ends a task that nobody waits for.
struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Writes lines until there are no more, and closes the input of the program then.
async fn write(mut input: Box<dyn AsyncWrite + Send + Unpin>, mut lines: mpsc::Receiver<Bytes>) {
    while let Some(line) = lines.recv().await {
        // A program that has closed its input ends, or is silent: both are seen elsewhere.
        if input.write_all(&line).await.is_err() || input.flush().await.is_err() {
            return;
        }
    }
}

/// How many events may be read.
struct EventBudget {
    per_second: u32,
    left: u32,
    refilled: Instant,
}

impl EventBudget {
    fn new(per_second: u32) -> Self {
        Self { per_second, left: per_second, refilled: Instant::now() }
    }

    /// Waits until one more may be read. The others stay in the pipe, where there is little room: then the
    /// program waits.
    async fn take(&mut self) {
        if self.left == 0 {
            tokio::time::sleep_until(self.refilled + Duration::from_secs(1)).await;
        }
        if self.refilled.elapsed() >= Duration::from_secs(1) {
            self.refilled = Instant::now();
            self.left = self.per_second;
        }
        self.left = self.left.saturating_sub(1);
    }
}

/// Logs what the program writes to stderr, within bounds, until it closes it.
async fn log(errors: Box<dyn AsyncRead + Send + Unpin>, program: Arc<str>) {
    let mut lines = Lines::new(errors, MAX_LOG_LINE_BYTES);
    let (mut since, mut count) = (Instant::now(), 0_u32);
    loop {
        let line = match lines.next().await {
            Ok(Some(line)) => printable(&String::from_utf8_lossy(&line)),
            Ok(None) | Err(LineError::Read(_)) => break,
            Err(LineError::TooLong(_)) => {
                lines.discard();
                "(a line that is too long)".to_owned()
            }
        };
        if since.elapsed() >= LOG_INTERVAL {
            left_out(&program, count);
            (since, count) = (Instant::now(), 0);
        }
        count = count.saturating_add(1);
        if count <= MAX_LOG_LINES {
            tracing::warn!(program = &*program, "{line}");
        }
    }
    left_out(&program, count);
}

fn left_out(program: &str, count: u32) {
    let lines = count.saturating_sub(MAX_LOG_LINES);
    if lines > 0 {
        tracing::warn!(program, lines, "further lines of the program were left out");
    }
}
