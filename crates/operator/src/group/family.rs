//! What the two controllers of the family share.

use std::sync::Arc;

use kube::Client;
use sojourn_api::group::GroupConfig;

use super::count::Counts;
use super::fleet::Rotations;
use super::hands::Hands;
use super::provider::Providers;
use super::refusal::Refusals;
use super::subject::Subject;
use super::world::World;
use crate::configuration::Configuration;
use crate::event::Events;
use crate::frame::status::Definitions;

/// Everything that decisions are carried out with.
pub(crate) struct Family {
    pub(crate) client: Client,
    pub(crate) world: Arc<World>,
    pub(crate) config: Arc<Configuration<GroupConfig>>,
    pub(crate) providers: Providers,
    pub(crate) hands: Hands,
    pub(crate) refusals: Refusals,
    pub(crate) rotations: Rotations,
    pub(crate) events: Events,
    pub(crate) counts: Counts,
    pub(crate) definitions: Arc<Definitions>,
}

impl Family {
    /// Whether nothing can be recorded about a group or one of its machines, so that nothing may be
    /// decided either.
    pub(crate) fn is_held_up(&self, subject: &Subject) -> bool {
        if !self.definitions.hold_up_any() {
            return false;
        }
        let group = subject.group().and_then(|group| group.metadata.uid.as_deref());
        let machines = subject.machines.iter().map(|member| &*member.view().uid);
        group.into_iter().chain(machines).any(|uid| self.definitions.holds_up(uid))
    }
}

impl std::fmt::Debug for Family {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Family").finish_non_exhaustive()
    }
}
