//! What every program must do, checked from outside: for those who write one.
//!
//! A trial makes machines of its own, and deletes them again. It touches others only in a cluster that
//! it was told to try.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use sojourn_core::cluster::{ErrorClass, MachineState};
use tokio::sync::broadcast::error::RecvError;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::Limits;
use super::client::{CallError, Client, ProgramEvent, ProgramState, STARTING};
use super::folder::Program;
use super::inventory::list_all;
use super::message::{MachineReport, Operation, Request, created};
use crate::actuator::Account;

/// Between two looks at a list.
const INTERVAL: Duration = Duration::from_millis(200);
/// Events that are kept for the checks.
const MAX_EVENTS: usize = 10_000;
/// Nobody has a machine or a cluster of this name.
const NOBODY: &str = "sojourn-provider-test-nobody";

/// What a program is tried with.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What machines can be made from; without it, none is made.
    pub config: Option<Value>,
    /// A cluster of which a machine may be stopped and started; without it, none is.
    pub infra_id: Option<String>,
    pub account: Account,
    /// What the uids of this trial begin with, different each time.
    pub uid: String,
    /// How long a machine may take until it runs, stops or is gone.
    pub patience: Duration,
    pub limits: Limits,
}

/// One thing that was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub check: &'static str,
    pub outcome: Outcome,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Passed,
    Failed(String),
    /// Why it was not checked.
    LeftOut(String),
}

/// What a check finds: nothing, or what is wrong.
type Checked = Result<(), String>;

/// Tries a program; `tell` hears of each check as it is done.
pub async fn run(
    program: Program,
    settings: &Settings,
    tell: impl FnMut(&Finding),
) -> Vec<Finding> {
    let client = Client::start(program, settings.limits);
    let mut trial = Trial::new(client, settings, tell);
    trial.check_all().await;
    std::mem::take(&mut trial.findings)
}

struct Trial<'a, T> {
    client: Client,
    settings: &'a Settings,
    heard: Arc<Mutex<Vec<MachineReport>>>,
    listening: AbortHandle,
    /// Machines that may have been made.
    uids: BTreeSet<String>,
    findings: Vec<Finding>,
    tell: T,
}

impl<T> Drop for Trial<'_, T> {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

impl<'a, T: FnMut(&Finding)> Trial<'a, T> {
    fn new(client: Client, settings: &'a Settings, tell: T) -> Self {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let (mut events, told) = (client.events(), heard.clone());
        let listening = tokio::spawn(async move {
            loop {
                match events.recv().await {
                    Ok(ProgramEvent::Machine(report)) => {
                        let mut heard = told.lock().unwrap_or_else(PoisonError::into_inner);
                        if heard.len() < MAX_EVENTS {
                            heard.push(MachineReport::clone(&report));
                        }
                    }
                    Ok(_) | Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return,
                }
            }
        });
        let (uids, findings) = (BTreeSet::new(), Vec::new());
        let listening = listening.abort_handle();
        Self { client, settings, heard, listening, uids, findings, tell }
    }

    fn record(&mut self, check: &'static str, outcome: Outcome) {
        let finding = Finding { check, outcome };
        (self.tell)(&finding);
        self.findings.push(finding);
    }

    fn checked(&mut self, check: &'static str, checked: Checked) -> bool {
        let passed = checked.is_ok();
        self.record(check, checked.map_or_else(Outcome::Failed, |()| Outcome::Passed));
        passed
    }

    fn left_out(&mut self, check: &'static str, why: &str) {
        self.record(check, Outcome::LeftOut(why.to_owned()));
    }

    fn can(&self, operation: Operation) -> bool {
        self.client.can(operation) == Some(true)
    }

    async fn check_all(&mut self) {
        let greeted = self.first_run().await;
        if !self.checked("it says what it can do", greeted) {
            self.client.stop().await;
            return;
        }
        if self.can(Operation::List) {
            let listed = self.list(None).await.map(drop);
            self.checked("it lists what there is", listed);
        } else {
            self.left_out("it lists what there is", "it cannot list");
        }
        self.check_machines().await;
        self.check_cluster().await;
        self.clean_up().await;
        let began = Instant::now();
        self.client.stop().await;
        let span = self.settings.limits.end;
        let ended = if began.elapsed() < span {
            Ok(())
        } else {
            Err(format!("it still ran {} s after its input was closed", span.as_secs_f64()))
        };
        self.checked("it ends with its input", ended);
    }

    async fn check_machines(&mut self) {
        const MADE: &str = "the same uid is the same machine";
        let needed = [Operation::Create, Operation::Delete, Operation::List];
        if !needed.into_iter().all(|operation| self.can(operation)) {
            return self.left_out(MADE, "it does not create, delete and list machines");
        }
        let Some(config) = self.settings.config.clone() else {
            return self.left_out(MADE, "no machine is made without --config");
        };
        let accepted = self.check_config(&config);
        if !self.checked("its schema accepts the config", accepted) {
            return;
        }
        let uid = format!("{}-1", self.settings.uid);
        let made = self.make_one(&config, &uid).await;
        let machine = made.clone().unwrap_or_default();
        if !self.checked(MADE, made.map(drop)) {
            return;
        }
        let running = self.until(&uid, &MachineState::Running).await;
        let runs = self.checked("what was made runs", running);
        if runs {
            self.check_told("it tells that it runs", &uid, &MachineState::Running).await;
            self.check_power(&config, &machine).await;
        }
        let kept = self.survive(&uid, &machine).await;
        self.checked("machines outlive the program", kept);
        let cut_off = self.cut_off(&config).await;
        self.checked("a request that was cut off can be sent again", cut_off);
        let deleted = self.delete_twice(&uid, &machine).await;
        if self.checked("what was deleted is gone, and can be deleted again", deleted) {
            self.check_told("it tells that it is gone", &uid, &MachineState::Missing).await;
        }
        let nobody = Request { uid: Some(NOBODY), ..Request::new(Operation::Delete) };
        let deleted = self.call(nobody).await.map(drop).map_err(|error| error.to_string());
        self.checked("what was never there can be deleted", deleted);
    }

    fn check_config(&self, config: &Value) -> Checked {
        let schema = self.client.abilities().unwrap_or_default().schema.clone();
        let problems = schema.check("config", config);
        if problems.is_empty() { Ok(()) } else { Err(problems.join("; ")) }
    }

    async fn check_power(&mut self, config: &Value, machine: &str) {
        const STOPS: &str = "it stops and starts a machine";
        if !(self.can(Operation::Stop) && self.can(Operation::Start)) {
            return self.left_out(STOPS, "it does not stop and start machines");
        }
        let turned = self.stop_and_start(Some(config), None, machine).await;
        self.checked(STOPS, turned);
    }

    async fn check_cluster(&mut self) {
        const OWN: &str = "a cluster has its own machines";
        let needed = [Operation::Stop, Operation::Start, Operation::List];
        if !needed.into_iter().all(|operation| self.can(operation)) {
            return self.left_out(OWN, "it does not stop, start and list machines");
        }
        let Some(infra_id) = self.settings.infra_id.clone() else {
            return self.left_out(OWN, "no cluster is touched without --infra-id");
        };
        let own = self.list_cluster(&infra_id).await;
        let first = own.as_ref().ok().and_then(|machines| machines.first()).cloned();
        if !self.checked(OWN, own.map(drop)) {
            return;
        }
        let config = self.settings.config.clone();
        if let Some(first) = first {
            let turned = self.stop_and_start(config.as_ref(), Some(&infra_id), &first).await;
            self.checked("it stops and starts a machine of a cluster", turned);
        }
        let found = self.stop_nobody(config.as_ref(), &infra_id).await;
        self.checked("what is not there is not found", found);
    }

    async fn check_told(&mut self, check: &'static str, uid: &str, state: &MachineState) {
        if !self.can(Operation::Watch) {
            return self.left_out(check, "it cannot watch");
        }
        let until = Instant::now() + self.settings.patience;
        let told = loop {
            if self.has_heard(uid, state) {
                break Ok(());
            }
            if Instant::now() >= until {
                break Err(format!("no event said that {uid} is {state}"));
            }
            tokio::time::sleep(INTERVAL).await;
        };
        self.checked(check, told);
    }

    fn has_heard(&self, uid: &str, state: &MachineState) -> bool {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.iter().any(|report| report.uid.as_deref() == Some(uid) && report.state == *state)
    }

    /// The program comes up, or fails, for the first time: whoever writes one does not wait until it is tried again.
    async fn first_run(&self) -> Checked {
        let mut state = self.client.state();
        let begun = |state: &ProgramState| match state {
            ProgramState::Up => true,
            ProgramState::Down(why) => **why != *STARTING,
        };
        let limits = self.settings.limits;
        let first = state.wait_for(begun);
        match tokio::time::timeout(limits.hello + limits.answer, first).await {
            Ok(Ok(state)) => match &*state {
                ProgramState::Up => Ok(()),
                ProgramState::Down(why) => Err(why.to_string()),
            },
            Ok(Err(_)) | Err(_) => Err("it does not come up".to_owned()),
        }
    }

    async fn until_up(&self) -> Checked {
        let mut state = self.client.state();
        let limits = self.settings.limits;
        let patience = limits.hello + limits.answer;
        let up = state.wait_for(|state| *state == ProgramState::Up);
        let came = tokio::time::timeout(patience, up).await.is_ok_and(|came| came.is_ok());
        let why = match &*self.client.state().borrow() {
            ProgramState::Up => None,
            ProgramState::Down(why) => Some(why.to_string()),
        };
        if came { Ok(()) } else { Err(why.unwrap_or_else(|| "it does not come up".to_owned())) }
    }

    async fn call(&self, request: Request<'_>) -> Result<Value, CallError> {
        let account = Some(&self.settings.account);
        self.client.call(&Request { account, ..request }).await
    }

    async fn list(&self, infra_id: Option<&str>) -> Result<Vec<MachineReport>, String> {
        let config = infra_id.and(self.settings.config.as_ref());
        let account = Some(&self.settings.account);
        let request = Request { infra_id, config, account, ..Request::new(Operation::List) };
        list_all(&self.client, &request).await.map_err(|error| error.to_string())
    }

    async fn create(&self, config: &Value, uid: &str) -> Result<String, String> {
        let request = Request {
            uid: Some(uid),
            name: Some(uid),
            config: Some(config),
            ..Request::new(Operation::Create)
        };
        let ok = self.call(request).await.map_err(|error| error.to_string())?;
        created(&ok)
    }

    /// Asks for one machine several times, also at once.
    async fn make_one(&mut self, config: &Value, uid: &str) -> Result<String, String> {
        self.uids.insert(uid.to_owned());
        let (one, other) = tokio::join!(self.create(config, uid), self.create(config, uid));
        let (one, other) = (one?, other?);
        let again = self.create(config, uid).await?;
        if one != other || one != again {
            return Err(format!("its answers were {one}, {other} and {again}"));
        }
        let listed = self.of_uid(uid).await?;
        let [report] = listed.as_slice() else {
            return Err(format!("there are {} machines of one uid in its list", listed.len()));
        };
        if report.machine != one {
            return Err(format!("it made {one}, and lists {}", report.machine));
        }
        Ok(one)
    }

    async fn of_uid(&self, uid: &str) -> Result<Vec<MachineReport>, String> {
        let mut listed = self.list(None).await?;
        listed.retain(|report| {
            report.uid.as_deref() == Some(uid) && report.state != MachineState::Missing
        });
        Ok(listed)
    }

    /// Waits until the list says that the machine of a uid is in a state.
    async fn until(&self, uid: &str, state: &MachineState) -> Checked {
        self.until_state(None, state, |report| report.uid.as_deref() == Some(uid)).await
    }

    async fn until_state(
        &self,
        infra_id: Option<&str>,
        state: &MachineState,
        is: impl Fn(&MachineReport) -> bool,
    ) -> Checked {
        let until = Instant::now() + self.settings.patience;
        loop {
            let listed = self.list(infra_id).await?;
            let found = listed.iter().find(|report| is(report)).map(|report| &report.state);
            let found = found.unwrap_or(&MachineState::Missing);
            if found == state {
                return Ok(());
            }
            if Instant::now() >= until {
                let seconds = self.settings.patience.as_secs();
                return Err(format!("it is {found} after {seconds} s, and not {state}"));
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    async fn stop_and_start(
        &self,
        config: Option<&Value>,
        infra_id: Option<&str>,
        machine: &str,
    ) -> Checked {
        for (operation, state) in
            [(Operation::Stop, MachineState::Stopped), (Operation::Start, MachineState::Running)]
        {
            let request =
                Request { machine: Some(machine), infra_id, config, ..Request::new(operation) };
            for _ in 0..2 {
                let answer = self.call(request.clone()).await;
                answer.map_err(|error| format!("{operation}: {error}"))?;
            }
            self.until_state(infra_id, &state, |report| report.machine == machine).await?;
            let answer = self.call(request).await;
            answer.map_err(|error| format!("{operation}, when it is {state}: {error}"))?;
        }
        Ok(())
    }

    /// Kills the program, and waits until it is there again.
    async fn kill(&self) -> Checked {
        let process = self.client.process_id().and_then(|id| i32::try_from(id).ok());
        let process = process.and_then(Pid::from_raw).ok_or("it has no process")?;
        let mut state = self.client.state();
        kill_process_group(process, Signal::KILL).map_err(|error| error.to_string())?;
        // It ends only because of that, so this comes at once.
        drop(state.wait_for(|state| *state != ProgramState::Up).await);
        self.until_up().await
    }

    async fn survive(&self, uid: &str, machine: &str) -> Checked {
        self.kill().await?;
        let listed = self.of_uid(uid).await?;
        let names: Vec<&str> = listed.iter().map(|report| &*report.machine).collect();
        if names == [machine] {
            Ok(())
        } else {
            Err(format!("after a kill it lists [{}], and not {machine}", names.join(", ")))
        }
    }

    /// Kills the program while it makes a machine, and asks for the machine again.
    async fn cut_off(&mut self, config: &Value) -> Checked {
        let uid = format!("{}-2", self.settings.uid);
        self.uids.insert(uid.clone());
        let creation = self.create(config, &uid);
        let killing = async {
            tokio::task::yield_now().await;
            self.kill().await
        };
        let (_, killed) = tokio::join!(creation, killing);
        killed?;
        let machine = self.create(config, &uid).await?;
        let listed = self.of_uid(&uid).await?;
        if listed.len() != 1 || listed.iter().any(|report| report.machine != machine) {
            return Err(format!("there are {} machines of one uid in its list", listed.len()));
        }
        self.delete_twice(&uid, &machine).await
    }

    async fn delete_twice(&self, uid: &str, machine: &str) -> Checked {
        let by_uid = Request { uid: Some(uid), ..Request::new(Operation::Delete) };
        let whole = Request { machine: Some(machine), ..by_uid.clone() };
        for request in [by_uid, whole.clone()] {
            self.call(request).await.map_err(|error| error.to_string())?;
        }
        self.until(uid, &MachineState::Missing).await?;
        let again = self.call(whole).await;
        again.map(drop).map_err(|error| format!("when it is gone: {error}"))
    }

    async fn list_cluster(&self, infra_id: &str) -> Result<Vec<String>, String> {
        let listed = self.list(Some(infra_id)).await?;
        if let Some(other) = listed.iter().find(|one| one.infra_id.as_deref() != Some(infra_id)) {
            let of = other.infra_id.as_deref().unwrap_or("none");
            return Err(format!("{} is in its list, and its infraID is {of}", other.machine));
        }
        if listed.is_empty() {
            return Err(format!("no machine matches {infra_id}"));
        }
        let nobodys = self.list(Some(NOBODY)).await?;
        if !nobodys.is_empty() {
            return Err(format!("{} machines match an infraID that nobody has", nobodys.len()));
        }
        Ok(listed.into_iter().map(|report| report.machine).collect())
    }

    async fn stop_nobody(&self, config: Option<&Value>, infra_id: &str) -> Checked {
        let request = Request {
            machine: Some(NOBODY),
            infra_id: Some(infra_id),
            config,
            ..Request::new(Operation::Stop)
        };
        match self.call(request).await {
            Err(CallError::Answered(error))
                if matches!(error.class, ErrorClass::NotFound | ErrorClass::Refused) =>
            {
                Ok(())
            }
            Ok(_) => Err("it stopped a machine that is not there".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Deletes what the trial has made, whatever became of it.
    async fn clean_up(&mut self) {
        let mut left = Ok(());
        for uid in &self.uids {
            let request = Request { uid: Some(uid), ..Request::new(Operation::Delete) };
            if let Err(error) = self.call(request).await {
                left = Err(format!("{uid}: {error}"));
            }
        }
        if !self.uids.is_empty() {
            self.checked("nothing of the trial is left", left);
        }
    }
}
