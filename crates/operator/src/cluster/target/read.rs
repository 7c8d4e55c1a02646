//! What is read of a cluster.

use std::collections::HashMap;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::{Api, Client, ResourceExt as _};
use serde::Deserialize;
use sojourn_core::cluster::csr::Csr;
use sojourn_core::cluster::{ObservedNode, ObservedOperator, ObservedTarget, ObservedWorkloads};
use sojourn_core::known::Known;

use super::list::{ListError, each};
use super::{TargetQuestion, csr, spot, within};

/// Where kubelets renew their Leases.
const NODE_LEASES: &str = "kube-node-lease";
const MAX_NODES: usize = 5000;
const MAX_OPERATORS: usize = 1000;
const MAX_WORKLOADS: usize = 10_000;
/// Nodes and workloads are long: each part has so many of them.
const PAGE: u32 = 100;
/// What is short comes in longer parts.
const LONG_PAGE: u32 = 500;
/// Names that are kept of workloads that are not ready: people read them.
const MAX_UNREADY: usize = 100;

pub(super) async fn read(
    client: &Client,
    question: &TargetQuestion,
) -> Result<ObservedTarget, String> {
    let (nodes, cluster_operators, machines, workloads, csrs) = tokio::join!(
        nodes(client),
        cluster_operators(client),
        spot::machines(client),
        workloads(client, &question.workloads),
        csrs(client, question.csrs),
    );
    Ok(ObservedTarget { nodes: nodes?, cluster_operators, workloads, machines, csrs })
}

async fn nodes(client: &Client) -> Result<Vec<ObservedNode>, String> {
    let renewals = renewals(client).await?;
    let mut nodes = Vec::new();
    let params = ListParams::default().limit(PAGE);
    let api: Api<Node> = Api::all(client.clone());
    let listed = each(&api, params, MAX_NODES, |node| nodes.push(observed_node(&node, &renewals)));
    listed.await.map_err(|error| error.words("nodes"))?;
    Ok(nodes)
}

/// When each kubelet last renewed its Lease. Without them nothing is said of a node at all: a heartbeat that comes
/// from another source than the last one would look as if the node had beaten.
async fn renewals(client: &Client) -> Result<HashMap<String, Timestamp>, String> {
    let mut renewals = HashMap::new();
    let params = ListParams::default().limit(LONG_PAGE);
    let api: Api<Lease> = Api::namespaced(client.clone(), NODE_LEASES);
    let listed = each(&api, params, MAX_NODES, |lease| {
        let renewed = lease.spec.as_ref().and_then(|spec| spec.renew_time.as_ref());
        renewals.extend(renewed.map(|renewed| (lease.name_any(), renewed.0)));
    });
    match listed.await {
        Ok(()) => Ok(renewals),
        // It knows no Leases, and so never did.
        Err(ListError::NotServed) => Ok(HashMap::new()),
        Err(error) => Err(error.words("leases of nodes")),
    }
}

fn observed_node(node: &Node, renewals: &HashMap<String, Timestamp>) -> ObservedNode {
    let status = node.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready");
    let beat = ready.and_then(|ready| ready.last_heartbeat_time.as_ref()).map(|time| time.0);
    let addresses = status.and_then(|status| status.addresses.as_deref()).unwrap_or_default();
    ObservedNode {
        name: node.name_any(),
        ready: ready.is_some_and(|ready| ready.status == "True"),
        heartbeat: beat.max(renewals.get(&node.name_any()).copied()),
        addresses: addresses.iter().map(|address| address.address.clone()).collect(),
    }
}

/// What is not served now may only not be served yet: that a kind is absent is believed of an API that is ready.
pub(super) async fn absent_if_ready<T>(client: &Client) -> Known<T> {
    let request = http::Request::get("/readyz").body(Vec::new());
    let Ok(request) = request else { return Known::Unknown };
    match within(client.request_text(request)).await {
        Ok(_) => Known::Absent,
        Err(_) => Known::Unknown,
    }
}

/// An object that has conditions in its status.
#[derive(Deserialize)]
struct WithConditions {
    #[serde(default)]
    conditions: Vec<StatusCondition>,
}

#[derive(Deserialize)]
struct StatusCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

async fn cluster_operators(client: &Client) -> Known<Vec<ObservedOperator>> {
    let resource = ApiResource {
        group: "config.openshift.io".to_owned(),
        version: "v1".to_owned(),
        api_version: "config.openshift.io/v1".to_owned(),
        kind: "ClusterOperator".to_owned(),
        plural: "clusteroperators".to_owned(),
    };
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let mut operators = Vec::new();
    let params = ListParams::default().limit(PAGE);
    let listed = each(&api, params, MAX_OPERATORS, |object| operators.push(operator(&object)));
    match listed.await {
        Ok(()) => Known::Is(operators),
        Err(ListError::NotServed) => absent_if_ready(client).await,
        Err(error) => {
            let error = error.words("cluster operators");
            tracing::debug!(error, "cluster operators are unknown");
            Known::Unknown
        }
    }
}

/// What cannot be read of it does not hold, so that it is waited for.
fn operator(object: &DynamicObject) -> ObservedOperator {
    let status =
        object.data.get("status").and_then(|status| WithConditions::deserialize(status).ok());
    let conditions = status.map(|status| status.conditions).unwrap_or_default();
    let is = |kind: &str| conditions.iter().any(|one| one.kind == kind && one.status == "True");
    ObservedOperator {
        name: object.name_any(),
        available: is("Available"),
        progressing: is("Progressing"),
        degraded: is("Degraded"),
    }
}

async fn workloads(client: &Client, selectors: &[String]) -> Vec<ObservedWorkloads> {
    let mut found = Vec::with_capacity(selectors.len());
    for selector in selectors {
        let unready = match unready(client, selector).await {
            Ok(unready) => Known::Is(unready),
            Err(error) => {
                let error = error.words("workloads");
                tracing::debug!(selector, error, "workloads are unknown");
                Known::Unknown
            }
        };
        found.push(ObservedWorkloads { selector: selector.clone(), unready });
    }
    found
}

/// The names of workloads that are not ready.
async fn unready(client: &Client, selector: &str) -> Result<Vec<String>, ListError> {
    let params = || ListParams::default().labels(selector).limit(PAGE);
    let mut names = Vec::new();
    let mut take = |kind: &str, namespace: Option<String>, name: String, ready: bool| {
        if !ready && names.len() < MAX_UNREADY {
            names.push(format!("{kind} {}/{name}", namespace.unwrap_or_default()));
        }
    };
    let deployments: Api<Deployment> = Api::all(client.clone());
    each(&deployments, params(), MAX_WORKLOADS, |one| {
        take("Deployment", one.namespace(), one.name_any(), is_deployment_ready(&one));
    })
    .await?;
    let stateful_sets: Api<StatefulSet> = Api::all(client.clone());
    each(&stateful_sets, params(), MAX_WORKLOADS, |one| {
        take("StatefulSet", one.namespace(), one.name_any(), is_stateful_set_ready(&one));
    })
    .await?;
    let daemon_sets: Api<DaemonSet> = Api::all(client.clone());
    each(&daemon_sets, params(), MAX_WORKLOADS, |one| {
        take("DaemonSet", one.namespace(), one.name_any(), is_daemon_set_ready(&one));
    })
    .await?;
    Ok(names)
}

/// Whether the controller has seen the spec as it is now.
fn is_observed(generation: Option<i64>, observed: Option<i64>) -> bool {
    generation.is_none() || observed >= generation
}

fn is_deployment_ready(one: &Deployment) -> bool {
    let status = one.status.as_ref();
    let wanted = one.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    let available = status.and_then(|status| status.available_replicas).unwrap_or(0);
    let observed = status.and_then(|status| status.observed_generation);
    is_observed(one.metadata.generation, observed) && available >= wanted
}

fn is_stateful_set_ready(one: &StatefulSet) -> bool {
    let status = one.status.as_ref();
    let wanted = one.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    let ready = status.and_then(|status| status.ready_replicas).unwrap_or(0);
    let observed = status.and_then(|status| status.observed_generation);
    is_observed(one.metadata.generation, observed) && ready >= wanted
}

fn is_daemon_set_ready(one: &DaemonSet) -> bool {
    let Some(status) = &one.status else { return false };
    is_observed(one.metadata.generation, status.observed_generation)
        && status.number_ready >= status.desired_number_scheduled
}

async fn csrs(client: &Client, wanted: bool) -> Known<Vec<Csr>> {
    if !wanted {
        return Known::Absent;
    }
    match csr::pending(client, LONG_PAGE).await {
        Ok(csrs) => Known::Is(csrs),
        Err(error) => {
            let error = error.words("requests for certificates");
            tracing::warn!(error, "no request for a certificate is looked at");
            Known::Unknown
        }
    }
}
