//! Parse: a group with its machines, or a machine without a group, as the caches have them.

use std::sync::Arc;

use sojourn_api::group::convert::{
    Wanted, group_intent, on_demand_intent, read_group, template_of,
};
use sojourn_api::group::{GroupConfig, InstanceGroup};
use sojourn_core::by_name::ByName;
use sojourn_core::group::{intent, state};
use sojourn_core::key::Key;
use sojourn_core::term::Term;

use super::caches::GroupCaches;
use super::view::MachineView;
use crate::frame::Read;

/// A group that is being looked at.
#[derive(Debug)]
pub(crate) struct GroupSnapshot {
    pub(crate) key: Key,
    group: Arc<Read<InstanceGroup>>,
    /// What is wanted, or why that cannot be told.
    pub(crate) wanted: Result<Wanted, String>,
    /// Its machines, in the order of their names, and what is wanted of each.
    pub(crate) machines: Vec<Member>,
    pub(crate) machine_intents: Vec<intent::Machine>,
    pub(crate) state: state::Group,
}

/// A machine that is being looked at.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub(crate) key: Key,
    read: Arc<Read<MachineView>>,
}

impl Member {
    /// Nothing, if it cannot be read.
    fn of(key: Key, read: Arc<Read<MachineView>>) -> Option<Self> {
        match &*read {
            // We have removed our finalizer; somebody else's is still there.
            Ok(view) if view.deleting && !view.has_finalizer => None,
            Ok(_) => Some(Self { key, read }),
            Err(problem) => {
                tracing::warn!(machine = %key, problem, "a Machine cannot be read");
                None
            }
        }
    }

    pub(crate) fn view(&self) -> &MachineView {
        self.read.as_ref().as_ref().expect("only what can be read is made a member")
    }

    pub(crate) fn name(&self) -> &str {
        &self.key.name
    }

    pub(crate) fn wanted(&self) -> intent::Machine {
        self.view().wanted(self.key.name.clone())
    }
}

impl GroupSnapshot {
    /// Nothing, if it is not there.
    pub(crate) fn find(caches: &GroupCaches, key: &Key, config: &GroupConfig) -> Option<Self> {
        let group = caches.groups.get(key)?;
        let (wanted, state, uid) = match &*group {
            Ok(readable) => {
                let mut wanted =
                    group_intent(readable, config).map_err(|problems| problems.to_string());
                if let Ok(wanted) = &mut wanted {
                    wanted.intent.deleting |= caches.is_ending(&key.namespace);
                }
                let uid = readable.metadata.uid.clone().unwrap_or_default();
                (wanted, read_group(readable.status.as_ref()), uid)
            }
            Err(problem) => (Err(problem.clone()), state::Group::default(), String::new()),
        };
        let members = caches.members(key).into_iter();
        let (machines, machine_intents) = members
            .filter_map(|(key, read)| Member::of(key, read))
            .filter(|member| member.view().owner.as_ref().is_some_and(|owner| owner.uid == uid))
            .map(|member| {
                let wish = member.wanted();
                (member, wish)
            })
            .unzip();
        Some(Self { key: key.clone(), group, wanted, machines, machine_intents, state })
    }

    /// The object, if it can be read.
    pub(crate) fn group(&self) -> Option<&InstanceGroup> {
        self.group.as_ref().as_ref().ok()
    }

    pub(crate) fn member(&self, name: &str) -> Option<&Member> {
        let found = self.machines.binary_search_by(|member| member.name().cmp(name));
        found.ok().map(|index| &self.machines[index])
    }

    /// What is remembered of the group and of its machines.
    pub(crate) fn remembered(&self) -> state::GroupState {
        let of = |member: &Member| (member.key.name.clone(), member.view().state());
        state::GroupState {
            group: self.state.clone(),
            machines: ByName::in_order(self.machines.iter().map(of)),
        }
    }
}

/// A machine without a group: somebody asked for it, or its group is gone.
#[derive(Debug)]
pub(crate) struct OnDemandMachine {
    pub(crate) member: Member,
    /// Who makes it.
    pub(crate) provider: Option<String>,
    pub(crate) intent: Result<intent::OnDemand, String>,
    pub(crate) ignored: Vec<String>,
    /// The group that it was lent from, if that is gone.
    pub(crate) group_gone: Option<String>,
}

impl OnDemandMachine {
    /// Nothing, if it is not there or its group's.
    pub(crate) fn find(caches: &GroupCaches, key: &Key, config: &GroupConfig) -> Option<Self> {
        let member = Member::of(key.clone(), caches.machine(key)?)?;
        let view = member.view();
        let ending = caches.is_ending(&key.namespace);
        if let Some(owner) = &view.owner
            && caches.owns(&Key::new(key.namespace.clone(), owner.name.clone()), &owner.uid)
        {
            return None;
        }
        let provider = view.provider.as_deref().map(str::to_owned);
        let Some(machine) = view.on_demand() else {
            // Nobody lends it any more: it stays until somebody deletes it.
            let intent = Ok(intent::OnDemand { ending, ..orphan(member.wanted(), config) });
            let group_gone = view.owner.as_ref().map(|owner| owner.name.clone());
            return Some(Self { provider, intent, ignored: Vec::new(), group_gone, member });
        };
        let host = machine.spec.group.clone().map(|name| Key::new(key.namespace.clone(), name));
        let host = host.and_then(|key| caches.groups.get(&key));
        let group = host.as_deref().and_then(|read| read.as_ref().ok());
        let provider = template_of(machine, group).map(|template| template.provider.clone());
        let provider = provider.or_else(|| named_in(view.provider_id()?));
        let missing = machine.spec.template.is_none() && group.is_none();
        // One that is there and cannot be read is not gone.
        let group_gone = machine.spec.group.clone().filter(|_| host.is_none());
        let announced_end = machine.status.as_ref().and_then(|status| status.expires_at.as_ref());
        let announced_end = announced_end.filter(|_| group_gone.is_some()).map(|time| time.0);
        let (intent, ignored) = match on_demand_intent(machine, group, config) {
            Ok(_) if missing && view.provider_id().is_none() && !view.deleting => {
                let name = machine.spec.group.as_deref().unwrap_or_default();
                let words = format!("spec.group: there is no InstanceGroup {name} here");
                (Err(words), Vec::new())
            }
            Ok(found) => {
                let intent = intent::OnDemand { ending, announced_end, ..found.intent };
                (Ok(intent), found.ignored.iter().map(ToString::to_string).collect())
            }
            Err(problems) => (Err(problems.to_string()), Vec::new()),
        };
        Some(Self { provider, intent, ignored, group_gone, member })
    }
}

/// Who made a machine, by the name that it was given there. It outlives the template that a machine
/// on demand took from its group.
fn named_in(id: &str) -> Option<String> {
    id.split_once("://").map(|(provider, _)| provider.to_owned())
}

/// What holds for a machine whose group is gone.
fn orphan(machine: intent::Machine, config: &GroupConfig) -> intent::OnDemand {
    intent::OnDemand {
        machine,
        paused: false,
        observe: false,
        age: Term::Never,
        max_age: Term::Never,
        renewed_until: None,
        warn_before: jiff::SignedDuration::ZERO,
        registration_timeout: jiff::SignedDuration::MAX,
        drain_timeout: config.default_drain_timeout,
        ending: false,
        announced_end: None,
    }
}
