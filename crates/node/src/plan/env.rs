//! The environment of a container.
//!
//! Three layers, of which a later one wins: what every process needs (`PATH`, `HOME`, …), what the
//! node tells the Pod (where its ports and volumes are, where the API server is), and what the Pod
//! asks for. References see the last two, as those of a kubelet see services and the Pod's own
//! variables but not what an image brings along.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Container, EnvVar, EnvVarSource, Pod, Secret};

use crate::known::{Known, Lookup};
use crate::plan::expand::{TooLong, expand};
use crate::plan::{
    HOME, MAX_STRING_BYTES, MAX_TOTAL_BYTES, Missing, PlanError, PlanInputs, TMP, device, downward,
    mount,
};

#[derive(Debug, Default)]
pub(super) struct Environment {
    machine: BTreeMap<String, String>,
    node: BTreeMap<String, String>,
    own: BTreeMap<String, String>,
    /// The size of `own`, which is all that the Pod can make large.
    bytes: usize,
}

impl Environment {
    pub(super) fn of(
        pod: &Pod,
        container: &Container,
        inputs: &PlanInputs<'_>,
        lookup: &impl Lookup,
    ) -> Result<Self, PlanError> {
        let mut environment =
            Self { machine: machine(inputs), node: node(container, inputs), ..Self::default() };
        let objects =
            Objects { namespace: pod.metadata.namespace.as_deref().unwrap_or_default(), lookup };
        for source in container.env_from.iter().flatten() {
            let prefix = source.prefix.as_deref().unwrap_or_default();
            if let Some(from) = &source.config_map_ref {
                let Some(map) = objects.config_map(&from.name, from.optional)? else { continue };
                for (key, value) in map.data.iter().flatten() {
                    environment.set(format!("{prefix}{key}"), value.clone())?;
                }
            } else if let Some(from) = &source.secret_ref {
                let Some(secret) = objects.secret(&from.name, from.optional)? else { continue };
                for (key, value) in secret.data.iter().flatten() {
                    let name = format!("{prefix}{key}");
                    let value = text(&name, &value.0)?;
                    environment.set(name, value)?;
                }
            }
        }
        for variable in container.env.iter().flatten() {
            if let Some(value) = environment.value(pod, container, variable, inputs, &objects)? {
                environment.set(variable.name.clone(), value)?;
            }
        }
        Ok(environment)
    }

    /// The value of a variable, or `None` if an optional reference leads nowhere.
    fn value(
        &self,
        pod: &Pod,
        container: &Container,
        variable: &EnvVar,
        inputs: &PlanInputs<'_>,
        objects: &Objects<'_, impl Lookup>,
    ) -> Result<Option<String>, PlanError> {
        let refuse = |why: String| PlanError::Variable { name: variable.name.clone(), why };
        if let Some(value) = variable.value.as_deref().filter(|value| !value.is_empty()) {
            return self.expand(value).map(Some).map_err(|error| refuse(error.to_string()));
        }
        match &variable.value_from {
            None => Ok(Some(String::new())),
            Some(EnvVarSource { field_ref: Some(field), .. }) => {
                downward::field(pod, inputs.host_ips, &field.field_path)
                    .map(Some)
                    .map_err(|error| refuse(error.to_string()))
            }
            Some(EnvVarSource { resource_field_ref: Some(selector), .. }) => {
                downward::amount(pod, Some(container), selector, inputs.allocatable)
                    .map(Some)
                    .map_err(|error| refuse(error.to_string()))
            }
            Some(EnvVarSource { config_map_key_ref: Some(from), .. }) => {
                let Some(map) = objects.config_map(&from.name, from.optional)? else {
                    return Ok(None);
                };
                let value = map.data.as_ref().and_then(|data| data.get(&from.key));
                objects.found("ConfigMap", &from.name, &from.key, from.optional, value.cloned())
            }
            Some(EnvVarSource { secret_key_ref: Some(from), .. }) => {
                let Some(secret) = objects.secret(&from.name, from.optional)? else {
                    return Ok(None);
                };
                let value = secret.data.as_ref().and_then(|data| data.get(&from.key));
                let value = value.map(|value| text(&variable.name, &value.0)).transpose()?;
                objects.found("Secret", &from.name, &from.key, from.optional, value)
            }
            Some(_) => Err(refuse("it comes from a source that is not known here".to_owned())),
        }
    }

    fn set(&mut self, name: String, value: String) -> Result<(), PlanError> {
        let refuse = |why: &str| PlanError::Variable { name: name.clone(), why: why.to_owned() };
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(refuse("no variable can have this name"));
        }
        if value.contains('\0') {
            return Err(refuse("its value contains a NUL, which no variable can"));
        }
        let size = name.len() + value.len() + 2;
        if size > MAX_STRING_BYTES {
            return Err(refuse("it is longer than the 128 KiB that Linux allows"));
        }
        self.bytes += size;
        let length = name.len();
        if let Some(previous) = self.own.insert(name, value) {
            self.bytes -= length + previous.len() + 2;
        }
        if self.bytes > MAX_TOTAL_BYTES { Err(PlanError::TooLarge) } else { Ok(()) }
    }

    /// What a reference to a variable stands for.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.own.get(name).or_else(|| self.node.get(name)).map(String::as_str)
    }

    pub(super) fn expand(&self, text: &str) -> Result<String, TooLong> {
        expand(text, MAX_STRING_BYTES - 1, |name| self.get(name))
    }

    /// One value for each name, by name.
    pub(super) fn finish(self) -> Vec<(String, String)> {
        let mut all = self.machine;
        all.extend(self.node);
        all.extend(self.own);
        all.into_iter().collect()
    }
}

fn machine(inputs: &PlanInputs<'_>) -> BTreeMap<String, String> {
    let (home, tmp) = if inputs.confined {
        (HOME.to_owned(), TMP.to_owned())
    } else {
        let shown = |path: std::path::PathBuf| path.to_string_lossy().into_owned();
        (shown(inputs.folder.home()), shown(inputs.folder.tmp()))
    };
    let given = [("LANG", inputs.lang), ("TZ", inputs.time_zone)];
    let given = given.into_iter().filter_map(|(name, value)| Some((name, value?.to_owned())));
    [
        ("PATH", inputs.path.to_owned()),
        ("HOME", home),
        ("TMPDIR", tmp),
        ("HOSTNAME", inputs.hostname.to_owned()),
    ]
    .into_iter()
    .chain(given)
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}

fn node(container: &Container, inputs: &PlanInputs<'_>) -> BTreeMap<String, String> {
    let mut node = BTreeMap::new();
    if let Some((host, port)) = inputs.api_server {
        node.insert("KUBERNETES_SERVICE_HOST".to_owned(), host.to_owned());
        node.insert("KUBERNETES_SERVICE_PORT".to_owned(), port.to_string());
    }
    for (key, port) in inputs.ports.seen_by(container) {
        node.insert(format!("SOJOURN_PORT_{}", variable_name(key)), port.to_string());
    }
    // The first mount of a volume is the one that its variable names.
    for mount in container.volume_mounts.iter().flatten().rev() {
        if let Some(path) = mount::seen_at(mount, inputs) {
            node.insert(format!("SOJOURN_MOUNT_{}", variable_name(&mount.name)), path);
        }
    }
    for asked in container.volume_devices.iter().flatten().rev() {
        if let Some(path) = device::seen_at(asked, inputs) {
            node.insert(format!("SOJOURN_DEVICE_{}", variable_name(&asked.name)), path);
        }
    }
    node
}

/// `my-port` as a part of a variable's name: `MY_PORT`.
fn variable_name(name: &str) -> String {
    let part = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    name.chars().map(part).collect()
}

fn text(name: &str, bytes: &[u8]) -> Result<String, PlanError> {
    String::from_utf8(bytes.to_vec()).map_err(|_| PlanError::Variable {
        name: name.to_owned(),
        why: "its value is not text (UTF-8): mount the Secret as a volume instead".to_owned(),
    })
}

/// The objects of the Pod's namespace.
struct Objects<'a, L> {
    namespace: &'a str,
    lookup: &'a L,
}

impl<L: Lookup> Objects<'_, L> {
    fn config_map(
        &self,
        name: &str,
        optional: Option<bool>,
    ) -> Result<Option<Arc<ConfigMap>>, PlanError> {
        let known = self.lookup.config_map(self.namespace, name);
        present(known, optional, "configmap", name, Missing::ConfigMap)
    }

    fn secret(&self, name: &str, optional: Option<bool>) -> Result<Option<Arc<Secret>>, PlanError> {
        let known = self.lookup.secret(self.namespace, name);
        present(known, optional, "secret", name, Missing::Secret)
    }

    fn found(
        &self,
        kind: &'static str,
        name: &str,
        key: &str,
        optional: Option<bool>,
        value: Option<String>,
    ) -> Result<Option<String>, PlanError> {
        if value.is_none() && optional != Some(true) {
            return Err(PlanError::Missing(Missing::Key {
                kind,
                namespace: self.namespace.to_owned(),
                name: name.to_owned(),
                key: key.to_owned(),
            }));
        }
        Ok(value)
    }
}

/// An optional object may be absent, but whether it is must be known.
fn present<T>(
    known: Known<T>,
    optional: Option<bool>,
    kind: &'static str,
    name: &str,
    missing: fn(String) -> Missing,
) -> Result<Option<T>, PlanError> {
    match known {
        Known::Is(object) => Ok(Some(object)),
        Known::Absent if optional == Some(true) => Ok(None),
        Known::Absent => Err(missing(name.to_owned()).into()),
        Known::Unknown(why) => Err(PlanError::Unknown { kind, name: name.to_owned(), why }),
    }
}
