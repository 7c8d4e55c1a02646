//! Containers: regular ones, init containers and sidecars, ephemeral ones.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::super::grammar::{
    Errors, PROTOCOLS, config_key, descending_path, env_name, has_backstep, no_backsteps, one_of,
    port_name, port_number, push_texts,
};
use super::probe::{self, Purpose};
use super::{Context, downward, resource, security};
use crate::field::{FieldError, Path};
use crate::json::Access;
use crate::name;

const PULL_POLICIES: [&str; 3] = ["Always", "IfNotPresent", "Never"];
const RESTART_POLICIES: [&str; 3] = ["Always", "Never", "OnFailure"];

pub(super) fn validate_regular(
    errors: &mut Errors,
    path: &Path<'_>,
    containers: &[Value],
    context: &Context<'_>,
) {
    if containers.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    let mut names = HashSet::new();
    for (i, container) in containers.iter().enumerate() {
        let at = path.index(i);
        validate_any(errors, &at, container, context);
        if !names.insert(container.text("name")) {
            errors.push(FieldError::duplicate(&at.field("name"), container.at("name")));
        }
        hooks_and_probes(errors, &at, container, context);
        restart_policy(errors, &at, container);
    }
    host_port_conflicts(errors, path, containers.iter().enumerate());
}

pub(super) fn validate_init(
    errors: &mut Errors,
    path: &Path<'_>,
    containers: &[Value],
    regular: &[Value],
    context: &Context<'_>,
) {
    let mut names: HashSet<&str> = regular.iter().map(|container| container.text("name")).collect();
    for (i, container) in containers.iter().enumerate() {
        let at = path.index(i);
        validate_any(errors, &at, container, context);
        restart_policy(errors, &at, container);
        let name = container.text("name");
        if names.contains(name) {
            errors.push(FieldError::duplicate(&at.field("name"), &name.into()));
        } else if !name.is_empty() {
            names.insert(name);
        }
        // Upstream checks one at a time and forgets which one it was.
        host_port_conflicts(errors, path, std::iter::once((0, container)));
        let sidecar = container.text("restartPolicy") == "Always";
        if sidecar {
            hooks_and_probes(errors, &at, container, context);
        } else {
            for member in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
                if !container.at(member).is_null() {
                    let detail = "may not be set for init containers without restartPolicy=Always";
                    errors.push(FieldError::forbidden(&at.field(member), detail));
                }
            }
            let policies = at.field("resizePolicy");
            for (j, policy) in container.list("resizePolicy").iter().enumerate() {
                if policy.text("restartPolicy") == "RestartContainer" {
                    let item = policies.index(j);
                    let detail =
                        "must not be set to 'RestartContainer' for non-sidecar initContainers";
                    let at = item.field("restartPolicy");
                    errors.push(FieldError::invalid_text(&at, "RestartContainer", detail));
                }
            }
        }
    }
}

pub(super) fn validate_ephemeral(
    errors: &mut Errors,
    path: &Path<'_>,
    containers: &[Value],
    others: &HashSet<&str>,
    context: &Context<'_>,
) {
    const NOT_ALLOWED: [&str; 8] = [
        "ports",
        "resources",
        "livenessProbe",
        "readinessProbe",
        "startupProbe",
        "lifecycle",
        "resizePolicy",
        "restartPolicy",
    ];
    let mut names = others.clone();
    for (i, container) in containers.iter().enumerate() {
        let at = path.index(i);
        validate_any(errors, &at, container, context);
        image_spaces(errors, &at, container);
        let name = container.text("name");
        if !names.insert(name) {
            errors.push(FieldError::duplicate(&at.field("name"), &name.into()));
        }
        let target = container.text("targetContainerName");
        if !target.is_empty() && !others.contains(target) {
            let at = at.field("targetContainerName");
            errors.push(FieldError::not_found(&at, &target.into()));
        }
        let detail = "cannot be set for an Ephemeral Container";
        for member in NOT_ALLOWED {
            let value = container.at(member);
            let empty = value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
            if !empty {
                errors.push(FieldError::forbidden(&at.field(member), detail));
            }
        }
        let mounts = at.field("volumeMounts");
        for (i, mount) in container.list("volumeMounts").iter().enumerate() {
            let at = mounts.index(i);
            for member in ["subPath", "subPathExpr"] {
                if !mount.text(member).is_empty() {
                    errors.push(FieldError::forbidden(&at.field(member), detail));
                }
            }
        }
    }
}

/// Only a Pod insists that the image name has no blanks around it; a template may be completed later.
pub(super) fn image_spaces(errors: &mut Errors, path: &Path<'_>, container: &Value) {
    let image = container.text("image");
    if image.trim().len() != image.len() {
        let detail = "must not have leading or trailing whitespace";
        errors.push(FieldError::invalid_text(&path.field("image"), image, detail));
    }
}

fn validate_any(errors: &mut Errors, path: &Path<'_>, container: &Value, context: &Context<'_>) {
    let name = container.text("name");
    if name.is_empty() {
        errors.push(FieldError::required(&path.field("name"), ""));
    } else {
        push_texts(errors, &path.field("name"), name, name::dns1123_label(name));
    }
    if container.text("image").is_empty() {
        errors.push(FieldError::required(&path.field("image"), ""));
    }
    let policy_path = path.field("terminationMessagePolicy");
    match container.text("terminationMessagePolicy") {
        "" => errors.push(FieldError::required(&policy_path, "")),
        policy => one_of(errors, &policy_path, policy, &["File", "FallbackToLogsOnError"]),
    }
    ports(errors, &path.field("ports"), container.list("ports"));
    env(errors, &path.field("env"), container.list("env"));
    env_from(errors, &path.field("envFrom"), container.list("envFrom"));
    volume_mounts(errors, &path.field("volumeMounts"), container, context);
    volume_devices(errors, &path.field("volumeDevices"), container, context);
    pull_policy(errors, &path.field("imagePullPolicy"), container.text("imagePullPolicy"));
    resource::validate_requirements(
        errors,
        &path.field("resources"),
        container.at("resources"),
        resource::Scope::Container,
        &context.claims,
    );
    let policies = container.list("resizePolicy");
    resize_policy(errors, &path.field("resizePolicy"), policies, context.restart_policy);
    let at = path.field("securityContext");
    security::validate_container(errors, &at, container.at("securityContext"), context.host_users);
}

fn hooks_and_probes(
    errors: &mut Errors,
    path: &Path<'_>,
    container: &Value,
    context: &Context<'_>,
) {
    let lifecycle = container.at("lifecycle");
    probe::validate_lifecycle(errors, &path.field("lifecycle"), lifecycle, context.grace);
    for purpose in Purpose::ALL {
        let member = purpose.member();
        probe::validate(errors, &path.field(member), container.at(member), purpose);
    }
}

pub(super) fn pull_policy(errors: &mut Errors, path: &Path<'_>, policy: &str) {
    if policy.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else {
        one_of(errors, path, policy, &PULL_POLICIES);
    }
}

fn ports(errors: &mut Errors, path: &Path<'_>, ports: &[Value]) {
    let mut names = HashSet::new();
    for (i, port) in ports.iter().enumerate() {
        let at = path.index(i);
        let name = port.text("name");
        if !name.is_empty() {
            let texts = port_name(name);
            if !texts.is_empty() {
                push_texts(errors, &at.field("name"), name, texts);
            } else if !names.insert(name) {
                errors.push(FieldError::duplicate(&at.field("name"), &name.into()));
            }
        }
        match port.int("containerPort").unwrap_or_default() {
            0 => errors.push(FieldError::required(&at.field("containerPort"), "")),
            number => port_number(errors, &at.field("containerPort"), number),
        }
        let host = port.int("hostPort").unwrap_or_default();
        if host != 0 {
            port_number(errors, &at.field("hostPort"), host);
        }
        match port.text("protocol") {
            "" => errors.push(FieldError::required(&at.field("protocol"), "")),
            protocol => one_of(errors, &at.field("protocol"), protocol, &PROTOCOLS),
        }
    }
}

fn host_port_conflicts<'a>(
    errors: &mut Errors,
    path: &Path<'_>,
    containers: impl Iterator<Item = (usize, &'a Value)>,
) {
    let mut taken = HashSet::new();
    for (i, container) in containers {
        let container_path = path.index(i);
        let ports = container_path.field("ports");
        for (i, port) in container.list("ports").iter().enumerate() {
            let host = port.int("hostPort").unwrap_or_default();
            if host == 0 {
                continue;
            }
            let key = format!("{}/{}/{host}", port.text("protocol"), port.text("hostIP"));
            if taken.contains(&key) {
                let at = ports.index(i);
                errors.push(FieldError::duplicate(&at.field("hostPort"), &key.into()));
            } else {
                taken.insert(key);
            }
        }
    }
}

fn env(errors: &mut Errors, path: &Path<'_>, vars: &[Value]) {
    for (i, var) in vars.iter().enumerate() {
        let at = path.index(i);
        let name = var.text("name");
        if name.is_empty() {
            errors.push(FieldError::required(&at.field("name"), ""));
        } else {
            push_texts(errors, &at.field("name"), name, env_name(name));
        }
        value_from(errors, &at.field("valueFrom"), var);
    }
}

fn value_from(errors: &mut Errors, path: &Path<'_>, var: &Value) {
    let source = var.at("valueFrom");
    if source.is_null() {
        return;
    }
    let mut found = 0;
    for kind in ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"] {
        let reference = source.at(kind);
        if reference.is_null() {
            continue;
        }
        found += 1;
        let at = path.field(kind);
        match kind {
            "fieldRef" => downward::validate_field(errors, &at, reference, &downward::ENV_FIELDS),
            "resourceFieldRef" => downward::validate_resource(errors, &at, reference, false),
            "fileKeyRef" => file_key(errors, &at, reference),
            _ => key_selector(errors, &at, reference),
        }
    }
    let detail = if found == 0 {
        "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or \
         `fileKeyRef`"
    } else if !var.text("value").is_empty() {
        "may not be specified when `value` is not empty"
    } else if found > 1 {
        "may not have more than one field specified at a time"
    } else {
        return;
    };
    errors.push(FieldError::invalid_text(path, "", detail));
}

fn key_selector(errors: &mut Errors, path: &Path<'_>, reference: &Value) {
    let (name, key) = (reference.text("name"), reference.text("key"));
    push_texts(errors, &path.field("name"), name, name::dns1123_subdomain(name));
    if key.is_empty() {
        errors.push(FieldError::required(&path.field("key"), ""));
    } else {
        push_texts(errors, &path.field("key"), key, config_key(key));
    }
}

fn file_key(errors: &mut Errors, path: &Path<'_>, reference: &Value) {
    match reference.text("key") {
        "" => errors.push(FieldError::required(&path.field("key"), "")),
        key => push_texts(errors, &path.field("key"), key, env_name(key)),
    }
    match reference.text("volumeName") {
        "" => errors.push(FieldError::required(&path.field("volumeName"), "")),
        volume => {
            push_texts(errors, &path.field("volumeName"), volume, name::dns1123_label(volume));
        }
    }
    match reference.text("path") {
        "" => errors.push(FieldError::required(&path.field("path"), "")),
        target => no_backsteps(errors, &path.field("path"), target),
    }
}

fn env_from(errors: &mut Errors, path: &Path<'_>, sources: &[Value]) {
    for (i, source) in sources.iter().enumerate() {
        let at = path.index(i);
        let prefix = source.text("prefix");
        if !prefix.is_empty() {
            push_texts(errors, &at.field("prefix"), prefix, env_name(prefix));
        }
        let mut found = 0;
        for kind in ["configMapRef", "secretRef"] {
            let reference = source.at(kind);
            if reference.is_null() {
                continue;
            }
            found += 1;
            let kind_path = at.field(kind);
            match reference.text("name") {
                "" => errors.push(FieldError::required(&kind_path.field("name"), "")),
                name => {
                    let texts = name::dns1123_subdomain(&mask_trailing_dash(name));
                    push_texts(errors, &kind_path.field("name"), name, texts);
                }
            }
        }
        let detail = match found {
            0 => "must specify one of: `configMapRef` or `secretRef`",
            1 => continue,
            _ => "may not have more than one field specified at a time",
        };
        errors.push(FieldError::invalid_text(path, "", detail));
    }
}

/// Here a name may end in a dash, as if something were to be appended to it.
fn mask_trailing_dash(name: &str) -> Cow<'_, str> {
    if name.len() < 2 || !name.ends_with('-') {
        return Cow::Borrowed(name);
    }
    let mut masked = name.to_owned();
    masked.pop();
    masked.pop();
    masked.push('a');
    Cow::Owned(masked)
}

fn volume_mounts(errors: &mut Errors, path: &Path<'_>, container: &Value, context: &Context<'_>) {
    let devices = by_name(container.list("volumeDevices"), "devicePath");
    let mut paths = HashSet::new();
    for (i, mount) in container.list("volumeMounts").iter().enumerate() {
        let at = path.index(i);
        let (name, target) = (mount.text("name"), mount.text("mountPath"));
        if name.is_empty() {
            errors.push(FieldError::required(&at.field("name"), ""));
        }
        if !context.volumes.contains_key(name) {
            errors.push(FieldError::not_found(&at.field("name"), &name.into()));
        }
        if target.is_empty() {
            errors.push(FieldError::required(&at.field("mountPath"), ""));
        }
        if !paths.insert(target) {
            errors.push(FieldError::invalid_text(&at.field("mountPath"), target, "must be unique"));
        }
        if devices.contains_key(name) {
            let detail = "must not already exist in volumeDevices";
            errors.push(FieldError::invalid_text(&at.field("name"), name, detail));
        }
        if devices.values().any(|device| *device == target) {
            let detail = "must not already exist as a path in volumeDevices";
            errors.push(FieldError::invalid_text(&at.field("mountPath"), target, detail));
        }
        let (sub_path, expression) = (mount.text("subPath"), mount.text("subPathExpr"));
        if !sub_path.is_empty() {
            descending_path(errors, &path.field("subPath"), sub_path);
        }
        if !expression.is_empty() {
            if !sub_path.is_empty() {
                let detail = "subPathExpr and subPath are mutually exclusive";
                errors.push(FieldError::invalid_text(&at.field("subPathExpr"), expression, detail));
            }
            descending_path(errors, &path.field("subPathExpr"), expression);
        }
        propagation(errors, path, mount, container);
        recursive_read_only(errors, &path.field("recursiveReadOnly"), mount);
    }
}

fn propagation(errors: &mut Errors, path: &Path<'_>, mount: &Value, container: &Value) {
    let Some(mode) = mount.at("mountPropagation").as_str() else {
        return;
    };
    let at = path.field("mountPropagation");
    one_of(errors, &at, mode, &["Bidirectional", "HostToContainer", "None"]);
    if mode == "Bidirectional" && !container.at("securityContext").flag("privileged") {
        let detail = "Bidirectional mount propagation is available only to privileged containers";
        errors.push(FieldError::forbidden(&at, detail));
    }
}

fn recursive_read_only(errors: &mut Errors, path: &Path<'_>, mount: &Value) {
    match mount.at("recursiveReadOnly").as_str() {
        None | Some("Disabled") => {}
        Some("Enabled" | "IfPossible") => {
            if !mount.flag("readOnly") {
                let detail = "may only be specified when readOnly is true";
                errors.push(FieldError::forbidden(path, detail));
            }
            if !matches!(mount.text("mountPropagation"), "" | "None") {
                let detail = "may only be specified when mountPropagation is None or not specified";
                errors.push(FieldError::forbidden(path, detail));
            }
        }
        Some(other) => one_of(errors, path, other, &["Disabled", "Enabled", "IfPossible"]),
    }
}

fn volume_devices(errors: &mut Errors, path: &Path<'_>, container: &Value, context: &Context<'_>) {
    let mounts = by_name(container.list("volumeMounts"), "mountPath");
    let (mut names, mut paths) = (HashSet::new(), HashSet::new());
    for (i, device) in container.list("volumeDevices").iter().enumerate() {
        let at = path.index(i);
        let (name_path, target_path) = (at.field("name"), at.field("devicePath"));
        let (name, target) = (device.text("name"), device.text("devicePath"));
        if name.is_empty() {
            errors.push(FieldError::required(&name_path, ""));
        }
        if names.contains(name) {
            errors.push(FieldError::invalid_text(&name_path, name, "must be unique"));
        }
        match context.volumes.get(name) {
            None => errors.push(FieldError::not_found(&name_path, &name.into())),
            Some(volume)
                if volume.at("persistentVolumeClaim").is_null()
                    && volume.at("ephemeral").is_null() =>
            {
                let detail = "can only use volume source type of PersistentVolumeClaim or \
                              Ephemeral for block mode";
                errors.push(FieldError::invalid_text(&name_path, name, detail));
            }
            Some(_) => {}
        }
        if target.is_empty() {
            errors.push(FieldError::required(&target_path, ""));
        }
        if paths.contains(target) {
            errors.push(FieldError::invalid_text(&target_path, target, "must be unique"));
        }
        if has_backstep(target) {
            let detail = "can not contain backsteps ('..')";
            errors.push(FieldError::invalid_text(&target_path, target, detail));
        } else {
            paths.insert(target);
        }
        if mounts.contains_key(name) {
            let detail = "must not already exist in volumeMounts";
            errors.push(FieldError::invalid_text(&name_path, name, detail));
        }
        if mounts.values().any(|mount| *mount == target) {
            let detail = "must not already exist as a path in volumeMounts";
            errors.push(FieldError::invalid_text(&target_path, target, detail));
        }
        if !name.is_empty() {
            names.insert(name);
        }
    }
}

fn by_name<'a>(items: &'a [Value], member: &str) -> HashMap<&'a str, &'a str> {
    items.iter().map(|item| (item.text("name"), item.text(member))).collect()
}

fn resize_policy(errors: &mut Errors, path: &Path<'_>, policies: &[Value], pod_policy: &str) {
    let mut seen = HashSet::new();
    for (i, policy) in policies.iter().enumerate() {
        let (resource, restart) = (policy.text("resourceName"), policy.text("restartPolicy"));
        if !seen.insert(resource) {
            errors.push(FieldError::duplicate(&path.index(i), &resource.into()));
        }
        for (value, supported) in
            [(resource, ["cpu", "memory"]), (restart, ["NotRequired", "RestartContainer"])]
        {
            if value.is_empty() {
                errors.push(FieldError::required(path, ""));
            } else {
                one_of(errors, path, value, &supported);
            }
        }
        if pod_policy == "Never" && restart != "NotRequired" {
            let detail = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            errors.push(FieldError::invalid_text(path, restart, detail));
        }
    }
}

fn restart_policy(errors: &mut Errors, path: &Path<'_>, container: &Value) {
    let rules = container.list("restartPolicyRules");
    let at = path.field("restartPolicy");
    match container.at("restartPolicy").as_str() {
        Some(policy) => one_of(errors, &at, policy, &RESTART_POLICIES),
        None if rules.is_empty() => return,
        None => {
            let detail = "must specify restartPolicy when restart rules are used";
            errors.push(FieldError::required(&at, detail));
        }
    }
    let rules_path = path.field("restartPolicyRules");
    if rules.len() > 20 {
        errors.push(FieldError::too_many(&rules_path, rules.len(), 20));
    }
    for (i, rule) in rules.iter().enumerate() {
        let at = rules_path.index(i);
        let actions = ["Restart", "RestartAllContainers"];
        one_of(errors, &at.field("action"), rule.text("action"), &actions);
        let codes = rule.at("exitCodes");
        let at = at.field("exitCodes");
        if codes.is_null() {
            errors.push(FieldError::required(&at, "must be specified"));
            continue;
        }
        one_of(errors, &at.field("operator"), codes.text("operator"), &["In", "NotIn"]);
        let values = codes.list("values").len();
        if values > 255 {
            errors.push(FieldError::too_many(&at.field("values"), values, 255));
        }
    }
}
