//! The built-in kinds, one row each.

use serde_json::Value;

use crate::json::Object;
use crate::kind::{self, Kind};
use crate::meta::NameCheck;
use crate::name;
use crate::store::{CommitError, Store, header};
use crate::typed;

use super::{Resource, Rules, Version};

/// What is the same for every object of a built-in kind.
pub(crate) struct Builtin {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) singular: &'static str,
    pub(crate) short_names: &'static [&'static str],
    pub(crate) categories: &'static [&'static str],
    pub(crate) namespaced: bool,
    pub(crate) verbs: &'static [&'static str],
    /// Subresources as discovery lists them: name, kind, verbs.
    pub(crate) subresources: &'static [Subresource],
    pub(crate) rules: &'static dyn Kind,
    pub(crate) name: NameCheck,
    /// Whether `metadata.generation` is kept.
    pub(crate) generation: bool,
    /// Whether PUT without a resourceVersion overwrites.
    pub(crate) unconditional_update: bool,
    /// Whether PUT of a missing object creates it.
    pub(crate) create_on_update: bool,
    /// Whether DELETE answers with the object instead of a Status.
    pub(crate) delete_returns_object: bool,
    /// Whether a delete that names no policy leaves dependents alone.
    pub(crate) orphans_by_default: bool,
    /// A view of another resource's objects.
    pub(crate) view: Option<View>,
}

pub(crate) struct Subresource {
    pub(crate) name: &'static str,
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) verbs: &'static [&'static str],
}

/// How a kind is kept as another one.
pub(crate) struct View {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) to_storage: fn(&mut Object),
    pub(crate) from_storage: fn(&mut Object),
}

pub(crate) const ALL_VERBS: &[&str] =
    &["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
const SORTED_VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const NAMESPACE_VERBS: &[&str] = &["create", "delete", "get", "list", "patch", "update", "watch"];
const CREATE: &[&str] = &["create"];
const STATUS_VERBS: &[&str] = &["get", "patch", "update"];

const fn status(kind: &'static str) -> Subresource {
    Subresource { name: "status", group: "", version: "", kind, verbs: STATUS_VERBS }
}

/// A namespaced, stored core/v1 kind; rows say what differs.
const PLAIN: Builtin = Builtin {
    group: "",
    version: "v1",
    kind: "",
    plural: "",
    singular: "",
    short_names: &[],
    categories: &[],
    namespaced: true,
    verbs: SORTED_VERBS,
    subresources: &[],
    rules: &NoRules,
    name: name::dns1123_subdomain,
    generation: false,
    unconditional_update: true,
    create_on_update: false,
    delete_returns_object: false,
    orphans_by_default: false,
    view: None,
};

/// A kind whose type says all there is to say.
struct NoRules;

impl Kind for NoRules {}

const RBAC: &str = "rbac.authorization.k8s.io";

static BUILTINS: &[Builtin] = &[
    Builtin {
        kind: "Namespace",
        plural: "namespaces",
        singular: "namespace",
        short_names: &["ns"],
        namespaced: false,
        verbs: NAMESPACE_VERBS,
        subresources: &[
            Subresource {
                name: "finalize",
                group: "",
                version: "",
                kind: "Namespace",
                verbs: &["update"],
            },
            status("Namespace"),
        ],
        rules: &kind::namespace::Namespace,
        name: name::dns1123_label,
        delete_returns_object: true,
        ..PLAIN
    },
    Builtin {
        kind: "Pod",
        plural: "pods",
        singular: "pod",
        short_names: &["po"],
        categories: &["all"],
        subresources: &[
            Subresource { name: "binding", group: "", version: "", kind: "Binding", verbs: CREATE },
            Subresource {
                name: "eviction",
                group: "policy",
                version: "v1",
                kind: "Eviction",
                verbs: CREATE,
            },
            Subresource { name: "log", group: "", version: "", kind: "Pod", verbs: &["get"] },
            status("Pod"),
        ],
        rules: &kind::pod::Pod,
        generation: true,
        delete_returns_object: true,
        ..PLAIN
    },
    Builtin {
        kind: "PodTemplate",
        plural: "podtemplates",
        singular: "podtemplate",
        rules: &kind::pod_template::PodTemplate,
        generation: true,
        delete_returns_object: true,
        ..PLAIN
    },
    Builtin {
        kind: "Node",
        plural: "nodes",
        singular: "node",
        short_names: &["no"],
        namespaced: false,
        subresources: &[status("Node")],
        rules: &kind::node::Node,
        ..PLAIN
    },
    Builtin {
        kind: "Service",
        plural: "services",
        singular: "service",
        short_names: &["svc"],
        categories: &["all"],
        subresources: &[status("Service")],
        rules: &kind::service::Service,
        name: name::dns1123_label,
        create_on_update: true,
        delete_returns_object: true,
        ..PLAIN
    },
    Builtin {
        kind: "ConfigMap",
        plural: "configmaps",
        singular: "configmap",
        short_names: &["cm"],
        rules: &kind::config_map::ConfigMap,
        ..PLAIN
    },
    Builtin {
        kind: "Secret",
        plural: "secrets",
        singular: "secret",
        rules: &kind::secret::Secret,
        ..PLAIN
    },
    Builtin {
        kind: "ServiceAccount",
        plural: "serviceaccounts",
        singular: "serviceaccount",
        short_names: &["sa"],
        subresources: &[Subresource {
            name: "token",
            group: "authentication.k8s.io",
            version: "v1",
            kind: "TokenRequest",
            verbs: CREATE,
        }],
        rules: &kind::service_account::ServiceAccount,
        delete_returns_object: true,
        ..PLAIN
    },
    Builtin {
        kind: "PersistentVolumeClaim",
        plural: "persistentvolumeclaims",
        singular: "persistentvolumeclaim",
        short_names: &["pvc"],
        subresources: &[status("PersistentVolumeClaim")],
        rules: &kind::persistent_volume_claim::PersistentVolumeClaim,
        delete_returns_object: true,
        ..PLAIN
    },
    Builtin {
        kind: "Event",
        plural: "events",
        singular: "event",
        short_names: &["ev"],
        rules: &kind::event::CoreEvent,
        name: name::path_segment,
        create_on_update: true,
        ..PLAIN
    },
    Builtin {
        group: "events.k8s.io",
        kind: "Event",
        plural: "events",
        singular: "event",
        short_names: &["ev"],
        rules: &kind::event::Event,
        name: name::path_segment,
        create_on_update: true,
        view: Some(View {
            group: "",
            version: "v1",
            plural: "events",
            to_storage: kind::event::to_core,
            from_storage: kind::event::from_core,
        }),
        ..PLAIN
    },
    Builtin {
        group: "coordination.k8s.io",
        kind: "Lease",
        plural: "leases",
        singular: "lease",
        rules: &kind::lease::Lease,
        unconditional_update: false,
        create_on_update: true,
        ..PLAIN
    },
    Builtin {
        group: "batch",
        kind: "Job",
        plural: "jobs",
        singular: "job",
        categories: &["all"],
        subresources: &[status("Job")],
        rules: &kind::job::Job,
        generation: true,
        orphans_by_default: true,
        ..PLAIN
    },
    Builtin {
        group: "policy",
        kind: "PodDisruptionBudget",
        plural: "poddisruptionbudgets",
        singular: "poddisruptionbudget",
        short_names: &["pdb"],
        subresources: &[status("PodDisruptionBudget")],
        rules: &kind::pod_disruption_budget::PodDisruptionBudget,
        generation: true,
        unconditional_update: false,
        ..PLAIN
    },
    Builtin {
        group: RBAC,
        kind: "Role",
        plural: "roles",
        singular: "role",
        rules: &kind::rbac::Role,
        name: name::path_segment,
        create_on_update: true,
        ..PLAIN
    },
    Builtin {
        group: RBAC,
        kind: "ClusterRole",
        plural: "clusterroles",
        singular: "clusterrole",
        namespaced: false,
        rules: &kind::rbac::ClusterRole,
        name: name::path_segment,
        create_on_update: true,
        ..PLAIN
    },
    Builtin {
        group: RBAC,
        kind: "RoleBinding",
        plural: "rolebindings",
        singular: "rolebinding",
        rules: &kind::rbac::RoleBinding,
        name: name::path_segment,
        create_on_update: true,
        ..PLAIN
    },
    Builtin {
        group: RBAC,
        kind: "ClusterRoleBinding",
        plural: "clusterrolebindings",
        singular: "clusterrolebinding",
        namespaced: false,
        rules: &kind::rbac::ClusterRoleBinding,
        name: name::path_segment,
        create_on_update: true,
        ..PLAIN
    },
    Builtin {
        group: "apiextensions.k8s.io",
        kind: "CustomResourceDefinition",
        plural: "customresourcedefinitions",
        singular: "customresourcedefinition",
        short_names: &["crd", "crds"],
        categories: &["api-extensions"],
        namespaced: false,
        subresources: &[status("CustomResourceDefinition")],
        rules: &kind::custom_resource_definition::CustomResourceDefinition,
        generation: true,
        unconditional_update: false,
        ..PLAIN
    },
    review("authentication.k8s.io", "TokenReview", "tokenreviews", "tokenreview", false, &NoRules),
    review(
        "authentication.k8s.io",
        "SelfSubjectReview",
        "selfsubjectreviews",
        "selfsubjectreview",
        false,
        &NoRules,
    ),
    review(
        "authorization.k8s.io",
        "SubjectAccessReview",
        "subjectaccessreviews",
        "subjectaccessreview",
        false,
        &kind::review::SubjectAccessReview,
    ),
    review(
        "authorization.k8s.io",
        "SelfSubjectAccessReview",
        "selfsubjectaccessreviews",
        "selfsubjectaccessreview",
        false,
        &kind::review::SelfSubjectAccessReview,
    ),
    review(
        "authorization.k8s.io",
        "SelfSubjectRulesReview",
        "selfsubjectrulesreviews",
        "selfsubjectrulesreview",
        false,
        &NoRules,
    ),
    review(
        "authorization.k8s.io",
        "LocalSubjectAccessReview",
        "localsubjectaccessreviews",
        "localsubjectaccessreview",
        true,
        &kind::review::LocalSubjectAccessReview,
    ),
];

/// A kind that is only answered, never kept.
const fn review(
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    singular: &'static str,
    namespaced: bool,
    rules: &'static dyn Kind,
) -> Builtin {
    Builtin { group, kind, plural, singular, namespaced, rules, verbs: CREATE, ..PLAIN }
}

pub(crate) fn all() -> &'static [Builtin] {
    BUILTINS
}

impl Builtin {
    pub(crate) fn api_version(&self) -> String {
        api_version(self.group, self.version)
    }

    pub(super) fn resource(&'static self, store: &Store) -> Result<Resource, CommitError> {
        let api_version = self.api_version();
        let own_header = header(&api_version, self.kind);
        let (table, storage_header) = match &self.view {
            Some(view) => (
                store.table(view.group, view.plural)?,
                header(&crate::registry::builtin::api_version(view.group, view.version), self.kind),
            ),
            None => (store.table(self.group, self.plural)?, own_header.clone()),
        };
        let version = Version {
            name: self.version.into(),
            api_version: api_version.as_str().into(),
            header: own_header.into(),
            status: self.subresources.iter().any(|s| s.name == "status"),
            scale: false,
            deprecation: None,
        };
        Ok(Resource {
            group: self.group.into(),
            plural: self.plural.into(),
            singular: self.singular.into(),
            kind: self.kind.into(),
            list_kind: format!("{}List", self.kind).into(),
            short_names: self.short_names.iter().map(|s| (*s).into()).collect(),
            categories: self.categories.iter().map(|s| (*s).into()).collect(),
            namespaced: self.namespaced,
            api_versions: vec![version.api_version.clone()],
            versions: vec![version],
            storage: match &self.view {
                Some(view) => (view.group.into(), view.version.into()),
                None => (self.group.into(), self.version.into()),
            },
            storage_header: storage_header.into(),
            table,
            zero: zero(&api_version, self.kind),
            rules: Rules::Builtin(self),
        })
    }
}

/// What Go's encoder writes for an object of the kind that was never filled in.
fn zero(api_version: &str, kind: &str) -> Option<Value> {
    let mut value = Value::Object(Object::new());
    let ty = typed::table().lookup(api_version, kind)?;
    typed::decode(ty, &mut value, &mut Vec::new()).ok()?;
    Some(value)
}

pub(crate) fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}
