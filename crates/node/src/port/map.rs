//! The ports of one Pod by name: as its containers and the annotation know them, and as they are kept
//! on disk.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, ContainerPort};
use serde::Deserialize;

use super::{PortRequest, Protocol, ProtocolPort, declared, plain_key, qualified_key};

/// The ports that a Pod has, by what they are published as.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PortMap(BTreeMap<String, ProtocolPort>);

/// A port as a record has it. Earlier nodes knew each number once, and wrote no protocol.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum RecordedPort {
    Whole(ProtocolPort),
    Number(u16),
}

impl PortMap {
    /// From the record that a node keeps of them. `requests` tell the protocols of one that has none.
    pub(super) fn from_record(
        json: &str,
        requests: &[PortRequest],
    ) -> Result<Self, serde_json::Error> {
        let recorded: BTreeMap<String, RecordedPort> = serde_json::from_str(json)?;
        let whole = |(key, recorded): (String, RecordedPort)| {
            let port = match recorded {
                RecordedPort::Whole(port) => port,
                RecordedPort::Number(port) => {
                    let asked = requests.iter().find(|request| request.key == key);
                    // What Kubernetes takes a port for that says nothing.
                    let protocol = asked.map_or(Protocol::Tcp, |request| request.protocol);
                    ProtocolPort { protocol, port }
                }
            };
            (key, port)
        };
        Ok(Self(recorded.into_iter().map(whole).collect()))
    }

    pub(super) fn record(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(&self.0)
    }

    /// The annotation's text.
    pub(crate) fn annotation(&self) -> String {
        serde_json::Value::from_iter(self.iter().map(|(key, port)| (key.to_owned(), port)))
            .to_string()
    }

    pub(super) fn insert(&mut self, key: &str, port: ProtocolPort) {
        self.0.insert(key.to_owned(), port);
    }

    pub(super) fn whole(&self, key: &str) -> Option<ProtocolPort> {
        self.0.get(key).copied()
    }

    pub(crate) fn get(&self, key: &str) -> Option<u16> {
        self.whole(key).map(|port| port.port)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn all(&self) -> impl Iterator<Item = ProtocolPort> {
        self.0.values().copied()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, u16)> {
        self.0.iter().map(|(key, port)| (key.as_str(), port.port))
    }

    /// The port that a container's port has become.
    pub(crate) fn of(&self, container: &Container, port: &ContainerPort) -> Option<u16> {
        let protocol = declared(container, port).ok()?.protocol;
        self.get(&qualified_key(container, port, protocol)).or_else(|| self.get(&plain_key(port)))
    }

    /// The ports by the names that a container has for them: its own come first, whatever other
    /// containers call theirs.
    pub(crate) fn seen_by<'a>(&'a self, container: &'a Container) -> BTreeMap<&'a str, u16> {
        let mut seen: BTreeMap<&str, u16> = self.iter().collect();
        for port in container.ports.iter().flatten() {
            let name = port.name.as_deref().filter(|name| !name.is_empty());
            if let (Some(name), Some(actual)) = (name, self.of(container, port)) {
                seen.insert(name, actual);
            }
        }
        seen
    }
}

impl<K: Into<String>> FromIterator<(K, ProtocolPort)> for PortMap {
    fn from_iter<I: IntoIterator<Item = (K, ProtocolPort)>>(ports: I) -> Self {
        Self(ports.into_iter().map(|(key, port)| (key.into(), port)).collect())
    }
}
