//! The actuator `exec`: machines are stopped and started by programs that third parties bring.
//!
//! A cluster's platform names the program, and has what the program needs to know of the cluster:
//! `{name: folder, config: {...}}`. Lists are asked for, never remembered; what a program says by itself only
//! tells that a list may have changed.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::Value;
use sojourn_core::cluster::ErrorClass;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinSet;

use super::{
    ActuatedMachine, Actuator, ActuatorChange, ActuatorChanges, ActuatorError, Cluster,
    MAX_PENDING_CHANGES, Platform,
};
use crate::exec::inventory::list_all;
use crate::exec::message::{MachineReport, Request};
use crate::exec::{CallError, NAME, Operation, ProgramEvent, Programs, Resolved};

/// What a program of clusters must be able to do.
const NEEDED: [Operation; 3] = [Operation::Stop, Operation::Start, Operation::List];

/// The actuator.
#[derive(Debug)]
pub struct ExecActuator {
    programs: Programs,
    changes: broadcast::Sender<ActuatorChange>,
    /// Ends with this.
    _following: JoinSet<()>,
}

impl ExecActuator {
    /// Listens to every program.
    pub fn new(programs: Programs) -> Self {
        let (changes, _) = broadcast::channel(MAX_PENDING_CHANGES);
        let mut following = JoinSet::new();
        for (name, client) in programs.iter() {
            following.spawn(follow(name.into(), client.events(), changes.clone()));
        }
        Self { programs, changes, _following: following }
    }

    fn resolve<'a>(&self, cluster: &'a Cluster) -> Result<Resolved<'a>, ActuatorError> {
        self.programs
            .resolve(&cluster.platform.config, &NEEDED)
            .map_err(|problems| ActuatorError::failed(ErrorClass::Refused, problems.join("; ")))
    }

    async fn list_machines(
        &self,
        cluster: &Cluster,
    ) -> Result<Vec<ActuatedMachine>, ActuatorError> {
        let Resolved { client, config } = self.resolve(cluster)?;
        let request = Request {
            infra_id: Some(&cluster.infra_id),
            account: Some(&cluster.account),
            config: Some(config),
            ..Request::new(Operation::List)
        };
        let listed = list_all(&client, &request).await;
        let listed = listed.map_err(error_of)?;
        // One that does not say that it is of this cluster is not touched.
        let own = |report: &MachineReport| report.infra_id.as_ref() == Some(&cluster.infra_id);
        Ok(listed.into_iter().filter(own).map(machine_of).collect())
    }

    async fn act(
        &self,
        operation: Operation,
        cluster: &Cluster,
        machine: &str,
    ) -> Result<(), ActuatorError> {
        let Resolved { client, config } = self.resolve(cluster)?;
        let request = Request {
            machine: Some(machine),
            infra_id: Some(&cluster.infra_id),
            account: Some(&cluster.account),
            config: Some(config),
            ..Request::new(operation)
        };
        client.call(&request).await.map(drop).map_err(error_of)
    }
}

fn machine_of(report: MachineReport) -> ActuatedMachine {
    ActuatedMachine {
        id: report.machine,
        state: report.state,
        spot: report.spot,
        node_name: report.node_name,
        addresses: report.addresses,
    }
}

fn error_of(error: CallError) -> ActuatorError {
    let message = error.to_string();
    match error {
        CallError::Answered(error) => ActuatorError::Failed {
            class: error.class,
            message: error.message,
            retry_after: error.retry_after,
        },
        CallError::NotRunning { .. } | CallError::Busy { .. } => {
            ActuatorError::failed(ErrorClass::Transient, message)
        }
        CallError::CannotDo { .. } | CallError::TooLong => {
            ActuatorError::failed(ErrorClass::Refused, message)
        }
        CallError::Unknown(_) => ActuatorError::Unknown(message),
    }
}

/// Tells which clusters the events of a program are about: never those of another program.
async fn follow(
    program: Arc<str>,
    mut events: broadcast::Receiver<ProgramEvent>,
    changes: broadcast::Sender<ActuatorChange>,
) {
    loop {
        let change = match events.recv().await {
            Ok(ProgramEvent::Machine(report)) => match report.infra_id.as_deref() {
                Some(infra_id) => ActuatorChange::Cluster(infra_id.into()),
                None => continue,
            },
            Ok(ProgramEvent::Up | ProgramEvent::Down | ProgramEvent::Relist)
            | Err(RecvError::Lagged(_)) => ActuatorChange::Program(program.clone()),
            Err(RecvError::Closed) => return,
        };
        // Without a receiver there is nobody to tell.
        let _ = changes.send(change);
    }
}

impl Actuator for ExecActuator {
    fn name(&self) -> &'static str {
        NAME
    }

    fn can_handle(&self, platform: &Platform) -> bool {
        platform.name == NAME && self.check(&platform.config).is_empty()
    }

    fn check(&self, config: &Value) -> Vec<String> {
        self.programs.resolve(config, &NEEDED).err().unwrap_or_default()
    }

    fn list<'a>(
        &'a self,
        cluster: &'a Cluster,
    ) -> BoxFuture<'a, Result<Vec<ActuatedMachine>, ActuatorError>> {
        self.list_machines(cluster).boxed()
    }

    fn stop<'a>(
        &'a self,
        cluster: &'a Cluster,
        machine: &'a str,
    ) -> BoxFuture<'a, Result<(), ActuatorError>> {
        self.act(Operation::Stop, cluster, machine).boxed()
    }

    fn start<'a>(
        &'a self,
        cluster: &'a Cluster,
        machine: &'a str,
    ) -> BoxFuture<'a, Result<(), ActuatorError>> {
        self.act(Operation::Start, cluster, machine).boxed()
    }

    fn end<'a>(
        &'a self,
        cluster: &'a Cluster,
        machine: &'a str,
    ) -> BoxFuture<'a, Result<(), ActuatorError>> {
        async move {
            match self.act(Operation::Delete, cluster, machine).await {
                Err(ActuatorError::Failed { class: ErrorClass::NotFound, .. }) => Ok(()),
                done => done,
            }
        }
        .boxed()
    }

    fn changes(&self) -> ActuatorChanges {
        ActuatorChanges::new(self.changes.subscribe())
    }
}
