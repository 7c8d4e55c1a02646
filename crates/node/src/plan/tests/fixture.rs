//! A Pod and a machine to plan for.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Secret};
use serde_json::{Value, json};

use crate::folder::PodFolder;
use crate::known::{Known, Lookup};
use crate::plan::resource::Requests;
use crate::plan::{PlanInputs, VolumeSource};
use crate::port::{PortMap, Protocol, ProtocolPort};

/// A Pod of one container.
pub(super) fn pod(container: &Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": {
            "name": "web-0", "namespace": "ns", "uid": "uid-1",
            "labels": {"app": "web"},
            "annotations": {"example.com/a": "b", "odd['key']": "odd"},
        },
        "spec": {
            "nodeName": "node-1",
            "serviceAccountName": "robot",
            "containers": [container],
            "volumes": [
                {"name": "scratch", "emptyDir": {}},
                {"name": "memory", "emptyDir": {"medium": "Memory"}},
                {"name": "claim", "persistentVolumeClaim": {"claimName": "c"}},
                {"name": "read-claim", "persistentVolumeClaim":
                    {"claimName": "c", "readOnly": true}},
                {"name": "disk", "persistentVolumeClaim": {"claimName": "d"}},
                {"name": "read-disk", "persistentVolumeClaim":
                    {"claimName": "d", "readOnly": true}},
                {"name": "config", "configMap": {"name": "m"}},
            ],
        },
    }))
    .expect("a Pod")
}

pub(super) struct Machine {
    pub(super) folder: PodFolder,
    pub(super) host_ips: Vec<String>,
    pub(super) ports: PortMap,
    pub(super) volumes: BTreeMap<String, VolumeSource>,
}

impl Default for Machine {
    fn default() -> Self {
        let folder = |name: &str| VolumeSource::Folder(format!("/data/volumes/{name}").into());
        let names = ["scratch", "claim", "read-claim", "config"];
        let mut volumes: BTreeMap<_, _> =
            names.iter().map(|name| ((*name).to_owned(), folder(name))).collect();
        for name in ["disk", "read-disk"] {
            let image = format!("/data/volumes/{name}/disk.img");
            volumes.insert(name.to_owned(), VolumeSource::Device(image.into()));
        }
        volumes.insert("memory".to_owned(), VolumeSource::Memory { bytes: 1 << 20 });
        Self {
            folder: PodFolder::new("/data/pods/uid-1"),
            host_ips: vec!["192.0.2.7".to_owned(), "2001:db8::7".to_owned()],
            ports: [("http", 20_001), ("9090", 20_002)]
                .map(|(name, port)| (name, ProtocolPort::new(Protocol::Tcp, port)))
                .into_iter()
                .collect(),
            volumes,
        }
    }
}

impl Machine {
    pub(super) fn inputs(&self) -> PlanInputs<'_> {
        PlanInputs {
            folder: &self.folder,
            confined: true,
            hostname: "web-0",
            host_ips: &self.host_ips,
            path: "/usr/bin:/bin",
            lang: Some("C.UTF-8"),
            time_zone: None,
            api_server: Some(("192.0.2.1", 6443)),
            ports: &self.ports,
            volumes: &self.volumes,
            cgroups: &[],
            oom_events: None,
            memory_limit: None,
            allocatable: Requests {
                milli_cpu: 3_500,
                memory: 8 << 30,
                ephemeral_storage: 100_000_000_000,
            },
        }
    }
}

/// What a Pod refers to. A name that begins with `unknown` cannot be read.
#[derive(Default)]
pub(super) struct Stored {
    config_maps: BTreeMap<String, Arc<ConfigMap>>,
    secrets: BTreeMap<String, Arc<Secret>>,
}

impl Stored {
    pub(super) fn config_map(mut self, name: &str, data: &[(&str, &str)]) -> Self {
        let data = data.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let map = ConfigMap { data: Some(data.collect()), ..ConfigMap::default() };
        self.config_maps.insert(name.to_owned(), Arc::new(map));
        self
    }

    pub(super) fn secret(mut self, name: &str, data: &[(&str, &[u8])]) -> Self {
        let data = data.iter().map(|(key, value)| ((*key).to_owned(), ByteString(value.to_vec())));
        let secret = Secret { data: Some(data.collect()), ..Secret::default() };
        self.secrets.insert(name.to_owned(), Arc::new(secret));
        self
    }
}

impl Lookup for Stored {
    fn config_map(&self, namespace: &str, name: &str) -> Known<Arc<ConfigMap>> {
        find(&self.config_maps, namespace, name)
    }

    fn secret(&self, namespace: &str, name: &str) -> Known<Arc<Secret>> {
        find(&self.secrets, namespace, name)
    }

    fn claim(&self, _: &str, _: &str) -> Known<Arc<PersistentVolumeClaim>> {
        Known::Absent
    }
}

fn find<T: Clone>(objects: &BTreeMap<String, T>, namespace: &str, name: &str) -> Known<T> {
    assert_eq!(namespace, "ns", "a Pod sees its own namespace only");
    if name.starts_with("unknown") {
        return Known::Unknown("the API server is not there".to_owned());
    }
    objects.get(name).cloned().map_or(Known::Absent, Known::Is)
}
