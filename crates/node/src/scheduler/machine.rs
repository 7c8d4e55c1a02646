//! A node as the scheduler sees it: what it offers, what is taken, and what keeps a Pod off it.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Node, Taint};

use super::demand::{Demand, HostPort, Usage};
use super::selection;
use crate::plan::resource;
use crate::taint;

/// What a Node says of itself.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Machine {
    pub(super) name: String,
    labels: BTreeMap<String, String>,
    taints: Vec<Taint>,
    milli_cpu: u128,
    memory: u128,
    ephemeral_storage: u128,
    pods: usize,
}

/// What the Pods on a node take together. Sums are wide enough never to saturate, or what is taken
/// away later would leave too little.
#[derive(Debug, Clone, Default)]
pub(super) struct Load {
    milli_cpu: u128,
    memory: u128,
    ephemeral_storage: u128,
    ports: Vec<HostPort>,
    pub(super) pods: usize,
}

impl Machine {
    pub(super) fn of(node: &Node) -> Self {
        let allocatable = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
        let text = |name: &str| allocatable?.get(name).map(|quantity| quantity.0.as_str());
        // What cannot be read is not there.
        let whole = |name: &str| text(name).and_then(|t| resource::whole(t).ok()).unwrap_or(0);
        let milli_cpu = text("cpu").and_then(|t| resource::milli(t).ok()).unwrap_or(0);
        Self {
            name: node.metadata.name.clone().unwrap_or_default(),
            labels: node.metadata.labels.clone().unwrap_or_default(),
            taints: taint::desired_taints(node),
            milli_cpu: milli_cpu.into(),
            memory: whole("memory").into(),
            ephemeral_storage: whole("ephemeral-storage").into(),
            pods: usize::try_from(whole("pods")).unwrap_or(usize::MAX),
        }
    }

    /// What keeps the Pod off this node, in words that follow a number of nodes; nothing if it fits.
    /// Like Kubernetes, only the first kind of obstacle is told.
    pub(super) fn obstacles(&self, load: &Load, demand: &Demand) -> BTreeSet<String> {
        let unwanted = |taint: &&Taint| {
            selection::repels(taint) && !selection::tolerates(&demand.tolerations, taint)
        };
        if let Some(taint) = self.taints.iter().find(unwanted) {
            return one(match taint.key.as_str() {
                taint::UNSCHEDULABLE => "node(s) were unschedulable",
                taint::NOT_READY => "node(s) were not ready",
                taint::UNREACHABLE => "node(s) were unreachable",
                _ => "node(s) had untolerated taint(s)",
            });
        }
        let labelled =
            demand.node_selector.iter().all(|(key, value)| self.labels.get(key) == Some(value));
        let affinity = demand.node_affinity.as_ref();
        if !labelled || affinity.is_some_and(|a| !selection::selects(a, &self.name, &self.labels)) {
            return one("node(s) didn't match Pod's node affinity/selector");
        }
        let taken = |port: &HostPort| load.ports.iter().any(|used| used.conflicts_with(port));
        if demand.usage.ports.iter().any(taken) {
            return one("node(s) didn't have free ports for the requested pod ports");
        }
        self.shortages(load, demand)
    }

    fn shortages(&self, load: &Load, demand: &Demand) -> BTreeSet<String> {
        let mut short = BTreeSet::new();
        if load.pods >= self.pods {
            short.insert("Too many pods".to_owned());
        }
        let asked = demand.usage.requests;
        for (name, asked, taken, offered) in [
            ("cpu", asked.milli_cpu, load.milli_cpu, self.milli_cpu),
            ("memory", asked.memory, load.memory, self.memory),
            (
                "ephemeral-storage",
                asked.ephemeral_storage,
                load.ephemeral_storage,
                self.ephemeral_storage,
            ),
        ] {
            let asked = u128::from(asked);
            if asked > 0 && asked > offered.saturating_sub(taken) {
                short.insert(format!("Insufficient {name}"));
            }
        }
        short.extend(demand.uncounted.iter().map(|name| format!("Insufficient {name}")));
        short
    }

    /// How much of the node stays free, in thousandths of cpu plus thousandths of memory.
    pub(super) fn spare(&self, load: &Load) -> u128 {
        let share = |offered: u128, taken: u128| {
            (offered.saturating_sub(taken) * 1000).checked_div(offered).unwrap_or(0)
        };
        share(self.milli_cpu, load.milli_cpu) + share(self.memory, load.memory)
    }
}

fn one(words: &str) -> BTreeSet<String> {
    BTreeSet::from([words.to_owned()])
}

impl Load {
    pub(super) fn add(&mut self, usage: &Usage) {
        self.milli_cpu += u128::from(usage.requests.milli_cpu);
        self.memory += u128::from(usage.requests.memory);
        self.ephemeral_storage += u128::from(usage.requests.ephemeral_storage);
        self.ports.extend(usage.ports.iter().cloned());
        self.pods += 1;
    }

    pub(super) fn remove(&mut self, usage: &Usage) {
        self.milli_cpu -= u128::from(usage.requests.milli_cpu);
        self.memory -= u128::from(usage.requests.memory);
        self.ephemeral_storage -= u128::from(usage.requests.ephemeral_storage);
        for port in &usage.ports {
            if let Some(at) = self.ports.iter().position(|used| used == port) {
                self.ports.swap_remove(at);
            }
        }
        self.pods -= 1;
    }
}
