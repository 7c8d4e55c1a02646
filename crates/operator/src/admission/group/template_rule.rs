//! The rule of a kind that has a template of machines and can be held: groups and machines. They differ in
//! what they need to know, and in what follows.

use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse};
use sojourn_api::group::template::MachineTemplate;
use sojourn_api::group::{GroupConfig, InstanceGroup};
use sojourn_api::name::VERSION;
use sojourn_api::name::group::POD_PROVIDER;
use sojourn_api::problem::Problem;
use sojourn_core::key::Key;

use super::super::hook::Hook;
use super::super::lookup::{Lookup, LookupResult, Permission, Permissions, maybe};
use super::super::reference::{Reference, to_create_pods};
use super::super::rule::Rule;
use super::provider::Providers;

/// What is refused of one of the two kinds.
#[derive(Debug)]
pub(in crate::admission) struct TemplateRule {
    /// With its API group.
    pub(super) resource: (&'static str, &'static str),
    /// Of which requests, in CEL.
    pub(super) is_reviewed: fn() -> String,
    pub(super) needs: fn(&AdmissionRequest<DynamicObject>) -> Needs,
    pub(super) review: fn(&AdmissionRequest<DynamicObject>, &Answers) -> AdmissionResponse,
    pub(super) providers: Providers,
}

impl Rule for TemplateRule {
    type Needs = Needs;
    type Answers = Answers;

    fn hook(&self) -> Hook {
        let (group, resource) = self.resource;
        Hook::writes((group, VERSION, resource), (self.is_reviewed)())
    }

    fn needs(&self, request: &AdmissionRequest<DynamicObject>) -> Needs {
        (self.needs)(request)
    }

    async fn look_up(&self, needs: Needs, lookup: Lookup<'_>) -> Answers {
        needs.look_up(lookup, &self.providers).await
    }

    fn review(
        &self,
        request: &AdmissionRequest<DynamicObject>,
        answers: &Answers,
    ) -> AdmissionResponse {
        (self.review)(request, answers)
    }
}

/// What must be known before a request can be reviewed.
#[derive(Debug, Clone, PartialEq, Default)]
pub(in crate::admission) struct Needs {
    /// Whether the sender has the verb `hold` there.
    pub(in crate::admission) hold: Option<Permission>,
    /// Whether the sender keeps the group that a Machine is said to be of.
    pub(in crate::admission) manage: Option<Permission>,
    /// What the installation says about groups.
    pub(in crate::admission) config: bool,
    /// The group that a Machine names.
    pub(in crate::admission) group: Option<Key>,
    /// A template that its provider must be able to use.
    pub(in crate::admission) template: Option<MachineTemplate>,
    /// What the request names, and what the sender must therefore be allowed to do.
    pub(in crate::admission) references: Vec<Reference>,
}

/// What was found out of what [`Needs`] asks for.
#[derive(Debug, Clone, PartialEq, Default)]
pub(in crate::admission) struct Answers {
    pub(in crate::admission) hold: Option<LookupResult<bool>>,
    pub(in crate::admission) manage: Option<LookupResult<bool>>,
    pub(in crate::admission) config: Option<LookupResult<GroupConfig>>,
    pub(in crate::admission) group: Option<LookupResult<Option<InstanceGroup>>>,
    /// What is wrong with the template; paths begin at it.
    pub(in crate::admission) template: Option<Vec<Problem>>,
    /// Whether the sender may do what the references need.
    pub(in crate::admission) permitted: Permissions,
}

impl Needs {
    async fn look_up(self, lookup: Lookup<'_>, providers: &Providers) -> Answers {
        let (hold, manage, config, group, permitted) = tokio::join!(
            maybe(self.hold.map(|permission| lookup.permitted(permission))),
            maybe(self.manage.map(|permission| lookup.permitted(permission))),
            maybe(self.config.then(|| lookup.config())),
            maybe(self.group.map(|key| lookup.namespaced(key))),
            lookup.references_permitted(self.references),
        );
        let template = self.template.map(|template| providers.check(&template));
        Answers { hold, manage, config, group, template, permitted }
    }
}

/// A Pod that is written out in a template is made with our rights, and may name whatever a Pod may.
pub(super) fn pod_reference(
    request: &AdmissionRequest<DynamicObject>,
    template: Option<&MachineTemplate>,
) -> Option<Reference> {
    template.filter(|template| template.provider == POD_PROVIDER)?;
    Some(to_create_pods("spec.template", request.namespace.as_deref().unwrap_or_default()))
}
