//! Observe: what can be seen of machines, from caches and from memory. Nothing is written, and no
//! request is sent.

use sojourn_core::by_name::ByName;
use sojourn_core::group::observed::{Observed, ObservedMachine};
use sojourn_core::known::Known;
use sojourn_drivers::machine::MachineRef;

use super::family::Family;
use super::snapshot::{GroupSnapshot, Member, OnDemandMachine};

impl Family {
    pub(super) fn observe_group(&self, snapshot: &GroupSnapshot) -> Observed {
        let mut machines = ByName::in_order(snapshot.machines.iter().map(|member| {
            let provider = member.view().provider.as_deref();
            (member.key.name.clone(), self.observe_machine(member, provider))
        }));
        for reserved in &snapshot.state.reserved {
            let last_result = self.failed_creations.of(&snapshot.key, &reserved.name);
            if last_result.is_some() && machines.get(&reserved.name).is_none() {
                let seen = ObservedMachine {
                    last_result,
                    provider: Known::Absent,
                    ..ObservedMachine::default()
                };
                machines.insert(reserved.name.as_str().into(), seen);
            }
        }
        Observed { machines }
    }

    pub(super) fn observe_on_demand(&self, machine: &OnDemandMachine) -> ObservedMachine {
        self.observe_machine(&machine.member, machine.provider.as_deref())
    }

    /// What is observed of a machine; nothing, if its provider is not known here.
    fn observe_machine(&self, member: &Member, provider: Option<&str>) -> ObservedMachine {
        let Some(provider) = provider.and_then(|name| self.providers.get(name)) else {
            return ObservedMachine::default();
        };
        let view = member.view();
        let if_healthy = match view.observed_if_healthy() {
            Some(seen) if view.seen_healthy.is_valid() => return seen,
            if_healthy => if_healthy,
        };
        view.seen_healthy.begin_check();
        let machine = MachineRef { key: &member.key, uid: &view.uid, id: view.provider_id() };
        let observation = self.provider_queue.status(provider.as_ref(), machine);
        let heartbeat = self.caches.heartbeat(&member.key);
        let health = self.caches.health_tracker.update(&member.key, &observation.status, heartbeat);
        let provider = match observation.status {
            Known::Is(status) => Known::Is(status.machine),
            Known::Absent => Known::Absent,
            Known::Unknown => Known::Unknown,
        };
        let seen = ObservedMachine {
            provider,
            health,
            last_result: observation.result,
            in_flight: observation.in_flight,
        };
        // A heartbeat expires without a change, so a machine that has one is observed every time.
        if heartbeat.is_none() && if_healthy.as_ref() == Some(&seen) {
            view.seen_healthy.confirm();
        } else {
            // Another look, which began before, may have found it healthy.
            view.seen_healthy.invalidate();
        }
        seen
    }
}
