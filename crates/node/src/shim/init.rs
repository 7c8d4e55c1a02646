//! The second stage: init of the Pod's PID namespace, and one loop.
//!
//! Each turn waits until something can be done without waiting: a child died, a pipe has output, a
//! node wants something, a time has come. Nothing else ever blocks the loop, save the start of a
//! process until it runs.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::mount::MountFlags;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};

use crate::folder::PodFolder;
use crate::shim::connection::Connection;
use crate::shim::container::{Output, Run};
use crate::shim::descriptor::Inherited;
use crate::shim::exec::Exec;
use crate::shim::history::History;
use crate::shim::log_line::log_line;
use crate::shim::net::{self, Net};
use crate::shim::protocol::{
    Answer, Confinement, Line, Network, Refusal, Request, ShimConfig, Start,
};
use crate::shim::signal::Signals;
use crate::shim::sweep::{ProcessMarkers, Sweeper};
use crate::shim::{StartupError, launch, listener, process};

mod execute;

/// How many nodes may be connected: there is one, perhaps its dying predecessor, and each dials by
/// connections of their own, for a moment.
const MAX_CONNECTIONS: usize = 64;
/// How many dead processes are reaped in one turn.
const MAX_REAPED_PER_TICK: usize = 1024;
/// What is read at once.
const BUFFER_SIZE: usize = 16 << 10;
/// How long everything may take to die at the end; a container gets less.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(6);
/// How soon it is looked again whether everything is dead.
const SHUTDOWN_POLL_INTERVAL: Duration = Duration::from_millis(20);

pub(super) fn run(
    folder: PodFolder,
    shim_config: ShimConfig,
    inherited: Inherited,
) -> Result<(), StartupError> {
    launch::detach()?;
    let _ = rustix::thread::set_name(c"sojourn-shim");
    let signals = Signals::block().map_err(StartupError::doing("block signals"))?;
    match shim_config.confinement {
        Confinement::Unconfined => {
            let us = rustix::process::getpid();
            rustix::process::set_child_subreaper(Some(us))
                .map_err(StartupError::doing("become the parent of orphans"))?;
        }
        Confinement::User { .. } | Confinement::UserNamespace => {
            let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
            rustix::mount::mount("proc", "/proc", "proc", flags, None)
                .map_err(StartupError::doing("mount /proc of the Pod's own PID namespace"))?;
        }
    }
    let network = match &shim_config.network {
        Network::Machine { .. } => None,
        Network::Own(settings) => Some(Net::receive(settings, inherited.network)?),
    };
    process::harden(&shim_config).map_err(StartupError::doing("harden the Pod's processes"))?;
    let listener =
        listener::listen(&folder).map_err(StartupError::doing("listen in the Pod's folder"))?;
    // A node that connects now is served by the first turn of the loop.
    drop(inherited.starting);
    let mut init = Init {
        sweeper: Sweeper::new(shim_config.confinement),
        folder: Arc::new(folder),
        shim_config: Arc::new(shim_config),
        network,
        _lock: inherited.lock,
        lifeline: inherited.lifeline,
        signals,
        listener,
        connections: Vec::new(),
        connected: 0,
        runs: Vec::new(),
        execs: Vec::new(),
        history: History::default(),
        ending: None,
        buffer: vec![0; BUFFER_SIZE],
        ready: Vec::new(),
        polled: Vec::new(),
    };
    while !init.is_over() {
        init.tick().map_err(StartupError::doing("wait for anything to happen"))?;
    }
    init.conclude();
    Ok(())
}

/// Everything a shim has.
#[derive(Debug)]
struct Init {
    folder: Arc<PodFolder>,
    shim_config: Arc<ShimConfig>,
    /// The Pod's own, if it has one.
    network: Option<Net>,
    /// Freed when we end, however we end.
    _lock: OwnedFd,
    lifeline: Option<OwnedFd>,
    signals: Signals,
    listener: UnixListener,
    connections: Vec<Connection>,
    /// How many there have been.
    connected: u64,
    sweeper: Sweeper,
    /// Containers that run, or whose end is not yet told.
    runs: Vec<Run>,
    execs: Vec<Exec>,
    history: History,
    ending: Option<Shutdown>,
    buffer: Vec<u8>,
    /// For each turn: what is ready, and what is polled.
    ready: Vec<Source>,
    polled: Vec<PollFd<'static>>,
}

/// The shim ends as soon as no process is left.
#[derive(Debug)]
struct Shutdown {
    give_up_at: Instant,
    /// Who asked for it: connections, and their requests.
    asked: Vec<(u64, u64)>,
}

/// Something that can be ready.
#[derive(Debug, Clone, Copy)]
enum Source {
    Signals,
    Listener,
    Lifeline,
    Connection(u64),
    Run(usize, Output),
    Exec(usize),
    Network(net::ReadySocket),
}

impl Init {
    fn tick(&mut self) -> io::Result<()> {
        let (mut ready, polled) =
            (std::mem::take(&mut self.ready), std::mem::take(&mut self.polled));
        self.polled = self.wait(&mut ready, polled)?;
        // Nothing is added to or removed from `runs` and `execs` before the indices are used up.
        for source in ready.drain(..) {
            match source {
                Source::Signals => self.signals.clear(),
                Source::Run(index, output) => self.runs[index].pump(output, &mut self.buffer),
                Source::Exec(index) => self.execs[index].pump(&mut self.buffer),
                Source::Lifeline => self.end(None),
                Source::Listener => self.accept(),
                Source::Connection(id) => self.serve(id),
                Source::Network(ready) => {
                    if let Some(network) = &mut self.network {
                        network.serve(ready, &mut self.buffer);
                    }
                }
            }
        }
        self.ready = ready;
        self.reap();
        self.check_containers();
        self.check_execs();
        if let Some(network) = &mut self.network {
            network.expire(Instant::now(), &mut self.buffer);
        }
        self.history.save(&self.folder, Instant::now());
        Ok(())
    }

    /// Waits for anything, and says what is ready. Containers and commands come first. The memory of
    /// both lists is that of the turn before: a turn may be one datagram.
    fn wait<'a>(
        &'a self,
        sources: &mut Vec<Source>,
        polled: Vec<PollFd<'static>>,
    ) -> io::Result<Vec<PollFd<'static>>> {
        let mut fds: Vec<PollFd<'a>> = emptied(polled);
        let mut add = |source: Source, fd: PollFd<'a>| {
            sources.push(source);
            fds.push(fd);
        };
        add(Source::Signals, PollFd::new(&self.signals, PollFlags::IN));
        for (index, run) in self.runs.iter().enumerate() {
            for (output, pipe) in run.pipes() {
                add(Source::Run(index, output), PollFd::from_borrowed_fd(pipe, PollFlags::IN));
            }
        }
        for (index, exec) in self.execs.iter().enumerate() {
            if let Some(pipe) = exec.pipe() {
                add(Source::Exec(index), PollFd::from_borrowed_fd(pipe, PollFlags::IN));
            }
        }
        if let Some(lifeline) = &self.lifeline {
            // Its end is told without being asked for; anything else is of no interest.
            add(Source::Lifeline, PollFd::new(lifeline, PollFlags::empty()));
        }
        add(Source::Listener, PollFd::new(&self.listener, PollFlags::IN));
        for connection in &self.connections {
            let fd = PollFd::new(connection, connection.interest());
            add(Source::Connection(connection.id), fd);
        }
        if let Some(network) = &self.network {
            network.interests(|ready, socket, interest| {
                add(Source::Network(ready), PollFd::from_borrowed_fd(socket, interest));
            });
        }
        let timeout =
            self.wake_at().map(|at| timespec(at.saturating_duration_since(Instant::now())));
        match rustix::event::poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut ready = fds.iter().map(|fd| !fd.revents().is_empty());
        sources.retain(|_| ready.next().unwrap_or(false));
        Ok(emptied(fds))
    }

    /// When something is to be done although nothing came. Never, in a quiet Pod.
    fn wake_at(&self) -> Option<Instant> {
        let runs = self.runs.iter().filter_map(Run::wake_at);
        let execs = self.execs.iter().map(Exec::wake_at);
        let ending = self.ending.as_ref().map(|_| Instant::now() + SHUTDOWN_POLL_INTERVAL);
        let network = self.network.as_ref().and_then(Net::wake_at);
        runs.chain(execs).chain(ending).chain(self.history.wake_at()).chain(network).min()
    }

    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            if self.connections.len() >= MAX_CONNECTIONS {
                log_line(format_args!("{MAX_CONNECTIONS} nodes are connected, one more is not"));
                continue;
            }
            self.connected += 1;
            self.connections.extend(Connection::new(self.connected, stream));
        }
    }

    /// Does what a node wants.
    fn serve(&mut self, id: u64) {
        let Some(connection) = self.connections.iter_mut().find(|of| of.id == id) else { return };
        let received = connection.receive(&mut self.buffer).and_then(|()| connection.flush());
        while let Some(line) =
            self.connections.iter_mut().find(|of| of.id == id).and_then(Connection::line)
        {
            self.answer_line(id, &line);
        }
        // What came before the end is done nevertheless.
        if received.is_err() {
            self.connections.retain(|connection| connection.id != id);
        }
    }

    fn answer_line(&mut self, connection: u64, line: &[u8]) {
        #[derive(serde::Deserialize)]
        struct Numbered {
            id: u64,
        }
        match serde_json::from_slice::<Request>(line) {
            Ok(request) => {
                if let Some(answer) = self.execute((connection, request.id), request.command) {
                    self.answer((connection, request.id), answer);
                }
            }
            Err(error) => match serde_json::from_slice::<Numbered>(line) {
                Ok(Numbered { id }) => {
                    let message = format!("the shim does not understand this: {error}");
                    let reason = Refusal::BadRequest;
                    self.answer((connection, id), Answer::Refused { reason, message });
                }
                Err(_) => self.connections.retain(|of| of.id != connection),
            },
        }
    }

    /// Connects to a port of the Pod's, and hands over the socket.
    fn dial(&mut self, (connection, id): (u64, u64), port: u16) {
        let dialed = match &mut self.network {
            Some(network) => network.dial(port).map_err(|error| {
                let message = format!("cannot connect to port {port} of the Pod: {error}");
                Answer::Refused { reason: Refusal::CannotRun, message }
            }),
            None => {
                let message = "the Pod has no network of its own".to_owned();
                Err(Answer::Refused { reason: Refusal::BadRequest, message })
            }
        };
        let socket = match dialed {
            Ok(socket) => socket,
            Err(refused) => return self.answer((connection, id), refused),
        };
        let line = Line::Answer { id, answer: Answer::Dialing };
        self.connections
            .retain_mut(|of| of.id != connection || of.send_with(&line, &socket).is_ok());
    }

    fn answer(&mut self, (connection, id): (u64, u64), answer: Answer) {
        self.send(Some(connection), &Line::Answer { id, answer });
    }

    /// Sends a line to one node, or to all. Those that cannot take it are dropped.
    fn send(&mut self, to: Option<u64>, line: &Line) {
        self.connections.retain_mut(|connection| {
            to.is_some_and(|to| to != connection.id) || connection.send(line).is_ok()
        });
    }

    /// Collects the dead: our children, and orphans that became ours.
    fn reap(&mut self) {
        for _ in 0..MAX_REAPED_PER_TICK {
            let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) else {
                return;
            };
            self.reaped(pid, status);
        }
        // There may be more, and no signal will come for them.
        let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::CHILD);
    }

    fn reaped(&mut self, pid: Pid, status: WaitStatus) {
        if let Some(run) = self.runs.iter_mut().find(|run| run.first() == Some(pid)) {
            run.exited(status);
        } else if let Some(exec) = self.execs.iter_mut().find(|exec| exec.pid == pid) {
            exec.exited(status.into());
        }
        for run in &mut self.runs {
            run.recheck();
        }
    }

    fn check_containers(&mut self) {
        let now = Instant::now();
        let mut ended = Vec::new();
        for index in 0..self.runs.len() {
            let (run, others) = one_and_others(&mut self.runs, index);
            run.check_memory(now, &self.sweeper, &others);
            if run.clear(now, &self.sweeper, &others, &mut self.buffer) {
                ended.push(index);
            }
        }
        for index in ended.into_iter().rev() {
            let run = self.runs.remove(index);
            self.report_exit(run);
        }
    }

    /// The end of a container: first on disk, then to whoever is connected.
    fn report_exit(&mut self, run: Run) {
        let Run { record, spec, .. } = run;
        self.history.add(&self.folder, record.clone());
        // What it said is in the record now.
        self.remove_message(&spec);
        self.send(None, &Line::Ended(record));
    }

    /// A container that fails for ever leaves no files.
    fn remove_message(&self, spec: &Start) {
        if let Some(message) = &spec.termination_message
            && message.starts_with(self.folder.path())
        {
            let _ = std::fs::remove_file(message);
        }
    }

    fn check_execs(&mut self) {
        let now = Instant::now();
        let mut executed = Vec::new();
        for (index, exec) in self.execs.iter_mut().enumerate() {
            exec.check_time(now, &self.sweeper);
            if let Some(what) = exec.executed(now, &mut self.buffer) {
                executed.push((index, exec.asked, what));
            }
        }
        for (index, asked, what) in executed.into_iter().rev() {
            self.execs.remove(index);
            self.answer(asked, Answer::Executed(what));
        }
    }

    /// Begins to end: kills everything.
    fn end(&mut self, asked: Option<(u64, u64)>) {
        self.lifeline = None;
        let give_up_at = Instant::now() + SHUTDOWN_TIMEOUT;
        let ending = self.ending.get_or_insert(Shutdown { give_up_at, asked: Vec::new() });
        ending.asked.extend(asked);
        self.sweeper.kill_all();
    }

    fn is_over(&self) -> bool {
        let Some(ending) = &self.ending else { return false };
        if Instant::now() >= ending.give_up_at {
            return true;
        }
        self.runs.is_empty() && self.sweeper.clear_all()
    }

    fn conclude(&mut self) {
        self.history.save_at_once(&self.folder);
        for record in self.history.unsaved() {
            let (container, attempt) = (&record.container, record.attempt);
            log_line(format_args!("the end of run {attempt} of {container} could not be written"));
        }
        for asked in self.ending.take().map(|ending| ending.asked).unwrap_or_default() {
            self.answer(asked, Answer::Done);
        }
        let _ = listener::remove(&self.folder);
    }
}

/// One run, and what tells the processes of those that run beside it.
fn one_and_others(runs: &mut [Run], index: usize) -> (&mut Run, Vec<&ProcessMarkers>) {
    let (before, rest) = runs.split_at_mut(index);
    let (run, after) = rest.split_first_mut().expect("the index is of a run");
    let others = before.iter().chain(after.iter()).filter(|run| run.is_running());
    (run, others.map(|run| &run.marks).collect())
}

/// A list without anything in it, in the memory of another.
fn emptied<'a>(mut fds: Vec<PollFd<'_>>) -> Vec<PollFd<'a>> {
    fds.clear();
    fds.into_iter().map(|_| -> PollFd<'a> { unreachable!("nothing is in it") }).collect()
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: duration.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_has_the_memory_of_the_turn_before() {
        let stdin = std::io::stdin();
        let mut fds = Vec::with_capacity(100);
        fds.push(PollFd::new(&stdin, PollFlags::IN));
        let memory = fds.as_ptr().addr();
        let again: Vec<PollFd<'static>> = emptied(fds);
        assert_eq!((again.len(), again.capacity(), again.as_ptr().addr()), (0, 100, memory));
    }
}
