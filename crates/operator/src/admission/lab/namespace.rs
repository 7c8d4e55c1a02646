//! The deletion of a namespace: in one that is being deleted no Job starts, so nothing is handed in there any
//! more.

use kube::ResourceExt;
use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse};
use sojourn_api::lab::Instance;
use sojourn_api::lab::convert::needs_submission;
use sojourn_api::name::shared::NAMESPACE;

use super::super::hook::Hook;
use super::super::lookup::{Lookup, LookupResult, Permission, maybe};
use super::super::refusal::{hold_permission, unasked, unknown};
use super::super::request::name;
use super::super::rule::Rule;
use super::INSTANCES;
use super::owed::review_owed;

const NAMESPACES: &str = "namespaces";
/// So many names are shown in a refusal.
const MAX_SHOWN_INSTANCES: usize = 8;

/// What must be known before a namespace is deleted.
#[derive(Debug, Clone, PartialEq, Default)]
pub(in crate::admission) struct Needs {
    /// Whether the sender has the verb `hold` there.
    pub(in crate::admission) hold: Option<Permission>,
    /// The namespace of which it must be known whose data is not handed in yet.
    pub(in crate::admission) owing: Option<String>,
}

/// What was found out of what [`Needs`] asks for.
#[derive(Debug, Clone, PartialEq, Default)]
pub(in crate::admission) struct Answers {
    pub(in crate::admission) hold: Option<LookupResult<bool>>,
    /// The Instances whose data is not handed in yet.
    pub(in crate::admission) owing: Option<LookupResult<Vec<String>>>,
}

#[derive(Debug)]
pub(in crate::admission) struct NamespaceRule;

impl Rule for NamespaceRule {
    type Needs = Needs;
    type Answers = Answers;

    fn hook(&self) -> Hook {
        Hook {
            operations: &["DELETE"],
            scope: "Cluster",
            // Every namespace of the cluster is asked about. What is owed stays safe without us, as its
            // finalizers hold it; that no namespace could be deleted would be worse.
            ignores_failures: true,
            ..Hook::writes(("", "v1", NAMESPACES), is_reviewed())
        }
    }

    fn needs(&self, request: &AdmissionRequest<DynamicObject>) -> Needs {
        let permission = Permission {
            namespace: name(request).to_owned(),
            name: None,
            ..hold_permission(request, INSTANCES)
        };
        Needs { hold: Some(permission), owing: Some(name(request).to_owned()) }
    }

    async fn look_up(&self, needs: Needs, lookup: Lookup<'_>) -> Answers {
        let (hold, owing) = tokio::join!(
            maybe(needs.hold.map(|permission| lookup.permitted(permission))),
            maybe(needs.owing.map(|namespace| owing(namespace, lookup))),
        );
        Answers { hold, owing }
    }

    fn review(
        &self,
        request: &AdmissionRequest<DynamicObject>,
        answers: &Answers,
    ) -> AdmissionResponse {
        let paths = ["metadata.name".to_owned()];
        let owing = match &answers.owing {
            Some(Ok(owing)) => owing,
            Some(Err(why)) => {
                let what = "whether anything in it is to be handed in";
                return unknown(request, &paths, what, why);
            }
            None => return unasked(request, &paths),
        };
        let paths = if owing.is_empty() { &[][..] } else { &paths[..] };
        review_owed(request, paths, answers.hold.as_ref(), || {
            let (shown, more) = owing.split_at(owing.len().min(MAX_SHOWN_INSTANCES));
            let more =
                if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
            let shown = shown.join(", ");
            format!(
                "the data of these Instances is not handed in yet: {shown}{more}; delete them first"
            )
        })
    }
}

/// The Instances of a namespace whose data is not handed in yet.
async fn owing(namespace: String, lookup: Lookup<'_>) -> LookupResult<Vec<String>> {
    let all: Vec<Instance> = lookup.all_in(namespace).await?;
    let owing = all.iter().filter(|instance| needs_submission(instance));
    Ok(owing.map(ResourceExt::name_any).collect())
}

/// An expression: it is not our own namespace, in which nothing is lent.
fn is_reviewed() -> String {
    format!("request.name != '{NAMESPACE}'")
}
