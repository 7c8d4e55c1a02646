//! What each command does.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rustix::process::Signal;

use crate::shim::container::{self, Run};
use crate::shim::exec::{Exec, MAX_CONCURRENT_EXECS};
use crate::shim::init::{Init, one_and_others};
use crate::shim::landlock;
use crate::shim::log_line::log_line;
use crate::shim::protocol::{Answer, Network, Record, Refusal, ShimCommand, Start};
use crate::shim::record;

impl Init {
    /// Executes a command, and answers now or, with `None`, later.
    pub(super) fn execute(&mut self, asked: (u64, u64), command: ShimCommand) -> Option<Answer> {
        match command {
            ShimCommand::State => Some(Answer::State { records: self.records() }),
            ShimCommand::Start(spec) => Some(self.start(*spec).unwrap_or_else(|refused| refused)),
            ShimCommand::Signal { container, signal } => Some(self.signal(&container, signal)),
            ShimCommand::Kill { container } => Some(self.kill(&container)),
            ShimCommand::Exec { container, argv, timeout_ms } => {
                let timeout = Duration::from_millis(timeout_ms);
                self.exec(asked, &container, &argv, timeout).err()
            }
            ShimCommand::Dial { port } => {
                self.dial(asked, port);
                None
            }
            ShimCommand::Network => {
                let no_way_out = self.network.as_ref().and_then(|network| network.no_way_out());
                let is_held_to_ports = match &self.shim_config.network {
                    Network::Machine { ports: Some(ports) } => landlock::is_held_to(ports),
                    Network::Machine { ports: None } | Network::Own(_) => false,
                };
                let no_way_out = no_way_out.map(str::to_owned);
                Some(Answer::Network { no_way_out, is_held_to_ports })
            }
            ShimCommand::End => {
                self.end(Some(asked));
                None
            }
        }
    }

    fn records(&self) -> Vec<Record> {
        self.history.records().chain(self.runs.iter().map(|run| &run.record)).cloned().collect()
    }

    /// Starts a container, unless this attempt was started before.
    fn start(&mut self, spec: Start) -> Result<Answer, Answer> {
        let name = &spec.container;
        if !container::is_name(name) {
            return Err(refused(Refusal::BadRequest, format!("{name:?} names no container")));
        }
        if let Some(run) = self.runs.iter().find(|run| run.record.container == *name) {
            let attempt = run.record.attempt;
            if attempt == spec.attempt {
                return Ok(Answer::Started(run.record.clone()));
            }
            let message = format!("run {attempt} of container {name} has not ended");
            return Err(refused(Refusal::BadRequest, message));
        }
        if let Some(record) = self.history.find(name, spec.attempt) {
            return Ok(Answer::Started(record.clone()));
        }
        if self.ending.is_some() {
            return Err(refused(Refusal::CannotRun, "the Pod is ending".to_owned()));
        }
        self.start_anew(spec)
    }

    fn start_anew(&mut self, spec: Start) -> Result<Answer, Answer> {
        let path = self.folder.record(&spec.container, spec.attempt);
        if path.exists() {
            let (attempt, name) = (spec.attempt, &spec.container);
            let message = format!("run {attempt} of container {name} was in an earlier shim");
            return Err(refused(Refusal::BadRequest, message));
        }
        // Before the process is there, so that none ever is without a record.
        let intent = Record {
            container: spec.container.clone(),
            attempt: spec.attempt,
            pid: 0,
            started_at: Timestamp::now(),
            end: None,
        };
        record::write(&self.folder, &intent).map_err(|error| {
            let message = format!("cannot write {}: {error}", path.display());
            refused(Refusal::CannotPrepare, message)
        })?;
        record::remove_older(&self.folder, &spec.container, spec.attempt);
        let spec = Arc::new(spec);
        let link = self.link().map_err(|error| {
            refused(Refusal::CannotPrepare, format!("cannot use the Pod's network: {error}"))
        })?;
        match Run::start(&spec, &self.shim_config, &self.folder, link) {
            Ok(run) => {
                let record = run.record.clone();
                if let Err(error) = record::write(&self.folder, &record) {
                    // Only its PID is missing there.
                    log_line(format_args!("cannot write {}: {error}", path.display()));
                }
                self.runs.push(run);
                Ok(Answer::Started(record))
            }
            Err(error) => {
                let _ = std::fs::remove_file(path);
                self.remove_message(&spec);
                Err(refused(error.refusal(), error.to_string()))
            }
        }
    }

    fn signal(&self, container: &str, signal: i32) -> Answer {
        let Some(run) = self.running(container) else { return not_running(container) };
        let Some(signal) = Signal::from_named_raw(signal) else {
            return refused(Refusal::BadRequest, format!("there is no signal {signal}"));
        };
        match run.signal(signal) {
            Ok(()) => Answer::Done,
            Err(error) => {
                let message = format!("cannot send a signal to container {container}: {error}");
                refused(Refusal::CannotRun, message)
            }
        }
    }

    fn kill(&mut self, container: &str) -> Answer {
        let of_it = |run: &Run| run.is_running() && run.record.container == container;
        let Some(index) = self.runs.iter().position(of_it) else { return not_running(container) };
        let (run, others) = one_and_others(&mut self.runs, index);
        // The first one in any case: what is left then is swept when it is reaped.
        let _ = run.signal(Signal::KILL);
        self.sweeper.kill(&run.marks, &others);
        Answer::Done
    }

    fn exec(
        &mut self,
        asked: (u64, u64),
        container: &str,
        argv: &[String],
        timeout: Duration,
    ) -> Result<(), Answer> {
        let run = self.running(container).ok_or_else(|| not_running(container))?;
        if self.execs.len() >= MAX_CONCURRENT_EXECS {
            let message = format!("{MAX_CONCURRENT_EXECS} commands run in this Pod already");
            return Err(refused(Refusal::CannotRun, message));
        }
        let link = self.link().map_err(|error| {
            refused(Refusal::CannotPrepare, format!("cannot use the Pod's network: {error}"))
        })?;
        let exec = Exec::start(run, &self.shim_config, link, argv, timeout, asked)
            .map_err(|error| refused(error.refusal(), error.to_string()))?;
        self.execs.push(exec);
        Ok(())
    }

    /// The Pod's network, for a process that is to live in it.
    fn link(&self) -> io::Result<Option<OwnedFd>> {
        self.network.as_ref().map(|network| network.link().try_clone_to_owned()).transpose()
    }

    fn running(&self, container: &str) -> Option<&Run> {
        let of_it = |run: &&Run| run.is_running() && run.record.container == container;
        self.runs.iter().find(of_it).filter(|_| self.ending.is_none())
    }
}

fn refused(reason: Refusal, message: String) -> Answer {
    Answer::Refused { reason, message }
}

fn not_running(container: &str) -> Answer {
    refused(Refusal::NotRunning, format!("container {container} does not run"))
}
