//! What the caches keep of Machines: what decisions and statuses need, and no more. There may be a
//! hundred thousand of them, and nearly all of them do nothing: what is rare is kept apart.

mod memory;
mod published;
mod well;

use std::sync::Arc;

use jiff::Timestamp;
use kube::{Resource as _, ResourceExt as _};
use sojourn_api::group::convert::{machine_intent, read_machine};
use sojourn_api::group::status::MachineStatus;
use sojourn_api::group::{InstanceGroup, Machine};
use sojourn_api::name::group::MACHINE_FINALIZER;
use sojourn_core::group::observed::{Found, Health, Power, Seen};
use sojourn_core::group::{intent, state};
use sojourn_core::known::Known;

use self::memory::Memory;
pub(crate) use self::published::{Facts, Published};
use self::well::Well;
use super::pool::Pool;

/// A Machine as it was last seen.
#[derive(Debug)]
pub(crate) struct MachineView {
    pub(crate) uid: Arc<str>,
    pub(crate) created_at: Timestamp,
    pub(crate) deleting: bool,
    /// Whether our finalizer is on it.
    pub(crate) held: bool,
    template: Arc<str>,
    memory: Memory,
    /// What its status says.
    pub(crate) published: Published,
    pub(crate) well: Well,
    /// The group that owns it.
    pub(crate) owner: Option<Arc<Owner>>,
    /// Who makes it; nobody, if it is on demand and takes its group's template.
    pub(crate) provider: Option<Arc<str>>,
    pub(crate) version: Box<str>,
    pub(crate) generation: Option<i64>,
    rare: Option<Box<Rare>>,
}

/// What few machines have.
#[derive(Debug, Default, PartialEq)]
struct Rare {
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
    pub(crate) fn of(mut machine: Machine, pool: &Pool) -> Self {
        machine.metadata.managed_fields = None;
        let (wanted, keep_until, problem, ignored) = match machine_intent(&machine) {
            Ok(found) => {
                let ignored = found.ignored.iter().map(ToString::to_string).collect();
                (found.machine, found.keep_until, None, ignored)
            }
            Err(problems) => (bare(&machine), None, Some(problems.to_string()), Vec::new()),
        };
        let others = machine.finalizers().iter().filter(|one| *one != MACHINE_FINALIZER);
        let other_finalizers: Vec<String> = others.cloned().collect();
        let held = other_finalizers.len() < machine.finalizers().len();
        let template = machine.spec.template.as_ref();
        let provider = template.map(|template| pool.text(&template.provider));
        let intent::Machine { uid, created_at, deleting, template, kept, drain, reply, .. } =
            wanted;
        let mut view = Self {
            uid,
            created_at,
            deleting,
            held,
            template: pool.text(&template),
            memory: Memory::of(read_machine(machine.status.as_ref())),
            published: Published::of(machine.status.as_ref()),
            well: Well::default(),
            owner: owner_of(&machine).map(|owner| pool.owner(owner)),
            provider,
            version: machine.resource_version().unwrap_or_default().into(),
            generation: machine.metadata.generation,
            rare: None,
        };
        let on_demand = machine.spec.on_demand.then(|| Box::new(machine));
        let rare =
            Rare { kept, keep_until, drain, reply, other_finalizers, problem, ignored, on_demand };
        view.rare = (rare != Rare::default()).then(|| Box::new(rare));
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
        self.memory.recall()
    }

    /// Whether that is this.
    pub(crate) fn remembers(&self, state: &state::Machine) -> bool {
        self.memory.is(state)
    }

    /// What is seen of it while it is well: it is not on its way out, and its provider and nobody
    /// else says how it is.
    pub(crate) fn sight_if_well(&self) -> Option<Seen> {
        let id = self.memory.id_if_ready().filter(|_| !self.deleting)?.clone();
        let found = Found { id, power: Power::Running, interruption: None };
        Some(Seen {
            provider: Known::Is(found),
            health: Known::Is(Health::Ready),
            answered: None,
            asked: false,
        })
    }

    /// Whether a status has something to say that is not said. Somebody who deletes a machine makes
    /// another generation of it, which alone is no news: its metadata says so.
    pub(crate) fn says_something_else(&self, status: &MachineStatus) -> bool {
        if !self.published.differs(status) {
            return false;
        }
        let before = self.generation.map(|generation| generation.saturating_sub(1));
        let unseen = || MachineStatus { observed_generation: before, ..status.clone() };
        !self.deleting || self.published.differs(&unseen())
    }

    /// The provider's name for it.
    pub(crate) fn provider_id(&self) -> Option<&str> {
        self.memory.provider_id()
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
fn bare(machine: &Machine) -> intent::Machine {
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
