//! What the two controllers of the family share.

use std::sync::Arc;

use kube::Client;
use sojourn_api::group::GroupConfig;

use super::caches::GroupCaches;
use super::failed_creation::FailedCreations;
use super::fleet::OpenRotations;
use super::metrics::GroupMetrics;
use super::provider::Providers;
use super::provider_queue::{ProviderQueue, TemplateSource};
use super::snapshot::GroupSnapshot;
use crate::configuration::Configuration;
use crate::event::Events;
use crate::frame::status::Definitions;

/// Everything that decisions are carried out with.
pub(crate) struct Family {
    pub(crate) client: Client,
    pub(crate) caches: Arc<GroupCaches>,
    pub(crate) config: Arc<Configuration<GroupConfig>>,
    pub(crate) providers: Providers,
    pub(crate) provider_queue: ProviderQueue,
    /// What machines are made from.
    pub(crate) templates: Arc<dyn TemplateSource>,
    pub(crate) failed_creations: FailedCreations,
    pub(crate) rotations: OpenRotations,
    pub(crate) events: Events,
    pub(crate) metrics: GroupMetrics,
    pub(crate) definitions: Arc<Definitions>,
}

impl Family {
    /// Whether nothing can be recorded about a group or one of its machines, so that nothing may be
    /// decided either.
    pub(crate) fn is_held_up(&self, snapshot: &GroupSnapshot) -> bool {
        if !self.definitions.any_waiting() {
            return false;
        }
        let group = snapshot.group().and_then(|group| group.metadata.uid.as_deref());
        let machines = snapshot.machines.iter().map(|member| &*member.view().uid);
        group.into_iter().chain(machines).any(|uid| self.definitions.is_waiting(uid))
    }
}

impl std::fmt::Debug for Family {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Family").finish_non_exhaustive()
    }
}
