//! What the caches keep of Machines: what decisions and statuses need, and no more. There may be a
//! hundred thousand of them, and nearly all of them do nothing: what is rare is kept apart.

mod published;
mod seen_healthy;
mod stored_state;

use std::sync::Arc;

use jiff::Timestamp;
use kube::{Resource as _, ResourceExt as _};
use sojourn_api::group::convert::{machine_intent, read_machine};
use sojourn_api::group::status::MachineStatus;
use sojourn_api::group::{InstanceGroup, Machine};
use sojourn_api::name::group::MACHINE_FINALIZER;
use sojourn_core::group::observed::{Health, ObservedMachine, Power, ProviderMachine};
use sojourn_core::group::{intent, state};
use sojourn_core::known::Known;

pub(crate) use self::published::{Published, StatusInputs};
use self::seen_healthy::SeenHealthy;
use self::stored_state::StoredState;
use super::interner::Interner;

/// A Machine as it was last seen.
#[derive(Debug)]
pub(crate) struct MachineView {
    pub(crate) uid: Arc<str>,
    pub(crate) created_at: Timestamp,
    pub(crate) deleting: bool,
    /// Whether our finalizer is on it.
    pub(crate) has_finalizer: bool,
    template: Arc<str>,
    stored: StoredState,
    /// What its status says.
    pub(crate) published: Published,
    pub(crate) seen_healthy: SeenHealthy,
    /// The group that owns it.
    pub(crate) owner: Option<Arc<Owner>>,
    /// Who makes it; nobody, if it is on demand and takes its group's template.
    pub(crate) provider: Option<Arc<str>>,
    pub(crate) version: Box<str>,
    pub(crate) generation: Option<i64>,
    rare: Option<Box<RareFields>>,
}

/// What few machines have.
#[derive(Debug, Default, PartialEq)]
struct RareFields {
    kept: intent::Kept,
    keep_until: Option<Timestamp>,
    drain: Option<Timestamp>,
    reply: Option<intent::Reply>,
    other_finalizers: Vec<String>,
    problem: Option<String>,
    ignored: Vec<String>,
    on_demand: Option<Box<Machine>>,
}

/// The group that made a machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Owner {
    pub(crate) name: String,
    pub(crate) uid: String,
}

impl MachineView {
    pub(crate) fn of(mut machine: Machine, interner: &Interner) -> Self {
        machine.metadata.managed_fields = None;
        let (wanted, keep_until, problem, ignored) = match machine_intent(&machine) {
            Ok(found) => {
                let ignored = found.ignored.iter().map(ToString::to_string).collect();
                (found.machine, found.keep_until, None, ignored)
            }
            Err(problems) => {
                (from_metadata(&machine), None, Some(problems.to_string()), Vec::new())
            }
        };
        let others = machine.finalizers().iter().filter(|one| *one != MACHINE_FINALIZER);
        let other_finalizers: Vec<String> = others.cloned().collect();
        let has_finalizer = other_finalizers.len() < machine.finalizers().len();
        let template = machine.spec.template.as_ref();
        let provider = template.map(|template| interner.text(&template.provider));
        let intent::Machine { uid, created_at, deleting, template, kept, drain, reply, .. } =
            wanted;
        let mut view = Self {
            uid,
            created_at,
            deleting,
            has_finalizer,
            template: interner.text(&template),
            stored: StoredState::of(read_machine(machine.status.as_ref())),
            published: Published::of(machine.status.as_ref()),
            seen_healthy: SeenHealthy::default(),
            owner: owner_of(&machine).map(|owner| interner.owner(owner)),
            provider,
            version: machine.resource_version().unwrap_or_default().into(),
            generation: machine.metadata.generation,
            rare: None,
        };
        let on_demand = machine.spec.on_demand.then(|| Box::new(machine));
        let rare = RareFields {
            kept,
            keep_until,
            drain,
            reply,
            other_finalizers,
            problem,
            ignored,
            on_demand,
        };
        view.rare = (rare != RareFields::default()).then(|| Box::new(rare));
        view
    }

    /// What is asked of it; as much as could be read, if something is wrong with it.
    pub(crate) fn wanted(&self, name: Arc<str>) -> intent::Machine {
        let rare = self.rare.as_deref();
        intent::Machine {
            name,
            uid: self.uid.clone(),
            created_at: self.created_at,
            deleting: self.deleting,
            template: self.template.clone(),
            kept: rare.map(|rare| rare.kept).unwrap_or_default(),
            drain: rare.and_then(|rare| rare.drain),
            reply: rare.and_then(|rare| rare.reply.clone()),
        }
    }

    /// What it remembers.
    pub(crate) fn state(&self) -> state::Machine {
        self.stored.to_state()
    }

    /// Whether it remembers exactly this.
    pub(crate) fn has_state(&self, state: &state::Machine) -> bool {
        self.stored.equals(state)
    }

    /// What is observed of it while it is healthy: it is not on its way out, and its provider and
    /// nobody else says how it is.
    pub(crate) fn observed_if_healthy(&self) -> Option<ObservedMachine> {
        let id = self.stored.id_if_ready().filter(|_| !self.deleting)?.clone();
        let found = ProviderMachine { id, power: Power::Running, interruption: None };
        Some(ObservedMachine {
            provider: Known::Is(found),
            health: Known::Is(Health::Ready),
            last_result: None,
            in_flight: false,
        })
    }

    /// Whether a status has something to say that is not said. Somebody who deletes a machine makes
    /// another generation of it, which alone is no news: its metadata says so.
    pub(crate) fn needs_status_write(&self, status: &MachineStatus) -> bool {
        if !self.published.differs(status) {
            return false;
        }
        let before = self.generation.map(|generation| generation.saturating_sub(1));
        let unseen = || MachineStatus { observed_generation: before, ..status.clone() };
        !self.deleting || self.published.differs(&unseen())
    }

    /// The provider's name for it.
    pub(crate) fn provider_id(&self) -> Option<&str> {
        self.stored.provider_id()
    }

    pub(crate) fn other_finalizers(&self) -> &[String] {
        self.rare.as_deref().map_or(&[], |rare| &rare.other_finalizers)
    }

    /// Until when somebody asked for it to be kept. One that was lent for a time goes at its end,
    /// whoever asks.
    pub(crate) fn keep_until(&self) -> Option<Timestamp> {
        let rare = self.rare.as_deref().filter(|rare| rare.on_demand.is_none());
        rare.and_then(|rare| rare.keep_until)
    }

    /// What is wrong with it.
    pub(crate) fn problem(&self) -> Option<&str> {
        self.rare.as_deref()?.problem.as_deref()
    }

    /// What somebody wrote and is ignored.
    pub(crate) fn ignored(&self) -> &[String] {
        self.rare.as_deref().map_or(&[], |rare| &rare.ignored)
    }

    /// All of it, if somebody asked for it by itself.
    pub(crate) fn on_demand(&self) -> Option<&Machine> {
        self.rare.as_deref()?.on_demand.as_deref()
    }
}

/// What can be said of a machine of which nothing but the metadata is sure: it was made from
/// something that its group does not have.
fn from_metadata(machine: &Machine) -> intent::Machine {
    intent::Machine {
        name: machine.name_any().into(),
        uid: machine.uid().unwrap_or_default().into(),
        created_at: machine.creation_timestamp().map_or(Timestamp::MAX, |time| time.0),
        deleting: machine.metadata.deletion_timestamp.is_some(),
        template: Arc::from(""),
        kept: intent::Kept::No,
        drain: None,
        reply: None,
    }
}

/// The group that made a Machine. One that somebody asked for by itself has none, whatever it says.
fn owner_of(machine: &Machine) -> Option<Owner> {
    if machine.spec.on_demand {
        return None;
    }
    let owner = machine.owner_references().iter().find(|owner| owner.controller == Some(true))?;
    let ours = owner.kind == InstanceGroup::kind(&())
        && owner.api_version == InstanceGroup::api_version(&());
    ours.then(|| Owner { name: owner.name.clone(), uid: owner.uid.clone() })
}

#[cfg(test)]
mod tests;
