//! The ports of the machine that Pods have. A Pod with a network of its own has those that it asks
//! for by `hostPort`, and listens on its own ports itself. Where Pods share the machine's network,
//! each of their ports is one of the machine: the `hostPort`, or one that is drawn.
//!
//! A port is a number and a protocol: TCP 20000 and UDP 20000 are two, and may be two Pods'. A drawn
//! port lies outside the range that the kernel gives to outgoing connections, is found free
//! by binding it, belongs to one Pod at a time, and rests for a while after its Pod is gone, so
//! that a late client of the old Pod does not reach a new one. Bookkeeping only: what time it is and
//! whether a port is free comes from outside ([`is_free`]), and what a Pod has is kept in its folder
//! ([`record`]).

mod map;
mod range;
pub(crate) mod record;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, UdpSocket};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, ContainerPort, Pod};
use serde::{Deserialize, Serialize};

use crate::shim::protocol::{Reachable, TcpPorts};

pub(crate) use map::PortMap;
pub(crate) use range::{PortRange, RangeError};

/// The annotation that says which ports a Pod has, as JSON by name.
pub(crate) const ANNOTATION: &str = "sojourn.dev/ports";

/// Why a Pod fails whose `hostPort` somebody else on this machine has: a kubelet's word for a Pod that
/// cannot have its ports.
pub(crate) const TAKEN_REASON: &str = "NodePorts";

/// How long a port rests after its Pod: longer than connections linger in TIME_WAIT.
pub(crate) const REUSE_DELAY: Duration = Duration::from_secs(120);

/// The most ports of one Pod: so one Pod cannot take a whole range.
const MAX_PORTS_PER_POD: usize = 100;

/// How many candidates are tried by binding before the range counts as full: each costs a system
/// call, and where hundreds in a row are taken by others the next ones are too.
const MAX_BIND_ATTEMPTS: usize = 1_000;

/// What Pods may connect to in the machine's network, at whatever address: names and the web.
const COMMON: [u16; 3] = [53, 80, 443];

/// The TCP ports that a Pod in the machine's network is held to: it listens at its own, and connects
/// to its own, to those for names and the web, and to what is stated. Only ports can be told apart
/// there, so one that is stated is allowed at every address; where an address is stated with all of its
/// ports, all are allowed at all.
pub(crate) fn allowed_tcp_ports(own: &[u16], stated: &[Reachable], api: Option<u16>) -> TcpPorts {
    let stated: Option<Vec<u16>> = stated.iter().map(|one| one.port).collect();
    let connect = stated.map(|stated| {
        let all = own.iter().copied().chain(COMMON).chain(stated).chain(api);
        all.collect::<BTreeSet<u16>>().into_iter().collect()
    });
    TcpPorts { listen: own.to_vec(), connect }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum Protocol {
    Tcp,
    Udp,
}

impl Protocol {
    const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

/// A port together with its protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct ProtocolPort {
    pub protocol: Protocol,
    pub port: u16,
}

impl ProtocolPort {
    pub(crate) const fn new(protocol: Protocol, port: u16) -> Self {
        Self { protocol, port }
    }
}

impl fmt::Display for ProtocolPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = match self.protocol {
            Protocol::Tcp => "TCP",
            Protocol::Udp => "UDP",
        };
        write!(f, "{}/{protocol}", self.port)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PortError {
    #[error(
        "port {port} of container {container:?} has protocol {protocol}; there are TCP and UDP"
    )]
    Protocol { container: String, port: i32, protocol: String },
    #[error("container {container:?} asks for port {port}, which is none")]
    NoPort { container: String, port: i32 },
    #[error("the Pod asks for more than {MAX_PORTS_PER_POD} ports")]
    TooMany,
    #[error("hostPort {0} belongs to another Pod")]
    Held(ProtocolPort),
    #[error("hostPort {0} is in use on this machine")]
    InUse(ProtocolPort),
    #[error("no port is free between {first} and {last}")]
    Exhausted { first: u16, last: u16 },
}

/// A port that a Pod needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PortRequest {
    /// What it is published as: its name, or its number if it has none.
    pub key: String,
    pub protocol: Protocol,
    /// The container's.
    pub port: u16,
    pub host_port: Option<u16>,
}

impl PortRequest {
    /// The port of the machine that it asks for by number.
    pub(crate) fn host(&self) -> Option<ProtocolPort> {
        self.host_port.map(|port| ProtocolPort::new(self.protocol, port))
    }
}

/// The ports that a Pod needs, in the order of its containers. Ports of different containers that
/// have the same name are one port if they have the same number too; else the later one is
/// published with the name of its container before it.
pub(crate) fn requests(pod: &Pod) -> Result<Vec<PortRequest>, PortError> {
    let mut asked: Vec<(i32, PortRequest)> = Vec::new();
    for (container, port) in ports(pod) {
        let declared = declared(container, port)?;
        let known = |key: &str| asked.iter().find(|(_, request)| request.key == key);
        let key = plain_key(port);
        let same = |(number, request): &(i32, PortRequest)| {
            *number == port.container_port
                && request.protocol == declared.protocol
                && request.host_port == declared.host_port
        };
        let key = match known(&key) {
            None => key,
            Some(other) if same(other) => continue,
            Some(_) => qualified_key(container, port, declared.protocol),
        };
        if known(&key).is_some() {
            continue;
        }
        if asked.len() == MAX_PORTS_PER_POD {
            return Err(PortError::TooMany);
        }
        asked.push((port.container_port, PortRequest { key, ..declared }));
    }
    Ok(asked.into_iter().map(|(_, request)| request).collect())
}

fn ports(pod: &Pod) -> impl Iterator<Item = (&Container, &ContainerPort)> {
    let spec = pod.spec.as_ref();
    let main = spec.into_iter().flat_map(|spec| &spec.containers);
    let init = spec.into_iter().flat_map(|spec| spec.init_containers.iter().flatten());
    main.chain(init)
        .flat_map(|container| container.ports.iter().flatten().map(move |port| (container, port)))
}

/// A port as its container declares it, not named yet.
fn declared(container: &Container, port: &ContainerPort) -> Result<PortRequest, PortError> {
    let protocol = match port.protocol.as_deref() {
        None | Some("" | "TCP") => Protocol::Tcp,
        Some("UDP") => Protocol::Udp,
        Some(other) => {
            return Err(PortError::Protocol {
                container: container.name.clone(),
                port: port.container_port,
                protocol: other.to_owned(),
            });
        }
    };
    let number = |port: i32| {
        u16::try_from(port)
            .ok()
            .filter(|port| *port > 0)
            .ok_or_else(|| PortError::NoPort { container: container.name.clone(), port })
    };
    let container_port = number(port.container_port)?;
    let host_port = port.host_port.filter(|port| *port != 0).map(number).transpose()?;
    Ok(PortRequest { key: String::new(), protocol, port: container_port, host_port })
}

fn plain_key(port: &ContainerPort) -> String {
    let name = port.name.as_deref().filter(|name| !name.is_empty());
    name.map_or_else(|| port.container_port.to_string(), str::to_owned)
}

/// Names of ports have no dot, so this is no other port's plain name.
fn qualified_key(container: &Container, port: &ContainerPort, protocol: Protocol) -> String {
    format!("{}.{}.{}", container.name, plain_key(port), protocol.name())
}

/// Which ports belong to whom on this machine.
#[derive(Debug)]
pub(crate) struct Ports {
    range: PortRange,
    pods: BTreeMap<String, PortMap>,
    /// The same by port.
    held: BTreeMap<ProtocolPort, String>,
    resting: BTreeMap<ProtocolPort, Timestamp>,
    /// Where the next search begins: a port that was just given back is the last to be tried again.
    next: usize,
}

impl Ports {
    /// `seed` is where in the range the first search begins. Nodes of one machine should have
    /// different ones, or each would draw what the other has drawn and not bound yet.
    pub(crate) fn new(range: PortRange, seed: u64) -> Self {
        let length = u64::try_from(range.len()).unwrap_or(1).max(1);
        let next = usize::try_from(seed % length).unwrap_or(0);
        let (pods, held, resting) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { range, pods, held, resting, next }
    }

    /// Gives a Pod the ports that it asks for, all or none. Asked again, the Pod keeps those that
    /// it has.
    pub(crate) fn draw(
        &mut self,
        uid: &str,
        requests: &[PortRequest],
        now: Timestamp,
        mut free: impl FnMut(ProtocolPort) -> bool,
    ) -> Result<PortMap, PortError> {
        self.resting.retain(|_, until| *until > now);
        let mut ports = self.pods.get(uid).cloned().unwrap_or_default();
        // What is asked for by number first, lest it be drawn for another.
        for request in requests {
            let Some(port) = request.host() else { continue };
            if ports.whole(&request.key) == Some(port) {
                continue;
            }
            if self.is_held_by_another(uid, port) {
                return Err(PortError::Held(port));
            }
            if !free(port) {
                return Err(PortError::InUse(port));
            }
            ports.insert(&request.key, port);
        }
        for request in requests.iter().filter(|request| request.host_port.is_none()) {
            if ports.get(&request.key).is_some() {
                continue;
            }
            let port = self.search(request.protocol, &ports, &mut free)?;
            ports.insert(&request.key, port);
        }
        self.restore(uid, &ports)?;
        Ok(ports)
    }

    /// A port that is nobody's, and not among those chosen for the same Pod.
    fn search(
        &mut self,
        protocol: Protocol,
        chosen: &PortMap,
        mut free: impl FnMut(ProtocolPort) -> bool,
    ) -> Result<ProtocolPort, PortError> {
        let mut tries = 0;
        for step in 0..self.range.len() {
            let at = (self.next + step) % self.range.len();
            let Some(port) = self.range.get(at) else { continue };
            let port = ProtocolPort::new(protocol, port);
            let is_ours = || chosen.all().any(|other| other == port);
            if self.held.contains_key(&port) || self.resting.contains_key(&port) || is_ours() {
                continue;
            }
            tries += 1;
            if tries > MAX_BIND_ATTEMPTS {
                break;
            }
            if free(port) {
                self.next = at + 1;
                return Ok(port);
            }
        }
        let (first, last) = self.range.bounds();
        Err(PortError::Exhausted { first, last })
    }

    fn is_held_by_another(&self, uid: &str, port: ProtocolPort) -> bool {
        self.held.get(&port).is_some_and(|holder| holder != uid)
    }

    /// Notes the ports of a Pod that was here before: all or none.
    pub(crate) fn restore(&mut self, uid: &str, ports: &PortMap) -> Result<(), PortError> {
        if let Some(port) = ports.all().find(|port| self.is_held_by_another(uid, *port)) {
            return Err(PortError::Held(port));
        }
        for port in ports.all() {
            self.resting.remove(&port);
            self.held.insert(port, uid.to_owned());
        }
        if !ports.is_empty() {
            self.pods.insert(uid.to_owned(), ports.clone());
        }
        Ok(())
    }

    /// Takes back the ports of a Pod that has ended. Those of the range rest; a `hostPort` may be
    /// asked for again at once, as in Kubernetes.
    pub(crate) fn release(&mut self, uid: &str, now: Timestamp) {
        let until = now.checked_add(REUSE_DELAY).unwrap_or(Timestamp::MAX);
        for port in self.pods.remove(uid).iter().flat_map(PortMap::all) {
            self.held.remove(&port);
            if self.range.contains(port.port) {
                self.resting.insert(port, until);
            }
        }
    }
}

/// Whether nobody on this machine listens at a port, at any address.
pub(crate) fn is_free(ProtocolPort { protocol, port }: ProtocolPort) -> bool {
    let (v4, v6) = ((Ipv4Addr::UNSPECIFIED, port), (Ipv6Addr::UNSPECIFIED, port));
    // One socket is closed before the next is made: where IPv6 covers IPv4 too they would collide.
    // A machine without IPv6 cannot say anything about it.
    match protocol {
        Protocol::Tcp => {
            TcpListener::bind(v4).is_ok() && !is_taken(TcpListener::bind(v6).map(drop))
        }
        Protocol::Udp => UdpSocket::bind(v4).is_ok() && !is_taken(UdpSocket::bind(v6).map(drop)),
    }
}

fn is_taken(bound: std::io::Result<()>) -> bool {
    bound.is_err_and(|error| error.kind() == std::io::ErrorKind::AddrInUse)
}

#[cfg(test)]
mod tests;
