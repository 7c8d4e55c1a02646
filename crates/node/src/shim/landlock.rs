//! What Landlock holds a Pod's processes to, and all that come from them, for ever.
//!
//! - Abstract sockets belong to the network namespace, which a Pod may share with the machine, and
//!   many a service trusts whoever has its own uid: only those of the Pod itself can be reached.
//! - TCP ports, where the Pod shares the machine's network. Rules are about ports, whatever the
//!   address: so a Pod listens only at ports that are its own, and connects only to ports that were
//!   allowed. Port 0 stands for those that the kernel picks itself, at which everybody may listen: no
//!   Pod is given one of these. UDP is not held.
//!
//! What there is of it depends on the kernel; what is too new for it is left out.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use landlock::{
    AccessNet, BitFlags, NetPort, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, RulesetError,
    Scope,
};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};

use crate::shim::protocol::TcpPorts;

/// Whichever the kernel picks.
const ANY_FREE: u16 = 0;
/// One of these is tried to see whether the rules hold. The ports below are refused to ordinary users
/// in any case.
const TRIED_PORTS: std::ops::Range<u16> = 1024..u16::MAX;

/// What is held of TCP, and by port what may be done with it nevertheless.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PortRules {
    held: BitFlags<AccessNet>,
    allowed: BTreeMap<u16, BitFlags<AccessNet>>,
}

fn port_rules(ports: &TcpPorts) -> PortRules {
    let mut rules = PortRules { held: AccessNet::BindTcp.into(), allowed: BTreeMap::new() };
    for port in ports.listen.iter().copied().chain([ANY_FREE]) {
        *rules.allowed.entry(port).or_default() |= AccessNet::BindTcp;
    }
    if let Some(connect) = &ports.connect {
        rules.held |= AccessNet::ConnectTcp;
        for port in connect {
            *rules.allowed.entry(*port).or_default() |= AccessNet::ConnectTcp;
        }
    }
    rules
}

/// Holds this process to what this kernel can hold it to. It has renounced new privileges.
pub(super) fn restrict(ports: Option<&TcpPorts>) -> io::Result<()> {
    let apply = || -> Result<(), RulesetError> {
        let ruleset = Ruleset::default().scope(Scope::AbstractUnixSocket)?;
        match ports.map(port_rules) {
            None => ruleset.create()?.restrict_self()?,
            Some(PortRules { held, allowed }) => {
                let rules = allowed
                    .into_iter()
                    .map(|(port, access)| Ok::<_, RulesetError>(NetPort::new(port, access)));
                ruleset.handle_access(held)?.create()?.add_rules(rules)?.restrict_self()?
            }
        };
        Ok(())
    };
    apply().map_err(io::Error::other)
}

/// Whether this process is held to these ports, by trying to have another.
pub(super) fn is_held_to(ports: &TcpPorts) -> bool {
    let other = |port: &u16| !ports.listen.contains(port);
    let flags = SocketFlags::CLOEXEC;
    let Some(port) = TRIED_PORTS.rev().find(other) else { return false };
    let Ok(socket) = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None) else {
        return false;
    };
    bind(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, port))) == Err(Errno::ACCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports(connect: Option<&[u16]>) -> TcpPorts {
        TcpPorts { listen: vec![8080, 20_001], connect: connect.map(Into::into) }
    }

    #[test]
    fn listening_and_connecting_are_held_by_themselves() {
        let (listen, connect) =
            (BitFlags::from(AccessNet::BindTcp), BitFlags::from(AccessNet::ConnectTcp));
        let listening = [(0, listen), (8080, listen), (20_001, listen)];
        let rules = port_rules(&ports(None));
        assert_eq!(rules, PortRules { held: listen, allowed: listening.into() });
        let rules = port_rules(&ports(Some(&[443, 8080])));
        let both = listen | connect;
        let all = [(0, listen), (443, connect), (8080, both), (20_001, listen)];
        assert_eq!(rules, PortRules { held: both, allowed: all.into() });
        let nothing = TcpPorts { listen: Vec::new(), connect: Some(Vec::new()) };
        let rules = port_rules(&nothing);
        assert_eq!(rules, PortRules { held: both, allowed: [(0, listen)].into() });
    }
}
