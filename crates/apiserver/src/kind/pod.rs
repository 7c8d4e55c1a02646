//! Pods, and the template that other kinds make them from.

pub(crate) mod admission;
mod annotation;
pub(crate) mod binding;
mod container;
pub(crate) mod default;
mod downward;
#[cfg(test)]
pub(crate) mod fixture;
mod image;
pub(crate) mod internal;
mod probe;
mod projected;
pub(crate) mod resource;
pub(crate) mod scheduling;
mod security;
mod spec;
mod status;
pub(crate) mod template;
mod update;
mod volume;
pub(crate) mod warning;

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use serde_json::{Value, json};

use super::{Kind, set_or_remove};
use crate::field::{FieldError, FieldErrors, Path};
use crate::json::{Access, Object, object_mut};
use crate::name;
use crate::warning::Warnings;

/// Labels of field selectors, and where their values stand.
const SELECTABLE: [&str; 9] = [
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.podIPs",
    "status.nominatedNodeName",
];

#[derive(Debug)]
pub(crate) struct Pod;

impl Kind for Pod {
    fn default(&self, obj: &mut Object) {
        default::pod(obj);
    }

    fn prepare_create(&self, obj: &mut Object) {
        object_mut(obj, "metadata").insert("generation".to_owned(), 1.into());
        let class = resource::qos_class(obj.at("spec"));
        obj.insert("status".to_owned(), json!({"phase": "Pending", "qosClass": class}));
        if let Some(spec) = obj.get_mut("spec").and_then(Value::as_object_mut) {
            template::drop_disabled(spec);
        }
        merge_label_keys(obj);
        app_armor_fields(obj);
    }

    fn prepare_update(&self, new: &mut Object, old: &Object) {
        set_or_remove(new, "status", old.get("status").cloned());
        if let Some(spec) = new.get_mut("spec").and_then(Value::as_object_mut) {
            template::drop_disabled(spec);
        }
        let changed = new.at("spec") != old.at("spec");
        set_generation(new, old, changed);
    }

    fn prepare_status_update(&self, new: &mut Object, old: &Object) {
        status::prepare_update(new, old);
        set_generation(new, old, false);
    }

    fn validate(&self, obj: &Object, errors: &mut FieldErrors) {
        validate_any(obj, errors);
        let path = Path::new("spec");
        let spec = obj.at("spec");
        if !spec.list("ephemeralContainers").is_empty() {
            let at = path.field("ephemeralContainers");
            errors.push(FieldError::forbidden(&at, "cannot be set on create"));
        }
        if !spec.text("nodeName").is_empty() && !spec.list("schedulingGates").is_empty() {
            let detail = "cannot be set until all schedulingGates have been cleared";
            errors.push(FieldError::forbidden(&path.field("nodeName"), detail));
        }
        annotation::validate_profiles(errors, &path, obj);
    }

    fn validate_update(&self, new: &Object, old: &Object, errors: &mut FieldErrors) {
        validate_any(new, errors);
        update::validate(errors, new, old);
    }

    fn validate_status_update(&self, new: &Object, old: &Object, errors: &mut FieldErrors) {
        status::validate(errors, new, old);
    }

    fn warnings(&self, new: &Object, old: Option<&Object>) -> Warnings {
        // Updates are left alone: they are many, and seldom made by people.
        let mut out = Warnings::default();
        if old.is_some() {
            return out;
        }
        let texts = name::dns1123_label(new.at("metadata").text("name"));
        if !texts.is_empty() {
            out.push(format!(
                "metadata.name: this is used in the Pod's hostname, which can result in surprising \
                 behavior; a DNS label is recommended: [{}]",
                texts.join(" ")
            ));
        }
        let root = Path::root();
        warning::warnings(&mut out, &root, new, false);
        app_armor_warnings(&mut out, new);
        out
    }

    fn selectable_fields(&self) -> &'static [&'static str] {
        &SELECTABLE
    }

    fn selectable_field<'a>(&self, obj: &'a Object, label: &str) -> Cow<'a, str> {
        let (spec, status) = (obj.at("spec"), obj.at("status"));
        Cow::Borrowed(match label {
            "spec.hostNetwork" if spec.flag("hostNetwork") => "true",
            "spec.hostNetwork" => "false",
            "status.podIP" => match status.list("podIPs").first() {
                Some(first) => first.text("ip"),
                None => status.text("podIP"),
            },
            // Upstream accepts this one, and compares with nothing.
            "status.podIPs" => "",
            _ => match label.split_once('.') {
                Some(("spec", member)) => spec.text(member),
                Some(("status", member)) => status.text(member),
                _ => "",
            },
        })
    }
}

/// The rules that every Pod must satisfy, new or not.
fn validate_any(obj: &Object, errors: &mut FieldErrors) {
    let metadata = Path::new("metadata");
    let annotations = obj.at("metadata").at("annotations");
    let spec = obj.at("spec");
    annotation::validate(errors, &metadata.field("annotations"), annotations, spec);
    let path = Path::new("spec");
    let owner = spec::Owner::Pod {
        name: obj.at("metadata").text("name"),
        mirror: annotations.get(annotation::MIRROR).is_some(),
    };
    spec::validate(errors, &path, spec, owner);
    if spec.text("serviceAccountName").is_empty() {
        tokens_without_account(errors, &path.field("volumes"), spec);
    }
    for list in ["containers", "initContainers"] {
        let at = path.field(list);
        for (i, container) in spec.list(list).iter().enumerate() {
            container::image_spaces(errors, &at.index(i), container);
        }
    }
}

fn tokens_without_account(errors: &mut FieldErrors, path: &Path<'_>, spec: &Value) {
    for (i, volume) in spec.list("volumes").iter().enumerate() {
        let at = path.index(i);
        let at = at.field("projected");
        let sources = at.field("sources");
        for (i, source) in volume.at("projected").list("sources").iter().enumerate() {
            if !source.at("serviceAccountToken").is_null() {
                let at = sources.index(i);
                let detail = "must not be specified when serviceAccountName is not set";
                errors.push(FieldError::forbidden(&at.field("serviceAccountToken"), detail));
            }
        }
    }
}

/// The generation of an object that exists: the old one, or one more.
pub(crate) fn set_generation(new: &mut Object, old: &Object, changed: bool) {
    let generation = old.at("metadata").int("generation").unwrap_or_default() + i64::from(changed);
    let metadata = object_mut(new, "metadata");
    if generation == 0 {
        metadata.remove("generation");
    } else {
        metadata.insert("generation".to_owned(), generation.into());
    }
}

/// A scheduler sees the values of `matchLabelKeys` as plain selector expressions.
fn merge_label_keys(obj: &mut Object) {
    let labels = obj.at("metadata").at("labels").clone();
    let Some(spec) = obj.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    for constraint in items_mut(spec, "topologySpreadConstraints") {
        merge_into_selector(constraint, &labels);
    }
    let Some(affinity) = spec.get_mut("affinity").and_then(Value::as_object_mut) else {
        return;
    };
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(terms) = affinity.get_mut(kind).and_then(Value::as_object_mut) else {
            continue;
        };
        for weighted in items_mut(terms, scheduling::PREFERRED) {
            if let Some(term) = weighted.get_mut("podAffinityTerm").and_then(Value::as_object_mut) {
                merge_into_selector(term, &labels);
            }
        }
        for term in items_mut(terms, scheduling::REQUIRED) {
            merge_into_selector(term, &labels);
        }
    }
}

fn items_mut<'a>(parent: &'a mut Object, key: &str) -> impl Iterator<Item = &'a mut Object> {
    let items = parent.get_mut(key).and_then(Value::as_array_mut);
    items.into_iter().flatten().filter_map(Value::as_object_mut)
}

fn merge_into_selector(term: &mut Object, labels: &Value) {
    let mut merged = Vec::new();
    for (member, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        for key in term.list(member).iter().filter_map(Value::as_str) {
            if let Some(value) = labels.get(key) {
                merged.push(json!({"key": key, "operator": operator, "values": [value]}));
            }
        }
    }
    let selector = term.get_mut("labelSelector").and_then(Value::as_object_mut);
    if let Some(selector) = selector.filter(|_| !merged.is_empty()) {
        let expressions = selector.entry("matchExpressions").or_insert_with(|| json!([]));
        if let Some(expressions) = expressions.as_array_mut() {
            expressions.append(&mut merged);
        }
    }
}

/// Older clients give AppArmor profiles as annotations; nodes read only the field.
fn app_armor_fields(obj: &mut Object) {
    let annotations = obj.at("metadata").at("annotations").clone();
    let has_any = annotations.as_object().is_some_and(|annotations| {
        annotations.keys().any(|key| key.starts_with(annotation::APP_ARMOR))
    });
    if !has_any || obj.at("spec").at("os").text("name") == "windows" {
        return;
    }
    let of_pod = obj.at("spec").at("securityContext").at("appArmorProfile").clone();
    let Some(spec) = obj.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in items_mut(spec, list) {
            let key = format!("{}{}", annotation::APP_ARMOR, container.text("name"));
            let profile = annotations.at(&key).as_str().and_then(annotation::app_armor_field);
            if !container.at("securityContext").at("appArmorProfile").is_null() {
                continue;
            }
            if let Some(profile) = profile.filter(|profile| *profile != of_pod) {
                let context = object_mut(container, "securityContext");
                context.insert("appArmorProfile".to_owned(), profile);
            }
        }
    }
}

/// Said of each container whose annotation was turned into the field, or could not be.
fn app_armor_warnings(out: &mut Warnings, pod: &Object) {
    let annotations = pod.at("metadata").at("annotations");
    let spec = pod.at("spec");
    let metadata = Path::new("metadata");
    let path = metadata.field("annotations");
    if spec.at("os").text("name") == "windows" {
        return;
    }
    each_container(spec, &Path::root(), |container, _| {
        let key = format!("{}{}", annotation::APP_ARMOR, container.text("name"));
        let Some(value) = annotations.get(&key).and_then(Value::as_str) else {
            return;
        };
        let given = container.at("securityContext").at("appArmorProfile");
        let meant = annotation::app_armor_field(value);
        let copied = !given.is_null() && meant.as_ref() == Some(given);
        if copied || (given.is_null() && meant.is_none()) {
            out.push(warning::app_armor_text(&path, &key));
        }
    });
}

/// Visits all containers, init ones first, with their paths below `spec_path`.
fn each_container<'a>(
    spec: &'a Value,
    spec_path: &Path<'_>,
    mut visit: impl FnMut(&'a Value, &Path<'_>),
) {
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        let path = spec_path.field(list);
        for (i, container) in spec.list(list).iter().enumerate() {
            visit(container, &path.index(i));
        }
    }
}

/// What the parts of a spec need to know of the whole.
struct Context<'a> {
    /// `""` for a template.
    pod_name: &'a str,
    is_pod: bool,
    restart_policy: &'a str,
    grace: Option<i64>,
    host_users: bool,
    /// Names of the Pod's resource claims.
    claims: BTreeSet<&'a str>,
    /// The good volumes by name.
    volumes: HashMap<&'a str, &'a Value>,
}

#[cfg(test)]
mod tests;
