//! What a request asks for, read off its method, path and query.

use http::{HeaderMap, Method, header};

use crate::status::ApiError;

/// The verbs that authorization and audit speak of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Create,
    Get,
    List,
    Watch,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

impl Verb {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }
}

/// A path under `/api/v1` or `/apis/GROUP/VERSION` that names a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ResourcePath {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) namespace: String,
    pub(crate) resource: String,
    pub(crate) name: String,
    pub(crate) subresource: String,
    /// What follows the subresource; no subresource that is served here has any.
    pub(crate) rest: Vec<String>,
    pub(crate) legacy_watch: bool,
}

impl ResourcePath {
    /// Reads a path; `None` for one that names no resource (`/version`, `/apis/batch/v1`).
    pub(crate) fn parse(path: &str) -> Option<Self> {
        // `namespaces//pods` is how clients that know no namespace ask for all of them.
        let path = path.trim_matches('/').replacen("/namespaces//", "/", 1);
        let mut parts = path.split('/').filter(|p| !p.is_empty()).map(|part| {
            percent_encoding::percent_decode_str(part).decode_utf8_lossy().into_owned()
        });
        let group = match parts.next()?.as_str() {
            "api" => String::new(),
            "apis" => parts.next()?,
            _ => return None,
        };
        let version = parts.next()?;
        let mut parts: Vec<String> = parts.collect();
        // `/api/v1/watch/…` is how watches were once asked for.
        let legacy_watch = parts.first().is_some_and(|p| p == "watch") && parts.len() > 1;
        if legacy_watch {
            parts.remove(0);
        }
        if parts.is_empty() {
            return None;
        }
        let mut namespace = String::new();
        if parts[0] == "namespaces" && parts.len() > 1 {
            namespace.clone_from(&parts[1]);
            // `namespaces/x/status` is a part of the Namespace; `namespaces/x/pods` is not.
            let own = parts.len() == 2 || matches!(parts[2].as_str(), "status" | "finalize");
            if !own {
                parts.drain(..2);
            }
        }
        let mut parts = parts.into_iter();
        Some(Self {
            group,
            version,
            namespace,
            resource: parts.next().unwrap_or_default(),
            name: parts.next().unwrap_or_default(),
            subresource: parts.next().unwrap_or_default(),
            rest: parts.collect(),
            legacy_watch,
        })
    }

    /// The verb that a method means on this path.
    pub(crate) fn verb(&self, method: &Method, watch: bool) -> Option<Verb> {
        let collection = self.name.is_empty();
        Some(match (method.as_str(), collection) {
            ("POST", _) => Verb::Create,
            ("GET", true) if watch => Verb::Watch,
            ("GET", true) => Verb::List,
            ("GET", false) => Verb::Get,
            ("PUT", _) => Verb::Update,
            ("PATCH", _) => Verb::Patch,
            ("DELETE", true) => Verb::DeleteCollection,
            ("DELETE", false) => Verb::Delete,
            _ => return None,
        })
    }
}

/// The decoded query string.
#[derive(Debug, Default, Clone)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(raw: Option<&str>) -> Self {
        let pairs = form_urlencoded::parse(raw.unwrap_or_default().as_bytes());
        Self(pairs.filter(|(k, _)| !k.is_empty()).map(|(k, v)| (k.into(), v.into())).collect())
    }

    /// The first value of a parameter.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(k, _)| k == name).map(|(_, v)| v.as_str())
    }

    pub(crate) fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }

    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(k, _)| k == name).map(|(_, v)| v.as_str())
    }

    /// A boolean parameter the way Go's query decoding reads one: present means true unless it
    /// says `false` or `0`.
    pub(crate) fn flag(&self, name: &str) -> Option<bool> {
        self.get(name).map(|v| !matches!(v.to_ascii_lowercase().as_str(), "false" | "0"))
    }

    pub(crate) fn int(&self, name: &str) -> Result<Option<i64>, ApiError> {
        match self.get(name) {
            None | Some("") => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|_| {
                let quoted = crate::go::quote(text);
                let why = if text.trim_start_matches(['-', '+']).bytes().all(|b| b.is_ascii_digit())
                    && text.len() > 1
                {
                    "value out of range"
                } else {
                    "invalid syntax"
                };
                ApiError::bad_request(format!("strconv.ParseInt: parsing {quoted}: {why}"))
            }),
        }
    }
}

/// What the client calls itself: the default field manager.
pub(crate) fn user_agent_manager(headers: &HeaderMap) -> String {
    let agent = headers.get(header::USER_AGENT).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let name = agent.split('/').next().unwrap_or_default();
    let printable: String = name.chars().filter(|c| !c.is_control()).take(128).collect();
    if printable.is_empty() { "unknown".to_owned() } else { printable }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(path: &str) -> (String, String, String, String, String) {
        let p = ResourcePath::parse(path).unwrap();
        (p.group, p.namespace, p.resource, p.name, p.subresource)
    }

    fn expect(
        g: &str,
        ns: &str,
        r: &str,
        n: &str,
        s: &str,
    ) -> (String, String, String, String, String) {
        (g.into(), ns.into(), r.into(), n.into(), s.into())
    }

    #[test]
    fn paths_name_resources() {
        assert_eq!(parsed("/api/v1/pods"), expect("", "", "pods", "", ""));
        assert_eq!(
            parsed("/api/v1/namespaces/a/pods/x/status"),
            expect("", "a", "pods", "x", "status")
        );
        assert_eq!(parsed("/api/v1/namespaces/a"), expect("", "a", "namespaces", "a", ""));
        assert_eq!(
            parsed("/api/v1/namespaces/a/finalize"),
            expect("", "a", "namespaces", "a", "finalize")
        );
        assert_eq!(
            parsed("/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode"),
            expect("rbac.authorization.k8s.io", "", "clusterroles", "system:node", "")
        );
        assert_eq!(parsed("/api/v1/namespaces//pods/"), expect("", "", "pods", "", ""));
        assert_eq!(ResourcePath::parse("/apis/batch/v1"), None);
        assert_eq!(ResourcePath::parse("/version"), None);
    }

    #[test]
    fn queries_are_decoded() {
        let query = Query::parse(Some("&limit=500&labelSelector=a%3Db&watch"));
        assert_eq!(query.text("labelSelector"), "a=b");
        assert_eq!(query.int("limit").unwrap(), Some(500));
        assert_eq!(query.flag("watch"), Some(true));
        let query = Query::parse(Some("limit=x"));
        assert_eq!(
            query.int("limit").unwrap_err().message,
            "strconv.ParseInt: parsing \"x\": invalid syntax"
        );
    }
}
