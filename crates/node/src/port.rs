//! The ports of the machine that Pods have. A Pod with a network of its own has those that it asks
//! for by `hostPort`, and listens on its own ports itself. Where Pods share the machine's network,
//! each of their ports is one of the machine: the `hostPort`, or one that is drawn.
//!
//! A drawn port lies outside the range that the kernel gives to outgoing connections, is found free
//! by binding it, belongs to one Pod at a time, and rests for a while after its Pod is gone, so
//! that a late client of the old Pod does not reach a new one. Bookkeeping only: what time it is and
//! whether a port is free comes from outside ([`is_free`]).

mod range;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, UdpSocket};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, ContainerPort, Pod};

use crate::shim::protocol::{Reachable, TcpPorts};

pub(crate) use range::{PortRange, RangeError};

/// The annotation that says which ports a Pod has, as JSON by name.
pub(crate) const ANNOTATION: &str = "sojourn.dev/ports";

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

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
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
    Held(u16),
    #[error("hostPort {0} is in use on this machine")]
    InUse(u16),
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

/// The ports that a Pod has, by what they are published as.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PortMap(BTreeMap<String, u16>);

impl PortMap {
    /// From the annotation's text as the node itself kept it: the API's copy of an annotation is
    /// whatever somebody wrote there, and a Pod would get another's ports by it.
    pub(crate) fn parse(json: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(json).map(Self)
    }

    /// The annotation's text.
    pub(crate) fn json(&self) -> String {
        serde_json::Value::from_iter(self.0.iter().map(|(key, port)| (key.clone(), *port)))
            .to_string()
    }

    pub(crate) fn get(&self, key: &str) -> Option<u16> {
        self.0.get(key).copied()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, u16)> {
        self.0.iter().map(|(key, port)| (key.as_str(), *port))
    }

    /// The machine's port that a container's port has become.
    pub(crate) fn of(&self, container: &Container, port: &ContainerPort) -> Option<u16> {
        let protocol = declared(container, port).ok()?.protocol;
        let qualified = self.0.get(&qualified_key(container, port, protocol));
        qualified.or_else(|| self.0.get(&plain_key(port))).copied()
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

impl<K: Into<String>> FromIterator<(K, u16)> for PortMap {
    fn from_iter<I: IntoIterator<Item = (K, u16)>>(ports: I) -> Self {
        Self(ports.into_iter().map(|(key, port)| (key.into(), port)).collect())
    }
}

/// Which ports belong to whom on this machine.
///
/// A number belongs to one Pod whatever the protocol: simpler to read in a list, and there are
/// enough.
#[derive(Debug)]
pub(crate) struct Ports {
    range: PortRange,
    pods: BTreeMap<String, PortMap>,
    /// The same by port.
    held: BTreeMap<u16, String>,
    resting: BTreeMap<u16, Timestamp>,
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
        mut free: impl FnMut(u16, Protocol) -> bool,
    ) -> Result<PortMap, PortError> {
        self.resting.retain(|_, until| *until > now);
        let mut ports = self.pods.get(uid).cloned().unwrap_or_default();
        // What is asked for by number first, lest it be drawn for another.
        for request in requests {
            let Some(port) = request.host_port else { continue };
            if ports.0.get(&request.key) == Some(&port) {
                continue;
            }
            if self.held.get(&port).is_some_and(|holder| holder != uid) {
                return Err(PortError::Held(port));
            }
            if !free(port, request.protocol) {
                return Err(PortError::InUse(port));
            }
            ports.0.insert(request.key.clone(), port);
        }
        for request in requests.iter().filter(|request| request.host_port.is_none()) {
            if ports.0.contains_key(&request.key) {
                continue;
            }
            let port = self.search(&ports, |port| free(port, request.protocol))?;
            ports.0.insert(request.key.clone(), port);
        }
        self.restore(uid, &ports)?;
        Ok(ports)
    }

    /// A port that is nobody's, and not among those chosen for the same Pod.
    fn search(
        &mut self,
        chosen: &PortMap,
        mut free: impl FnMut(u16) -> bool,
    ) -> Result<u16, PortError> {
        let mut tries = 0;
        for step in 0..self.range.len() {
            let at = (self.next + step) % self.range.len();
            let Some(port) = self.range.get(at) else { continue };
            let ours = || chosen.iter().any(|(_, other)| other == port);
            if self.held.contains_key(&port) || self.resting.contains_key(&port) || ours() {
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

    /// Notes the ports of a Pod that is found running.
    pub(crate) fn restore(&mut self, uid: &str, ports: &PortMap) -> Result<(), PortError> {
        for (_, port) in ports.iter() {
            if self.held.get(&port).is_some_and(|holder| holder != uid) {
                return Err(PortError::Held(port));
            }
        }
        for (_, port) in ports.iter() {
            self.resting.remove(&port);
            self.held.insert(port, uid.to_owned());
        }
        if !ports.is_empty() {
            self.pods.insert(uid.to_owned(), ports.clone());
        }
        Ok(())
    }

    /// Takes back the ports of a Pod that is gone. Those of the range rest; a `hostPort` may be
    /// asked for again at once, as in Kubernetes.
    pub(crate) fn release(&mut self, uid: &str, now: Timestamp) {
        let until = now.checked_add(REUSE_DELAY).unwrap_or(Timestamp::MAX);
        for (_, port) in self.pods.remove(uid).iter().flat_map(PortMap::iter) {
            self.held.remove(&port);
            if self.range.contains(port) {
                self.resting.insert(port, until);
            }
        }
    }
}

/// Whether nobody on this machine listens at a port, at any address.
pub(crate) fn is_free(port: u16, protocol: Protocol) -> bool {
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
