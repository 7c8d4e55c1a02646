//! What a Job's `podFailurePolicy` says about a Pod that failed.

use k8s_openapi::api::batch::v1::{Job, PodFailurePolicyOnExitCodesRequirement};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Consequence {
    /// It counts towards the limit.
    Counted,
    /// It does not count.
    Ignored,
    /// The Job fails; in words, why.
    JobFails(String),
}

/// The first rule that matches decides.
pub(super) fn consequence(job: &Job, pod: &Pod) -> Consequence {
    let policy = job.spec.as_ref().and_then(|spec| spec.pod_failure_policy.as_ref());
    for (index, rule) in policy.iter().flat_map(|policy| &policy.rules).enumerate() {
        let matched = if let Some(requirement) = &rule.on_exit_codes {
            failed_container(pod, requirement).map(|(container, code)| {
                format!(
                    "Container {container} for pod {} failed with exit code {code} matching {} \
                     rule at index {index}",
                    full_name(pod),
                    rule.action
                )
            })
        } else {
            let patterns = rule.on_pod_conditions.as_deref().unwrap_or_default();
            let mut conditions =
                pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
            conditions
                .find(|condition| {
                    patterns.iter().any(|pattern| {
                        let status = pattern.status.as_deref().unwrap_or("True");
                        pattern.type_ == condition.type_ && status == condition.status
                    })
                })
                .map(|condition| {
                    format!(
                        "Pod {} has condition {} matching {} rule at index {index}",
                        full_name(pod),
                        condition.type_,
                        rule.action
                    )
                })
        };
        match (matched, rule.action.as_str()) {
            (Some(words), "FailJob") => return Consequence::JobFails(words),
            (Some(_), "Ignore") => return Consequence::Ignored,
            (Some(_), _) => return Consequence::Counted,
            (None, _) => {}
        }
    }
    Consequence::Counted
}

/// The first container, main ones before init containers, that ended as the rule requires.
fn failed_container<'a>(
    pod: &'a Pod,
    requirement: &PodFailurePolicyOnExitCodesRequirement,
) -> Option<(&'a str, i32)> {
    let status = pod.status.as_ref()?;
    let main = status.container_statuses.iter().flatten();
    let mut all = main.chain(status.init_container_statuses.iter().flatten());
    let meets = |container: &&ContainerStatus| {
        let named = requirement.container_name.as_deref().is_none_or(|name| name == container.name);
        let listed = |code: i32| match requirement.operator.as_str() {
            "In" => requirement.values.contains(&code),
            "NotIn" => !requirement.values.contains(&code),
            _ => false,
        };
        named && exit_code(container).is_some_and(|code| code != 0 && listed(code))
    };
    let container = all.find(meets)?;
    Some((&container.name, exit_code(container)?))
}

fn exit_code(container: &ContainerStatus) -> Option<i32> {
    Some(container.state.as_ref()?.terminated.as_ref()?.exit_code)
}

fn full_name(pod: &Pod) -> String {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    format!("{namespace}/{}", pod.metadata.name.as_deref().unwrap_or_default())
}
