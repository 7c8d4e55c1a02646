//! Ports: what is asked for, and what was granted.

use sojourn_core::game::port::{self, PortRequest, Transport};

use crate::game::port::{GamePort, PortPolicy, PortProtocol};

/// The ports of a server: those that are written out, and those that are only exposed.
pub fn all_ports(ports: &[GamePort], to_expose: &[i32]) -> Vec<GamePort> {
    let exposed = to_expose.iter().map(|port| GamePort {
        name: format!("port-{port}"),
        container_port: Some(*port),
        host_port: None,
        policy: PortPolicy::Dynamic,
        protocol: PortProtocol::TCPUDP,
    });
    ports.iter().cloned().chain(exposed).collect()
}

/// What is asked of a node for them.
pub fn port_requests(ports: &[GamePort]) -> Vec<PortRequest> {
    let request = |port: &GamePort| PortRequest {
        transport: transport(port.protocol),
        policy: match (port.policy, number(port.host_port)) {
            (PortPolicy::Static, Some(number)) => port::PortPolicy::Static(number),
            (PortPolicy::Passthrough, _) => port::PortPolicy::Passthrough,
            (PortPolicy::Static | PortPolicy::Dynamic, _) => port::PortPolicy::Dynamic,
        },
    };
    ports.iter().map(request).collect()
}

/// One port that a server has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Granted {
    pub transport: Transport,
    pub port: u16,
}

impl Granted {
    /// What a server has been granted so far; nothing, if something is missing.
    pub fn of(ports: &[GamePort]) -> Option<Vec<Self>> {
        ports.iter().map(Self::of_port).collect()
    }

    /// The same of one port.
    pub fn of_port(port: &GamePort) -> Option<Self> {
        let number = number(port.host_port)?;
        Some(Self { transport: transport(port.protocol), port: number })
    }
}

/// The same ports with what was granted, in their order.
pub fn with_granted(ports: &[GamePort], granted: &[u16]) -> Vec<GamePort> {
    let both = ports.iter().zip(granted);
    both.map(|(port, number)| GamePort { host_port: Some(i32::from(*number)), ..port.clone() })
        .collect()
}

const fn transport(protocol: PortProtocol) -> Transport {
    match protocol {
        PortProtocol::TCP => Transport::Tcp,
        PortProtocol::UDP => Transport::Udp,
        PortProtocol::TCPUDP => Transport::TcpUdp,
    }
}

fn number(port: Option<i32>) -> Option<u16> {
    port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0)
}
