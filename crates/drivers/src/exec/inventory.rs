//! The machines that a program has, as far as they are known.
//!
//! They are listed when a run of the program begins, and events keep them up to date. Until a list is
//! complete, a machine that was not seen is unknown; it is absent only after that.

use std::collections::{HashMap, HashSet};
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sojourn_core::cluster::MachineState;
use sojourn_core::key::Key;
use sojourn_core::known::Known;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Notify, broadcast};
use tokio::task::AbortHandle;
use tokio::time::{Duration, Instant};

use super::client::{CallError, Client, ProgramEvent};
use super::message::{ListPage, MachineReport, Operation, Request};
use crate::machine::ProviderChange;

/// Parts of one list.
const MAX_PAGES: usize = 1000;
/// Machines of one program.
const MAX_MACHINES: usize = 100_000;
/// Objects whose changes are told one by one.
const MAX_KEYS: usize = 200_000;
/// Changes of one list that are told one by one.
const MAX_TOLD: usize = 1000;
/// Between two lists at least, and before one that failed is asked for again; doubled each time then.
const MIN_RETRY: Duration = Duration::from_secs(1);
const MAX_RETRY: Duration = Duration::from_mins(1);
/// A program that cannot watch is asked so soon after a request that changed something.
const AFTER_CHANGE: Duration = Duration::from_secs(1);
/// And so often while something is on its way.
const WHILE_MOVING: Duration = Duration::from_secs(5);

/// Asks for the whole list of a program, or of one cluster.
pub(crate) async fn list_all(
    client: &Client,
    request: &Request<'_>,
) -> Result<Vec<MachineReport>, CallError> {
    let mut machines = Vec::new();
    let mut next: Option<String> = None;
    let run = client.run();
    for _ in 0..MAX_PAGES {
        let request = Request { next: next.as_deref(), ..request.clone() };
        let page = client.call(&request).await?;
        let page = ListPage::read(page).map_err(CallError::Unknown)?;
        machines.extend(page.machines);
        if machines.len() > MAX_MACHINES {
            return Err(CallError::Unknown(format!("a list: more than {MAX_MACHINES} machines")));
        }
        if client.run() != run {
            // Another run does not know where this one was.
            return Err(CallError::Unknown("the program failed during a list".to_owned()));
        }
        match page.next {
            Some(further) if Some(&further) == next.as_ref() => {
                return Err(CallError::Unknown("a list: it does not go on".to_owned()));
            }
            Some(further) => next = Some(further),
            None => return Ok(machines),
        }
    }
    Err(CallError::Unknown(format!("a list: more than {MAX_PAGES} parts")))
}

/// What is known at one time.
#[derive(Debug, Default)]
struct Seen {
    /// The run of the program in which it was learned.
    run: Option<u64>,
    /// By the uid of their objects.
    machines: HashMap<String, MachineReport>,
    /// Whether what is not in `machines` is not there.
    complete: bool,
    /// Whom an event was about since the list began that is under way: the event is not older than the list.
    touched: Option<HashSet<String>>,
    /// Objects that somebody asked about, to tell their changes.
    keys: HashMap<String, Key>,
    /// There were too many of them: some changes are told to all.
    too_many_keys: bool,
}

impl Seen {
    fn forget(&mut self) {
        self.machines.clear();
        self.complete = false;
        self.touched = None;
        self.run = None;
    }

    fn remember(&mut self, uid: &str, key: &Key) {
        if self.keys.contains_key(uid) {
            return;
        }
        if self.keys.len() >= MAX_KEYS {
            // Whoever asks about one that is not there is remembered again.
            self.keys.retain(|uid, _| self.machines.contains_key(uid));
        }
        if self.keys.len() < MAX_KEYS {
            self.keys.insert(uid.to_owned(), key.clone());
        } else {
            self.too_many_keys = true;
        }
    }

    /// Takes in what was said of a machine; whom it concerns.
    fn apply(&mut self, report: &MachineReport) -> Option<ProviderChange> {
        let uid = report.uid.as_ref()?;
        if let Some(touched) = &mut self.touched {
            touched.insert(uid.clone());
        }
        if report.state == MachineState::Missing {
            // A machine of the same uid under another name is another one.
            let same = self.machines.get(uid).is_some_and(|one| one.machine == report.machine);
            if same {
                self.machines.remove(uid);
            }
        } else if self.machines.len() < MAX_MACHINES || self.machines.contains_key(uid) {
            if self.machines.get(uid) == Some(report) {
                return None;
            }
            self.machines.insert(uid.clone(), report.clone());
        }
        self.change(uid)
    }

    fn change(&self, uid: &str) -> Option<ProviderChange> {
        match self.keys.get(uid) {
            Some(key) => Some(ProviderChange::Machine(key.clone())),
            None if self.too_many_keys => Some(ProviderChange::All),
            None => None,
        }
    }

    /// Takes in a complete list.
    fn finish(
        &mut self,
        program: &str,
        run: u64,
        listed: Vec<MachineReport>,
    ) -> Vec<ProviderChange> {
        let was_complete = self.complete;
        let touched = self.touched.take().unwrap_or_default();
        let mut machines: HashMap<String, MachineReport> = HashMap::with_capacity(listed.len());
        for report in listed {
            let Some(uid) = report.uid.clone() else { continue };
            if report.state == MachineState::Missing || touched.contains(&uid) {
                continue;
            }
            let first = machines.get(&uid);
            if let Some(first) = first {
                let (one, other) = (&*first.machine, &*report.machine);
                tracing::error!(
                    program,
                    uid,
                    one,
                    other,
                    "the program has made two machines of one uid"
                );
            }
            // The same one each time.
            if first.is_none_or(|first| report.machine < first.machine) {
                machines.insert(uid, report);
            }
        }
        for uid in touched {
            if let Some(report) = self.machines.remove(&uid) {
                machines.insert(uid, report);
            }
        }
        let before = std::mem::replace(&mut self.machines, machines);
        self.complete = true;
        self.run = Some(run);
        if !was_complete {
            return vec![ProviderChange::All];
        }
        let gone = before.keys().filter(|uid| !self.machines.contains_key(*uid));
        let changed = self.machines.iter().filter(|(uid, now)| before.get(*uid) != Some(now));
        let changed: Vec<&String> = gone.chain(changed.map(|(uid, _)| uid)).collect();
        if changed.len() > MAX_TOLD {
            return vec![ProviderChange::All];
        }
        changed.into_iter().filter_map(|uid| self.change(uid)).collect()
    }

    fn get(&self, uid: &str) -> Known<&MachineReport> {
        match self.machines.get(uid) {
            Some(report) => Known::Is(report),
            None if self.complete => Known::Absent,
            None => Known::Unknown,
        }
    }
}

/// The machines of one program, followed until this is dropped.
#[derive(Debug)]
pub(crate) struct Inventory {
    tracked: Arc<Tracked>,
    following: AbortHandle,
}

impl Drop for Inventory {
    fn drop(&mut self) {
        self.following.abort();
    }
}

impl Deref for Inventory {
    type Target = Tracked;

    fn deref(&self) -> &Tracked {
        &self.tracked
    }
}

impl Inventory {
    /// Follows a program from now on, and tells of changes.
    pub(crate) fn follow(client: Client, changes: broadcast::Sender<ProviderChange>) -> Self {
        let events = client.events();
        let changed = Notify::new();
        let tracked = Arc::new(Tracked { client, seen: Mutex::default(), changes, changed });
        let following = tokio::spawn(follow(tracked.clone(), events)).abort_handle();
        Self { tracked, following }
    }
}

/// What is followed of a program.
#[derive(Debug)]
pub(crate) struct Tracked {
    client: Client,
    seen: Mutex<Seen>,
    changes: broadcast::Sender<ProviderChange>,
    /// Something was changed by a request.
    changed: Notify,
}

impl Tracked {
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of the machine of a uid. Its changes are told from now on, as those of `key`.
    pub(crate) fn look<T>(
        &self,
        uid: &str,
        key: &Key,
        read: impl FnOnce(&MachineReport) -> Known<T>,
    ) -> Known<T> {
        let mut seen = self.seen();
        seen.remember(uid, key);
        if self.client.can(Operation::Create) == Some(false) {
            // It makes no machines, so there is none.
            return Known::Absent;
        }
        if seen.run.is_none() || seen.run != self.client.run() {
            return Known::Unknown;
        }
        match seen.get(uid) {
            Known::Is(report) => read(report),
            Known::Absent => Known::Absent,
            Known::Unknown => Known::Unknown,
        }
    }

    /// Tells the changes of a machine from now on, as those of `key`.
    pub(crate) fn remember(&self, uid: &str, key: &Key) {
        self.seen().remember(uid, key);
    }

    /// A machine was made. The program tells what becomes of it; one that cannot is asked soon.
    pub(crate) fn created(&self) {
        self.changed.notify_one();
    }

    /// The deletion of a machine was accepted: if it is there still, it is on its way out.
    pub(crate) fn deleted(&self, uid: &str) {
        let mut seen = self.seen();
        let there = seen.machines.get(uid).cloned();
        let change = there.and_then(|report| {
            seen.apply(&MachineReport { state: MachineState::Deleting, ..report })
        });
        drop(seen);
        self.tell(change);
        self.changed.notify_one();
    }

    fn tell(&self, changes: impl IntoIterator<Item = ProviderChange>) {
        for change in changes {
            // Without a receiver there is nobody to tell.
            let _ = self.changes.send(change);
        }
    }

    fn forget(&self) {
        self.seen().forget();
        self.tell([ProviderChange::All]);
    }

    /// What is absent is unknown again; what was seen is still the latest.
    fn doubt(&self) {
        self.seen().complete = false;
        self.tell([ProviderChange::All]);
    }

    fn is_moving(&self) -> bool {
        let moving = |report: &MachineReport| {
            use MachineState::{Deleting, Pending, Stopping};
            matches!(report.state, Pending | Stopping | Deleting)
        };
        self.seen().machines.values().any(moving)
    }

    /// When the next list is due.
    fn take(&self, event: Result<ProgramEvent, RecvError>, due: &mut Option<Instant>) {
        match event {
            Ok(ProgramEvent::Machine(report)) => {
                let change = self.seen().apply(&report);
                self.tell(change);
            }
            Ok(ProgramEvent::Relist) => {
                self.doubt();
                *due = Some(Instant::now());
            }
            Ok(ProgramEvent::Up) => *due = Some(Instant::now()),
            Ok(ProgramEvent::Down) => {
                self.forget();
                *due = None;
            }
            // Among what was missed may be the end of a run.
            Err(RecvError::Lagged(_)) => {
                self.forget();
                *due = self.client.run().map(|_| Instant::now());
            }
            // We hold what sends them.
            Err(RecvError::Closed) => *due = None,
        }
    }

    /// Lists everything, while events are taken in.
    async fn list(
        &self,
        events: &mut broadcast::Receiver<ProgramEvent>,
        due: &mut Option<Instant>,
    ) -> Result<(), CallError> {
        let Some(run) = self.client.run() else { return Ok(()) };
        self.seen().touched = Some(HashSet::new());
        let request = Request::new(Operation::List);
        let mut listing = std::pin::pin!(list_all(&self.client, &request));
        let listed = loop {
            tokio::select! {
                biased;
                event = events.recv() => self.take(event, due),
                listed = &mut listing => break listed?,
            }
        };
        let mut seen = self.seen();
        // It was forgotten meanwhile, or another run began.
        if seen.touched.is_none() || self.client.run() != Some(run) {
            return Ok(());
        }
        let changes = seen.finish(self.client.name(), run, listed);
        drop(seen);
        self.tell(changes);
        Ok(())
    }

    /// When to list a program that cannot watch.
    fn poll(&self) -> Option<Instant> {
        if self.client.can(Operation::Watch) == Some(true) {
            return None;
        }
        let poll = self.client.limits().poll;
        Some(Instant::now() + if self.is_moving() { poll.min(WHILE_MOVING) } else { poll })
    }
}

async fn follow(tracked: Arc<Tracked>, mut events: broadcast::Receiver<ProgramEvent>) {
    let client = &tracked.client;
    // It may have come up before anybody listened.
    let mut due = client.run().map(|_| Instant::now());
    let mut earliest = Instant::now();
    let mut failures = 0_u32;
    loop {
        let lacking = |operation| client.can(operation) == Some(false);
        if lacking(Operation::Create) || lacking(Operation::List) {
            // It makes no machines; another version of it may.
            due = None;
        }
        let at = due.map(|due| due.max(earliest));
        if at.is_some_and(|at| at <= Instant::now()) {
            due = None;
            let listed = tracked.list(&mut events, &mut due).await;
            earliest = Instant::now() + MIN_RETRY;
            match listed {
                Ok(()) => {
                    failures = 0;
                    due = due.or_else(|| tracked.poll());
                }
                Err(error) => {
                    failures = failures.saturating_add(1);
                    tracing::warn!(program = client.name(), %error, "cannot list the machines");
                    tracked.forget();
                    let doubled = 2_u32.saturating_pow(failures - 1);
                    let wait = MIN_RETRY.saturating_mul(doubled).min(MAX_RETRY);
                    due = client.run().map(|_| Instant::now() + wait);
                }
            }
            continue;
        }
        let wait = async {
            match at {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            event = events.recv() => tracked.take(event, &mut due),
            () = wait => {}
            () = tracked.changed.notified() => {
                if tracked.poll().is_some() && client.run().is_some() {
                    let soon = Instant::now() + AFTER_CHANGE;
                    due = Some(due.map_or(soon, |due| due.min(soon)));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
