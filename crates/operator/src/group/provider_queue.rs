//! The operations of machines at their providers, as the shared queue runs them.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use sojourn_core::group::observed::OperationResult;
use sojourn_core::key::Key;
use sojourn_core::known::Known;
use sojourn_drivers::machine::{
    CreateRequest, MachineRef, Provider, ProviderError, ProviderStatus,
};

use crate::operation_queue::{Operation, OperationQueue};

/// Submits operations of machines, and tells their results.
pub(crate) type ProviderQueue = OperationQueue<MachineOperation>;

/// Reads what a machine is to be made from, at the moment at which it is made.
pub(crate) trait TemplateSource: fmt::Debug + Send + Sync {
    /// The request for the very object, or why there is none.
    fn create_request<'a>(
        &'a self,
        key: &'a Key,
        uid: &'a str,
    ) -> BoxFuture<'a, Result<CreateRequest, String>>;
}

/// What is to be done about a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OperationKind {
    Create,
    Delete,
}

/// One operation of one machine.
#[derive(Debug)]
pub(crate) struct MachineOperation {
    pub(crate) owner: ReconcileKey,
    pub(crate) machine: Key,
    pub(crate) uid: String,
    pub(crate) id: Option<String>,
    pub(crate) kind: OperationKind,
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) templates: Arc<dyn TemplateSource>,
}

/// The object whose reconciler decides about a machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum ReconcileKey {
    Group(Key),
    /// The machine itself: it is on demand.
    Machine(Key),
}

impl MachineOperation {
    fn machine(&self) -> MachineRef<'_> {
        MachineRef { key: &self.machine, uid: &self.uid, id: self.id.as_deref() }
    }

    async fn create(&self) -> Result<OperationResult, ProviderError> {
        let request = self.templates.create_request(&self.machine, &self.uid).await;
        let request = request.map_err(ProviderError::Failed)?;
        let id = self.provider.create(&request).await?;
        Ok(OperationResult::Created { id })
    }
}

impl Operation for MachineOperation {
    type Owner = ReconcileKey;
    type Kind = OperationKind;
    type Outcome = OperationResult;

    fn owner(&self) -> &ReconcileKey {
        &self.owner
    }

    fn uid(&self) -> &str {
        &self.uid
    }

    fn kind(&self) -> OperationKind {
        self.kind
    }

    async fn run(&self) -> OperationResult {
        let done = match self.kind {
            OperationKind::Create => self.create().await,
            OperationKind::Delete => {
                self.provider.delete(self.machine()).await.map(|()| OperationResult::Deleted)
            }
        };
        done.unwrap_or_else(|error| match error {
            ProviderError::Refused(message) => OperationResult::Refused { message },
            ProviderError::Failed(message) => OperationResult::Failed { message },
        })
    }

    fn failed(&self, message: String) -> OperationResult {
        OperationResult::Failed { message }
    }

    fn is_accepted(result: &OperationResult) -> bool {
        matches!(result, OperationResult::Created { .. } | OperationResult::Deleted)
    }

    fn is_visible(&self) -> bool {
        is_visible(self.kind, &self.provider.status(self.machine()))
    }

    /// A deletion that was accepted is no news before the machine is gone.
    fn is_news(result: &OperationResult, visible: bool) -> bool {
        *result != OperationResult::Deleted || visible
    }
}

/// What is known of a machine at its provider, with its last operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProviderObservation {
    pub(crate) status: Known<ProviderStatus>,
    pub(crate) result: Option<OperationResult>,
    pub(crate) in_flight: bool,
}

impl ProviderQueue {
    /// What is known of a machine.
    pub(crate) fn status(
        &self,
        provider: &dyn Provider,
        machine: MachineRef<'_>,
    ) -> ProviderObservation {
        let status = provider.status(machine);
        let last = self.last(machine.uid, |kind| is_visible(kind, &status));
        let unseen = last.expected == Some(OperationKind::Create) && status.is_absent();
        ProviderObservation {
            // It was made; that it is not seen yet says nothing.
            status: if unseen { Known::Unknown } else { status },
            result: last.outcome,
            in_flight: last.in_flight,
        }
    }
}

/// Whether the effect of an operation can be seen.
fn is_visible(kind: OperationKind, status: &Known<ProviderStatus>) -> bool {
    match kind {
        OperationKind::Create => matches!(status, Known::Is(_)),
        OperationKind::Delete => status.is_absent(),
    }
}

#[cfg(test)]
mod tests;
