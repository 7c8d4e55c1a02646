//! Ends one run of a container: its preStop hook, SIGTERM, and SIGKILL when its time is up.
//!
//! The time may become shorter while it runs (somebody deletes the Pod again, with less grace),
//! never longer. A node that starts while a Pod is ending does not run the hook a second time: that
//! it was begun is on disk before it begins.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Lifecycle, Pod};
use rustix::process::Signal;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::clock::Clock;
use crate::folder::PodFolder;
use crate::probe::{Access, hook};
use crate::shim::handle::Handle;

/// How long a process that was killed may take before it is killed again: it may have been forking.
const KILL_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// What a process has between SIGTERM and SIGKILL even if its time was up before: the node was not
/// there, or its hook took all of it.
const MIN_GRACE: Duration = Duration::from_secs(2);

/// A container that is being stopped; dropping it gives that up.
#[derive(Debug)]
pub(super) struct Stopping {
    pub(super) attempt: u32,
    deadline: watch::Sender<Timestamp>,
    task: JoinHandle<()>,
}

/// Which run is to end, and how.
pub(super) struct Run {
    pub(super) pod: Arc<Pod>,
    pub(super) container: Container,
    pub(super) attempt: u32,
    pub(super) folder: PodFolder,
    pub(super) access: Access<Handle>,
    pub(super) clock: Clock,
    /// Somebody asked for no grace at all.
    pub(super) is_at_once: bool,
    /// Told when the hook fails; must not block.
    pub(super) report: Arc<dyn Fn(String) + Send + Sync>,
}

impl Stopping {
    pub(super) fn begin(run: Run, deadline: Timestamp) -> Self {
        let attempt = run.attempt;
        let (sender, receiver) = watch::channel(deadline);
        let task = tokio::spawn(run.stop(receiver));
        Self { attempt, deadline: sender, task }
    }

    /// The earlier of two deadlines holds.
    pub(super) fn shorten(&self, deadline: Timestamp) {
        self.deadline.send_if_modified(|known| {
            let earlier = deadline < *known;
            *known = (*known).min(deadline);
            earlier
        });
    }
}

impl Drop for Stopping {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Run {
    async fn stop(self, mut deadline: watch::Receiver<Timestamp>) {
        let name = self.container.name.clone();
        let at = *deadline.borrow();
        if !self.is_at_once {
            let mut hook_deadline = deadline.clone();
            tokio::select! {
                () = self.pre_stop(at) => {}
                () = until(&mut hook_deadline, self.clock) => {}
            }
            let signal = stop_signal(&self.container).as_raw();
            if let Err(error) = self.access.exec.signal(&name, signal).await {
                tracing::debug!(container = name, %error, "nothing to be stopped");
            }
            let least = Instant::now() + MIN_GRACE;
            until(&mut deadline, self.clock).await;
            tokio::time::sleep_until(least).await;
        }
        loop {
            if let Err(error) = self.access.exec.kill(&name).await {
                tracing::debug!(container = name, %error, "nothing to be killed");
            }
            tokio::time::sleep(KILL_RETRY_INTERVAL).await;
        }
    }

    async fn pre_stop(&self, deadline: Timestamp) {
        let lifecycle = self.container.lifecycle.as_ref();
        let Some(handler) = lifecycle.and_then(|l| l.pre_stop.as_ref()) else { return };
        let left = remaining(deadline, self.clock);
        if left.is_zero() || !self.first_time() {
            return;
        }
        let name = &self.container.name;
        if let Err(error) = hook::run(handler, &self.pod, name, &self.access, left).await {
            (self.report)(error.to_string());
        }
    }

    /// Whether the hook was not begun before, which is then noted.
    fn first_time(&self) -> bool {
        let mark = self.folder.hook_mark(&self.container.name, self.attempt);
        match std::fs::File::create_new(&mark) {
            Ok(_) => true,
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => false,
            Err(error) => {
                tracing::warn!(mark = %mark.display(), %error, "cannot note that a hook is run");
                true
            }
        }
    }
}

/// What the container asks to be stopped with.
fn stop_signal(container: &Container) -> Signal {
    let named = container.lifecycle.as_ref().and_then(|l: &Lifecycle| l.stop_signal.as_deref());
    named.and_then(signal_named).unwrap_or(Signal::TERM)
}

/// The signals by which programs are asked to end; no others are taken.
fn signal_named(name: &str) -> Option<Signal> {
    Some(match name {
        "SIGTERM" => Signal::TERM,
        "SIGINT" => Signal::INT,
        "SIGQUIT" => Signal::QUIT,
        "SIGHUP" => Signal::HUP,
        "SIGUSR1" => Signal::USR1,
        "SIGUSR2" => Signal::USR2,
        "SIGKILL" => Signal::KILL,
        _ => return None,
    })
}

fn remaining(deadline: Timestamp, clock: Clock) -> Duration {
    Duration::try_from(deadline.duration_since(clock.now())).unwrap_or(Duration::ZERO)
}

/// Waits until the deadline has passed, wherever it moves meanwhile.
async fn until(deadline: &mut watch::Receiver<Timestamp>, clock: Clock) {
    loop {
        let at = *deadline.borrow_and_update();
        let instant = Instant::now() + remaining(at, clock);
        tokio::select! {
            () = tokio::time::sleep_until(instant) => return,
            // Whoever stops us holds the other end; without it the deadline stays.
            Ok(()) = deadline.changed() => {}
        }
    }
}
