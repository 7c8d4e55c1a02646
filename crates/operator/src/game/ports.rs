//! Which ports of nodes are whose. One pool for each node; a server that is on no node yet has its ports in the pool
//! of the node that it most likely comes to, so that all of them are free somewhere.

use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;
use std::sync::{Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use sojourn_api::game::convert::Granted;
use sojourn_core::game::port::{PortError, PortPool, PortRequest};
use sojourn_core::moment::saturating_add;

/// So long a port of which a node said that somebody else has it is granted to nobody.
const ASIDE: SignedDuration = SignedDuration::from_mins(5);
/// Where servers are counted of which nobody knows the node. They may come to any, so their ports are free nowhere.
const NO_NODE: &str = "";
/// Where servers are counted that no node has room for: a node that is yet to come. No node has such a name.
const NEW_NODE: &str = "+";

/// Why ports could not be granted, at the field that asks for them.
pub(super) fn about_ports(error: &PortError) -> String {
    format!("spec.ports: {error}")
}

/// The pools of all nodes.
#[derive(Debug)]
pub(crate) struct PortRegistry {
    range: RangeInclusive<u16>,
    pools: Mutex<Pools>,
}

#[derive(Debug, Default)]
struct Pools {
    nodes: BTreeMap<String, PortPool>,
    /// In which pool a server, by its uid, has its ports.
    of_server: HashMap<String, String>,
    /// How often a server, by its uid, was given other ports.
    changes: HashMap<String, u32>,
}

impl PortRegistry {
    pub(crate) fn new(range: RangeInclusive<u16>) -> Self {
        Self { range, pools: Mutex::default() }
    }

    /// Grants ports for a new server, all or none. Where nodes are added for Pods that wait, `beyond` grants such that no
    /// node has, too.
    pub(crate) fn grant(
        &self,
        uid: &str,
        wanted: &[PortRequest],
        nodes: &[String],
        beyond: bool,
        now: Timestamp,
    ) -> Result<Vec<u16>, PortError> {
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let mut pools = self.lock();
        pools.end_asides(now);
        let unplaced = pools.nodes.remove(NO_NODE);
        let granted = self.grant_in(&mut pools, (uid, wanted), nodes, unplaced.as_ref(), beyond);
        if let Some(unplaced) = unplaced {
            pools.nodes.insert(NO_NODE.to_owned(), unplaced);
        }
        let (node, ports) = match granted {
            // Nothing is known of any node yet.
            Err(_) if nodes.is_empty() => {
                (NO_NODE, pools.pool(NO_NODE, &self.range).grant(uid, wanted)?)
            }
            other => other?,
        };
        pools.of_server.insert(uid.to_owned(), node.to_owned());
        Ok(ports)
    }

    fn grant_in<'a>(
        &self,
        pools: &mut Pools,
        (uid, wanted): (&str, &[PortRequest]),
        nodes: &'a [String],
        unplaced: Option<&PortPool>,
        beyond: bool,
    ) -> Result<(&'a str, Vec<u16>), PortError> {
        let mut failed = None;
        // The one with the fewest servers first.
        let mut order: Vec<(usize, &String)> =
            nodes.iter().map(|node| (pools.servers_on(node), node)).collect();
        order.sort_unstable();
        for (_, node) in order {
            match pools.pool(node, &self.range).grant_beside(uid, wanted, unplaced) {
                Ok(ports) => return Ok((node, ports)),
                Err(error) => failed = Some(error),
            }
        }
        if beyond && !nodes.is_empty() {
            let ports = pools.pool(NEW_NODE, &self.range).grant_beside(uid, wanted, unplaced)?;
            return Ok((NEW_NODE, ports));
        }
        let (from, to) = (*self.range.start(), *self.range.end());
        Err(failed.unwrap_or(PortError::Exhausted { from, to, taken: 0 }))
    }

    /// A server has these ports, on this node if it is on one.
    pub(crate) fn adopt(&self, uid: &str, node: Option<&str>, ports: &[Granted]) {
        self.lock().adopt(&self.range, uid, node, ports);
    }

    /// A server has these ports and no others: what it was granted beside them is free again.
    pub(crate) fn settle(&self, uid: &str, ports: &[Granted]) {
        self.rename(uid, uid, ports);
    }

    /// Grants further ports to a server, where its others are.
    pub(crate) fn grant_more(
        &self,
        uid: &str,
        wanted: &[PortRequest],
        now: Timestamp,
    ) -> Result<Vec<u16>, PortError> {
        let mut pools = self.lock();
        pools.end_asides(now);
        let node = pools.of_server.get(uid).cloned().unwrap_or_else(|| NO_NODE.to_owned());
        let unplaced = if node == NO_NODE { None } else { pools.nodes.get(NO_NODE).cloned() };
        let pool = pools.pool(&node, &self.range);
        let granted = pool.grant_beside(uid, wanted, unplaced.as_ref())?;
        pools.of_server.insert(uid.to_owned(), node);
        Ok(granted)
    }

    /// A server has these ports instead of others, which somebody who is no server seems to have.
    pub(crate) fn change(&self, uid: &str, has: &[Granted], had: &[Granted], now: Timestamp) {
        let mut pools = self.lock();
        let node = pools.of_server.get(uid).cloned();
        pools.release(uid);
        pools.adopt(&self.range, uid, node.as_deref(), has);
        let pool = pools.pool(node.as_deref().unwrap_or(NO_NODE), &self.range);
        let gone = had.iter().filter(|one| !has.contains(one));
        gone.for_each(|one| pool.set_aside(one.transport, one.port, saturating_add(now, ASIDE)));
        *pools.changes.entry(uid.to_owned()).or_default() += 1;
    }

    /// How often a server was given other ports.
    pub(crate) fn changes(&self, uid: &str) -> u32 {
        self.lock().changes.get(uid).copied().unwrap_or(0)
    }

    /// A server is gone, and its Pod with it: its ports are free again.
    pub(crate) fn release(&self, uid: &str) {
        let mut pools = self.lock();
        pools.release(uid);
        pools.changes.remove(uid);
    }

    /// A server that has these ports was called `from` until now. Nobody is granted one of them in between.
    pub(crate) fn rename(&self, from: &str, to: &str, ports: &[Granted]) {
        let mut pools = self.lock();
        let node = pools.of_server.get(from).cloned();
        pools.release(from);
        pools.adopt(&self.range, to, node.as_deref(), ports);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Pools> {
        self.pools.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pools {
    fn pool(&mut self, node: &str, range: &RangeInclusive<u16>) -> &mut PortPool {
        self.nodes.entry(node.to_owned()).or_insert_with(|| PortPool::new(range.clone()))
    }

    fn adopt(
        &mut self,
        range: &RangeInclusive<u16>,
        uid: &str,
        node: Option<&str>,
        ports: &[Granted],
    ) {
        let known = self.of_server.get(uid).cloned();
        let node = node.map(str::to_owned).or_else(|| known.clone());
        let node = node.unwrap_or_else(|| NO_NODE.to_owned());
        if known.as_ref().is_some_and(|known| *known != node) {
            self.release(uid);
        }
        if ports.is_empty() {
            return;
        }
        let pool = self.pool(&node, range);
        for granted in ports {
            if !pool.adopt(uid, granted.transport, granted.port) {
                tracing::warn!(uid, node, port = granted.port, "two servers have the same port");
            }
        }
        self.of_server.insert(uid.to_owned(), node);
    }

    fn end_asides(&mut self, now: Timestamp) {
        self.nodes.values_mut().for_each(|pool| pool.end_asides(now));
    }

    fn servers_on(&self, node: &str) -> usize {
        self.nodes.get(node).map_or(0, PortPool::servers)
    }

    fn release(&mut self, uid: &str) {
        if let Some(node) = self.of_server.remove(uid)
            && let Some(pool) = self.nodes.get_mut(&node)
        {
            pool.release(uid);
        }
    }
}

#[cfg(test)]
mod tests {
    use sojourn_core::game::port::{PortPolicy, Transport};

    use super::*;

    const UDP: PortRequest = PortRequest { transport: Transport::Udp, policy: PortPolicy::Dynamic };

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn nodes(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    // case: game A35, S56
    #[test]
    fn a_port_is_granted_once_on_each_node_and_beyond_only_where_nodes_are_added() {
        let registry = PortRegistry::new(20_000..=20_001);
        let both = nodes(&["a", "b"]);
        let mut granted = Vec::new();
        for uid in ["1", "2", "3", "4"] {
            granted.extend(registry.grant(uid, &[UDP], &both, false, NOW).expect("free"));
        }
        granted.sort_unstable();
        assert_eq!(granted, [20_000, 20_000, 20_001, 20_001], "each once on each node");
        let full = registry.grant("5", &[UDP], &both, false, NOW).expect_err("nothing is free");
        assert_eq!(full, PortError::Exhausted { from: 20_000, to: 20_001, taken: 2 });
        registry.grant("5", &[UDP], &both, true, NOW).expect("a node comes for it");
        registry.release("1");
        registry.grant("6", &[UDP], &both, false, NOW).expect("what was released is free");
    }

    #[test]
    fn the_ports_of_a_server_whose_node_nobody_knows_are_free_nowhere() {
        let registry = PortRegistry::new(20_000..=20_001);
        let has = [Granted { transport: Transport::Udp, port: 20_000 }];
        registry.adopt("1", None, &has);
        let ports = registry.grant("2", &[UDP], &nodes(&["a"]), false, NOW).expect("one is free");
        assert_eq!(ports, [20_001]);
        registry.grant("3", &[UDP], &nodes(&["a"]), false, NOW).expect_err("it may come there");
        registry.adopt("1", Some("b"), &has);
        registry.grant("3", &[UDP], &nodes(&["a"]), false, NOW).expect("it came to another");
    }

    #[test]
    fn a_server_keeps_what_it_is_known_to_have_and_nothing_beside() {
        let registry = PortRegistry::new(20_000..=20_001);
        let node = nodes(&["a"]);
        registry.grant("1", &[UDP; 2], &node, false, NOW).expect("two are free");
        let has = [Granted { transport: Transport::Udp, port: 20_001 }];
        registry.settle("1", &has);
        assert_eq!(registry.grant("2", &[UDP], &node, false, NOW), Ok(vec![20_000]));
        registry.grant("3", &[UDP], &node, false, NOW).expect_err("the other one is still its own");
    }

    #[test]
    fn ports_that_somebody_else_has_are_changed_for_others_and_come_back_after_a_while() {
        let registry = PortRegistry::new(20_000..=20_001);
        let node = nodes(&["a"]);
        let granted = |port| [Granted { transport: Transport::Udp, port }];
        registry.grant("1", &[UDP], &node, false, NOW).expect("free");
        assert_eq!(registry.grant_more("1", &[UDP], NOW), Ok(vec![20_001]));
        registry.change("1", &granted(20_001), &granted(20_000), NOW);
        assert_eq!(registry.changes("1"), 1);
        registry.grant("2", &[UDP], &node, false, NOW).expect_err("nobody of ours has the other");
        let later = saturating_add(NOW, ASIDE);
        assert_eq!(registry.grant("2", &[UDP], &node, false, later), Ok(vec![20_000]));
        registry.release("1");
        assert_eq!(registry.changes("1"), 0);
    }

    #[test]
    fn a_server_that_comes_to_another_node_has_its_port_there() {
        let registry = PortRegistry::new(20_000..=20_000);
        let port = registry.grant("1", &[UDP], &nodes(&["a"]), false, NOW).expect("free")[0];
        let has = [Granted { transport: Transport::Udp, port }];
        registry.adopt("1", Some("b"), &has);
        registry.grant("2", &[UDP], &nodes(&["a"]), false, NOW).expect("it left this node");
        registry.grant("3", &[UDP], &nodes(&["b"]), false, NOW).expect_err("it is there");
        registry.rename("2", "2b", &has);
        registry.release("2");
        registry.grant("4", &[UDP], &nodes(&["a"]), false, NOW).expect_err("it has another name");
    }
}
