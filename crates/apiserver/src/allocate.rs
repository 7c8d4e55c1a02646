//! Allocation of what the server assigns when an object is written: cluster IPs and node ports of
//! Services.

use std::collections::{BTreeSet, HashMap};
use std::net::Ipv4Addr;
use std::sync::PoisonError;
use std::time::Duration;

use tokio::time::Instant;

use crate::engine::Shared;
use crate::field::FieldErrors;
use crate::json::Object;
use crate::kind::service::allocation;

/// The Service network is `10.0.0.0/24`; the first address is the API's own.
const SERVICE_NETWORK: [u8; 3] = [10, 0, 0];
const FIRST_HOST: u8 = 1;
const LAST_HOST: u8 = 254;
/// Where `default/kubernetes` is.
pub(crate) const API_ADDRESS: &str = "10.0.0.1";
const NODE_PORT_RANGE: std::ops::RangeInclusive<i64> = 30_000..=32_767;

impl Shared {
    /// Completes a new object (`old` is `None`) or a changed one.
    pub(crate) fn allocate(
        &self,
        kind: &str,
        object: &mut Object,
        old: Option<&Object>,
    ) -> Result<(), FieldErrors> {
        match (kind, old) {
            ("Service", old) => self.allocate_service(object, old),
            _ => Ok(()),
        }
    }
}

/// Addresses and ports that were allocated but may not be stored yet.
#[derive(Debug, Default)]
pub(crate) struct PendingAllocations {
    reserved: HashMap<Allocation, Instant>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Allocation {
    Address(String),
    Port(i64),
}

/// A write that takes longer than this has failed.
const PENDING_ALLOCATION_TIMEOUT: Duration = Duration::from_secs(60);

impl PendingAllocations {
    fn reserve(&mut self, what: Allocation) -> bool {
        let now = Instant::now();
        self.reserved.retain(|_, at| now.duration_since(*at) < PENDING_ALLOCATION_TIMEOUT);
        if self.reserved.contains_key(&what) {
            return false;
        }
        self.reserved.insert(what, now);
        true
    }
}

impl Shared {
    fn allocate_service(
        &self,
        service: &mut Object,
        old: Option<&Object>,
    ) -> Result<(), FieldErrors> {
        match old {
            None => allocation::begin_create(service)?,
            Some(old) => allocation::begin_update(service, old)?,
        }
        let (mut addresses, mut ports) = self.services_in_use();
        let mut pending = self.pending_allocations.lock().unwrap_or_else(PoisonError::into_inner);
        let held_address = old.and_then(allocation::cluster_ip).map(str::to_owned);
        if let Some(held) = &held_address {
            addresses.remove(held);
        }
        allocation::allocate_cluster_ip(service, |wanted| match wanted {
            Some(wanted) if Some(wanted) == held_address.as_deref() => Ok(wanted.to_owned()),
            Some(wanted) => reserve_address(&mut pending, &addresses, wanted),
            None => {
                next_address(&mut pending, &addresses).ok_or_else(|| "range is full".to_owned())
            }
        })?;
        let held = old.map(allocation::node_ports).unwrap_or_default();
        for port in &held {
            ports.remove(port);
        }
        allocation::allocate_node_ports(service, &held, |wanted| match wanted {
            Some(wanted) if !NODE_PORT_RANGE.contains(&wanted) => {
                let (low, high) = (NODE_PORT_RANGE.start(), NODE_PORT_RANGE.end());
                Err(format!(
                    "provided port is not in the valid range. The range of valid ports is {low}-{high}"
                ))
            }
            Some(wanted)
                if ports.contains(&wanted) || !pending.reserve(Allocation::Port(wanted)) =>
            {
                Err("provided port is already allocated".to_owned())
            }
            Some(wanted) => Ok(wanted),
            None => NODE_PORT_RANGE
                .into_iter()
                .find(|port| !ports.contains(port) && pending.reserve(Allocation::Port(*port)))
                .ok_or_else(|| "range is full".to_owned()),
        })
    }

    /// What the stored Services hold.
    fn services_in_use(&self) -> (BTreeSet<String>, BTreeSet<i64>) {
        let (mut addresses, mut ports) = (BTreeSet::new(), BTreeSet::new());
        let Ok(table) = self.store.table("", "services") else { return (addresses, ports) };
        for stored in table.snapshot().0.values() {
            let service = stored.to_value();
            addresses.extend(allocation::cluster_ip(&service).map(str::to_owned));
            ports.extend(allocation::node_ports(&service));
        }
        (addresses, ports)
    }
}

fn reserve_address(
    pending: &mut PendingAllocations,
    used: &BTreeSet<String>,
    wanted: &str,
) -> Result<String, String> {
    let in_range = wanted.parse::<Ipv4Addr>().is_ok_and(|ip| {
        let [a, b, c, host] = ip.octets();
        [a, b, c] == SERVICE_NETWORK && (FIRST_HOST..=LAST_HOST).contains(&host)
    });
    if !in_range {
        return Err("the provided network does not match the current range".to_owned());
    }
    if used.contains(wanted) || !pending.reserve(Allocation::Address(wanted.to_owned())) {
        return Err("provided IP is already allocated".to_owned());
    }
    Ok(wanted.to_owned())
}

fn next_address(pending: &mut PendingAllocations, used: &BTreeSet<String>) -> Option<String> {
    let [a, b, c] = SERVICE_NETWORK;
    (FIRST_HOST + 1..=LAST_HOST)
        .map(|host| Ipv4Addr::new(a, b, c, host).to_string())
        .find(|ip| !used.contains(ip) && pending.reserve(Allocation::Address(ip.clone())))
}
