//! What a Pod asks of the node that it is to run on.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, NodeSelector, Pod, PodSpec, Toleration};
use serde_json::json;

use crate::plan::resource::{self, Requests};

/// Resources that are counted here; whatever else a Pod asks for, no node of ours has.
const COUNTED: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// Everything about a Pod that decides where it can run. Pods with equal demands fare alike.
#[derive(Debug, Clone, Default)]
pub(super) struct Demand {
    pub(super) usage: Usage,
    /// Resources by name that are not counted here.
    pub(super) uncounted: Vec<String>,
    pub(super) node_selector: BTreeMap<String, String>,
    pub(super) node_affinity: Option<NodeSelector>,
    pub(super) tolerations: Vec<Toleration>,
    /// A rule of the Pod's that is not honoured here, in words.
    pub(super) unsupported: Option<&'static str>,
}

/// What a Pod takes from its node for as long as it is there.
#[derive(Debug, Clone, Default)]
pub(super) struct Usage {
    pub(super) requests: Requests,
    pub(super) ports: Vec<HostPort>,
    /// Claims that it mounts, as `namespace/name`.
    pub(super) claims: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HostPort {
    pub(super) protocol: String,
    pub(super) port: i32,
    /// `0.0.0.0` is every address.
    pub(super) address: String,
}

impl HostPort {
    pub(super) fn conflicts_with(&self, other: &Self) -> bool {
        const EVERY: &str = "0.0.0.0";
        self.port == other.port
            && self.protocol == other.protocol
            && (self.address == other.address || self.address == EVERY || other.address == EVERY)
    }
}

impl Usage {
    pub(super) fn of(pod: &Pod) -> Self {
        let Some(spec) = &pod.spec else { return Self::default() };
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let volumes = spec.volumes.iter().flatten();
        let mut claims: Vec<String> = volumes
            .filter_map(|volume| volume.persistent_volume_claim.as_ref())
            .map(|claim| format!("{namespace}/{}", claim.claim_name))
            .collect();
        claims.sort_unstable();
        claims.dedup();
        Self { requests: resource::requests(spec), ports: host_ports(spec), claims }
    }
}

impl Demand {
    pub(super) fn of(pod: &Pod) -> Self {
        let usage = Usage::of(pod);
        let Some(spec) = &pod.spec else { return Self { usage, ..Self::default() } };
        let affinity = spec.affinity.as_ref();
        let node_affinity = affinity.and_then(|affinity| affinity.node_affinity.as_ref());
        Self {
            usage,
            uncounted: uncounted(spec),
            node_selector: spec.node_selector.clone().unwrap_or_default(),
            node_affinity: node_affinity
                .and_then(|a| a.required_during_scheduling_ignored_during_execution.clone()),
            tolerations: spec.tolerations.clone().unwrap_or_default(),
            unsupported: unsupported(spec),
        }
    }

    /// The same text for equal demands, and for no others.
    pub(super) fn key(&self) -> String {
        let Requests { milli_cpu, memory, ephemeral_storage } = self.usage.requests;
        let ports: Vec<_> =
            self.usage.ports.iter().map(|p| (&p.protocol, p.port, &p.address)).collect();
        json!([
            [milli_cpu, memory, ephemeral_storage],
            ports,
            self.usage.claims,
            self.uncounted,
            self.node_selector,
            self.node_affinity,
            self.tolerations,
            self.unsupported,
        ])
        .to_string()
    }
}

fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

fn host_ports(spec: &PodSpec) -> Vec<HostPort> {
    let sidecars = spec.init_containers.iter().flatten().filter(|c| is_sidecar(c));
    let ports = spec.containers.iter().chain(sidecars).flat_map(|c| c.ports.iter().flatten());
    ports
        .filter_map(|port| {
            let number = port.host_port.filter(|number| *number > 0)?;
            let text = |value: &Option<String>, default: &str| match value.as_deref() {
                None | Some("") => default.to_owned(),
                Some(value) => value.to_owned(),
            };
            Some(HostPort {
                protocol: text(&port.protocol, "TCP"),
                port: number,
                address: text(&port.host_ip, "0.0.0.0"),
            })
        })
        .collect()
}

fn uncounted(spec: &PodSpec) -> Vec<String> {
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let requests = containers.filter_map(|c| c.resources.as_ref()?.requests.as_ref());
    let mut names: Vec<String> = requests
        .flatten()
        .filter(|(name, amount)| {
            !COUNTED.contains(&name.as_str()) && resource::whole(&amount.0) != Ok(0)
        })
        .map(|(name, _)| name.clone())
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Rules about other Pods. Ignoring one would break a promise, so such a Pod waits instead.
fn unsupported(spec: &PodSpec) -> Option<&'static str> {
    let affinity = spec.affinity.as_ref();
    let attracted = affinity.and_then(|a| a.pod_affinity.as_ref());
    let repelled = affinity.and_then(|a| a.pod_anti_affinity.as_ref());
    let some = |terms: Option<usize>| terms.is_some_and(|count| count > 0);
    let required = |terms: &Option<Vec<_>>| terms.as_ref().map(Vec::len);
    if some(
        attracted.and_then(|a| required(&a.required_during_scheduling_ignored_during_execution)),
    ) {
        return Some("spec.affinity.podAffinity is not supported here");
    }
    if some(repelled.and_then(|a| required(&a.required_during_scheduling_ignored_during_execution)))
    {
        return Some("spec.affinity.podAntiAffinity is not supported here");
    }
    let spread = spec.topology_spread_constraints.iter().flatten();
    if spread.into_iter().any(|constraint| constraint.when_unsatisfiable == "DoNotSchedule") {
        return Some("spec.topologySpreadConstraints is not supported here");
    }
    None
}
