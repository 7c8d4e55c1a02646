//! A program as a process that can be killed anywhere and is started again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use kube::Client;
use sojourn_operator::frame::Tasks;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::fault::{Connection, Faults};

/// A program that could not be started is started again after so long.
const START_RETRY: Duration = Duration::from_secs(5);

/// A program that runs as a process.
pub trait Program: Send + Sync + 'static {
    type Running: Send + 'static;

    /// Starts it; nothing, if that does not work.
    fn start<'a>(
        &'a self,
        client: Client,
        tasks: &'a mut Tasks,
    ) -> BoxFuture<'a, Option<Self::Running>>;

    /// How often its controllers have looked at an object.
    fn reconciles(running: &Self::Running) -> u64;

    /// It runs.
    fn started(&self) {}

    /// It was killed, or broke.
    fn ended(&self) {}

    /// It ended by itself, which it never should.
    fn broken(&self, message: &str);
}

/// A process that is started again when it ends.
pub struct Process<P: Program> {
    current: Arc<Mutex<Current<P>>>,
    wanted: watch::Sender<bool>,
    _supervisor: JoinSet<()>,
}

struct Current<P: Program> {
    running: Option<P::Running>,
    connection: Option<Arc<Connection>>,
    starts: u64,
    /// Reconciles of the processes that have ended.
    reconciles_before: u64,
}

impl<P: Program> std::fmt::Debug for Process<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Process").field("starts", &self.starts()).finish_non_exhaustive()
    }
}

/// Where a process runs.
#[derive(Clone)]
pub(crate) struct Host {
    pub(crate) client: Client,
    pub(crate) faults: Arc<Faults>,
    /// How long it takes until a process that was killed is started again.
    pub(crate) down_for: Arc<Mutex<Duration>>,
}

impl Host {
    /// How long a process that was killed stays down.
    pub(crate) fn set_down_for(&self, span: Duration) {
        *lock(&self.down_for) = span;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<P: Program> Process<P> {
    pub(crate) fn run(program: Arc<P>, host: Host) -> Self {
        let current = Current { running: None, connection: None, starts: 0, reconciles_before: 0 };
        let current = Arc::new(Mutex::new(current));
        let (wanted, is_wanted) = watch::channel(true);
        let mut supervisor = JoinSet::new();
        supervisor.spawn(supervise(program, host, current.clone(), is_wanted));
        Self { current, wanted, _supervisor: supervisor }
    }

    /// Ends the process at once; it is started again after a while, if it is wanted.
    pub fn kill(&self) {
        if let Some(connection) = &lock(&self.current).connection {
            connection.kill();
        }
    }

    /// Whether it should run. It is killed if it should not.
    pub fn want(&self, wanted: bool) {
        self.wanted.send_replace(wanted);
        if !wanted {
            self.kill();
        }
    }

    pub fn is_up(&self) -> bool {
        lock(&self.current).running.is_some()
    }

    /// How often it was started.
    pub fn starts(&self) -> u64 {
        lock(&self.current).starts
    }

    /// Reconciles of all its processes so far.
    pub fn reconciles(&self) -> u64 {
        let current = lock(&self.current);
        let now = current.running.as_ref().map(P::reconciles).unwrap_or_default();
        current.reconciles_before + now
    }

    /// Asks it something while it runs.
    pub fn ask<T>(&self, question: impl FnOnce(&P::Running) -> T) -> Option<T> {
        lock(&self.current).running.as_ref().map(question)
    }
}

async fn supervise<P: Program>(
    program: Arc<P>,
    host: Host,
    current: Arc<Mutex<Current<P>>>,
    mut is_wanted: watch::Receiver<bool>,
) {
    loop {
        if is_wanted.wait_for(|wanted| *wanted).await.is_err() {
            return;
        }
        let connection = Connection::new(host.faults.clone());
        lock(&current).connection = Some(connection.clone());
        let mut tasks = Tasks::default();
        let wait = tokio::select! {
            biased;
            () = connection.killed() => *lock(&host.down_for),
            wait = live(program.as_ref(), &host, &current, &connection, &mut tasks) => wait,
        };
        drop(tasks);
        let ended = {
            let mut current = lock(&current);
            current.connection = None;
            let ended = current.running.take();
            current.reconciles_before += ended.as_ref().map(P::reconciles).unwrap_or_default();
            ended
        };
        if ended.is_some() {
            program.ended();
        }
        drop(ended);
        tokio::time::sleep(wait).await;
    }
}

/// Starts a process and waits until it ends by itself; answers when to start the next.
async fn live<P: Program>(
    program: &P,
    host: &Host,
    current: &Mutex<Current<P>>,
    connection: &Arc<Connection>,
    tasks: &mut Tasks,
) -> Duration {
    let started = program.start(connection.client(host.client.clone()), tasks).await;
    let Some(running) = started else { return START_RETRY };
    {
        let mut current = lock(current);
        current.running = Some(running);
        current.starts += 1;
    }
    program.started();
    let ended = tasks.any_ended().await;
    program.broken(&format!("the operator ended by itself: {ended}"));
    START_RETRY
}
