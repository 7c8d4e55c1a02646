//! The kinds that an API serves, as it tells them itself, and where their objects are.

use anyhow::anyhow;
use kube::core::discovery::v2::{APIGroupDiscovery, APIGroupDiscoveryList, APIResourceDiscovery};
use serde_json::Value;

use super::connect::ApiContext;
use crate::exit::{Exit, Failure};

/// The groups that are ours end like this.
const OUR_GROUPS: &str = ".sojourn.dev";

/// A kind in one of its versions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Resource {
    /// Empty for the core group.
    group: String,
    version: String,
    pub(super) kind: String,
    plural: String,
    singular: String,
    short_names: Vec<String>,
    categories: Vec<String>,
    pub(super) namespaced: bool,
    verbs: Vec<String>,
}

/// All kinds of an API, those first that a word means first.
#[derive(Debug, Default)]
pub(super) struct Resources(Vec<Resource>);

impl Resource {
    pub(super) fn api_version(&self) -> String {
        match self.group.as_str() {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// How the kind is written before the name of an object: `pod`, `crontab.example.com`.
    pub(super) fn qualified(&self) -> String {
        self.with_group(&self.kind.to_ascii_lowercase())
    }

    /// How the API calls it in its own messages: `pods`, `crontabs.example.com`.
    pub(super) fn qualified_plural(&self) -> String {
        self.with_group(&self.plural)
    }

    fn with_group(&self, name: &str) -> String {
        match self.group.as_str() {
            "" => name.to_owned(),
            group => format!("{name}.{group}"),
        }
    }

    pub(super) fn allows(&self, verb: &str) -> bool {
        self.verbs.iter().any(|known| known == verb)
    }

    /// The path of all its objects: in a namespace, or in all.
    pub(super) fn collection_path(&self, namespace: Option<&str>) -> Result<String, Failure> {
        let root = match self.group.as_str() {
            "" => format!("/api/{}", self.version),
            group => format!("/apis/{group}/{}", self.version),
        };
        Ok(match namespace.filter(|_| self.namespaced) {
            Some(namespace) => {
                format!("{root}/namespaces/{}/{}", segment(namespace)?, self.plural)
            }
            None => format!("{root}/{}", self.plural),
        })
    }

    pub(super) fn path(&self, namespace: &str, name: &str) -> Result<String, Failure> {
        Ok(format!("{}/{}", self.collection_path(Some(namespace))?, segment(name)?))
    }

    /// Lists do not say of each object what it is.
    pub(super) fn complete(&self, object: &mut Value) {
        if let Value::Object(fields) = object {
            fields.entry("apiVersion").or_insert_with(|| self.api_version().into());
            fields.entry("kind").or_insert_with(|| self.kind.clone().into());
        }
    }

    /// Whether somebody who typed this word means it; the name may be followed by a group, and that by
    /// nothing or led by a version.
    fn is_called(&self, word: &str) -> bool {
        let kind = self.kind.to_ascii_lowercase();
        let names = [self.plural.as_str(), &self.singular, &kind];
        if names.contains(&word) {
            return true;
        }
        let Some((name, rest)) = word.split_once('.') else { return false };
        names.contains(&name)
            && (rest == self.group || rest == format!("{}.{}", self.version, self.group))
    }
}

impl Resources {
    /// Asks the API.
    pub(super) async fn discover(api_context: &ApiContext) -> Result<Self, Failure> {
        let what = "cannot ask which kinds there are";
        let client = &api_context.client;
        let core = client.list_core_api_versions_aggregated();
        let core = core.await.map_err(|error| api_context.failed(error, what))?;
        let groups = client.list_api_groups_aggregated();
        let groups = groups.await.map_err(|error| api_context.failed(error, what))?;
        Ok(Self::of([core, groups]))
    }

    fn of(lists: [APIGroupDiscoveryList; 2]) -> Self {
        Self(lists.into_iter().flat_map(|list| list.items).flat_map(of_group).collect())
    }

    /// The kind that somebody means.
    pub(super) fn called(&self, word: &str) -> Option<&Resource> {
        let word = word.to_ascii_lowercase();
        let short = |resource: &&Resource| resource.short_names.contains(&word);
        let named = self.0.iter().find(|resource| resource.is_called(&word));
        named.or_else(|| self.0.iter().find(short))
    }

    /// The kinds of a category that can be listed, each in the version that its group prefers.
    fn in_category(&self, word: &str) -> Vec<&Resource> {
        let mut found: Vec<&Resource> = Vec::new();
        for resource in &self.0 {
            let known = found
                .iter()
                .any(|one| (&one.group, &one.plural) == (&resource.group, &resource.plural));
            let belongs = resource.categories.iter().any(|category| category == word);
            if belongs && !known && resource.allows("list") {
                found.push(resource);
            }
        }
        found
    }

    /// Every kind that a word means: one, or those of a category.
    pub(super) fn meant(&self, word: &str) -> Result<Vec<&Resource>, Failure> {
        if let Some(resource) = self.called(word) {
            return Ok(vec![resource]);
        }
        match self.in_category(&word.to_ascii_lowercase()) {
            none if none.is_empty() => Err(self.unknown(word)),
            some => Ok(some),
        }
    }

    /// The one kind that a word means.
    pub(super) fn one(&self, word: &str) -> Result<&Resource, Failure> {
        self.called(word).ok_or_else(|| self.unknown(word))
    }

    /// The kind of a manifest.
    pub(super) fn of_kind(&self, api_version: &str, kind: &str) -> Option<&Resource> {
        self.0.iter().find(|one| one.kind == kind && one.api_version() == api_version)
    }

    fn unknown(&self, word: &str) -> Failure {
        let ours = self.0.iter().any(|resource| resource.group.ends_with(OUR_GROUPS));
        let advice = if ours {
            "Write it as the API names it, such as instances, pods or crontabs.example.com; all kinds \
             of Sojourn: sojourn families."
        } else {
            "If it is one of Sojourn's, install those: sojourn crds | sojourn apply -f -."
        };
        Failure::new(Exit::Usage, anyhow!("the API serves no kind that is called {word}"), advice)
    }
}

/// Whether a kind of this API version would be one of ours.
pub(super) fn is_ours(api_version: &str) -> bool {
    api_version.split_once('/').is_some_and(|(group, _)| group.ends_with(OUR_GROUPS))
}

fn of_group(group: APIGroupDiscovery) -> impl Iterator<Item = Resource> {
    let name = group.metadata.and_then(|metadata| metadata.name).unwrap_or_default();
    group.versions.into_iter().flat_map(move |served| {
        let (name, version) = (name.clone(), served.version.unwrap_or_default());
        served.resources.into_iter().map(move |resource| of_version(&name, &version, resource))
    })
}

fn of_version(group: &str, version: &str, told: APIResourceDiscovery) -> Resource {
    let kind = told.response_kind.and_then(|kind| kind.kind).unwrap_or_default();
    let singular = told.singular_resource.filter(|singular| !singular.is_empty());
    Resource {
        group: group.to_owned(),
        version: version.to_owned(),
        singular: singular.unwrap_or_else(|| kind.to_ascii_lowercase()),
        kind,
        plural: told.resource.unwrap_or_default(),
        short_names: told.short_names,
        categories: told.categories,
        namespaced: told.scope.as_deref() == Some("Namespaced"),
        verbs: told.verbs,
    }
}

/// A name as one part of a path. What would be more than one part is no object's name.
fn segment(name: &str) -> Result<String, Failure> {
    if name.is_empty() || [".", ".."].contains(&name) || name.contains(['/', '%']) {
        let error = anyhow!("{name:?} cannot be the name of an object");
        return Err(Failure::new(Exit::Usage, error, "Names have no slash and no percent sign."));
    }
    Ok(encoded(name))
}

/// Text as it may stand in a path or a query.
pub(super) fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    /// What an API with some kinds says.
    pub(in super::super) fn resources() -> Resources {
        let resource = |plural: &str, kind: &str, scope: &str, short: &[&str], all: bool| {
            json!({
                "resource": plural, "responseKind": {"kind": kind}, "scope": scope,
                "singularResource": kind.to_ascii_lowercase(), "shortNames": short,
                "verbs": ["get", "list"], "categories": if all { vec!["all"] } else { vec![] },
            })
        };
        let group =
            |name: &str, versions: Value| json!({"metadata": {"name": name}, "versions": versions});
        let list = |items: Value| {
            serde_json::from_value(json!({"items": items})).expect("a list of groups")
        };
        let core = json!([
            resource("namespaces", "Namespace", "Cluster", &["ns"], false),
            resource("pods", "Pod", "Namespaced", &["po"], true),
            resource("events", "Event", "Namespaced", &["ev"], false),
        ]);
        let events = json!([resource("events", "Event", "Namespaced", &["ev"], false)]);
        let crontabs = json!([resource("crontabs", "CronTab", "Namespaced", &["ct"], true)]);
        Resources::of([
            list(json!([group("", json!([{"version": "v1", "resources": core}]))])),
            list(json!([
                group("events.k8s.io", json!([{"version": "v1", "resources": events}])),
                group(
                    "example.com",
                    json!([
                        {"version": "v2", "resources": crontabs},
                        {"version": "v1", "resources": crontabs},
                    ])
                ),
            ])),
        ])
    }

    #[test]
    fn a_kind_is_found_by_all_of_its_names() {
        let resources = resources();
        for (word, api_version, kind) in [
            ("pods", "v1", "Pod"),
            ("pod", "v1", "Pod"),
            ("po", "v1", "Pod"),
            ("PODS", "v1", "Pod"),
            ("ns", "v1", "Namespace"),
            ("events", "v1", "Event"),
            ("events.events.k8s.io", "events.k8s.io/v1", "Event"),
            ("ct", "example.com/v2", "CronTab"),
            ("CronTab", "example.com/v2", "CronTab"),
            ("crontabs.example.com", "example.com/v2", "CronTab"),
            ("crontab.v1.example.com", "example.com/v1", "CronTab"),
        ] {
            let found = resources.called(word).unwrap_or_else(|| panic!("no {word}"));
            assert_eq!((&*found.api_version(), &*found.kind), (api_version, kind), "{word}");
        }
        for word in ["", "p", "pods.example.com", "crontabs.v3.example.com", "all"] {
            assert!(resources.called(word).is_none(), "{word}");
        }
        assert!(resources.of_kind("example.com/v1", "CronTab").is_some());
        assert!(resources.of_kind("example.com/v3", "CronTab").is_none());
    }

    #[test]
    fn a_category_is_each_of_its_kinds_once() {
        let resources = resources();
        let all = resources.meant("all").expect("a category");
        let all: Vec<_> = all.iter().map(|one| one.qualified()).collect();
        assert_eq!(all, ["pod", "crontab.example.com"]);
        let unknown = resources.meant("things").expect_err("there are none");
        assert_eq!(unknown.exit, Exit::Usage);
        assert!(unknown.advice.contains("sojourn crds"), "{}", unknown.advice);
    }

    #[test]
    fn objects_are_where_the_api_has_them() {
        let resources = resources();
        let pod = resources.called("pod").expect("a kind");
        assert_eq!(pod.path("lab", "web").expect("a path"), "/api/v1/namespaces/lab/pods/web");
        assert_eq!(pod.collection_path(None).expect("a path"), "/api/v1/pods");
        let namespace = resources.called("ns").expect("a kind");
        assert_eq!(namespace.path("lab", "x").expect("a path"), "/api/v1/namespaces/x");
        let tab = resources.called("ct").expect("a kind");
        let path = tab.path("lab", "a:b").expect("a path");
        assert_eq!(path, "/apis/example.com/v2/namespaces/lab/crontabs/a%3Ab");
        for name in ["", ".", "..", "a/b", "a%2Fb"] {
            assert!(pod.path("lab", name).is_err(), "{name}");
        }
    }
}
