//! A command beside a running container: a probe or a hook.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::Pid;

use crate::shim::child::{self, SpawnError};
use crate::shim::container::{self, Run};
use crate::shim::mounts::Mounts;
use crate::shim::process;
use crate::shim::protocol::{Executed, MAX_EXEC_OUTPUT_BYTES, ShimConfig};
use crate::shim::sweep::Sweeper;

/// How many run at once. Each container has at most three probes and a hook.
pub(super) const MAX_CONCURRENT_EXECS: usize = 8;
/// How long a killed command may take to die before it is reported all the same.
const KILL_TIMEOUT: Duration = Duration::from_secs(2);
/// How much output is read in one turn of the loop.
const MAX_READ_BYTES_PER_TICK: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct Exec {
    pub(super) pid: Pid,
    /// Who wants to know: a connection, and its request.
    pub(super) asked: (u64, u64),
    output: Option<OwnedFd>,
    kept: Vec<u8>,
    deadline: Instant,
    timed_out: bool,
    exit_code: Option<i32>,
}

impl Exec {
    pub(super) fn start(
        run: &Run,
        shim_config: &Arc<ShimConfig>,
        link: Option<OwnedFd>,
        argv: &[String],
        timeout: Duration,
        asked: (u64, u64),
    ) -> Result<Self, SpawnError> {
        // One pipe for both: what is said stays in order.
        let (output, theirs) = child::pipe()?;
        let theirs_too = theirs.try_clone().map_err(SpawnError::Pipe)?;
        let mounts = run.mounts.as_ref().map(Mounts::try_clone).transpose();
        let mounts = mounts.map_err(SpawnError::Pipe)?;
        let prepare = {
            let (spec, shim_config, first) =
                (run.spec.clone(), shim_config.clone(), run.record.pid);
            move |report: BorrowedFd<'_>| {
                container::end_with_shim_if_unconfined(&shim_config)?;
                let link = link.as_ref().map(AsFd::as_fd);
                process::join(first, mounts.as_ref(), &spec, &shim_config, link, report)
            }
        };
        let pid = child::spawn(argv, &run.spec.env, theirs, theirs_too, prepare)?;
        let now = Instant::now();
        Ok(Self {
            pid,
            asked,
            output: Some(output),
            kept: Vec::new(),
            deadline: now.checked_add(timeout).unwrap_or(now + Duration::from_hours(24)),
            timed_out: false,
            exit_code: None,
        })
    }

    /// What to poll.
    pub(super) fn pipe(&self) -> Option<BorrowedFd<'_>> {
        self.output.as_ref().map(AsFd::as_fd)
    }

    pub(super) fn wake_at(&self) -> Instant {
        self.deadline
    }

    /// Reads what it says and keeps the beginning.
    pub(super) fn pump(&mut self, buffer: &mut [u8]) {
        let mut budget = MAX_READ_BYTES_PER_TICK;
        while budget > 0
            && let Some(output) = &self.output
        {
            match rustix::io::read(output, &mut *buffer) {
                Ok(count @ 1..) => {
                    let room = MAX_EXEC_OUTPUT_BYTES - self.kept.len();
                    self.kept.extend_from_slice(&buffer[..count.min(room)]);
                    budget = budget.saturating_sub(count);
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => break,
                Ok(0) | Err(_) => self.output = None,
            }
        }
    }

    pub(super) fn exited(&mut self, exit: container::Exit) {
        self.exit_code = Some(exit.code);
    }

    /// Kills it, with all that came from it, when it has had its time.
    pub(super) fn check_time(&mut self, now: Instant, sweeper: &Sweeper) {
        if now >= self.deadline && self.exit_code.is_none() && !self.timed_out {
            self.timed_out = true;
            self.deadline = now + KILL_TIMEOUT;
            sweeper.kill_family(self.pid);
        }
    }

    /// What came of it, once it has ended. Output that is still to come from its children is
    /// theirs, and not waited for.
    pub(super) fn executed(&mut self, now: Instant, buffer: &mut [u8]) -> Option<Executed> {
        let given_up = self.timed_out && now >= self.deadline;
        if self.exit_code.is_none() && !given_up {
            return None;
        }
        self.pump(buffer);
        let output = String::from_utf8_lossy(&self.kept).into_owned();
        let exit_code = self.exit_code.filter(|_| !self.timed_out);
        Some(Executed { exit_code, output })
    }
}
