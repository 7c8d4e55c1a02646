//! Jobs.

mod failure_policy;
mod index_list;
mod status;
mod success_policy;

use std::borrow::Cow;

use serde_json::{Value, json};

use super::grammar::{
    Errors, immutable, label_selector, non_negative, one_of, selector_matches, unsupported,
};
use super::pod::{default, internal, set_generation, template, warning};
use super::{Kind, set_or_remove};
use crate::field::{FieldError, FieldErrors, Path, go_value};
use crate::json::{Access, Object, object_mut};
use crate::name;
use crate::warning::Warnings;

const CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";
const JOB_NAME: &str = "batch.kubernetes.io/job-name";
const OLD_CONTROLLER_UID: &str = "controller-uid";
const OLD_JOB_NAME: &str = "job-name";
const INDEXED: &str = "Indexed";
/// Beyond this many indexes, failures must be bounded.
const MAX_UNBOUNDED_COMPLETIONS: i64 = 100_000;
const MAX_PARALLELISM_OF_MANY: i64 = 10_000;
const MAX_MANAGED_BY_CHARS: usize = 63;

#[derive(Debug)]
pub(crate) struct Job;

impl Kind for Job {
    fn default(&self, obj: &mut Object) {
        let spec = object_mut(obj, "spec");
        if spec.at("completions").is_null() && spec.at("parallelism").is_null() {
            spec.insert("completions".to_owned(), 1.into());
        }
        default::default_value(spec, "parallelism", 1);
        let retries = if spec.at("backoffLimitPerIndex").is_null() { 6 } else { i32::MAX };
        default::default_value(spec, "backoffLimit", retries);
        default::default_value(spec, "completionMode", "NonIndexed");
        default::default_value(spec, "suspend", false);
        default::default_value(spec, "manualSelector", false);
        let failed = !spec.at("podFailurePolicy").is_null();
        let replacement = if failed { "Failed" } else { "TerminatingOrFailed" };
        default::default_value(spec, "podReplacementPolicy", replacement);
        failure_policy::default(spec);
        default::template(object_mut(spec, "template"));
    }

    /// If the object has its uid already, its selector is made too; see [`generate_selector`].
    fn prepare_create(&self, obj: &mut Object) {
        let uid = obj.at("metadata").text("uid").to_owned();
        if !uid.is_empty() {
            generate_selector(obj, &uid);
        }
        obj.insert("status".to_owned(), json!({}));
        object_mut(obj, "metadata").insert("generation".to_owned(), 1.into());
        template::drop_disabled(object_mut(
            object_mut(object_mut(obj, "spec"), "template"),
            "spec",
        ));
    }

    fn prepare_update(&self, new: &mut Object, old: &Object) {
        set_or_remove(new, "status", old.get("status").cloned());
        template::drop_disabled(object_mut(
            object_mut(object_mut(new, "spec"), "template"),
            "spec",
        ));
        default_labels(new);
        let changed = new.at("spec") != old.at("spec");
        set_generation(new, old, changed);
    }

    fn prepare_status_update(&self, new: &mut Object, old: &Object) {
        set_or_remove(new, "spec", old.get("spec").cloned());
        object_mut(new, "status");
        default_labels(new);
        set_generation(new, old, false);
    }

    fn validate(&self, obj: &Object, errors: &mut FieldErrors) {
        generated_selector(errors, obj);
        validate_spec(errors, obj.at("spec"));
        let spec = obj.at("spec");
        let completions = spec.int("completions").unwrap_or_default();
        if spec.text("completionMode") == INDEXED && completions > 0 {
            let job = obj.at("metadata").text("name");
            let hostname = format!("{job}-{}", completions - 1);
            if !name::dns1123_label(&hostname).is_empty() {
                let metadata = Path::new("metadata");
                let detail =
                    format!("will not able to create pod with invalid DNS label: {hostname}");
                errors.push(FieldError::invalid_text(&metadata.field("name"), job, detail));
            }
        }
    }

    fn validate_update(&self, new: &Object, old: &Object, errors: &mut FieldErrors) {
        self.validate(new, errors);
        // Upstream checks the spec once more here, and shows its errors twice.
        validate_spec(errors, new.at("spec"));
        changes(errors, new, old);
    }

    fn validate_status_update(&self, new: &Object, old: &Object, errors: &mut FieldErrors) {
        status::validate(errors, new, old);
    }

    fn warnings(&self, new: &Object, old: Option<&Object>) -> Warnings {
        let mut out = Warnings::default();
        let generation = |job: &Object| job.at("metadata").int("generation");
        match old {
            Some(old) if generation(old) == generation(new) => return out,
            Some(_) => {}
            None => {
                let texts = name::dns1123_label(new.at("metadata").text("name"));
                if !texts.is_empty() {
                    out.push(format!(
                        "metadata.name: this is used in Pod names and hostnames, which can result \
                         in surprising behavior; a DNS label is recommended: [{}]",
                        texts.join(" ")
                    ));
                }
            }
        }
        let spec = new.at("spec");
        let number = |member: &str| spec.int(member).unwrap_or_default();
        if spec.text("completionMode") == INDEXED
            && number("completions") > MAX_UNBOUNDED_COMPLETIONS
            && number("parallelism") > MAX_PARALLELISM_OF_MANY
        {
            out.push(
                "spec: In Indexed Jobs with a number of completions higher than 10^5 and a \
                 parallelism higher than 10^4, Kubernetes might not be able to track \
                 completedIndexes when a big number of indexes fail"
                    .to_owned(),
            );
        }
        let path = Path::new("spec");
        warning::warnings(&mut out, &path.field("template"), spec.at("template"), true);
        out
    }

    fn selectable_fields(&self) -> &'static [&'static str] {
        &["status.successful"]
    }

    fn selectable_field<'a>(&self, obj: &'a Object, label: &str) -> Cow<'a, str> {
        match label {
            "status.successful" => {
                Cow::Owned(obj.at("status").int("succeeded").unwrap_or_default().to_string())
            }
            _ => Cow::Borrowed(""),
        }
    }
}

/// Makes the selector by which a Job finds its Pods, and the labels that it selects by, unless the
/// user does that. A Job without labels gets its template's.
pub(crate) fn generate_selector(job: &mut Object, uid: &str) {
    let name = job.at("metadata").at("name").clone();
    let spec = object_mut(job, "spec");
    if !spec.flag("manualSelector") {
        let labels = object_mut(object_mut(object_mut(spec, "template"), "metadata"), "labels");
        for key in [OLD_JOB_NAME, JOB_NAME] {
            labels.entry(key).or_insert_with(|| name.clone());
        }
        for key in [OLD_CONTROLLER_UID, CONTROLLER_UID] {
            labels.entry(key).or_insert_with(|| uid.into());
        }
        let selected = object_mut(object_mut(spec, "selector"), "matchLabels");
        selected.entry(CONTROLLER_UID).or_insert_with(|| uid.into());
    }
    default_labels(job);
}

fn default_labels(job: &mut Object) {
    let own = job.at("metadata").at("labels").as_object();
    let labels = job.at("spec").at("template").at("metadata").at("labels");
    if own.is_none_or(serde_json::Map::is_empty) && !labels.is_null() {
        let labels = labels.clone();
        object_mut(job, "metadata").insert("labels".to_owned(), labels);
    }
}

fn generated_selector(errors: &mut Errors, job: &Object) {
    let spec = job.at("spec");
    let selector = spec.at("selector");
    if spec.flag("manualSelector") || selector.is_null() {
        return;
    }
    let metadata = job.at("metadata");
    let path = Path::new("metadata");
    if metadata.text("uid").is_empty() {
        errors.push(FieldError::required(&path.field("uid"), ""));
    }
    let (uid, name) = (metadata.text("uid"), metadata.text("name"));
    let expected =
        [(OLD_CONTROLLER_UID, uid), (OLD_JOB_NAME, name), (CONTROLLER_UID, uid), (JOB_NAME, name)];
    let path = Path::new("spec");
    let template = path.field("template");
    let at = template.field("metadata");
    let at = at.field("labels");
    let labels = spec.at("template").at("metadata").at("labels");
    for (key, value) in expected {
        let detail = format!("must be '{value}'");
        match labels.get(key).and_then(Value::as_str) {
            None => errors.push(FieldError::required(&at.key(key), detail)),
            Some(actual) if actual != value => {
                errors.push(FieldError::invalid_raw(&at.key(key), go_value(labels), detail));
            }
            Some(_) => {}
        }
    }
    let expected: Value =
        expected.into_iter().map(|(key, value)| (key.to_owned(), Value::from(value))).collect();
    if selector_matches(selector, &expected) == Some(false) {
        let detail = "`selector` not auto-generated";
        errors.push(FieldError::invalid(&path.field("selector"), selector, detail));
    }
}

fn validate_spec(errors: &mut Errors, spec: &Value) {
    let path = Path::new("spec");
    for member in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        non_negative(errors, &path.field(member), spec.int(member));
    }
    if !spec.at("maxFailedIndexes").is_null() && spec.at("backoffLimitPerIndex").is_null() {
        let at = path.field("backoffLimitPerIndex");
        errors.push(FieldError::required(&at, "when maxFailedIndexes is specified"));
    }
    if let Some(manager) = spec.at("managedBy").as_str() {
        let at = path.field("managedBy");
        domain_prefixed_path(errors, &at, manager);
        if manager.len() > MAX_MANAGED_BY_CHARS {
            errors.push(FieldError::too_long(&at, MAX_MANAGED_BY_CHARS));
        }
    }
    completion_mode(errors, &path, spec);
    if !spec.at("podFailurePolicy").is_null() {
        failure_policy::validate(errors, &path.field("podFailurePolicy"), spec);
    }
    let success = spec.at("successPolicy");
    if !success.is_null() {
        let at = path.field("successPolicy");
        if spec.text("completionMode") == INDEXED {
            success_policy::validate(errors, &at, spec);
        } else {
            let shown = internal::compact(internal::SUCCESS_POLICY, success);
            errors.push(FieldError::invalid_raw(&at, shown, "requires indexed completion mode"));
        }
    }
    if let Some(policy) = spec.at("podReplacementPolicy").as_str() {
        let supported: &[&str] = if spec.at("podFailurePolicy").is_null() {
            &["Failed", "TerminatingOrFailed"]
        } else {
            &["Failed"]
        };
        one_of(errors, &path.field("podReplacementPolicy"), policy, supported);
    }
    let template_path = path.field("template");
    template::validate(errors, &template_path, spec.at("template"));
    restart_policy(errors, &template_path, spec);
    selector(errors, &path, &template_path, spec);
}

fn completion_mode(errors: &mut Errors, path: &Path<'_>, spec: &Value) {
    let mode = spec.text("completionMode");
    if !matches!(mode, "" | "NonIndexed" | INDEXED) {
        let at = path.field("completionMode");
        errors.push(unsupported(&at, mode, &["NonIndexed", INDEXED]));
    }
    let (completions, parallelism) = (spec.int("completions"), spec.int("parallelism"));
    let (per_index, most) = (spec.int("backoffLimitPerIndex"), spec.int("maxFailedIndexes"));
    let parallel = path.field("parallelism");
    let failed = path.field("maxFailedIndexes");
    let at_most =
        |errors: &mut Errors, at: &Path<'_>, value: Option<i64>, most: i64, when: &str| {
            if let Some(value) = value.filter(|value| *value > most) {
                let detail = format!("must be less than or equal to {most}{when}");
                errors.push(FieldError::invalid(at, &value.into(), detail));
            }
        };
    if mode == INDEXED {
        if completions.is_none() {
            let detail = "when completion mode is Indexed";
            errors.push(FieldError::required(&path.field("completions"), detail));
        }
        at_most(
            errors,
            &parallel,
            parallelism,
            MAX_UNBOUNDED_COMPLETIONS,
            " when completion mode is Indexed",
        );
        if let (Some(completions), Some(most)) = (completions, most)
            && most > completions
        {
            let detail = "must be less than or equal to completions";
            errors.push(FieldError::invalid(&failed, &most.into(), detail));
        }
        at_most(errors, &failed, most, MAX_UNBOUNDED_COMPLETIONS, "");
        if completions.is_some_and(|completions| completions > MAX_UNBOUNDED_COMPLETIONS)
            && per_index.is_some()
        {
            if most.is_none() {
                let detail = "must be specified when completions is above 100000";
                errors.push(FieldError::required(&failed, detail));
            }
            let when = " when completions are above 100000 and used with backoff limit per index";
            at_most(errors, &parallel, parallelism, MAX_PARALLELISM_OF_MANY, when);
            at_most(errors, &failed, most, MAX_PARALLELISM_OF_MANY, when);
        }
    } else if matches!(mode, "" | "NonIndexed") {
        for (member, value) in [("backoffLimitPerIndex", per_index), ("maxFailedIndexes", most)] {
            if let Some(value) = value {
                let detail = "requires indexed completion mode";
                errors.push(FieldError::invalid(&path.field(member), &value.into(), detail));
            }
        }
    }
}

/// `domain/path`
fn domain_prefixed_path(errors: &mut Errors, path: &Path<'_>, value: &str) {
    if value.is_empty() {
        return errors.push(FieldError::required(path, ""));
    }
    let (domain, rest) = match value.split_once('/') {
        Some((domain, rest)) if !domain.is_empty() && !rest.is_empty() => (domain, rest),
        _ => {
            let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
            return errors.push(FieldError::invalid_text(path, value, detail));
        }
    };
    for text in name::dns1123_subdomain(domain) {
        errors.push(FieldError::invalid_text(path, domain, text));
    }
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&b);
    if !rest.bytes().all(allowed) {
        let text = name::pattern_text("Invalid path", r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+", &[]);
        errors.push(FieldError::invalid_text(path, rest, text));
    }
}

fn restart_policy(errors: &mut Errors, template: &Path<'_>, spec: &Value) {
    let policy = spec.at("template").at("spec").text("restartPolicy");
    let at = template.field("spec");
    let at = at.field("restartPolicy");
    match policy {
        "Always" | "" => {
            let detail = r#"valid values: "OnFailure", "Never""#;
            errors.push(FieldError::required(&at, detail));
        }
        "OnFailure" if !spec.at("podFailurePolicy").is_null() => {
            let detail = r#"only "Never" is supported when podFailurePolicy is specified"#;
            errors.push(FieldError::invalid_text(&at, policy, detail));
        }
        "OnFailure" | "Never" => {}
        other => errors.push(unsupported(&at, other, &["OnFailure", "Never"])),
    }
}

fn selector(errors: &mut Errors, path: &Path<'_>, template: &Path<'_>, spec: &Value) {
    let selector = spec.at("selector");
    let at = path.field("selector");
    if selector.is_null() {
        errors.push(FieldError::required(&at, ""));
    } else {
        label_selector(errors, &at, selector);
    }
    let labels = spec.at("template").at("metadata").at("labels");
    if selector_matches(selector, labels) == Some(false) {
        let at = template.field("metadata");
        let detail = "`selector` does not match template `labels`";
        errors.push(FieldError::invalid(&at.field("labels"), labels, detail));
    }
}

fn changes(errors: &mut Errors, new: &Object, old: &Object) {
    let path = Path::new("spec");
    let (spec, old_spec) = (new.at("spec"), old.at("spec"));
    completions(errors, &path.field("completions"), spec, old_spec);
    let same = |errors: &mut Errors, member: &str| {
        immutable(errors, &path.field(member), spec.at(member), old_spec.at(member));
    };
    same(errors, "selector");
    template_change(errors, &path, new, old);
    same(errors, "completionMode");
    for (member, type_name) in [
        ("podFailurePolicy", internal::POD_FAILURE_POLICY),
        ("backoffLimitPerIndex", ""),
        ("managedBy", ""),
        ("successPolicy", internal::SUCCESS_POLICY),
    ] {
        let (value, old_value) = (spec.at(member), old_spec.at(member));
        if value == old_value {
            continue;
        }
        let shown = if type_name.is_empty() || value.is_null() {
            go_value(value)
        } else {
            internal::compact(type_name, value)
        };
        let detail = super::grammar::IMMUTABLE;
        errors.push(FieldError::invalid_raw(&path.field(member), shown, detail));
    }
}

/// Indexed Jobs can be scaled, if both numbers are.
fn completions(errors: &mut Errors, path: &Path<'_>, spec: &Value, old: &Value) {
    let (now, before) = (spec.at("completions"), old.at("completions"));
    if spec.text("completionMode") != INDEXED {
        immutable(errors, path, now, before);
    } else if now != before && !now.is_null() && now != spec.at("parallelism") {
        let detail = "can only be modified in tandem with spec.parallelism";
        errors.push(FieldError::invalid(path, now, detail));
    }
}

/// The template is fixed, but while the Job is suspended and has no Pods, where its Pods run and
/// what they need can change.
fn template_change(errors: &mut Errors, path: &Path<'_>, new: &Object, old: &Object) {
    let old_spec = old.at("spec");
    let status = old.at("status");
    let suspended = old_spec.flag("suspend");
    let started = !status.at("startTime").is_null();
    let open = suspended
        && (!started || status::has_condition(old, "Suspended", "True"))
        && status.int("active").unwrap_or_default() == 0;
    let template = new.at("spec").at("template");
    if !open {
        let old_template = old_spec.at("template");
        if template != old_template {
            let shown = internal::compact(internal::POD_TEMPLATE, template);
            let detail = super::grammar::IMMUTABLE;
            errors.push(FieldError::invalid_raw(&path.field("template"), shown, detail));
        }
        return;
    }
    let mut allowed = old_spec.at("template").at("spec").clone();
    let spec = template.at("spec");
    if let Some(allowed) = allowed.as_object_mut() {
        for member in ["nodeSelector", "tolerations", "schedulingGates"] {
            set_or_remove(allowed, member, spec.get(member).cloned());
        }
        allow_node_affinity(allowed, spec);
        for list in ["containers", "initContainers"] {
            let containers = allowed.get_mut(list).and_then(Value::as_array_mut);
            let Some(containers) = containers.filter(|c| c.len() == spec.list(list).len()) else {
                continue;
            };
            for (old, new) in containers.iter_mut().zip(spec.list(list)) {
                if old.text("name") == new.text("name")
                    && let Some(old) = old.as_object_mut()
                {
                    set_or_remove(old, "resources", new.get("resources").cloned());
                }
            }
        }
    }
    if *spec != allowed {
        let at = path.field("template");
        let shown = internal::compact(internal::POD_SPEC, spec);
        errors.push(FieldError::invalid_raw(&at.field("spec"), shown, super::grammar::IMMUTABLE));
    }
}

fn allow_node_affinity(allowed: &mut Object, spec: &Value) {
    let wanted = spec.at("affinity").get("nodeAffinity").cloned();
    let new_is_there = !spec.at("affinity").is_null();
    if !new_is_there && allowed.at("affinity").is_null() {
        return;
    }
    let affinity = object_mut(allowed, "affinity");
    set_or_remove(affinity, "nodeAffinity", wanted);
    if affinity.is_empty() && !new_is_there {
        allowed.remove("affinity");
    }
}

#[cfg(test)]
mod tests;
