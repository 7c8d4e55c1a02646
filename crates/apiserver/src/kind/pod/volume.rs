//! The volumes of a Pod: unique names, and exactly one well-formed source each.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::super::grammar::{
    Errors, descending_path, file_mode, no_backsteps, one_of, push_texts, quantity, unreserved_path,
};
use super::super::persistent_volume_claim;
use super::container::pull_policy;
use super::{Context, downward, projected};
use crate::field::{FieldError, Path};
use crate::go;
use crate::json::Access;
use crate::name;

/// Every kind of source, in the order in which upstream looks for them: the first one found is
/// checked, any further one is forbidden.
const SOURCES: [&str; 30] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

/// Sources of which the API only asks that some members are there.
const REQUIRED_MEMBERS: [(&str, &[&str]); 13] = [
    ("gcePersistentDisk", &["pdName"]),
    ("awsElasticBlockStore", &["volumeID"]),
    ("nfs", &["server", "path"]),
    ("glusterfs", &["endpoints", "path"]),
    ("persistentVolumeClaim", &["claimName"]),
    ("rbd", &["monitors", "image"]),
    ("cinder", &["volumeID"]),
    ("cephfs", &["monitors"]),
    ("azureFile", &["secretName", "shareName"]),
    ("vsphereVolume", &["volumePath"]),
    ("photonPersistentDisk", &["pdID"]),
    ("portworxVolume", &["volumeID"]),
    ("scaleIO", &["gateway", "system", "volumeName"]),
];

/// Checks all volumes and gives the good ones by name, for mounts to refer to.
pub(super) fn validate<'a>(
    errors: &mut Errors,
    path: &Path<'_>,
    volumes: &'a [Value],
    context: &Context<'_>,
) -> HashMap<&'a str, &'a Value> {
    let mut good: HashMap<&str, &Value> = HashMap::new();
    let mut created_claims = HashSet::new();
    if !context.pod_name.is_empty() {
        let ephemeral = volumes.iter().filter(|volume| !volume.at("ephemeral").is_null());
        created_claims.extend(
            ephemeral.map(|volume| format!("{}-{}", context.pod_name, volume.text("name"))),
        );
    }
    for (i, volume) in volumes.iter().enumerate() {
        let at = path.index(i);
        let name_path = at.field("name");
        let name = volume.text("name");
        let before = errors.len();
        validate_source(errors, &at, volume, context);
        if name.is_empty() {
            errors.push(FieldError::required(&name_path, ""));
        } else {
            push_texts(errors, &name_path, name, name::dns1123_label(name));
        }
        if good.contains_key(name) {
            errors.push(FieldError::duplicate(&name_path, &name.into()));
        }
        if errors.len() == before {
            good.insert(name, volume);
        }
        let claim = volume.at("persistentVolumeClaim").text("claimName");
        if created_claims.contains(claim) {
            let source = at.field("persistentVolumeClaim");
            let detail = "must not reference a PVC that gets created for an ephemeral volume";
            errors.push(FieldError::invalid_text(&source.field("claimName"), claim, detail));
        }
    }
    good
}

fn validate_source(errors: &mut Errors, path: &Path<'_>, volume: &Value, context: &Context<'_>) {
    let mut found = false;
    for kind in SOURCES {
        let source = volume.at(kind);
        if source.is_null() {
            continue;
        }
        if found {
            // Two of the paths are misspelt upstream, and clients see them so.
            let shown = match kind {
                "cephfs" => "cephFS",
                "downwardAPI" => "downwarAPI",
                kind => kind,
            };
            let detail = "may not specify more than 1 volume type";
            errors.push(FieldError::forbidden(&path.field(shown), detail));
            continue;
        }
        found = true;
        let shown = if kind == "gcePersistentDisk" { "persistentDisk" } else { kind };
        validate_kind(errors, &path.field(shown), kind, source, context);
        if kind == "ephemeral" {
            created_claim_name(errors, path, volume.text("name"), context);
        }
    }
    if !found {
        errors.push(FieldError::required(path, "must specify a volume type"));
    }
}

fn validate_kind(
    errors: &mut Errors,
    path: &Path<'_>,
    kind: &str,
    source: &Value,
    context: &Context<'_>,
) {
    if let Some((_, members)) = REQUIRED_MEMBERS.iter().find(|(name, _)| *name == kind) {
        for member in *members {
            if source.text(member).is_empty() && source.list(member).is_empty() {
                errors.push(FieldError::required(&path.field(member), ""));
            }
        }
    }
    match kind {
        "emptyDir" if quantity(source.at("sizeLimit")).is_negative() => {
            let detail = "SizeLimit field must be a valid resource quantity";
            errors.push(FieldError::forbidden(&path.field("sizeLimit"), detail));
        }
        "hostPath" => host_path(errors, path, source),
        "gitRepo" => {
            if source.text("repository").is_empty() {
                errors.push(FieldError::required(&path.field("repository"), ""));
            }
            descending_path(errors, &path.field("directory"), source.text("directory"));
        }
        "gcePersistentDisk" | "awsElasticBlockStore" => {
            let partition = source.int("partition").unwrap_or_default();
            byte(
                errors,
                &path.field("partition"),
                partition,
                "must be between 1 and 255, inclusive",
            );
        }
        "secret" => key_volume(errors, path, source, "secretName"),
        "configMap" => key_volume(errors, path, source, "name"),
        "nfs" => {
            let target = source.text("path");
            if !target.starts_with('/') {
                let detail = "must be an absolute path";
                errors.push(FieldError::invalid_text(&path.field("path"), target, detail));
            }
        }
        "iscsi" => iscsi(errors, path, source),
        "fc" => fibre_channel(errors, path, source),
        "flocker" => flocker(errors, path, source),
        "cinder" => named_secret(errors, path, source),
        "quobyte" => quobyte(errors, path, source),
        "flexVolume" => flex(errors, path, source),
        "azureDisk" => azure_disk(errors, path, source),
        "storageos" => storage_os(errors, path, source),
        "downwardAPI" => {
            file_mode(errors, &path.field("defaultMode"), source.int("defaultMode"));
            for file in source.list("items") {
                // Upstream gives no index here.
                downward::validate_file(errors, path, file);
            }
        }
        "projected" => projected::validate(errors, path, source),
        "csi" => csi(errors, path, source),
        "ephemeral" => {
            let template = source.at("volumeClaimTemplate");
            let at = path.field("volumeClaimTemplate");
            if template.is_null() {
                errors.push(FieldError::required(&at, ""));
            } else {
                persistent_volume_claim::validate_template(errors, &at, template);
            }
        }
        "image" => {
            if context.is_pod && source.text("reference").is_empty() {
                errors.push(FieldError::required(&path.field("reference"), ""));
            }
            pull_policy(errors, &path.field("pullPolicy"), source.text("pullPolicy"));
        }
        _ => {}
    }
}

/// The claim that an ephemeral volume makes is named after Pod and volume.
fn created_claim_name(errors: &mut Errors, path: &Path<'_>, volume: &str, context: &Context<'_>) {
    if context.pod_name.is_empty() || volume.is_empty() {
        return;
    }
    let claim = format!("{}-{volume}", context.pod_name);
    for text in name::dns1123_subdomain(&claim) {
        let detail = format!("PVC name {}: {text}", go::quote(&claim));
        errors.push(FieldError::invalid_text(&path.field("name"), volume, detail));
    }
}

fn host_path(errors: &mut Errors, path: &Path<'_>, source: &Value) {
    const TYPES: [&str; 8] = [
        "",
        "BlockDevice",
        "CharDevice",
        "Directory",
        "DirectoryOrCreate",
        "File",
        "FileOrCreate",
        "Socket",
    ];
    let target = source.text("path");
    if target.is_empty() {
        errors.push(FieldError::required(&path.field("path"), ""));
        return;
    }
    no_backsteps(errors, &path.field("path"), target);
    one_of(errors, &path.field("type"), source.text("type"), &TYPES);
}

/// A volume of a Secret's or ConfigMap's keys.
fn key_volume(errors: &mut Errors, path: &Path<'_>, source: &Value, name_member: &str) {
    if source.text(name_member).is_empty() {
        errors.push(FieldError::required(&path.field(name_member), ""));
    }
    file_mode(errors, &path.field("defaultMode"), source.int("defaultMode"));
    let items = path.field("items");
    for (i, item) in source.list("items").iter().enumerate() {
        key_to_path(errors, &items.index(i), item);
    }
}

pub(super) fn key_to_path(errors: &mut Errors, path: &Path<'_>, item: &Value) {
    let target = item.text("path");
    if item.text("key").is_empty() {
        errors.push(FieldError::required(&path.field("key"), ""));
    }
    if target.is_empty() {
        errors.push(FieldError::required(&path.field("path"), ""));
    }
    unreserved_path(errors, &path.field("path"), target);
    file_mode(errors, &path.field("mode"), item.int("mode"));
}

fn csi(errors: &mut Errors, path: &Path<'_>, source: &Value) {
    let driver = source.text("driver");
    let at = path.field("driver");
    if driver.is_empty() {
        errors.push(FieldError::required(&at, ""));
    } else {
        if driver.len() > name::MAX_LABEL_CHARS {
            errors.push(FieldError::too_long(&at, name::MAX_LABEL_CHARS));
        }
        push_texts(errors, &at, driver, name::dns1123_subdomain(&driver.to_lowercase()));
    }
    let secret = source.at("nodePublishSecretRef");
    if secret.is_null() {
        return;
    }
    let secret_name = secret.text("name");
    if secret_name.is_empty() {
        let at = path.field("nodePublishSecretRef");
        errors.push(FieldError::required(&at.field("name"), ""));
    } else {
        let texts = name::dns1123_subdomain(secret_name);
        push_texts(errors, &path.field("name"), secret_name, texts);
    }
}

fn byte(errors: &mut Errors, path: &Path<'_>, value: i64, detail: &str) {
    if !(0..=255).contains(&value) {
        errors.push(FieldError::invalid(path, &value.into(), detail));
    }
}

fn iscsi(errors: &mut Errors, path: &Path<'_>, source: &Value) {
    if source.text("targetPortal").is_empty() {
        errors.push(FieldError::required(&path.field("targetPortal"), ""));
    }
    let iqn = source.text("iqn");
    if iqn.is_empty() {
        errors.push(FieldError::required(&path.field("iqn"), ""));
    } else {
        iscsi_name(errors, &path.field("iqn"), iqn);
    }
    let lun = source.int("lun").unwrap_or_default();
    byte(errors, &path.field("lun"), lun, "must be between 0 and 255, inclusive");
    let authenticated = source.flag("chapAuthDiscovery") || source.flag("chapAuthSession");
    if authenticated && source.at("secretRef").is_null() {
        errors.push(FieldError::required(&path.field("secretRef"), ""));
    }
    if let Some(initiator) = source.at("initiatorName").as_str() {
        iscsi_name(errors, &path.field("initiatorname"), initiator);
    }
}

fn iscsi_name(errors: &mut Errors, path: &Path<'_>, name: &str) {
    // After the prefix comes any one character, then an id of a fixed length.
    let is_id = |rest: &str, length: usize| {
        let mut chars = rest.chars();
        let id = chars.next().map_or("", |_| chars.as_str());
        id.len() == length && id.bytes().all(|b| b.is_ascii_alphanumeric())
    };
    let good = if let Some(rest) = name.strip_prefix("iqn") {
        is_iqn(rest)
    } else if let Some(rest) = name.strip_prefix("eui") {
        is_id(rest, 16)
    } else if let Some(rest) = name.strip_prefix("naa") {
        is_id(rest, 32)
    } else {
        let detail = "must be valid format starting with iqn, eui, or naa";
        errors.push(FieldError::invalid_text(path, name, detail));
        return;
    };
    if !good {
        errors.push(FieldError::invalid_text(path, name, "must be valid format"));
    }
}

/// `.yyyy-mm.authority:name`
fn is_iqn(rest: &str) -> bool {
    let digits = |text: &str, length: usize| {
        text.len() == length && text.bytes().all(|b| b.is_ascii_digit())
    };
    let dated = rest.strip_prefix('.').and_then(|rest| rest.split_once('.'));
    let Some((date, rest)) = dated else {
        return false;
    };
    let Some((authority, name)) = rest.split_once(':') else {
        return false;
    };
    let forbidden = |c: char| matches!(c, ',' | ';' | '*' | '&' | '$' | '|') || c.is_whitespace();
    date.split_once('-').is_some_and(|(year, month)| digits(year, 4) && digits(month, 2))
        && !authority.is_empty()
        && authority.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.'))
        && !name.is_empty()
        && !name.contains(forbidden)
}

fn fibre_channel(errors: &mut Errors, path: &Path<'_>, source: &Value) {
    let (wwns, ids) = (source.list("targetWWNs"), source.list("wwids"));
    let at = path.field("targetWWNs");
    if wwns.is_empty() && ids.is_empty() {
        let detail = "must specify either targetWWNs or wwids, but not both";
        errors.push(FieldError::required(&at, detail));
    }
    if !wwns.is_empty() && !ids.is_empty() {
        let detail = "targetWWNs and wwids can not be specified simultaneously";
        errors.push(FieldError::invalid(&at, source.at("targetWWNs"), detail));
    }
    if !wwns.is_empty() {
        match source.int("lun") {
            None => errors.push(FieldError::required(
                &path.field("lun"),
                "lun is required if targetWWNs is specified",
            )),
            Some(lun) => {
                byte(errors, &path.field("lun"), lun, "must be between 0 and 255, inclusive");
            }
        }
    }
}

fn flocker(errors: &mut Errors, path: &Path<'_>, source: &Value) {
    let (dataset, uuid) = (source.text("datasetName"), source.text("datasetUUID"));
    if dataset.is_empty() && uuid.is_empty() {
        let detail = "one of datasetName and datasetUUID is required";
        errors.push(FieldError::required(path, detail));
    }
    if !dataset.is_empty() && !uuid.is_empty() {
        let detail = "datasetName and datasetUUID can not be specified simultaneously";
        errors.push(FieldError::invalid_text(path, "resource", detail));
    }
    if dataset.contains('/') {
        let at = path.field("datasetName");
        errors.push(FieldError::invalid_text(&at, dataset, "must not contain '/'"));
    }
}

fn named_secret(errors: &mut Errors, path: &Path<'_>, source: &Value) {
    let secret = source.at("secretRef");
    if !secret.is_null() && secret.text("name").is_empty() {
        let at = path.field("secretRef");
        errors.push(FieldError::required(&at.field("name"), ""));
    }
}

fn quobyte(errors: &mut Errors, path: &Path<'_>, source: &Value) {
    const PAIRS: &str = "must be a host:port pair or multiple pairs separated by commas";
    let registry = source.text("registry");
    if registry.is_empty() {
        errors.push(FieldError::required(&path.field("registry"), PAIRS));
    } else if source.text("tenant").len() >= 65 {
        let detail = "must be a UUID and may not exceed a length of 64 characters";
        errors.push(FieldError::required(&path.field("tenant"), detail));
    } else {
        for _ in registry.split(',').filter(|pair| !pair.contains(':')) {
            errors.push_with(|| FieldError::invalid_text(&path.field("registry"), registry, PAIRS));
        }
    }
    if source.text("volume").is_empty() {
        errors.push(FieldError::required(&path.field("volume"), ""));
    }
}

fn flex(errors: &mut Errors, path: &Path<'_>, source: &Value) {
    if source.text("driver").is_empty() {
        errors.push(FieldError::required(&path.field("driver"), ""));
    }
    let options = path.field("options");
    for (key, _) in source.entries("options") {
        let namespace = key.split_once('/').map_or(key.as_str(), |(namespace, _)| namespace);
        let normalized = format!(".{}", namespace.to_lowercase());
        if normalized.ends_with(".kubernetes.io") || normalized.ends_with(".k8s.io") {
            let detail = "kubernetes.io and k8s.io namespaces are reserved";
            errors.push(FieldError::invalid_text(&options.key(key), key, detail));
        }
    }
}

fn azure_disk(errors: &mut Errors, path: &Path<'_>, source: &Value) {
    const MANAGED: &str = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}";
    const BLOB: &str =
        "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd";
    for member in ["diskName", "diskURI"] {
        if source.text(member).is_empty() {
            errors.push(FieldError::required(&path.field(member), ""));
        }
    }
    let (uri, kind) = (source.text("diskURI"), source.text("kind"));
    let caching = source.text("cachingMode");
    one_of(errors, &path.field("cachingMode"), caching, &["None", "ReadOnly", "ReadWrite"]);
    one_of(errors, &path.field("kind"), kind, &["Dedicated", "Managed", "Shared"]);
    let (prefix, example) =
        if kind == "Managed" { ("/subscriptions/", MANAGED) } else { ("https://", BLOB) };
    if !uri.starts_with(prefix) {
        errors.push(super::super::grammar::unsupported(&path.field("diskURI"), uri, &[example]));
    }
}

fn storage_os(errors: &mut Errors, path: &Path<'_>, source: &Value) {
    let volume = source.text("volumeName");
    if volume.is_empty() {
        errors.push(FieldError::required(&path.field("volumeName"), ""));
    } else {
        push_texts(errors, &path.field("volumeName"), volume, name::dns1123_label(volume));
    }
    let namespace = source.text("volumeNamespace");
    if !namespace.is_empty() {
        let at = path.field("volumeNamespace");
        push_texts(errors, &at, namespace, name::dns1123_label(namespace));
    }
    named_secret(errors, path, source);
}
