//! What the gateway, reports and links in mails ask of the family: where instances answer, whose
//! report it is, and what a link does.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::Client;
use sojourn_api::lab::convert::{power_intent, read_state};
use sojourn_api::lab::status::{InstanceStatus, Phase};
use sojourn_api::name::{LAB_GROUP, VERSION};
use sojourn_core::activity::Source;
use sojourn_core::key::Key;
use sojourn_core::lab::source;
use sojourn_core::lab::waking::{Waking, waking};

use super::caches::LabCaches;
use super::link_action::InstanceLinkHandler;
use super::{LabReplica, ServedLab, wake};
use crate::family::{FamilyGateway, FamilyReports, FamilyWeb, Site};
use crate::gateway::{
    ActivityCallback, Backend, Backends, LentResource, ReportVerifier, WakeError, WakeOutcome,
    label,
};

impl Backends for LabCaches {
    fn resource(&self) -> LentResource {
        LentResource { group: LAB_GROUP, version: VERSION, resource: "instances" }
    }

    fn wake<'a>(
        &'a self,
        client: &'a Client,
        key: &'a Key,
    ) -> BoxFuture<'a, Result<WakeOutcome, WakeError>> {
        wake::wake(client, key).boxed()
    }

    fn find(&self, key: &Key, environment: &str) -> Backend {
        let instance = self.instances.get(key);
        let Some(Ok(instance)) = instance.as_deref() else { return Backend::Missing };
        let none = InstanceStatus::default();
        let status = instance.status.as_ref().unwrap_or(&none);
        let known = status.environments.iter().find(|one| one.name == environment);
        if !status.environments.is_empty() && known.is_none() {
            return Backend::NoSuchEnvironment;
        }
        match waking(&read_state(instance.status.as_ref()), power_intent(instance)) {
            Waking::Runs => {}
            Waking::Allowed => return Backend::Stopped { can_wake: true, why: String::new() },
            Waking::Refused(refusal) => {
                return Backend::Stopped { can_wake: false, why: refusal.to_string() };
            }
        }
        match known.and_then(|one| one.phase) {
            Some(Phase::Ready) => match self.endpoint(key, environment) {
                Some(endpoint) => Backend::Ready { endpoint },
                None => Backend::Failed { why: "it listens nowhere".to_owned() },
            },
            Some(Phase::Failed) => {
                let why = known.and_then(|one| one.message.clone());
                Backend::Failed { why: why.unwrap_or_else(|| "it does not run".to_owned()) }
            }
            _ => Backend::Starting { trouble: known.and_then(|one| one.message.clone()) },
        }
    }

    fn label(&self, key: &Key, environment: &str) -> Option<String> {
        let instance = self.instances.get(key);
        let Some(Ok(instance)) = instance.as_deref() else { return None };
        let uid = instance.metadata.uid.as_deref()?;
        Some(label::label(key, uid, environment))
    }

    fn labelled(&self, label: &str) -> Option<(Key, String)> {
        let mut found = None;
        for key in self.by_origin(label::hash_of(label)?) {
            let instance = self.instances.get(&key);
            let Some(Ok(instance)) = instance.as_deref() else { continue };
            let environments = instance.status.iter().flat_map(|status| &status.environments);
            for one in environments {
                if self.label(&key, &one.name).as_deref() == Some(label)
                    // Two environments share the label, so it identifies neither.
                    && found.replace((key.clone(), one.name.clone())).is_some()
                {
                    return None;
                }
            }
        }
        found
    }

    fn changed(&self, _: &Key) -> BoxFuture<'static, ()> {
        let mut moved = self.changes.subscribe();
        Box::pin(async move {
            // The sender lives as long as the family.
            drop(moved.changed().await);
        })
    }
}

impl ServedLab {
    /// Whoever calls it tells of a use that this source saw.
    pub fn activity(&self, source: Source) -> ActivityCallback {
        let (tracker, clock) = (self.0.tracker.clone(), self.0.setup.clock.clone());
        Arc::new(move |key: &Key| tracker.record(key, source, clock.now(), 1))
    }

    /// What the family brings to the listener for people.
    pub fn web(&self) -> FamilyWeb {
        let replica = &self.0;
        let clock = replica.setup.clock.clone();
        FamilyWeb {
            family: "lab",
            gateway: Some(FamilyGateway {
                backends: replica.caches.clone(),
                activity: self.activity(source::GATEWAY),
            }),
            reports: Some(FamilyReports {
                verifier: Arc::new(ReportTokens(replica.clone())),
                activity: self.activity(source::REPORT),
            }),
            link_handler: Some(Arc::new(InstanceLinkHandler(replica.clone()))),
            site: Some(Site {
                links: replica.links.clone(),
                now: Arc::new(move || clock.now()),
                public_url: replica.public_url.clone(),
                gateway_domain: replica.config.current().gateway.domain.clone(),
            }),
            service: None,
            root_service: None,
            pages: None,
        }
    }
}

struct ReportTokens(Arc<LabReplica>);

impl ReportVerifier for ReportTokens {
    fn verify(&self, key: &Key, token: &str) -> bool {
        let instance = self.0.caches.instances.get(key);
        let Some(Ok(instance)) = instance.as_deref() else { return false };
        let uid = instance.metadata.uid.as_deref().unwrap_or_default();
        self.0.installation_key.is_report_token(key, uid, token)
    }
}

#[cfg(test)]
mod tests;
