//! Which grammar the names of each built-in kind follow.

use crate::name;

/// The check of `metadata.name` for a kind; it returns what is wrong with a name.
pub(crate) fn name_check(group: &str, kind: &str) -> fn(&str) -> Vec<String> {
    match (group, kind) {
        ("", "Namespace" | "Service") => name::dns1123_label,
        // Events of the old API are checked only for what a URL can carry.
        ("", "Event") | ("rbac.authorization.k8s.io", _) => name::path_segment,
        _ => name::dns1123_subdomain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_differ_in_the_names_they_allow() {
        let allowed = |group, kind, name| name_check(group, kind)(name).is_empty();
        for (group, kind, allows) in [
            // In this order: `1abc`, `a.b`, `A_b`, `a%b`.
            ("", "Namespace", [true, false, false, false]),
            ("", "Service", [true, false, false, false]),
            ("", "ConfigMap", [true, true, false, false]),
            ("", "ServiceAccount", [true, true, false, false]),
            ("", "PodTemplate", [true, true, false, false]),
            ("", "Event", [true, true, true, false]),
            ("events.k8s.io", "Event", [true, true, false, false]),
            ("coordination.k8s.io", "Lease", [true, true, false, false]),
            (
                "rbac.authorization.k8s.io",
                "Role",
                [true, true, true, false],
            ),
            ("batch", "Job", [true, true, false, false]),
        ] {
            let found = ["1abc", "a.b", "A_b", "a%b"].map(|name| allowed(group, kind, name));
            assert_eq!(found, allows, "{group}/{kind}");
        }
    }
}
