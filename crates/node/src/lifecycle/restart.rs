//! Whether a container that ended runs again.

use k8s_openapi::api::core::v1::{Container, ContainerRestartRule, PodSpec};

/// By its own rules and policy, or else by its Pod's.
pub(super) fn restarts(container: &Container, pod: &PodSpec, exit_code: i32) -> bool {
    if container.restart_policy.is_some()
        && container
            .restart_policy_rules
            .iter()
            .flatten()
            .any(|rule| asks_for_restart(rule, exit_code))
    {
        return true;
    }
    match policy(container, pod) {
        "Never" => false,
        "OnFailure" => exit_code != 0,
        _ => true,
    }
}

/// Whether it may run again at all: what a probe that fails must know before there is an exit code.
pub(super) fn may_restart(container: &Container, pod: &PodSpec) -> bool {
    policy(container, pod) != "Never"
}

fn policy<'a>(container: &'a Container, pod: &'a PodSpec) -> &'a str {
    let own = container.restart_policy.as_deref();
    own.or(pod.restart_policy.as_deref()).unwrap_or("Always")
}

fn asks_for_restart(rule: &ContainerRestartRule, exit_code: i32) -> bool {
    let Some(codes) = &rule.exit_codes else { return false };
    let listed = codes.values.iter().flatten().any(|code| *code == exit_code);
    let matches = match codes.operator.as_str() {
        "In" => listed,
        "NotIn" => !listed,
        _ => false,
    };
    matches && rule.action == "Restart"
}
