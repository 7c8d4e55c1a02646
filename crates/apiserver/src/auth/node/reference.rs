//! The objects that a Pod refers to.

use serde_json::Value;

use crate::json::{Access, Object};

pub(super) const MIRROR_ANNOTATION: &str = "kubernetes.io/config.mirror";

/// Volume sources that refer to a secret through a `secretRef`.
const VOLUMES_WITH_SECRET_REF: [&str; 8] =
    ["cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos", "csi"];

/// A Pod that stands for something that the node runs anyhow.
pub(super) fn is_mirror(pod: &Object) -> bool {
    pod.at("metadata").at("annotations").get(MIRROR_ANNOTATION).is_some()
}

pub(super) fn secrets(spec: &Value) -> impl Iterator<Item = &str> {
    let pulled = spec.list("imagePullSecrets").iter().map(|reference| reference.text("name"));
    let mounted = spec.list("volumes").iter().flat_map(|volume| {
        let referred = VOLUMES_WITH_SECRET_REF.iter().map(|kind| {
            let member = if *kind == "csi" { "nodePublishSecretRef" } else { "secretRef" };
            volume.at(kind).at(member).text("name")
        });
        let projected = sources(volume).map(|source| source.at("secret").text("name"));
        [volume.at("secret").text("secretName"), volume.at("azureFile").text("secretName")]
            .into_iter()
            .chain(referred)
            .chain(projected)
    });
    let in_environment = environment(spec, "secretRef", "secretKeyRef");
    pulled.chain(in_environment).chain(mounted).filter(|name| !name.is_empty())
}

pub(super) fn config_maps(spec: &Value) -> impl Iterator<Item = &str> {
    let mounted = spec.list("volumes").iter().flat_map(|volume| {
        let projected = sources(volume).map(|source| source.at("configMap").text("name"));
        std::iter::once(volume.at("configMap").text("name")).chain(projected)
    });
    environment(spec, "configMapRef", "configMapKeyRef")
        .chain(mounted)
        .filter(|name| !name.is_empty())
}

/// The claims behind volumes; those of ephemeral volumes are named after Pod and volume.
pub(super) fn claims(pod: &Object) -> impl Iterator<Item = String> {
    let pod_name = pod.at("metadata").text("name");
    pod.at("spec").list("volumes").iter().filter_map(move |volume| {
        let claim = volume.at("persistentVolumeClaim");
        if claim.is_object() {
            return Some(claim.text("claimName").to_owned());
        }
        let name = volume.text("name");
        volume.at("ephemeral").is_object().then(|| format!("{pod_name}-{name}"))
    })
}

/// Whether a projected volume of the Pod holds a token for the audience.
pub(super) fn has_token_for(spec: &Value, audience: &str) -> bool {
    spec.list("volumes").iter().flat_map(sources).any(|source| {
        let token = source.at("serviceAccountToken");
        token.is_object() && token.text("audience") == audience
    })
}

/// The first reference to an API object that a mirror Pod must not have: what it refers to, or an
/// error where the volume is of a kind that nobody knows.
pub(super) fn forbidden_in_mirror(spec: &Value) -> Result<Option<&'static str>, String> {
    if !spec.text("serviceAccountName").is_empty() {
        return Ok(Some("serviceaccounts"));
    }
    if secrets(spec).next().is_some() {
        return Ok(Some("secrets"));
    }
    if config_maps(spec).next().is_some() {
        return Ok(Some("configmaps"));
    }
    if !spec.list("resourceClaims").is_empty() {
        return Ok(Some("resourceclaims"));
    }
    for volume in spec.list("volumes") {
        if let Some(kind) = forbidden_volume(volume)? {
            return Ok(Some(kind));
        }
    }
    Ok(None)
}

fn forbidden_volume(volume: &Value) -> Result<Option<&'static str>, String> {
    const HARMLESS: [&str; 22] = [
        "awsElasticBlockStore",
        "azureDisk",
        "cephfs",
        "cinder",
        "downwardAPI",
        "emptyDir",
        "fc",
        "flexVolume",
        "flocker",
        "gcePersistentDisk",
        "gitRepo",
        "hostPath",
        "image",
        "iscsi",
        "nfs",
        "photonPersistentDisk",
        "portworxVolume",
        "quobyte",
        "rbd",
        "scaleIO",
        "storageos",
        "vsphereVolume",
    ];
    const REFERRING: [(&str, &str); 7] = [
        ("configMap", "configmaps (via configmap volumes)"),
        ("secret", "secrets (via secret volumes)"),
        ("csi", "csidrivers (via CSI volumes)"),
        ("glusterfs", "endpoints (via glusterFS volumes)"),
        ("persistentVolumeClaim", "persistentvolumeclaims"),
        ("ephemeral", "persistentvolumeclaims (via ephemeral volumes)"),
        ("azureFile", "secrets (via azureFile volumes)"),
    ];
    const REFERRING_SOURCES: [(&str, &str); 5] = [
        ("configMap", "configmaps (via projected volumes)"),
        ("secret", "secrets (via projected volumes)"),
        ("serviceAccountToken", "serviceaccounts (via projected volumes)"),
        ("clusterTrustBundle", "clustertrustbundles"),
        ("podCertificate", "podcertificates"),
    ];
    let named = |table: &[(&str, &'static str)], of: &Value| {
        table.iter().find(|(member, _)| !of.at(member).is_null()).map(|(_, what)| *what)
    };
    if HARMLESS.iter().any(|member| !volume.at(member).is_null()) {
        return Ok(None);
    }
    if let Some(what) = named(&REFERRING, volume) {
        return Ok(Some(what));
    }
    let name = crate::go::quote(volume.text("name"));
    if volume.at("projected").is_null() {
        return Err(format!("unknown volume type for volume  {name}"));
    }
    for source in sources(volume) {
        match named(&REFERRING_SOURCES, source) {
            Some(what) => return Ok(Some(what)),
            None if !source.at("downwardAPI").is_null() => {}
            None => return Err(format!("unknown source for projected volume {name}")),
        }
    }
    Ok(None)
}

fn sources(volume: &Value) -> impl Iterator<Item = &Value> {
    volume.at("projected").list("sources").iter()
}

/// What the containers take their environment from.
fn environment<'a>(
    spec: &'a Value,
    whole: &'a str,
    single: &'a str,
) -> impl Iterator<Item = &'a str> {
    ["initContainers", "containers", "ephemeralContainers"]
        .into_iter()
        .flat_map(|list| spec.list(list))
        .flat_map(move |container| {
            let from =
                container.list("envFrom").iter().map(move |from| from.at(whole).text("name"));
            let single = container
                .list("env")
                .iter()
                .map(move |variable| variable.at("valueFrom").at(single).text("name"));
            from.chain(single)
        })
}
