//! What is on record of Pods that were deleted: each in a Secret of its own, so that none is written over by what
//! is known of another, and none grows with the cluster.
//!
//! A Secret, and not a ConfigMap: manifests may hold passwords. Whoever writes Secrets of a namespace need not be
//! allowed to create Pods in it, so a record counts only with our seal (`seal`).

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, DynamicObject, ListParams, PostParams, Preconditions};
use kube::core::{Expression, Selector};
use kube::{Api, Client, ResourceExt as _};
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use sojourn_api::name::shared;
use sojourn_core::cluster::ErrorClass;
use sojourn_drivers::actuator::ActuatorError;

use super::seal::RecordSeal;
use super::{INFRA_ID, MAX_MACHINES, PAGE, failed, is_label_value, read_failed, types};

/// Label of Secrets with what is on record of a machine: how the platform is called.
const RECORD: &str = "cluster.sojourn.dev/record";
/// Annotation beside it: the machine.
const MACHINE: &str = "cluster.sojourn.dev/machine";
/// And what shows that it is as we wrote it.
const SEAL: &str = "cluster.sojourn.dev/seal";
const SECRET_TYPE: &str = "cluster.sojourn.dev/pod";
const DATA_KEY: &str = "pod.json";
/// Bytes of the digest that a Secret is named by.
const NAME_BYTES: usize = 16;
/// A Secret holds a mebibyte; a Pod whose manifest is longer than half of that is not deleted.
const MAX_BYTES: usize = 512 * 1024;

/// What a Pod is made again from.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Manifest {
    name: String,
    infra_id: String,
    manifest: Value,
}

impl Manifest {
    /// Of a Pod: what somebody asked for, and nothing that was made of it.
    pub(super) fn of(pod: &DynamicObject) -> Result<Self, ActuatorError> {
        let broken = |error: serde_json::Error| {
            let message = format!("the Pod cannot be put on record: {error}");
            ActuatorError::failed(ErrorClass::Refused, message)
        };
        let metadata = ObjectMeta {
            name: pod.metadata.name.clone(),
            labels: pod.metadata.labels.clone(),
            annotations: pod.metadata.annotations.clone(),
            owner_references: pod.metadata.owner_references.clone(),
            ..ObjectMeta::default()
        };
        let mut spec = pod.data.get("spec").and_then(Value::as_object).cloned().unwrap_or_default();
        for made in MADE {
            spec.remove(made);
        }
        let metadata = serde_json::to_value(metadata).map_err(broken)?;
        Ok(Self {
            name: pod.name_any(),
            infra_id: pod.labels().get(INFRA_ID).cloned().unwrap_or_default(),
            manifest: json!({
                "apiVersion": types().api_version, "kind": types().kind,
                "metadata": metadata, "spec": Value::Object(spec),
            }),
        })
    }

    /// The cluster and the Pod that it is of.
    pub(super) fn place(&self) -> (&str, &str) {
        (&self.infra_id, &self.name)
    }

    /// The Pod that is made from it.
    pub(super) fn pod(self) -> Result<DynamicObject, ActuatorError> {
        serde_json::from_value(self.manifest).map_err(|error| broken(&self.name, &error))
    }

    fn read(name: &str, infra_id: &str, text: &[u8]) -> Result<Self, ActuatorError> {
        let manifest: Value = serde_json::from_slice(text).map_err(|error| broken(name, &error))?;
        let metadata = &manifest["metadata"];
        let own = metadata["name"] == name && metadata["labels"][INFRA_ID] == infra_id;
        let is_pod =
            manifest["kind"] == types().kind && manifest["apiVersion"] == types().api_version;
        if !own || !is_pod {
            return Err(broken(name, &"it is of something else"));
        }
        let (name, infra_id) = (name.to_owned(), infra_id.to_owned());
        Ok(Self { name, infra_id, manifest })
    }
}

/// What the API server puts into the spec of a Pod, or takes only from itself. The node is among it: the scheduler
/// chooses one again, for the old one may be gone.
const MADE: [&str; 5] =
    ["nodeName", "ephemeralContainers", "priority", "preemptionPolicy", "overhead"];

fn broken(name: &str, why: &dyn std::fmt::Display) -> ActuatorError {
    let message = format!("what is on record of the Pod {name} cannot be used: {why}");
    ActuatorError::failed(ErrorClass::Refused, message)
}

/// That something is on record of a cluster, by the first of its Secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cluster) struct KeptRecord {
    pub(in crate::cluster) namespace: String,
    pub(in crate::cluster) infra_id: String,
    pub(in crate::cluster) secret: String,
    pub(in crate::cluster) uid: Option<String>,
    /// Where a person finds all of it.
    pub(in crate::cluster) place: String,
}

/// The records of every cluster, one for each.
pub(super) async fn kept_records(client: &Client) -> Result<Vec<KeptRecord>, ActuatorError> {
    let api: Api<Secret> = Api::all(client.clone());
    let selector = Selector::from(Expression::Equal(RECORD.to_owned(), super::NAME.to_owned()));
    let mut params = ListParams::default().labels_from(&selector).limit(PAGE);
    let mut kept = BTreeMap::new();
    loop {
        let page = api.list_metadata(&params).await;
        let page = page.map_err(|error| read_failed("list what is on record", &error))?;
        for secret in &page.items {
            let (labels, namespace) = (secret.labels(), secret.namespace().unwrap_or_default());
            let (infra_id, machine) = (labels.get(INFRA_ID), secret.annotations().get(MACHINE));
            let (Some(infra_id), Some(machine)) = (infra_id, machine) else { continue };
            // Another Secret with these labels is not a record of ours.
            if secret.name_any() != secret_name(infra_id, machine) {
                continue;
            }
            let of = (namespace, infra_id.clone());
            kept.entry(of).or_insert_with(|| (secret.name_any(), secret.uid()));
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => break,
        }
    }
    let kept = kept.into_iter().map(|((namespace, infra_id), (secret, uid))| {
        let place = place(&namespace, &infra_id);
        KeptRecord { namespace, infra_id, secret, uid, place }
    });
    Ok(kept.collect())
}

fn place(namespace: &str, infra_id: &str) -> String {
    format!(
        "Secrets of the namespace {namespace} with the labels {RECORD}=pod,{INFRA_ID}={infra_id}"
    )
}

fn secret_name(infra_id: &str, machine: &str) -> String {
    // Neither has this character, so no two are called the same.
    let of = digest(&SHA256, format!("{infra_id}/{machine}").as_bytes());
    format!("pod-record-{}", hex::encode(&of.as_ref()[..NAME_BYTES]))
}

/// What is on record of one cluster.
#[derive(Clone)]
pub(super) struct Records<'a> {
    api: Api<Secret>,
    seal: &'a RecordSeal,
    namespace: &'a str,
    infra_id: &'a str,
}

impl<'a> Records<'a> {
    pub(super) fn new(
        client: &Client,
        seal: &'a RecordSeal,
        namespace: &'a str,
        infra_id: &'a str,
    ) -> Self {
        Self { api: Api::namespaced(client.clone(), namespace), seal, namespace, infra_id }
    }

    /// Where a person finds it.
    pub(super) fn place(&self) -> String {
        place(self.namespace, self.infra_id)
    }

    fn secret_name(&self, name: &str) -> String {
        secret_name(self.infra_id, name)
    }

    async fn get(&self, name: &str) -> Result<Option<Secret>, ActuatorError> {
        let found = self.api.get_opt(&self.secret_name(name)).await;
        found.map_err(|error| read_failed("read what is on record", &error))
    }

    /// What a Pod is made again from, if that is on record.
    pub(super) async fn read(&self, name: &str) -> Result<Option<Manifest>, ActuatorError> {
        let Some(secret) = self.get(name).await? else { return Ok(None) };
        let text = secret.data.as_ref().and_then(|data| data.get(DATA_KEY));
        let text = text.ok_or_else(|| broken(name, &format!("it has no {DATA_KEY}")))?;
        let seal = secret.annotations().get(SEAL).map_or("", String::as_str);
        if !self.seal.is_of(seal, self.namespace, (self.infra_id, name), &text.0) {
            let why = format!(
                "it is not as it was written here; if it is right nevertheless, create the Pod from {DATA_KEY} of the \
                 Secret {}",
                secret.name_any()
            );
            return Err(broken(name, &why));
        }
        Manifest::read(name, self.infra_id, &text.0).map(Some)
    }

    /// Puts a Pod on record, in place of what was on record of an earlier one.
    pub(super) async fn write(&self, manifest: &Manifest) -> Result<(), ActuatorError> {
        let new = self.secret(manifest)?;
        let cannot = |error: &kube::Error| failed("put the Pod on record", error);
        match self.api.create(&PostParams::default(), &new).await {
            Ok(_) => return Ok(()),
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            Err(error) => return Err(cannot(&error)),
        }
        let Some(old) = self.get(&manifest.name).await? else {
            let message = "what was on record is gone again".to_owned();
            return Err(ActuatorError::failed(ErrorClass::Conflict, message));
        };
        let same_marks = old.labels() == new.labels() && old.annotations() == new.annotations();
        if same_marks && old.data == new.data {
            return Ok(());
        }
        let mut next = new;
        next.metadata.resource_version = old.resource_version();
        let name = self.secret_name(&manifest.name);
        let replaced = self.api.replace(&name, &PostParams::default(), &next).await;
        replaced.map(drop).map_err(|error| cannot(&error))
    }

    fn secret(&self, manifest: &Manifest) -> Result<Secret, ActuatorError> {
        let text = manifest.manifest.to_string().into_bytes();
        if text.len() > MAX_BYTES {
            let message = format!("the manifest of the Pod is longer than {MAX_BYTES} bytes");
            return Err(ActuatorError::failed(ErrorClass::Refused, message));
        }
        let seal = self.seal.of(self.namespace, manifest, &text);
        let label = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let labels = BTreeMap::from([
            label(INFRA_ID, &manifest.infra_id),
            label(RECORD, super::NAME),
            label(shared::MANAGED_BY, shared::MANAGER),
        ]);
        Ok(Secret {
            metadata: ObjectMeta {
                name: Some(self.secret_name(&manifest.name)),
                namespace: Some(self.namespace.to_owned()),
                labels: Some(labels),
                annotations: Some(BTreeMap::from([
                    label(MACHINE, &manifest.name),
                    label(SEAL, &seal),
                ])),
                ..ObjectMeta::default()
            },
            type_: Some(SECRET_TYPE.to_owned()),
            data: Some(BTreeMap::from([(DATA_KEY.to_owned(), ByteString(text))])),
            ..Secret::default()
        })
    }

    /// The names of Pods that are on record.
    pub(super) async fn list(&self) -> Result<Vec<String>, ActuatorError> {
        if !is_label_value(self.infra_id) {
            return Ok(Vec::new());
        }
        let selector = Selector::from_iter([
            Expression::Equal(RECORD.to_owned(), super::NAME.to_owned()),
            Expression::Equal(INFRA_ID.to_owned(), self.infra_id.to_owned()),
        ]);
        let mut params = ListParams::default().labels_from(&selector).limit(PAGE);
        let mut names = Vec::new();
        loop {
            let page = self.api.list_metadata(&params).await;
            let page = page.map_err(|error| read_failed("list what is on record", &error))?;
            // Another Secret with these labels is not a record of ours.
            names.extend(page.items.iter().filter_map(|secret| {
                let name = secret.annotations().get(MACHINE)?;
                (secret.name_any() == self.secret_name(name)).then(|| name.clone())
            }));
            if names.len() > MAX_MACHINES {
                let message = format!("more than {MAX_MACHINES} Pods are on record");
                return Err(ActuatorError::failed(ErrorClass::Refused, message));
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(names),
            }
        }
    }

    /// Removes what is on record of a Pod. What is not there is removed.
    pub(super) async fn remove(&self, name: &str) -> Result<(), ActuatorError> {
        let Some(secret) = self.get(name).await? else { return Ok(()) };
        let only = Preconditions { uid: secret.uid(), resource_version: None };
        let params = DeleteParams::background().preconditions(only);
        match self.api.delete(&secret.name_any(), &params).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            Err(error) => Err(failed("remove what is on record", &error)),
        }
    }
}
