//! The actuators that this process knows, by the platform whose machines they stop and start; and what they answer,
//! in the words of `core`.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::FutureExt as _;
use futures::stream::{FuturesUnordered, StreamExt as _};
use jiff::SignedDuration;
use sojourn_core::cluster::{
    self as decision, CallFailure, ErrorClass, InventoryMachine, Listing, ObservedMachine, Stopped,
};
use sojourn_core::known::Known;
use sojourn_drivers::actuator::{
    Action, ActuatedMachine, Actuator, ActuatorChange, ActuatorChanges, ActuatorError, Cluster,
    Platform,
};
use sojourn_drivers::exec;

use super::words;

/// Whoever has not answered by then is not waited for, unless it is said otherwise. It is shorter than a call may take
/// to show (`core::cluster::Settings::call_visibility`).
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// Without a folder of programs nobody stops and starts what programs stop and start elsewhere.
const NO_PROGRAMS: &str =
    "name: no program is run here; --providers names the folder that has them";
/// A cluster with more machines is none: every one of them is in its status.
pub const MAX_MACHINES: usize = 2000;

/// Actuators by the name that clusters call their platform. Clones wait for answers equally long.
#[derive(Debug, Clone)]
pub struct Actuators {
    by_name: BTreeMap<&'static str, Arc<dyn Actuator>>,
    timeout_millis: Arc<AtomicU64>,
}

impl Default for Actuators {
    fn default() -> Self {
        let actuators = Self { by_name: BTreeMap::new(), timeout_millis: Arc::default() };
        actuators.wait_for(ANSWER_TIMEOUT);
        actuators
    }
}

impl Actuators {
    /// With one more.
    #[must_use]
    pub fn with(mut self, actuator: Arc<dyn Actuator>) -> Self {
        self.by_name.insert(actuator.name(), actuator);
        self
    }

    /// From now on, nobody is waited for longer.
    pub fn wait_for(&self, timeout: Duration) {
        let millis = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        self.timeout_millis.store(millis.max(1), Ordering::Relaxed);
    }

    fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_millis.load(Ordering::Relaxed))
    }

    /// The one whose machines those of such a cluster are.
    pub fn find(&self, platform: &Platform) -> Option<&Arc<dyn Actuator>> {
        self.by_name.get(&*platform.name).filter(|actuator| actuator.can_handle(platform))
    }

    /// What a decision has to know of a platform. That its actuator is away, or refuses its config by now, is an
    /// outage: its machines are off or on as before, and may not be taken for ones that nobody stops.
    pub fn platform(&self, platform: &Platform) -> decision::Platform {
        if self.find(platform).is_none() && self.check(platform).is_empty() {
            return decision::Platform::Unsupported;
        }
        let actuator = self.by_name.get(&*platform.name);
        decision::Platform::Actuated(actuator.map_or(Stopped::Kept, |one| one.stopped()))
    }

    /// Why nobody can stop and start machines of such a platform at the moment, each in a sentence with its path. A
    /// platform that nobody ever handles is not wrong.
    pub fn check(&self, platform: &Platform) -> Vec<String> {
        match self.by_name.get(&*platform.name) {
            Some(actuator) => actuator.check(&platform.config),
            None if platform.name == exec::NAME => vec![NO_PROGRAMS.to_owned()],
            None => Vec::new(),
        }
    }

    /// The one for a call, or why there is none.
    fn find_for(&self, cluster: &Cluster) -> Result<&Arc<dyn Actuator>, CallFailure> {
        let platform = &cluster.platform;
        self.find(platform).ok_or_else(|| {
            let problems = self.check(platform);
            let message = if problems.is_empty() {
                format!("nobody here handles the platform {}", platform.name)
            } else {
                problems.join("; ")
            };
            CallFailure::new(ErrorClass::Refused, words(&message))
        })
    }

    /// Where a person finds what is on record of a cluster's machines, if anything is ever.
    pub fn where_records_are(&self, cluster: &Cluster) -> Option<String> {
        self.find(&cluster.platform)?.where_records_are(cluster)
    }

    /// The machines of a cluster. What could not be listed as a whole is a failure: that there are none is only said
    /// by a complete list.
    pub async fn list(&self, cluster: &Cluster) -> Listing {
        let actuator = match self.find_for(cluster) {
            Ok(actuator) => actuator,
            Err(failure) => return Listing::Failed(failure),
        };
        match self.answer(actuator.list(cluster)).await {
            Ok(machines) => observed(machines),
            Err(failure) => Listing::Failed(failure),
        }
    }

    /// What is on record of machines of a cluster that were removed.
    pub async fn records(&self, cluster: &Cluster) -> Known<Vec<InventoryMachine>> {
        let Some(actuator) = self.find(&cluster.platform) else { return Known::Unknown };
        match self.answer(actuator.records(cluster)).await {
            Ok(records) if records.is_empty() => Known::Absent,
            Ok(records) => Known::Is(records),
            Err(failure) => {
                tracing::warn!(cluster = %cluster.key, %failure, "cannot read records of machines");
                Known::Unknown
            }
        }
    }

    /// Removes what is on record of a cluster's machines.
    pub async fn remove_records(&self, cluster: &Cluster) -> Result<(), CallFailure> {
        let actuator = self.find_for(cluster)?;
        self.answer(actuator.remove_records(cluster)).await
    }

    /// Tells for ever on which platform a list may have changed, and of which clusters there.
    pub async fn follow(&self, heard: impl Fn(&'static str, &ActuatorChange)) {
        let mut waiting: FuturesUnordered<_> = FuturesUnordered::new();
        let next = async |platform, mut changes: ActuatorChanges| {
            let change = changes.next().await;
            (platform, changes, change)
        };
        for (platform, actuator) in &self.by_name {
            waiting.push(next(*platform, actuator.changes()));
        }
        while let Some((platform, changes, change)) = waiting.next().await {
            // One that is gone has nothing to tell any more.
            if let Some(change) = change {
                heard(platform, &change);
                waiting.push(next(platform, changes));
            }
        }
        std::future::pending::<()>().await;
    }

    /// Begins the same at some machines by one request.
    pub(super) async fn act(
        &self,
        cluster: &Cluster,
        action: Action,
        machines: &[String],
    ) -> Result<(), CallFailure> {
        let actuator = self.find_for(cluster)?;
        match machines {
            [] => Ok(()),
            [machine] => self.answer(actuator.act(cluster, action, machine)).await,
            machines => self.answer(actuator.act_on_all(cluster, action, machines)).await,
        }
    }

    /// About how many machines of a cluster one request can be.
    pub(super) fn max_batch(&self, cluster: &Cluster) -> usize {
        self.find(&cluster.platform).map_or(1, |actuator| actuator.max_batch().max(1))
    }

    /// What an actuator answers within its time, whatever it does meanwhile.
    async fn answer<T>(
        &self,
        asked: impl Future<Output = Result<T, ActuatorError>>,
    ) -> Result<T, CallFailure> {
        let timeout = self.timeout();
        match tokio::time::timeout(timeout, AssertUnwindSafe(asked).catch_unwind()).await {
            Ok(Ok(answer)) => answer.map_err(failure),
            Ok(Err(_)) => {
                tracing::error!("an actuator panicked; it is asked again");
                Err(CallFailure::new(ErrorClass::Transient, "the actuator broke"))
            }
            Err(_) => {
                let seconds = timeout.as_secs();
                let message =
                    format!("no answer within {seconds} s; whether it took effect is unknown");
                Err(CallFailure::new(ErrorClass::Transient, message))
            }
        }
    }
}

/// Why something failed, in the words of a decision. What is not known to have failed is tried again, as what did.
fn failure(error: ActuatorError) -> CallFailure {
    match error {
        ActuatorError::Failed { class, message, retry_after } => CallFailure {
            retry_after: retry_after
                .map(|after| SignedDuration::try_from(after).unwrap_or(SignedDuration::MAX)),
            ..CallFailure::new(class, words(&message))
        },
        ActuatorError::Unknown(message) => {
            let message = format!("whether it took effect is unknown: {}", words(&message));
            CallFailure::new(ErrorClass::Transient, message)
        }
    }
}

/// A complete list, each machine once.
fn observed(machines: Vec<ActuatedMachine>) -> Listing {
    if machines.len() > MAX_MACHINES {
        let message = format!("more than {MAX_MACHINES} machines match");
        return Listing::Failed(CallFailure::new(ErrorClass::Refused, message));
    }
    // What is in two parts of a list was moved meanwhile; the later part is the newer one.
    let by_id: BTreeMap<String, ObservedMachine> = machines
        .into_iter()
        .map(|machine| (machine.id.clone(), observed_machine(machine)))
        .collect();
    Listing::Listed(by_id.into_values().collect())
}

fn observed_machine(machine: ActuatedMachine) -> ObservedMachine {
    let ActuatedMachine { id, state, spot, node_name, addresses } = machine;
    ObservedMachine { name: id.clone(), id, state, spot, node_name, addresses }
}

#[cfg(test)]
mod tests;
