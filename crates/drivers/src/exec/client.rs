//! Requests to a program, which is started again whenever it ends.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast, mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Duration, Instant};

use super::Limits;
use super::folder::Program;
use super::launch::Launch;
use super::message::{
    MAX_LINE_BYTES, MachineReport, Operation, ProgramError, Request, RequestText,
};
use super::schema::Schema;
use super::session::{self, RunEnd, chain};

/// Events that are told and not yet taken; who is slower lists anew.
const MAX_PENDING_EVENTS: usize = 4096;

/// A program, by which requests are sent. The last one that is dropped ends it.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    shared: Arc<Shared>,
    calls: mpsc::Sender<Call>,
    permits: Arc<Semaphore>,
    stop: watch::Sender<bool>,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        let task = self.task.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(task) = task.take() {
            // With it goes the process.
            task.abort();
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shared = &self.0.shared;
        f.debug_struct("Client")
            .field("name", &shared.name)
            .field("state", &*shared.state.borrow())
            .finish_non_exhaustive()
    }
}

/// What the task that runs the program shares with those who use it.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) name: Arc<str>,
    pub(super) limits: Limits,
    state: watch::Sender<ProgramState>,
    events: broadcast::Sender<ProgramEvent>,
    /// What the last run could do that came up.
    abilities: Mutex<Option<Arc<Abilities>>>,
    process: Mutex<Option<u32>>,
    /// Runs that are over.
    run: AtomicU64,
}

/// What a program says that it can do.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Abilities {
    pub(crate) can: BTreeSet<Operation>,
    /// What its configs look like.
    pub(crate) schema: Schema,
}

/// Why a program that has not run before takes no requests.
pub(super) const STARTING: &str = "it is being started";

/// Whether a program takes requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProgramState {
    /// It has not come up yet, or not again.
    Down(Arc<str>),
    Up,
}

/// What a program tells by itself, between the ends of its runs.
#[derive(Debug, Clone)]
pub(crate) enum ProgramEvent {
    /// A run begins: nothing is known yet.
    Up,
    /// It is over: nothing is known any more.
    Down,
    Relist,
    Machine(Arc<MachineReport>),
}

/// Why a request was not answered with `ok`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// Nothing was sent.
    #[error("the program {program} does not run: {why}")]
    NotRunning { program: Arc<str>, why: Arc<str> },
    /// Nothing was sent.
    #[error("the program {program} has too many requests under way")]
    Busy { program: Arc<str> },
    /// Nothing was sent.
    #[error("the program {program} cannot {operation} machines")]
    CannotDo { program: Arc<str>, operation: Operation },
    /// Nothing was sent.
    #[error("the request would be longer than {MAX_LINE_BYTES} bytes")]
    TooLong,
    #[error("{0}")]
    Answered(ProgramError),
    /// Not known whether it took effect.
    #[error("{0}")]
    Unknown(String),
}

/// A request on its way.
pub(super) struct Call {
    text: RequestText,
    waiting: oneshot::Sender<Result<Value, CallError>>,
    /// Held until it is answered, whether anybody still waits or not.
    _permit: OwnedSemaphorePermit,
}

impl Call {
    pub(super) const fn text(&self) -> &RequestText {
        &self.text
    }

    /// Whether nobody waits for the answer, so that it need not be sent.
    pub(super) fn is_abandoned(&self) -> bool {
        self.waiting.is_closed()
    }

    pub(super) fn answer(self, answer: Result<Value, CallError>) {
        // Whoever asked may have gone.
        let _ = self.waiting.send(answer);
    }
}

impl Client {
    /// Starts a program, and keeps it running.
    pub fn start(program: Program, limits: Limits) -> Self {
        let name = program.name().to_owned();
        Self::launch(&name, program, limits)
    }

    pub(super) fn launch(name: &str, launch: impl Launch, limits: Limits) -> Self {
        let (calls, queued) = mpsc::channel(limits.requests);
        let (stop, stopped) = watch::channel(false);
        let shared = Arc::new(Shared {
            name: name.into(),
            limits,
            state: watch::Sender::new(ProgramState::Down(STARTING.into())),
            events: broadcast::Sender::new(MAX_PENDING_EVENTS),
            abilities: Mutex::default(),
            process: Mutex::default(),
            run: AtomicU64::new(0),
        });
        let running = supervise(shared.clone(), launch, queued, stopped);
        let task = Mutex::new(Some(tokio::spawn(running)));
        let permits = Arc::new(Semaphore::new(limits.requests));
        Self(Arc::new(Inner { shared, calls, permits, stop, task }))
    }

    pub fn name(&self) -> &str {
        &self.0.shared.name
    }

    pub(crate) fn limits(&self) -> Limits {
        self.0.shared.limits
    }

    pub fn state(&self) -> watch::Receiver<ProgramState> {
        self.0.shared.state.subscribe()
    }

    /// What it can do, as far as it has ever said.
    pub(crate) fn abilities(&self) -> Option<Arc<Abilities>> {
        self.0.shared.abilities.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether it can do that; nobody knows before it has come up once.
    pub fn can(&self, operation: Operation) -> Option<bool> {
        self.abilities().map(|abilities| abilities.can.contains(&operation))
    }

    /// The process that runs now, if one does.
    pub fn process_id(&self) -> Option<u32> {
        *self.0.shared.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The run in which it takes requests now, if it does. What was learned in another one says nothing.
    pub(crate) fn run(&self) -> Option<u64> {
        let run = self.0.shared.run.load(Ordering::Acquire);
        let up = *self.0.shared.state.borrow() == ProgramState::Up;
        up.then_some(run)
    }

    pub(crate) fn events(&self) -> broadcast::Receiver<ProgramEvent> {
        self.0.shared.events.subscribe()
    }

    /// Sends a request, and waits for its answer.
    pub(crate) async fn call(&self, request: &Request<'_>) -> Result<Value, CallError> {
        let inner = &self.0;
        let program = || inner.shared.name.clone();
        let text = request.text().ok_or(CallError::TooLong)?;
        let operation = request.op;
        let acquired = inner.permits.clone().acquire_owned();
        let acquired = tokio::time::timeout(inner.shared.limits.answer, acquired).await;
        let Ok(Ok(permit)) = acquired else { return Err(CallError::Busy { program: program() }) };
        if let ProgramState::Down(why) = &*inner.shared.state.borrow() {
            return Err(CallError::NotRunning { program: program(), why: why.clone() });
        }
        if self.can(operation) == Some(false) {
            return Err(CallError::CannotDo { program: program(), operation });
        }
        let (waiting, answer) = oneshot::channel();
        let call = Call { text, waiting, _permit: permit };
        let gone = |why: &str| CallError::NotRunning { program: program(), why: why.into() };
        inner.calls.send(call).await.map_err(|_| gone("it was stopped"))?;
        let lost = || CallError::Unknown("the program was stopped meanwhile".to_owned());
        answer.await.unwrap_or_else(|_| Err(lost()))
    }

    /// Asks the program to end, and ends it if it does not. Requests under way may still be answered.
    pub async fn stop(&self) {
        self.0.stop.send_replace(true);
        let task = self.0.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task {
            // A panic in it was logged where it happened.
            let _ = task.await;
        }
    }
}

impl Shared {
    pub(super) fn set_process(&self, id: Option<u32>) {
        *self.process.lock().unwrap_or_else(PoisonError::into_inner) = id;
    }

    pub(super) fn tell(&self, event: ProgramEvent) {
        // Without a receiver there is nobody to tell.
        let _ = self.events.send(event);
    }

    pub(super) fn up(&self, abilities: Arc<Abilities>) {
        *self.abilities.lock().unwrap_or_else(PoisonError::into_inner) = Some(abilities);
        tracing::info!(program = &*self.name, "the program is up");
        self.state.send_replace(ProgramState::Up);
        self.tell(ProgramEvent::Up);
    }

    pub(super) fn down(&self, why: &str) {
        self.run.fetch_add(1, Ordering::AcqRel);
        let was_up = self.state.send_replace(ProgramState::Down(why.into())) == ProgramState::Up;
        if was_up {
            self.tell(ProgramEvent::Down);
        }
    }
}

/// Runs the program again and again, until it is stopped.
async fn supervise(
    shared: Arc<Shared>,
    launch: impl Launch,
    mut calls: mpsc::Receiver<Call>,
    mut stop: watch::Receiver<bool>,
) {
    let mut failures = 0_u32;
    loop {
        let began = Instant::now();
        let end = match launch.launch() {
            Ok(launched) => session::run(launched, &shared, &mut calls, &mut stop).await,
            Err(error) => RunEnd::Failed(chain(&error)),
        };
        let why = end.to_string();
        shared.down(&why);
        if matches!(end, RunEnd::Stopped) {
            return;
        }
        let stable = began.elapsed() >= shared.limits.stable;
        failures = if stable { 1 } else { failures.saturating_add(1) };
        let wait = back_off(shared.limits, failures);
        tracing::warn!(
            program = &*shared.name,
            why,
            ?wait,
            "the program failed; it is started again"
        );
        let again = Instant::now() + wait;
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(again) => break,
                // An error says that nobody is left who could use it.
                _ = stop.wait_for(|stopped| *stopped) => return,
                Some(call) = calls.recv() => {
                    let program = shared.name.clone();
                    call.answer(Err(CallError::NotRunning { program, why: why.as_str().into() }));
                }
            }
        }
    }
}

/// How long to wait after so many failures in a row.
fn back_off(limits: Limits, failures: u32) -> Duration {
    let doubled = 2_u32.saturating_pow(failures.saturating_sub(1));
    limits.min_restart.saturating_mul(doubled).min(limits.max_restart)
}
