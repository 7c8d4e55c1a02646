//! Who names something must be allowed to: the references of a request, each with the permission of its
//! sender that it needs. What we do with what is named, we do with our own rights, which are wider
//! than the sender's.
//!
//! A reference is asked about when it is written or changed, and never again. Our controllers change
//! none, so they ask about nothing; what they make is asked about like anybody's.

use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse};
use sojourn_api::problem::Problem;

use super::lookup::{Permission, Permissions};
use super::refusal::{refuse, unasked, unknown};
use super::request::sender;

/// Objects of one kind that are asked about one by one. Whoever names more must be allowed to read
/// every object of that kind there, which is one question.
const MAX_NAMED_OBJECTS: usize = 16;

/// Something that a request names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// The field that names it.
    pub path: String,
    /// What the sender must be allowed to do with it.
    pub permission: Permission,
}

/// The sender must be allowed to read what is named.
pub(super) fn to_get(
    path: impl Into<String>,
    (group, resource): (&'static str, &'static str),
    namespace: &str,
    name: &str,
) -> Reference {
    let permission = Permission {
        verb: "get",
        group,
        resource,
        subresource: None,
        namespace: namespace.to_owned(),
        name: Some(name.to_owned()),
    };
    Reference { path: path.into(), permission }
}

/// A whole Pod is written: the sender must be allowed to create one.
pub(super) fn to_create_pods(path: &str, namespace: &str) -> Reference {
    to_any_pod("create", path, namespace)
}

/// Pods will be deleted: the sender must be allowed to delete any of that namespace.
pub(super) fn to_delete_pods(path: &str, namespace: &str) -> Reference {
    to_any_pod("delete", path, namespace)
}

fn to_any_pod(verb: &'static str, path: &str, namespace: &str) -> Reference {
    let permission = Permission {
        verb,
        group: "",
        resource: "pods",
        subresource: None,
        namespace: namespace.to_owned(),
        name: None,
    };
    Reference { path: path.to_owned(), permission }
}

/// The rights of a group are given to others: the sender must be allowed to act as it.
pub(super) fn to_impersonate_group(path: &str, group: &str) -> Reference {
    let permission = Permission {
        verb: "impersonate",
        group: "",
        resource: "groups",
        subresource: None,
        namespace: String::new(),
        name: Some(group.to_owned()),
    };
    Reference { path: path.to_owned(), permission }
}

/// The sender must be allowed to read what programs are given, in the namespace where they run: Secrets and
/// ConfigMaps, each by its resource and its name.
pub(super) fn to_read(
    path: &str,
    given: &[(&'static str, &str)],
    namespace: &str,
) -> Vec<Reference> {
    let one =
        |(resource, name): (&'static str, &str)| to_get(path, ("", resource), namespace, name);
    let mut all = Vec::new();
    for resource in ["secrets", "configmaps"] {
        let of_kind = given.iter().copied().filter(|(of, _)| *of == resource);
        if of_kind.clone().count() <= MAX_NAMED_OBJECTS {
            all.extend(of_kind.map(one));
        } else if let Some(mut any) = of_kind.map(one).next() {
            any.permission.name = None;
            all.push(any);
        }
    }
    all
}

/// The refusal, if the sender may not do what a reference needs, or nobody knows.
pub(super) fn review_references(
    request: &AdmissionRequest<DynamicObject>,
    references: &[Reference],
    permitted: &Permissions,
) -> Option<AdmissionResponse> {
    let mut forbidden = Vec::new();
    for Reference { path, permission } in references {
        let paths = || [path.clone()];
        match permitted.get(permission) {
            Some(Ok(true)) => {}
            Some(Ok(false)) => {
                let user = sender(request);
                let message = format!("{user} needs {permission}: who names it must be allowed to");
                forbidden.push(Problem::new(path, message));
            }
            Some(Err(why)) => {
                let what = format!("whether the sender has {permission}");
                return Some(unknown(request, &paths(), &what, why));
            }
            None => return Some(unasked(request, &paths())),
        }
    }
    (!forbidden.is_empty()).then(|| refuse(request, 403, "Forbidden", &forbidden))
}

impl std::fmt::Display for Permission {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { verb, resource, subresource, namespace, name, .. } = self;
        write!(f, "`{verb}` on ")?;
        if name.is_none() && *verb != "create" {
            f.write_str("all ")?;
        }
        f.write_str(resource)?;
        subresource.map_or(Ok(()), |subresource| write!(f, "/{subresource}"))?;
        name.as_ref().map_or(Ok(()), |name| write!(f, " {name:?}"))?;
        if namespace.is_empty() { Ok(()) } else { write!(f, " in namespace {namespace:?}") }
    }
}
