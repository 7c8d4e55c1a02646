//! Ten Nodes without a machine: Pods are placed where the fewest are and their ports are free, and run at once.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use sojourn_api::game::name::IS_SERVER;
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};

use crate::command::print_line;

const NODES: usize = 10;
/// Pods that are started at the same time.
const MAX_CONCURRENT_STARTS: usize = 32;

/// A port of a node.
type Port = (String, i32);

/// Who has what on one node.
#[derive(Debug, Default)]
struct Occupied {
    pods: usize,
    ports: HashSet<Port>,
}

/// The Nodes, until this is dropped.
#[derive(Debug)]
pub(crate) struct ScriptedNodes(JoinHandle<()>);

impl Drop for ScriptedNodes {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl ScriptedNodes {
    /// Makes the Nodes, and starts every Pod of a server that is made from now on.
    pub(crate) async fn start(client: Client) -> Result<Self> {
        let api: Api<Node> = Api::all(client.clone());
        for number in 0..NODES {
            let name = node_name(number);
            let node = json!({"metadata": {"name": name}});
            api.create(&PostParams::default(), &serde_json::from_value(node)?).await?;
            let address = format!("203.0.113.{number}");
            let status = json!({"status": {"addresses": [
                {"type": "ExternalIP", "address": address},
            ]}});
            api.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await?;
        }
        Ok(Self(tokio::spawn(async move {
            if let Err(error) = follow(client).await {
                print_line(&format!("the scripted nodes have failed: {error:#}"));
            }
        })))
    }
}

fn node_name(number: usize) -> String {
    format!("node-{number}")
}

async fn follow(client: Client) -> Result<()> {
    let selection = watcher::Config::default().labels(&format!("{IS_SERVER}=true"));
    let pods = watcher::watcher(Api::<Pod>::all(client.clone()), selection);
    let mut pods = std::pin::pin!(pods);
    let mut nodes: HashMap<usize, Occupied> = HashMap::new();
    let mut known: HashSet<String> = HashSet::new();
    let slots = Arc::new(Semaphore::new(MAX_CONCURRENT_STARTS));
    let mut starts = JoinSet::new();
    while let Some(event) = pods.try_next().await? {
        while let Some(started) = starts.try_join_next() {
            started??;
        }
        // Nothing ends during a benchmark.
        let (Event::Apply(pod) | Event::InitApply(pod)) = event else { continue };
        if !known.insert(pod.uid().unwrap_or_default()) {
            continue;
        }
        let node = place(&pod, &mut nodes).context("no node has the ports of a Pod free")?;
        let slot = slots.clone().acquire_owned().await?;
        let client = client.clone();
        starts.spawn(async move {
            let _slot = slot;
            run(&client, &pod, &node_name(node)).await
        });
    }
    Ok(())
}

/// As a scheduler does.
fn place(pod: &Pod, nodes: &mut HashMap<usize, Occupied>) -> Option<usize> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let ports = containers.flat_map(|container| container.ports.iter().flatten());
    let ports: Vec<Port> = ports
        .filter_map(|port| {
            let protocol = port.protocol.clone().unwrap_or_else(|| "TCP".to_owned());
            Some((protocol, port.host_port?))
        })
        .collect();
    let mut order: Vec<(usize, usize)> =
        (0..NODES).map(|number| (nodes.get(&number).map_or(0, |node| node.pods), number)).collect();
    order.sort_unstable();
    for (_, number) in order {
        let node = nodes.entry(number).or_default();
        if ports.iter().all(|port| !node.ports.contains(port)) {
            node.pods += 1;
            node.ports.extend(ports);
            return Some(number);
        }
    }
    None
}

async fn run(client: &Client, pod: &Pod, node: &str) -> Result<()> {
    let name = pod.name_any();
    let api: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    });
    let params = PostParams::default();
    api.create_subresource::<Value, Value>("binding", &name, &params, &binding)
        .await
        .with_context(|| format!("cannot place {name}"))?;
    let status = json!({"status": {
        "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
    }});
    let written = api.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await;
    written.map(drop).with_context(|| format!("cannot say that {name} runs"))
}
