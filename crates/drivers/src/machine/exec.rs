//! The provider `exec`: machines are made by programs that third parties bring.
//!
//! A template's config names the program, and has what the program makes a machine from:
//! `{name: folder, config: {...}}`. A machine is called `exec://NAME/MACHINE`, so it is known whose it is
//! when the template is gone. Of one that has no name yet, and was not asked for in this process, every
//! program is asked.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::Value;
use sojourn_core::cluster::{ErrorClass, MachineState};
use sojourn_core::group::observed::{Power, ProviderMachine};
use sojourn_core::known::Known;
use tokio::sync::broadcast;
use tokio::time::{Duration, Instant};

use super::{
    CreateRequest, MAX_PENDING_CHANGES, MachineRef, Provider, ProviderChanges, ProviderError,
    ProviderStatus,
};
use crate::exec::inventory::Inventory;
use crate::exec::message::{MachineReport, Request, created};
use crate::exec::{CallError, NAME, Operation, Programs, Resolved};

/// What a program of machines must be able to do.
const NEEDED: [Operation; 3] = [Operation::Create, Operation::Delete, Operation::List];
/// Machines of which it is remembered which program was asked for them.
const MAX_OWNERS: usize = 100_000;
/// A program that asks not to be asked is not asked for so long at most.
const MAX_THROTTLE: Duration = Duration::from_mins(5);

/// The provider.
pub struct ExecProvider {
    programs: Programs,
    inventories: HashMap<String, Inventory>,
    changes: broadcast::Sender<super::ProviderChange>,
    memory: Mutex<Memory>,
}

#[derive(Debug, Default)]
struct Memory {
    /// The program that was asked for the machine of a uid.
    owners: HashMap<String, String>,
    /// Programs that asked not to be asked before.
    throttled: HashMap<String, Instant>,
}

impl fmt::Debug for ExecProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecProvider").field("programs", &self.programs).finish_non_exhaustive()
    }
}

/// Where a machine is, by its name.
struct Place<'a> {
    program: &'a str,
    machine: &'a str,
}

impl<'a> Place<'a> {
    fn of(id: &'a str) -> Option<Self> {
        let (program, machine) = id.strip_prefix(NAME)?.strip_prefix("://")?.split_once('/')?;
        Some(Self { program, machine })
    }
}

fn id_of(program: &str, machine: &str) -> String {
    format!("{NAME}://{program}/{machine}")
}

impl ExecProvider {
    /// Follows the machines of every program.
    pub fn new(programs: Programs) -> Self {
        let (changes, _) = broadcast::channel(MAX_PENDING_CHANGES);
        let inventories = programs.iter().map(|(name, client)| {
            (name.to_owned(), Inventory::follow(client.clone(), changes.clone()))
        });
        let inventories = inventories.collect();
        Self { programs, inventories, changes, memory: Mutex::default() }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, uid: &str, program: &str) {
        let owners = &mut self.memory().owners;
        if owners.len() >= MAX_OWNERS {
            // Then every program is asked about those that have no name yet.
            owners.clear();
        }
        owners.insert(uid.to_owned(), program.to_owned());
    }

    /// The program whose machine it is, if that is known.
    fn owner(&self, machine: MachineRef<'_>) -> Option<String> {
        if let Some(place) = machine.id.and_then(Place::of) {
            return Some(place.program.to_owned());
        }
        self.memory().owners.get(machine.uid).cloned()
    }

    fn check_throttle(&self, program: &str) -> Result<(), ProviderError> {
        let now = Instant::now();
        let until = self.memory().throttled.get(program).copied().filter(|until| *until > now);
        until.map_or(Ok(()), |until| {
            let seconds = until.duration_since(now).as_secs() + 1;
            Err(ProviderError::Failed(format!(
                "the program {program} is asked again in {seconds} s"
            )))
        })
    }

    fn record_throttle(&self, program: &str, error: &CallError) {
        if let CallError::Answered(error) = error
            && error.class == ErrorClass::Throttled
            && let Some(span) = error.retry_after
        {
            let until = Instant::now() + span.min(MAX_THROTTLE);
            self.memory().throttled.insert(program.to_owned(), until);
        }
    }

    async fn create_machine(&self, request: &CreateRequest) -> Result<String, ProviderError> {
        let resolved = self.programs.resolve(&request.config, &NEEDED);
        let Resolved { client, config } =
            resolved.map_err(|problems| ProviderError::Refused(problems.join("; ")))?;
        let program = client.name();
        let inventory = self.inventory(program)?;
        self.check_throttle(program)?;
        self.remember(&request.uid, program);
        inventory.remember(&request.uid, &request.key);
        let sent = Request {
            uid: Some(&request.uid),
            namespace: Some(&request.key.namespace),
            name: Some(&request.key.name),
            group: request.group.as_deref(),
            config: Some(config),
            ..Request::new(Operation::Create)
        };
        let answer = client.call(&sent).await;
        let answer = answer.inspect_err(|error| self.record_throttle(program, error));
        let ok = answer.map_err(create_error)?;
        let machine = created(&ok).map_err(ProviderError::Failed)?;
        inventory.created();
        Ok(id_of(program, &machine))
    }

    fn inventory(&self, program: &str) -> Result<&Inventory, ProviderError> {
        self.inventories.get(program).ok_or_else(|| {
            ProviderError::Failed(format!("there is no program {program} here any more"))
        })
    }

    async fn delete_machine(&self, machine: MachineRef<'_>) -> Result<(), ProviderError> {
        if let Some(owner) = self.owner(machine) {
            return self.delete_at(&owner, machine).await;
        }
        // It has no name, so it may have been asked for before this process began: by any of them.
        for (name, client) in self.programs.iter() {
            if client.can(Operation::Create) != Some(false) {
                self.delete_at(name, machine).await?;
            }
        }
        Ok(())
    }

    async fn delete_at(&self, program: &str, machine: MachineRef<'_>) -> Result<(), ProviderError> {
        let inventory = self.inventory(program)?;
        self.check_throttle(program)?;
        let sent = Request {
            uid: Some(machine.uid),
            machine: machine.id.and_then(Place::of).map(|place| place.machine),
            ..Request::new(Operation::Delete)
        };
        match inventory.client().call(&sent).await {
            Ok(_) => {
                inventory.deleted(machine.uid);
                Ok(())
            }
            Err(CallError::Answered(error)) if error.class == ErrorClass::NotFound => Ok(()),
            Err(error) => {
                self.record_throttle(program, &error);
                Err(ProviderError::Failed(error.to_string()))
            }
        }
    }
}

/// Whether it is worth to send the request again.
fn create_error(error: CallError) -> ProviderError {
    let message = error.to_string();
    match error {
        CallError::Answered(error) => match error.class {
            ErrorClass::Refused
            | ErrorClass::Quota
            | ErrorClass::Capacity
            | ErrorClass::NotFound => ProviderError::Refused(message),
            // What is wrong there is not the request.
            ErrorClass::Auth
            | ErrorClass::Throttled
            | ErrorClass::Conflict
            | ErrorClass::Transient => ProviderError::Failed(message),
        },
        CallError::TooLong | CallError::CannotDo { .. } => ProviderError::Refused(message),
        CallError::NotRunning { .. } | CallError::Busy { .. } | CallError::Unknown(_) => {
            ProviderError::Failed(message)
        }
    }
}

fn status_of(program: &str, report: &MachineReport) -> Known<ProviderStatus> {
    let power = match report.state {
        MachineState::Running => Power::Running,
        MachineState::Pending => Power::Pending,
        MachineState::Stopping
        | MachineState::Stopped
        | MachineState::Paused
        | MachineState::Failed => Power::Stopped,
        MachineState::Deleting => Power::Deleting,
        MachineState::Missing => return Known::Absent,
        // A word that nobody knows says neither that it works nor that it does not.
        MachineState::Unknown(_) => return Known::Unknown,
    };
    let machine = ProviderMachine {
        id: id_of(program, &report.machine).into(),
        power,
        interruption: report.interruption,
    };
    Known::Is(ProviderStatus { machine, ready: report.ready })
}

impl Provider for ExecProvider {
    fn name(&self) -> &'static str {
        NAME
    }

    fn check(&self, config: &Value) -> Vec<String> {
        self.programs.resolve(config, &NEEDED).err().unwrap_or_default()
    }

    fn create<'a>(
        &'a self,
        request: &'a CreateRequest,
    ) -> BoxFuture<'a, Result<String, ProviderError>> {
        self.create_machine(request).boxed()
    }

    fn delete<'a>(&'a self, machine: MachineRef<'a>) -> BoxFuture<'a, Result<(), ProviderError>> {
        self.delete_machine(machine).boxed()
    }

    fn status(&self, machine: MachineRef<'_>) -> Known<ProviderStatus> {
        let look = |name: &str, inventory: &Inventory| {
            inventory.look(machine.uid, machine.key, |report| status_of(name, report))
        };
        if let Some(owner) = self.owner(machine) {
            let inventory = self.inventories.get(&owner);
            return inventory.map_or(Known::Unknown, |inventory| look(&owner, inventory));
        }
        let mut all = Known::Absent;
        for (name, inventory) in &self.inventories {
            match look(name, inventory) {
                Known::Is(status) => return Known::Is(status),
                Known::Unknown => all = Known::Unknown,
                Known::Absent => {}
            }
        }
        all
    }

    fn changes(&self) -> ProviderChanges {
        ProviderChanges::new(self.changes.subscribe())
    }
}
