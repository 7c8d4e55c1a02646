//! What decisions are made from and carried out with.

use std::sync::Arc;

use jiff::Timestamp;
use kube::Client;
use sojourn_api::cluster::ClusterConfig;

use super::actuators::Actuators;
use super::caches::ClusterCaches;
use super::calls::Calls;
use super::lookups::Lookups;
use super::metrics::ClusterMetrics;
use super::question::{ProviderAnswer, TargetAnswer};
use super::target::Targets;
use super::written::Written;
use crate::clock::Clock;
use crate::configuration::Configuration;
use crate::driver::Drivers;
use crate::event::Events;
use crate::family::WebService;
use crate::frame::status::Definitions;
use crate::outbox::Outbox;

/// Everything that the controller of the family has.
pub(crate) struct Family {
    pub(super) client: Client,
    pub(super) clock: Arc<dyn Clock>,
    /// When this process took over: what was under way before was another's.
    pub(super) since: Timestamp,
    pub(super) caches: Arc<ClusterCaches>,
    pub(super) config: Arc<Configuration<ClusterConfig>>,
    pub(super) drivers: Arc<Drivers>,
    pub(super) web: WebService,
    pub(super) actuators: Actuators,
    pub(super) calls: Calls,
    pub(super) targets: Targets,
    pub(super) provider_lookups: Lookups<Option<ProviderAnswer>>,
    pub(super) target_lookups: Lookups<Option<TargetAnswer>>,
    /// Records that are removed.
    pub(super) removals: Lookups<()>,
    /// CSRs that are approved.
    pub(super) approvals: Lookups<Written>,
    /// Machine objects of clusters that are made anew.
    pub(super) replacements: Lookups<Written>,
    pub(super) outbox: Outbox,
    pub(super) events: Events,
    pub(super) definitions: Arc<Definitions>,
    pub(super) metrics: ClusterMetrics,
}

impl std::fmt::Debug for Family {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Family").finish_non_exhaustive()
    }
}

impl Family {
    /// Nobody asks or calls for an object any more.
    pub(super) fn forget(&self, uid: &str) {
        self.calls.forget(uid);
        self.provider_lookups.forget(uid);
        self.target_lookups.forget(uid);
        self.removals.forget(uid);
        self.approvals.forget(uid);
        self.replacements.forget(uid);
    }

    /// Where people reach us, if anybody is served.
    pub(super) fn public_url(&self) -> Option<String> {
        let WebService { gateway: served, public_url, .. } = &self.web;
        let configured = self.config.current().public_url.clone();
        configured.or_else(|| public_url.clone()).filter(|_| *served)
    }
}
