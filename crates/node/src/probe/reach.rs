//! Where probes and hooks may connect to: the Pod's own ports on this machine, and nothing else.
//!
//! A node can reach much that whoever creates Pods cannot. If a probe could name any host and any
//! port, its result would tell what listens there, and a hook could send requests to it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use k8s_openapi::api::core::v1::{Container, ContainerPort, Pod};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// Why a probe or hook may not connect to what it names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ReachError {
    #[error("couldn't find port: {port:?} in the ports of container {container:?}")]
    NoSuchName { container: String, port: String },
    #[error(
        "port {0} is not one of the Pod's own TCP ports, and probes and hooks may connect only to \
         these; declare it as a containerPort"
    )]
    NotOwn(i64),
    #[error(
        "host {0:?} is not the Pod's own: probes and hooks may connect only to the Pod's address \
         and to localhost"
    )]
    ForeignHost(String),
}

/// The TCP ports of a Pod, and which ports of this machine they are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PodPorts(Vec<Port>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Port {
    container: String,
    name: Option<String>,
    declared: u16,
    actual: u16,
}

impl PodPorts {
    /// The ports that a Pod declares; `actual` tells which port of this machine a container's port
    /// has become. Ports of other protocols are left out: a TCP port of the same number may be
    /// somebody else's.
    pub(crate) fn of(
        pod: &Pod,
        actual: impl Fn(&Container, &ContainerPort) -> Option<u16>,
    ) -> Self {
        let Some(spec) = &pod.spec else { return Self::default() };
        let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
        let ports = containers.flat_map(|container| {
            container.ports.iter().flatten().filter_map(|port| {
                if !matches!(port.protocol.as_deref(), None | Some("" | "TCP")) {
                    return None;
                }
                Some(Port {
                    container: container.name.clone(),
                    name: port.name.clone().filter(|name| !name.is_empty()),
                    declared: u16::try_from(port.container_port).ok()?,
                    actual: actual(container, port)?,
                })
            })
        });
        Self(ports.collect())
    }

    /// The port of this machine that is meant. A name is looked up in the container's own ports, as
    /// in Kubernetes; a number may be any of the Pod's, as its containers share their addresses.
    fn resolve(&self, container: &str, port: &IntOrString) -> Result<u16, ReachError> {
        let number = match port {
            IntOrString::Int(number) => i64::from(*number),
            IntOrString::String(name) => {
                let own = self.0.iter().filter(|port| port.container == container);
                let named = own.clone().find(|port| port.name.as_deref() == Some(name));
                if let Some(port) = named {
                    return Ok(port.actual);
                }
                name.parse().map_err(|_| ReachError::NoSuchName {
                    container: container.to_owned(),
                    port: name.clone(),
                })?
            }
        };
        let declared = |port: &&Port| i64::from(port.declared) == number;
        let all = || self.0.iter();
        all()
            .filter(|port| port.container == container)
            .find(declared)
            .or_else(|| all().find(declared))
            .or_else(|| all().find(|port| i64::from(port.actual) == number))
            .map(|port| port.actual)
            .ok_or(ReachError::NotOwn(number))
    }

    /// The address that is meant by a probe's or hook's `host` and `port`.
    pub(super) fn address(
        &self,
        pod_ip: IpAddr,
        container: &str,
        host: Option<&str>,
        port: &IntOrString,
    ) -> Result<SocketAddr, ReachError> {
        let port = self.resolve(container, port)?;
        let host = host.unwrap_or_default();
        let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
        let ip = match bare.parse::<IpAddr>() {
            Ok(ip) => ip,
            Err(_) if host.is_empty() => pod_ip,
            Err(_) if host.eq_ignore_ascii_case("localhost") => Ipv4Addr::LOCALHOST.into(),
            Err(_) => return Err(ReachError::ForeignHost(host.to_owned())),
        };
        if ip != pod_ip && ip != Ipv4Addr::LOCALHOST && ip != Ipv6Addr::LOCALHOST {
            return Err(ReachError::ForeignHost(host.to_owned()));
        }
        Ok(SocketAddr::new(ip, port))
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::PodSpec;

    use super::*;

    fn container(name: &str, ports: &[(&str, i32, &str)]) -> Container {
        let port = |(name, number, protocol): &(&str, i32, &str)| ContainerPort {
            name: (!name.is_empty()).then(|| (*name).to_owned()),
            container_port: *number,
            protocol: (!protocol.is_empty()).then(|| (*protocol).to_owned()),
            ..ContainerPort::default()
        };
        Container {
            name: name.to_owned(),
            ports: Some(ports.iter().map(port).collect()),
            ..Container::default()
        }
    }

    fn ports() -> PodPorts {
        let web = container("web", &[("http", 8080, ""), ("dns", 53, "UDP"), ("", 9000, "TCP")]);
        let side = container("side", &[("http", 8080, "TCP"), ("admin", 8081, ""), ("x", 7, "")]);
        let pod = Pod {
            spec: Some(PodSpec { containers: vec![web, side], ..PodSpec::default() }),
            ..Pod::default()
        };
        let actual = |container: &Container, port: &ContainerPort| {
            let base = if container.name == "web" { 20_000 } else { 21_000 };
            // One that has not been drawn.
            (port.container_port != 7)
                .then(|| base + u16::try_from(port.container_port % 1000).unwrap())
        };
        PodPorts::of(&pod, actual)
    }

    #[test]
    fn ports_are_the_pods_own() {
        let text = |text: &str| IntOrString::String(text.to_owned());
        let int = IntOrString::Int;
        let no_such = |port: &str| {
            Err(ReachError::NoSuchName { container: "web".to_owned(), port: port.to_owned() })
        };
        let cases = [
            (text("http"), Ok(20_080)),
            (int(8080), Ok(20_080)),
            (text("8080"), Ok(20_080)),
            (int(9000), Ok(20_000)),
            // Of another container: by number only.
            (int(8081), Ok(21_081)),
            (text("admin"), no_such("admin")),
            // As it is on this machine.
            (int(21_081), Ok(21_081)),
            (int(53), Err(ReachError::NotOwn(53))),
            (text("dns"), no_such("dns")),
            (int(7), Err(ReachError::NotOwn(7))),
            (int(22), Err(ReachError::NotOwn(22))),
            (text("22"), Err(ReachError::NotOwn(22))),
            (int(0), Err(ReachError::NotOwn(0))),
            (int(-1), Err(ReachError::NotOwn(-1))),
            (int(8080 + 65_536), Err(ReachError::NotOwn(73_616))),
            (text(""), no_such("")),
        ];
        for (port, expected) in cases {
            assert_eq!(ports().resolve("web", &port), expected, "{port:?}");
        }
    }

    #[test]
    fn hosts_are_the_pods_own() {
        let pod_ip = IpAddr::from([192, 168, 0, 7]);
        let cases = [
            (None, Some("192.168.0.7:20080")),
            (Some(""), Some("192.168.0.7:20080")),
            (Some("192.168.0.7"), Some("192.168.0.7:20080")),
            (Some("localhost"), Some("127.0.0.1:20080")),
            (Some("LOCALHOST"), Some("127.0.0.1:20080")),
            (Some("127.0.0.1"), Some("127.0.0.1:20080")),
            (Some("::1"), Some("[::1]:20080")),
            (Some("[::1]"), Some("[::1]:20080")),
            (Some("127.0.0.53"), None),
            (Some("0.0.0.0"), None),
            (Some("192.168.0.1"), None),
            (Some("::ffff:10.0.0.1"), None),
            (Some("example.com"), None),
            (Some("localhost.example.com"), None),
            (Some("localhost:22/"), None),
            (Some("127.1"), None),
        ];
        for (host, expected) in cases {
            let port = IntOrString::Int(8080);
            let found = ports().address(pod_ip, "web", host, &port);
            let expected = expected.map(|address| address.parse().unwrap());
            assert_eq!(found.ok(), expected, "{host:?}");
        }
        let refused = ports().address(pod_ip, "web", Some("10.0.0.1"), &IntOrString::Int(8080));
        assert_eq!(
            refused.unwrap_err().to_string(),
            "host \"10.0.0.1\" is not the Pod's own: probes and hooks may connect only to the \
             Pod's address and to localhost"
        );
    }
}
