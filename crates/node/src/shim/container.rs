//! One run of a container, from its start to the record of its end.
//!
//! ```text
//! Running ──its first process ends──▶ Clearing ──nothing of it lives, pipes are empty──▶ ended
//! ```
//!
//! A container has ended when its first process has; but that is told only when its leftovers are
//! killed, its output is in the log, and the record is on disk.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rustix::fs::{Gid, Uid};
use rustix::process::{Pid, Signal, WaitStatus};

use crate::folder::PodFolder;
use crate::shim::child::{self, SpawnError};
use crate::shim::log::{self, Log, Stream};
use crate::shim::log_line::log_line;
use crate::shim::mounts::Mounts;
use crate::shim::protocol::{Confinement, End, Record, ShimConfig, Start};
use crate::shim::sweep::{ProcessMarkers, Sweeper};
use crate::shim::{memory, message, process};

/// How long a container may take to be cleared away before its end is told all the same: a process
/// in the middle of an operation of a broken disk cannot be killed.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(5);
/// How soon a leftover that was killed is looked for again: it may have forked meanwhile.
const SWEEP_INTERVAL: Duration = Duration::from_millis(20);
/// How often the memory of a container without a cgroup is measured.
const MEMORY_SAMPLE_INTERVAL: Duration = Duration::from_secs(1);

/// Which of a container's streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Output {
    Stdout,
    Stderr,
}

#[derive(Debug)]
pub(super) struct Run {
    pub(super) spec: Arc<Start>,
    pub(super) record: Record,
    pub(super) marks: ProcessMarkers,
    /// They are there as long as this is.
    pub(super) mounts: Option<Mounts>,
    stdout: Stream,
    stderr: Stream,
    log: Log,
    /// Out-of-memory kills before it started.
    oom_before: u64,
    over_memory: bool,
    weigh_at: Option<Instant>,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    Running,
    Clearing { exit: Exit, finished_at: Timestamp, give_up_at: Instant, sweep_at: Instant },
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exit {
    /// 128 + signal when a signal ended it.
    pub(super) code: i32,
    signal: Option<i32>,
}

impl From<WaitStatus> for Exit {
    fn from(status: WaitStatus) -> Self {
        let signal = status.terminating_signal();
        let code = status.exit_status().or(signal.map(|signal| 128 + signal)).unwrap_or(128);
        Self { code, signal }
    }
}

impl Run {
    pub(super) fn start(
        spec: &Arc<Start>,
        shim_config: &Arc<ShimConfig>,
        folder: &Arc<PodFolder>,
        link: Option<OwnedFd>,
    ) -> Result<Self, SpawnError> {
        let oom_before = spec.oom_events.as_deref().and_then(memory::oom_kills).unwrap_or(0);
        let (stdout, their_stdout) = child::pipe()?;
        let (stderr, their_stderr) = child::pipe()?;
        if let Confinement::User { uid, gid } = shim_config.confinement {
            // So that the container can open its own /dev/stdout again.
            let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
            for pipe in [&their_stdout, &their_stderr] {
                rustix::fs::fchown(pipe, Some(uid), Some(gid))
                    .map_err(|error| SpawnError::Pipe(error.into()))?;
            }
        }
        let (handover, theirs) = Mounts::handover().map_err(SpawnError::Pipe)?;
        let prepare = {
            let (spec, shim_config, folder) = (spec.clone(), shim_config.clone(), folder.clone());
            move |report: BorrowedFd<'_>| {
                end_with_shim_if_unconfined(&shim_config)?;
                let link = link.as_ref().map(AsFd::as_fd);
                process::prepare(&spec, &shim_config, &folder, theirs.as_fd(), link, report)
            }
        };
        let started_at = Timestamp::now();
        let pid = child::spawn(&spec.argv, &spec.env, their_stdout, their_stderr, prepare)?;
        let mounts = Mounts::receive(handover.as_fd()).map_err(SpawnError::Pipe)?;
        let share = log::share(shim_config.log_limit, shim_config.containers);
        Ok(Self {
            record: Record {
                container: spec.container.clone(),
                attempt: spec.attempt,
                pid: pid.as_raw_nonzero().get().unsigned_abs(),
                started_at,
                end: None,
            },
            marks: ProcessMarkers::of(pid, spec),
            mounts,
            stdout: Stream::new("stdout", stdout),
            stderr: Stream::new("stderr", stderr),
            log: Log::open(folder, &spec.container, spec.attempt, share),
            oom_before,
            over_memory: false,
            weigh_at: spec.memory_limit.map(|_| Instant::now() + MEMORY_SAMPLE_INTERVAL),
            phase: Phase::Running,
            spec: spec.clone(),
        })
    }

    /// Whether its first process still runs.
    pub(super) fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Running)
    }

    /// What to poll.
    pub(super) fn pipes(&self) -> impl Iterator<Item = (Output, BorrowedFd<'_>)> {
        let streams = [(Output::Stdout, &self.stdout), (Output::Stderr, &self.stderr)];
        streams.into_iter().filter_map(|(output, stream)| Some((output, stream.pipe()?)))
    }

    /// When something is to be done although nothing came.
    pub(super) fn wake_at(&self) -> Option<Instant> {
        match &self.phase {
            Phase::Running => self.weigh_at,
            Phase::Clearing { sweep_at, .. } => Some(*sweep_at),
        }
    }

    /// Moves output into the log.
    pub(super) fn pump(&mut self, output: Output, buffer: &mut [u8]) {
        let stream = match output {
            Output::Stdout => &mut self.stdout,
            Output::Stderr => &mut self.stderr,
        };
        stream.pump(buffer, &mut self.log);
    }

    /// Its first process was reaped.
    pub(super) fn exited(&mut self, status: WaitStatus) {
        let now = Instant::now();
        self.phase = Phase::Clearing {
            exit: status.into(),
            finished_at: Timestamp::now(),
            give_up_at: now + CLEANUP_TIMEOUT,
            sweep_at: now,
        };
    }

    /// Something died, perhaps the last of what is left of it.
    pub(super) fn recheck(&mut self) {
        if let Phase::Clearing { sweep_at, .. } = &mut self.phase {
            *sweep_at = Instant::now();
        }
    }

    /// Sends a signal to its first process, which is not reaped yet.
    pub(super) fn signal(&self, signal: Signal) -> rustix::io::Result<()> {
        rustix::process::kill_process(self.marks.first, signal)
    }

    /// Kills it if it has more memory than it may. Only where no cgroup does so.
    pub(super) fn check_memory(
        &mut self,
        now: Instant,
        sweeper: &Sweeper,
        others: &[&ProcessMarkers],
    ) {
        let (Some(limit), Some(weigh_at)) = (self.spec.memory_limit, self.weigh_at) else { return };
        if !self.is_running() || now < weigh_at {
            return;
        }
        self.weigh_at = Some(now + MEMORY_SAMPLE_INTERVAL);
        if memory::exceeds(&sweeper.members(&self.marks, others), limit) {
            self.over_memory = true;
            sweeper.kill(&self.marks, others);
        } else if memory::cannot_measure() {
            // A limit that cannot be looked after does not hold. Who is whose cannot be told either.
            log_line(format_args!("the memory of {} cannot be weighed", self.spec.container));
            self.over_memory = true;
            sweeper.kill_all();
        }
    }

    /// Clears away what is left of a container whose first process has ended. `true` when all is
    /// done; the record is then whole, but not yet on disk.
    pub(super) fn clear(
        &mut self,
        now: Instant,
        sweeper: &Sweeper,
        others: &[&ProcessMarkers],
        buffer: &mut [u8],
    ) -> bool {
        let Phase::Clearing { exit, finished_at, give_up_at, sweep_at } = &mut self.phase else {
            return false;
        };
        if now < *sweep_at {
            return false;
        }
        let cleared = sweeper.clear(&self.marks, others);
        // Once nobody of it lives, what it said is in the pipes. Whoever still holds one is not of
        // this container and not waited for.
        let mut drained = false;
        if cleared {
            drained = self.stdout.pump(buffer, &mut self.log);
            drained &= self.stderr.pump(buffer, &mut self.log);
        }
        if !drained && now < *give_up_at {
            *sweep_at = if cleared { now } else { now + SWEEP_INTERVAL };
            return false;
        }
        let (exit, finished_at) = (*exit, *finished_at);
        if !cleared {
            log_line(format_args!("some processes of {} do not die", self.spec.container));
        }
        self.stdout.close(&mut self.log);
        self.stderr.close(&mut self.log);
        self.record.end = Some(self.end(exit, finished_at));
        true
    }

    fn end(&self, exit: Exit, finished_at: Timestamp) -> End {
        let killed = exit.signal == Some(Signal::KILL.as_raw());
        let oom_now = self.spec.oom_events.as_deref().and_then(memory::oom_kills).unwrap_or(0);
        End {
            finished_at,
            exit_code: exit.code,
            signal: exit.signal,
            // The kernel may have killed a child, for whose sake the first process then failed.
            oom_killed: (killed && self.over_memory)
                || (exit.code != 0 && oom_now > self.oom_before),
            message: message::termination_message(&self.spec, exit.code, self.log.halves()),
        }
    }

    /// The first process, as long as it is not reaped.
    pub(super) fn first(&self) -> Option<Pid> {
        self.is_running().then_some(self.marks.first)
    }
}

/// Without a PID namespace nothing else would.
pub(super) fn end_with_shim_if_unconfined(shim_config: &ShimConfig) -> std::io::Result<()> {
    if matches!(shim_config.confinement, Confinement::Unconfined) {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    }
    Ok(())
}

/// A name that can be part of a file's name.
pub(super) fn is_name(container: &str) -> bool {
    /// As long as a DNS label, which the names of containers are.
    const MAX_NAME_BYTES: usize = 63;
    let fits = (1..=MAX_NAME_BYTES).contains(&container.len());
    fits && container.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}
