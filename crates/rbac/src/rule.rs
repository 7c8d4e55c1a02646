//! One policy rule, and what it matches.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

use crate::quote::QuotedList;
use crate::request::Attributes;

/// Matches every verb, group, resource or path.
pub(crate) const ALL: &str = "*";

/// A rule of a Role or ClusterRole: these verbs on these resources, or on these paths.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PolicyRule {
    #[serde(deserialize_with = "null_as_default")]
    pub verbs: Vec<String>,
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub api_groups: Vec<String>,
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
    #[serde(
        rename = "nonResourceURLs",
        deserialize_with = "null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub non_resource_urls: Vec<String>,
}

/// Go reads `null` as an empty value wherever it reads a list, a map or text.
pub(crate) fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl PolicyRule {
    /// Whether this rule alone lets the request through.
    pub fn allows(&self, request: &Attributes<'_>) -> bool {
        if !has_or_all(&self.verbs, request.verb) {
            return false;
        }
        if request.is_resource_request {
            has_or_all(&self.api_groups, request.api_group)
                && self.matches_resource(request.resource, request.subresource)
                && self.matches_name(request.name)
        } else {
            self.matches_path(request.path)
        }
    }

    fn matches_resource(&self, resource: &str, subresource: &str) -> bool {
        self.resources.iter().any(|own| {
            own == ALL
                || is_combined(own, resource, subresource)
                || (!subresource.is_empty()
                    && own.strip_prefix("*/").is_some_and(|rest| rest == subresource))
        })
    }

    fn matches_name(&self, name: &str) -> bool {
        self.resource_names.is_empty() || self.resource_names.iter().any(|own| own == name)
    }

    fn matches_path(&self, path: &str) -> bool {
        self.non_resource_urls.iter().any(|own| own == ALL || path_covers(own, path))
    }

    /// Whether everything that the subrule allows is allowed by this rule alone.
    pub(crate) fn covers(&self, subrule: &Subrule<'_>) -> bool {
        has_or_all(&self.verbs, subrule.verb)
            && match subrule.target {
                Target::Resource { group, resource, name } => {
                    has_or_all(&self.api_groups, group)
                        && self.covers_resource(resource)
                        && (self.resource_names.is_empty()
                            || name.is_some_and(|name| self.matches_name(name)))
                }
                Target::Path(path) => {
                    self.resource_names.is_empty()
                        && self.non_resource_urls.iter().any(|own| path_covers(own, path))
                }
            }
    }

    fn covers_resource(&self, resource: &str) -> bool {
        let subresource = resource.split_once('/').map(|(_, subresource)| subresource);
        self.resources.iter().any(|own| {
            own == ALL
                || own == resource
                || own.strip_prefix("*/").is_some_and(|rest| Some(rest) == subresource)
        })
    }
}

/// A rule broken down to single values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subrule<'a> {
    pub(crate) verb: &'a str,
    pub(crate) target: Target<'a>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Target<'a> {
    Resource { group: &'a str, resource: &'a str, name: Option<&'a str> },
    Path(&'a str),
}

fn has_or_all(own: &[String], wanted: &str) -> bool {
    own.iter().any(|own| own == ALL || own == wanted)
}

/// Whether `own` is `resource` or, for a subresource, `resource/subresource`; without joining them.
fn is_combined(own: &str, resource: &str, subresource: &str) -> bool {
    if subresource.is_empty() {
        return own == resource;
    }
    own.strip_prefix(resource)
        .and_then(|rest| rest.strip_prefix('/'))
        .is_some_and(|rest| rest == subresource)
}

/// A path covers itself and, if it ends in `*`, everything that begins with the rest of it.
fn path_covers(own: &str, path: &str) -> bool {
    own == path || (own.ends_with('*') && path.starts_with(own.trim_end_matches('*')))
}

/// The compact form in which upstream lists rules in messages.
impl fmt::Display for PolicyRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.non_resource_urls),
            ("ResourceNames", &self.resource_names),
            ("Verbs", &self.verbs),
        ];
        let mut separator = "{";
        for (name, values) in parts.iter().filter(|(_, values)| !values.is_empty()) {
            write!(f, "{separator}{name}:{}", QuotedList(values))?;
            separator = ", ";
        }
        if separator == "{" {
            f.write_str(separator)?;
        }
        f.write_str("}")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::request::User;

    fn rule(value: serde_json::Value) -> PolicyRule {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn matches_resources() {
        let user = User::default();
        let cases = [
            // (resources, resource, subresource, matches)
            (vec!["*"], "pods", "", true),
            (vec!["*"], "pods", "status", true),
            (vec!["pods"], "pods", "", true),
            (vec!["pods"], "pods", "status", false),
            (vec!["pods/status"], "pods", "status", true),
            (vec!["pods/status"], "pods", "", false),
            (vec!["*/status"], "pods", "status", true),
            (vec!["*/status"], "pods", "", false),
            (vec!["*/status"], "pods", "exec", false),
            (vec!["*/xstatus"], "pods", "status", false),
            (vec!["pods/*"], "pods", "status", false),
            (vec!["podsstatus"], "pods", "status", false),
            (vec!["secrets", "pods"], "pods", "", true),
            (vec![], "pods", "", false),
        ];
        for (resources, resource, subresource, expected) in cases {
            let rule = rule(json!({"verbs": ["get"], "apiGroups": [""], "resources": resources}));
            let request =
                Attributes { subresource, ..Attributes::on_resource(&user, "get", "", resource) };
            assert_eq!(rule.allows(&request), expected, "{rule} {resource}/{subresource}");
        }
    }

    #[test]
    fn matches_names_groups_and_verbs() {
        let user = User::default();
        let named = rule(json!({
            "verbs": ["get", "create", "list"], "apiGroups": ["apps"],
            "resources": ["deployments"], "resourceNames": ["a", "b"],
        }));
        let base = Attributes::on_resource(&user, "get", "apps", "deployments");
        assert!(named.allows(&Attributes { name: "b", ..base }));
        assert!(!named.allows(&Attributes { name: "c", ..base }));
        assert!(!named.allows(&Attributes { name: "a", api_group: "", ..base }));
        assert!(!named.allows(&Attributes { name: "a", verb: "delete", ..base }));
        // A create and an unselective list carry no name, so resourceNames never allow them.
        assert!(!named.allows(&Attributes { verb: "create", ..base }));
        assert!(!named.allows(&Attributes { verb: "list", ..base }));
        assert!(named.allows(&Attributes { verb: "list", name: "a", ..base }));
        assert!(!named.allows(&Attributes::on_path(&user, "get", "/metrics")));
    }

    #[test]
    fn matches_paths() {
        let user = User::default();
        let cases = [
            ("*", "/anything", true),
            ("/healthz", "/healthz", true),
            ("/healthz", "/healthz/", false),
            ("/healthz/*", "/healthz/etcd", true),
            ("/healthz/*", "/healthz", false),
            ("/api*", "/apis/apps", true),
            ("/api**", "/apis", true),
            ("/a/*/b", "/a/x/b", false),
        ];
        for (own, path, expected) in cases {
            let rule = rule(json!({"verbs": ["get"], "nonResourceURLs": [own]}));
            let request = Attributes::on_path(&user, "get", path);
            assert_eq!(rule.allows(&request), expected, "{own} {path}");
        }
    }

    #[test]
    fn prints_compactly() {
        let full = rule(json!({
            "verbs": ["get", "list"], "apiGroups": ["", "apps"], "resources": ["pods"],
            "resourceNames": ["a"],
        }));
        assert_eq!(
            full.to_string(),
            r#"{APIGroups:["" "apps"], Resources:["pods"], ResourceNames:["a"], Verbs:["get" "list"]}"#
        );
        let paths = rule(json!({"verbs": ["get"], "nonResourceURLs": ["/x"], "resources": null}));
        assert_eq!(paths.to_string(), r#"{NonResourceURLs:["/x"], Verbs:["get"]}"#);
        assert_eq!(PolicyRule::default().to_string(), "{}");
        assert_eq!(
            serde_json::to_value(&paths).unwrap(),
            json!({"verbs": ["get"], "nonResourceURLs": ["/x"]})
        );
    }
}
