//! Which ports of a node are whose: one pool for each node, keyed by protocol and number. A port is granted once, and
//! released by whom it was granted to.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use jiff::Timestamp;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    Tcp,
    Udp,
}

/// What a port is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    Tcp,
    Udp,
    /// The same number for both.
    TcpUdp,
}

impl Transport {
    pub const fn protocols(self) -> &'static [Protocol] {
        match self {
            Self::Tcp => &[Protocol::Tcp],
            Self::Udp => &[Protocol::Udp],
            Self::TcpUdp => &[Protocol::Tcp, Protocol::Udp],
        }
    }
}

/// How a port of the node is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortPolicy {
    /// Any that is free.
    Dynamic,
    /// The one that is named; it may be outside of the pool.
    Static(u16),
    /// Any that is free, and the container listens on the same.
    Passthrough,
}

/// One port that a server wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortRequest {
    pub transport: Transport,
    pub policy: PortPolicy,
}

/// Why ports could not be granted. Nothing was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PortError {
    #[error("no port from {from} to {to} is free on the node, of {taken} that are taken")]
    Exhausted { from: u16, to: u16, taken: usize },
    #[error("port {port} of the node is another server's")]
    Taken { port: u16 },
}

/// The ports of one node.
#[derive(Debug, Clone)]
pub struct PortPool {
    range: RangeInclusive<u16>,
    owners: BTreeMap<(Protocol, u16), String>,
    /// The same, by server.
    granted: BTreeMap<String, Vec<(Protocol, u16)>>,
    /// Those that somebody who is no server has, and until when that is believed.
    aside: BTreeMap<(Protocol, u16), Timestamp>,
    /// Where to look next: what was released rests for as long as others are free.
    next: u16,
}

impl PortPool {
    pub fn new(range: RangeInclusive<u16>) -> Self {
        let next = *range.start();
        Self {
            range,
            owners: BTreeMap::new(),
            granted: BTreeMap::new(),
            aside: BTreeMap::new(),
            next,
        }
    }

    /// Grants all of them to one server, or none.
    pub fn grant(&mut self, owner: &str, wanted: &[PortRequest]) -> Result<Vec<u16>, PortError> {
        self.grant_beside(owner, wanted, None)
    }

    /// The same, and nothing that somebody has in another pool.
    pub fn grant_beside(
        &mut self,
        owner: &str,
        wanted: &[PortRequest],
        other: Option<&Self>,
    ) -> Result<Vec<u16>, PortError> {
        let mut granted = Vec::with_capacity(wanted.len());
        for request in wanted {
            let found = match request.policy {
                PortPolicy::Dynamic | PortPolicy::Passthrough => {
                    self.find(request.transport, other)
                }
                PortPolicy::Static(port) if self.is_free(request.transport, port, other) => {
                    Ok(port)
                }
                PortPolicy::Static(port) => Err(PortError::Taken { port }),
            };
            match found {
                Ok(port) => {
                    self.take(owner, request.transport, port);
                    granted.push(port);
                }
                Err(error) => {
                    for (request, port) in wanted.iter().zip(&granted) {
                        self.free(owner, request.transport, *port);
                    }
                    return Err(error);
                }
            }
        }
        Ok(granted)
    }

    /// A server is known to have a port, after a restart. Whoever was known first keeps it: answers whether it is this
    /// server's.
    pub fn adopt(&mut self, owner: &str, transport: Transport, port: u16) -> bool {
        let is_theirs = |pool: &Self, protocol: &Protocol| {
            pool.owners.get(&(*protocol, port)).is_none_or(|known| known == owner)
        };
        let all = transport.protocols().iter().all(|protocol| is_theirs(self, protocol));
        if all {
            self.take(owner, transport, port);
        }
        all
    }

    /// The ports of a server are free again, and nobody else's.
    pub fn release(&mut self, owner: &str) {
        for port in self.granted.remove(owner).unwrap_or_default() {
            self.owners.remove(&port);
        }
    }

    /// Somebody who is no server seems to have a port: until then it is granted to nobody.
    pub fn set_aside(&mut self, transport: Transport, port: u16, until: Timestamp) {
        for protocol in transport.protocols() {
            self.aside.insert((*protocol, port), until);
        }
    }

    /// Ports that were set aside are granted again when their time is over.
    pub fn end_asides(&mut self, now: Timestamp) {
        self.aside.retain(|_, until| *until > now);
    }

    /// How many servers have ports here.
    pub fn servers(&self) -> usize {
        self.granted.len()
    }

    pub fn owner(&self, protocol: Protocol, port: u16) -> Option<&str> {
        self.owners.get(&(protocol, port)).map(String::as_str)
    }

    fn is_free(&self, transport: Transport, port: u16, other: Option<&Self>) -> bool {
        let mut pools = [Some(self), other].into_iter().flatten();
        let protocols = transport.protocols();
        pools.all(|pool| {
            protocols.iter().all(|protocol| {
                let key = (*protocol, port);
                !pool.owners.contains_key(&key) && !pool.aside.contains_key(&key)
            })
        })
    }

    fn find(&mut self, transport: Transport, other: Option<&Self>) -> Result<u16, PortError> {
        let (from, to) = (*self.range.start(), *self.range.end());
        let after = (self.next..=to).chain(from..self.next);
        let found = after.into_iter().find(|port| self.is_free(transport, *port, other));
        let Some(port) = found else {
            return Err(PortError::Exhausted {
                from,
                to,
                taken: self.owners.len() + self.aside.len(),
            });
        };
        self.next = if port >= to { from } else { port + 1 };
        Ok(port)
    }

    fn take(&mut self, owner: &str, transport: Transport, port: u16) {
        let granted = self.granted.entry(owner.to_owned()).or_default();
        for protocol in transport.protocols() {
            self.aside.remove(&(*protocol, port));
            if self.owners.insert((*protocol, port), owner.to_owned()).is_none() {
                granted.push((*protocol, port));
            }
        }
    }

    fn free(&mut self, owner: &str, transport: Transport, port: u16) {
        for protocol in transport.protocols() {
            self.owners.remove(&(*protocol, port));
        }
        if let Some(granted) = self.granted.get_mut(owner) {
            granted.retain(|(_, granted)| *granted != port);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const UDP: PortRequest = PortRequest { transport: Transport::Udp, policy: PortPolicy::Dynamic };

    // case: game S56, S57, S59
    #[test]
    fn every_port_is_granted_once_and_comes_back_when_its_server_goes() {
        let mut pool = PortPool::new(20_000..=20_010);
        let first = pool.grant("a", &[UDP; 4]).expect("four are free");
        let second = pool.grant("b", &[UDP; 7]).expect("seven are free");
        let all: BTreeSet<u16> = first.iter().chain(&second).copied().collect();
        assert_eq!(all.len(), 11);
        let full = PortError::Exhausted { from: 20_000, to: 20_010, taken: 11 };
        assert_eq!(pool.grant("c", &[UDP]), Err(full));
        pool.release("nobody");
        pool.release("a");
        let again: BTreeSet<u16> = pool.grant("c", &[UDP; 4]).expect("free").into_iter().collect();
        assert_eq!(again, first.into_iter().collect());
        assert!(second.iter().all(|port| pool.owner(Protocol::Udp, *port) == Some("b")));
    }

    #[test]
    fn a_port_that_is_set_aside_is_nobodys_until_its_time_is_over() {
        let at = |seconds| Timestamp::from_second(seconds).expect("in range");
        let mut pool = PortPool::new(20_000..=20_001);
        pool.set_aside(Transport::Udp, 20_000, at(300));
        assert_eq!(pool.grant("a", &[UDP]), Ok(vec![20_001]));
        let full = PortError::Exhausted { from: 20_000, to: 20_001, taken: 2 };
        assert_eq!(pool.grant("b", &[UDP]), Err(full));
        let fixed = PortRequest { policy: PortPolicy::Static(20_000), ..UDP };
        assert_eq!(pool.grant("b", &[fixed]), Err(PortError::Taken { port: 20_000 }));
        pool.end_asides(at(299));
        pool.grant("b", &[UDP]).expect_err("it is believed still");
        pool.end_asides(at(300));
        assert_eq!(pool.grant("b", &[UDP]), Ok(vec![20_000]));
    }

    // case: game S60, A02, A38
    #[test]
    fn what_cannot_be_granted_whole_is_not_granted_at_all() {
        let mut pool = PortPool::new(20_000..=20_001);
        let taken = PortRequest { policy: PortPolicy::Static(7_777), ..UDP };
        pool.grant("a", &[taken]).expect("it is free");
        assert_eq!(pool.grant("b", &[UDP, taken]), Err(PortError::Taken { port: 7_777 }));
        assert_eq!(pool.grant("b", &[UDP, UDP]).map(|ports| ports.len()), Ok(2));
        assert_eq!(pool.owner(Protocol::Udp, 7_777), Some("a"));
    }

    // case: game A36
    #[test]
    fn one_number_serves_both_protocols_and_each_alone() {
        let mut pool = PortPool::new(20_000..=20_001);
        let both = PortRequest { transport: Transport::TcpUdp, ..UDP };
        let tcp = PortRequest { transport: Transport::Tcp, ..UDP };
        let shared = pool.grant("a", &[both]).expect("free")[0];
        assert_eq!(pool.owner(Protocol::Tcp, shared), Some("a"));
        assert_eq!(pool.owner(Protocol::Udp, shared), Some("a"));
        let udp = pool.grant("b", &[UDP]).expect("free")[0];
        assert_eq!(pool.grant("c", &[tcp]), Ok(vec![udp]), "the other protocol's is free");
        assert!(pool.grant("d", &[both]).is_err());
    }

    #[test]
    fn after_a_restart_whoever_has_a_port_keeps_it() {
        let mut pool = PortPool::new(20_000..=20_002);
        assert!(pool.adopt("a", Transport::Udp, 20_001));
        assert!(pool.adopt("a", Transport::Udp, 20_001), "the same again");
        assert!(!pool.adopt("b", Transport::TcpUdp, 20_001));
        assert_eq!(pool.owner(Protocol::Tcp, 20_001), None, "not even half of it");
        assert_eq!(pool.grant("b", &[UDP; 2]), Ok(vec![20_000, 20_002]));
    }
}
