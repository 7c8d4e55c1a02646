//! What a Pod may be told of itself: `fieldRef` and `resourceFieldRef`.

use k8s_openapi::api::core::v1::{Container, Pod, ResourceFieldSelector};

use crate::plan::resource::{self, QuantityError, Requests};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DownwardError {
    #[error("unsupported fieldPath: {0}")]
    Field(String),
    #[error("unsupported container resource : {0}")]
    Resource(String),
    #[error("container {0} not found")]
    NoSuchContainer(String),
    #[error("divisor {0}")]
    Divisor(#[from] QuantityError),
}

/// The value of a `fieldRef` that is a single value. A Pod has the addresses of its node.
pub(crate) fn field(pod: &Pod, host_ips: &[String], path: &str) -> Result<String, DownwardError> {
    let metadata = &pod.metadata;
    let spec = pod.spec.as_ref();
    if let Some((map, key)) = path.strip_suffix("']").and_then(|path| path.split_once("['")) {
        let map = match map {
            "metadata.labels" => &metadata.labels,
            "metadata.annotations" => &metadata.annotations,
            _ => return Err(DownwardError::Field(path.to_owned())),
        };
        return Ok(map.as_ref().and_then(|map| map.get(key)).cloned().unwrap_or_default());
    }
    let text = match path {
        "metadata.name" => metadata.name.clone(),
        "metadata.namespace" => metadata.namespace.clone(),
        "metadata.uid" => metadata.uid.clone(),
        "spec.nodeName" | "spec.host" => spec.and_then(|spec| spec.node_name.clone()),
        "spec.serviceAccountName" => spec.and_then(|spec| spec.service_account_name.clone()),
        "status.hostIP" | "status.podIP" => host_ips.first().cloned(),
        "status.hostIPs" | "status.podIPs" => Some(host_ips.join(",")),
        _ => return Err(DownwardError::Field(path.to_owned())),
    };
    Ok(text.unwrap_or_default())
}

/// The value of a `resourceFieldRef`, in units of its divisor, rounded up. Who has no limit is told
/// the Pod's or else what the node has; `container` is who asks, where one does.
pub(crate) fn amount(
    pod: &Pod,
    container: Option<&Container>,
    selector: &ResourceFieldSelector,
    allocatable: Requests,
) -> Result<String, DownwardError> {
    let named = selector.container_name.as_deref().filter(|name| !name.is_empty());
    let spec = pod.spec.as_ref();
    let main = || spec.into_iter().flat_map(|spec| &spec.containers);
    let init = || spec.into_iter().flat_map(|spec| spec.init_containers.iter().flatten());
    let missing = || DownwardError::NoSuchContainer(named.unwrap_or_default().to_owned());
    // Of another container only a main one is told the node's limits: so does a kubelet.
    let (subject, falls_back) = match named {
        None => (container.ok_or_else(missing)?, true),
        Some(name) => match main().find(|container| container.name == name) {
            Some(container) => (container, true),
            None => (init().find(|container| container.name == name).ok_or_else(missing)?, false),
        },
    };

    let requests = resource::container_requests(subject);
    let limits = resource::container_limits(subject);
    let pod_limits = spec.map(resource::pod_limits).unwrap_or_default();
    let or = |limit: Option<u64>, pods: Option<u64>, nodes: u64| {
        limit.unwrap_or(if falls_back { pods.unwrap_or(nodes) } else { 0 })
    };
    let (amount, cpu) = match selector.resource.as_str() {
        "requests.cpu" => (requests.milli_cpu, true),
        "requests.memory" => (requests.memory, false),
        "requests.ephemeral-storage" => (requests.ephemeral_storage, false),
        "limits.cpu" => (or(limits.milli_cpu, pod_limits.milli_cpu, allocatable.milli_cpu), true),
        "limits.memory" => (or(limits.memory, pod_limits.memory, allocatable.memory), false),
        "limits.ephemeral-storage" => {
            (or(limits.ephemeral_storage, None, allocatable.ephemeral_storage), false)
        }
        other => return Err(DownwardError::Resource(other.to_owned())),
    };
    let unit = selector.divisor.as_ref().map_or("0", |divisor| divisor.0.as_str());
    let parse = if cpu { resource::milli } else { resource::whole };
    let divisor = match parse(unit)? {
        0 if cpu => 1_000,
        0 => 1,
        divisor => divisor,
    };
    Ok(amount.div_ceil(divisor).to_string())
}
