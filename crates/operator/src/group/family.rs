//! What the two controllers of the family share.

use std::sync::Arc;

use kube::Client;
use sojourn_api::group::GroupConfig;

use super::count::Counts;
use super::hands::Hands;
use super::provider::Providers;
use super::refusal::Refusals;
use super::world::World;
use crate::configuration::Configuration;
use crate::event::Events;

/// Everything that decisions are carried out with.
pub(crate) struct Family {
    pub(crate) client: Client,
    pub(crate) world: Arc<World>,
    pub(crate) config: Arc<Configuration<GroupConfig>>,
    pub(crate) providers: Providers,
    pub(crate) hands: Hands,
    pub(crate) refusals: Refusals,
    pub(crate) events: Events,
    pub(crate) counts: Counts,
}

impl std::fmt::Debug for Family {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Family").finish_non_exhaustive()
    }
}
