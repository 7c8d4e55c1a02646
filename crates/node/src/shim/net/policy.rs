//! Where a Pod's connections may lead: out to other machines, and to what is stated; not back to
//! this machine, where other Pods are and services that trust whoever comes from here.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::RESOLVER;
use crate::shim::protocol::Reachable;

/// Where a connection is routed, or that it is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Route {
    To(SocketAddr),
    /// To whoever resolves names.
    Resolver,
    Refused,
}

/// Decides about a connection to `wanted`; `is_own` tells whether this machine has an address.
pub(super) fn route(
    wanted: SocketAddr,
    reachable: &[Reachable],
    is_own: impl Fn(IpAddr) -> bool,
) -> Route {
    if wanted == SocketAddr::from(RESOLVER) {
        return Route::Resolver;
    }
    let ip = unmapped(wanted.ip());
    let target = SocketAddr::new(ip, wanted.port());
    if target.port() == 0 || is_nowhere(ip) {
        return Route::Refused;
    }
    let own = ip.is_loopback() || is_own(ip);
    let stated = reachable.iter().any(|one| {
        let everywhere = one.ip.is_unspecified() && own;
        let there = everywhere || unmapped(one.ip) == ip;
        there && one.port.is_none_or(|port| port == target.port())
    });
    if stated || !own && !is_about_machines(effective_address(ip)) {
        Route::To(target)
    } else {
        Route::Refused
    }
}

/// The stated addresses that are the Pod's own inside its network, and so must be redirected.
pub(super) fn shadowed(reachable: &[Reachable]) -> Vec<(IpAddr, Option<u16>)> {
    let shadow = |one: &Reachable| {
        let ips = match unmapped(one.ip) {
            ip if ip.is_unspecified() => {
                vec![IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)]
            }
            ip if ip.is_loopback() => vec![ip],
            _ => Vec::new(),
        };
        ips.into_iter().map(|ip| (ip, one.port)).collect::<Vec<_>>()
    };
    reachable.iter().flat_map(shadow).collect()
}

/// An IPv4 address that is written as one of IPv6 is the IPv4 address.
fn unmapped(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V6(v6) if v6 != Ipv6Addr::LOCALHOST && !v6.is_unspecified() => {
            v6.to_ipv4().map_or(ip, IpAddr::V4)
        }
        _ => ip,
    }
}

/// Addresses that are nobody's, or everybody's.
fn is_nowhere(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.octets()[0] == 0 || ip.is_multicast() || ip.is_broadcast(),
        IpAddr::V6(ip) => ip.is_unspecified() || ip.is_multicast(),
    }
}

/// Where providers of machines answer what a machine is and whom it may act as, beside at link-local
/// addresses: whoever is asked there believes that the machine asks.
const METADATA: [IpAddr; 8] = [
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)), // Alibaba Cloud
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),   // Azure
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),     // Oracle Cloud
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)), // AWS
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23)), // AWS, credentials of Pods
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe)), // Oracle Cloud
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)), // Google Cloud
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42)), // Scaleway
];

/// Addresses of this wire alone, and those of metadata services: what machines say about themselves
/// is asked there.
fn is_about_machines(ip: IpAddr) -> bool {
    let is_near = match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    is_near || METADATA.contains(&ip)
}

/// The address that packets end at: behind NAT64 it is one of IPv4.
fn effective_address(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V6(v6) if v6.segments()[..6] == [0x64, 0xff9b, 0, 0, 0, 0] => {
            let [.., a, b, c, d] = v6.octets();
            IpAddr::V4(Ipv4Addr::new(a, b, c, d))
        }
        _ => ip,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reachable(ip: &str, port: Option<u16>) -> Reachable {
        Reachable { ip: ip.parse().unwrap(), port }
    }

    #[test]
    fn connections_lead_out_and_not_back() {
        let stated = [
            reachable("127.0.0.1", Some(7443)),
            reachable("127.0.0.2", None),
            reachable("0.0.0.0", Some(7080)),
            reachable("169.254.7.7", Some(80)),
        ];
        let is_own = |ip: IpAddr| ip == "192.0.2.1".parse::<IpAddr>().unwrap();
        let refused = [
            "127.0.0.1:80",
            "127.0.0.1:7444",
            "127.0.0.3:7443",
            "127.255.255.255:1",
            "0.0.0.0:80",
            "0.1.2.3:80",
            "192.0.2.1:22",
            "169.254.169.254:80",
            "169.254.7.7:81",
            "224.0.0.1:80",
            "255.255.255.255:80",
            "93.184.216.34:0",
            "[::1]:80",
            "[::]:80",
            "[fe80::1]:80",
            "[ff02::1]:80",
            "[::ffff:127.0.0.1]:80",
            "[::ffff:192.0.2.1]:22",
            "[::ffff:169.254.169.254]:80",
            "[::127.0.0.1]:80",
            "[::ffff:0.0.0.0]:80",
            "100.100.100.200:80",
            "168.63.129.16:80",
            "168.63.129.16:32526",
            "192.0.0.192:80",
            "[::ffff:100.100.100.200]:80",
            "[fd00:ec2::254]:80",
            "[fd00:ec2::23]:80",
            "[fd00:c1::a9fe:a9fe]:80",
            "[fd20:ce::254]:80",
            "[fd00:42::42]:80",
            "[64:ff9b::169.254.169.254]:80",
            "[64:ff9b::100.100.100.200]:80",
        ];
        for address in refused {
            let route = route(address.parse().unwrap(), &stated, is_own);
            assert_eq!(route, Route::Refused, "{address}");
        }
        let taken = [
            ("93.184.216.34:443", "93.184.216.34:443"),
            ("10.1.2.3:443", "10.1.2.3:443"),
            ("[2001:db8::1]:443", "[2001:db8::1]:443"),
            ("[::ffff:93.184.216.34]:443", "93.184.216.34:443"),
            ("127.0.0.1:7443", "127.0.0.1:7443"),
            ("[::ffff:127.0.0.1]:7443", "127.0.0.1:7443"),
            ("127.0.0.2:9", "127.0.0.2:9"),
            ("127.0.0.1:7080", "127.0.0.1:7080"),
            ("[::1]:7080", "[::1]:7080"),
            ("192.0.2.1:7080", "192.0.2.1:7080"),
            ("169.254.7.7:80", "169.254.7.7:80"),
            ("100.100.100.201:80", "100.100.100.201:80"),
            ("[64:ff9b::93.184.216.34]:443", "[64:ff9b::93.184.216.34]:443"),
        ];
        for (address, to) in taken {
            let route = route(address.parse().unwrap(), &stated, is_own);
            assert_eq!(route, Route::To(to.parse().unwrap()), "{address}");
        }
        let resolver = SocketAddr::from(RESOLVER);
        assert_eq!(route(resolver, &[], |_| false), Route::Resolver);
    }

    #[test]
    fn what_is_stated_of_loopback_is_redirected() {
        let stated = [
            reachable("127.0.0.1", Some(7443)),
            reachable("0.0.0.0", Some(7080)),
            reachable("192.0.2.1", None),
        ];
        let local = |ip: &str, port| (ip.parse::<IpAddr>().unwrap(), Some(port));
        let expected = [local("127.0.0.1", 7443), local("127.0.0.1", 7080), local("::1", 7080)];
        assert_eq!(shadowed(&stated), expected);
    }
}
