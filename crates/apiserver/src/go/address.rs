//! IP addresses and networks, as `net/netip` reads them and as Kubernetes' older fields do.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address as `netip.ParseAddr` reads it, but for zones, which nothing here takes.
pub(crate) fn parse(text: &str) -> Option<IpAddr> {
    text.parse().ok()
}

/// An address as Kubernetes reads it in fields that are older than Go's strictness: leading zeros
/// are allowed, and an IPv4-mapped IPv6 address is the IPv4 address in it.
pub(crate) fn parse_sloppy(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        let v6 = sloppy_v6(text)?;
        return Some(v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4));
    }
    sloppy_v4(text).map(IpAddr::V4)
}

fn sloppy_v4(text: &str) -> Option<Ipv4Addr> {
    let octets: Vec<&str> = text.split('.').map(without_zeros).collect();
    octets.join(".").parse().ok()
}

fn sloppy_v6(text: &str) -> Option<Ipv6Addr> {
    let groups: Vec<String> = text
        .split(':')
        .map(|group| match group.contains('.') {
            true => Some(sloppy_v4(group)?.to_string()),
            false => Some(without_zeros(group).to_owned()),
        })
        .collect::<Option<_>>()?;
    groups.join(":").parse().ok()
}

/// The number without leading zeros; zero keeps one.
fn without_zeros(number: &str) -> &str {
    match number.trim_start_matches('0') {
        "" if !number.is_empty() => "0",
        digits => digits,
    }
}

pub(crate) const fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some())
}

/// `224.0.0.0/24` and what is like it in IPv6.
pub(crate) const fn is_link_local_multicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => matches!(address.octets(), [224, 0, 0, _]),
        IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
    }
}

pub(crate) const fn is_link_local_unicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

/// How many bits addresses of its family have.
pub(crate) const fn width(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

/// The address with only its first bits kept.
pub(crate) fn masked(address: IpAddr, bits: u8) -> IpAddr {
    let dropped = u32::from(width(address).saturating_sub(bits));
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(dropped).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & mask))
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(dropped).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask))
        }
    }
}

/// A network in CIDR notation as older fields take it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SloppyCidr {
    pub(crate) address: IpAddr,
    /// Of the address as it stands here: of an IPv4-mapped one, those after the mapping.
    pub(crate) bits: u8,
    /// No leading zeros anywhere.
    pub(crate) is_strict: bool,
    /// It was written as an IPv4-mapped IPv6 address.
    pub(crate) is_mapped: bool,
}

impl SloppyCidr {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (written, length) = text.split_once('/')?;
        let address = parse_sloppy(written)?;
        let is_mapped = address.is_ipv4() && written.contains(':');
        if length.is_empty() || !length.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let bits: u8 = without_zeros(length).parse().ok()?;
        if bits > if is_mapped { 128 } else { width(address) } {
            return None;
        }
        Some(Self {
            address,
            bits: if is_mapped { bits.saturating_sub(96) } else { bits },
            is_strict: parse(written).is_some() && length == without_zeros(length),
            is_mapped,
        })
    }

    pub(crate) fn masked(self) -> IpAddr {
        masked(self.address, self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Verified with Kubernetes' `ParseIPSloppy` and with `netip.ParseAddr`.
    #[test]
    fn addresses_are_read_strictly_and_sloppily() {
        for (text, sloppy, is_strict) in [
            ("1.2.3.4", Some("1.2.3.4"), true),
            ("01.02.003.0004", Some("1.2.3.4"), false),
            ("::ffff:1.2.3.4", Some("1.2.3.4"), true),
            ("::ffff:01.2.3.4", Some("1.2.3.4"), false),
            ("::1.2.3.04", Some("::102:304"), false),
            ("1:2:3:4:5:6:1.2.3.4", Some("1:2:3:4:5:6:102:304"), true),
            ("1:2:3:4:5:6:7:1.2.3.4", None, false),
            ("00000001::", Some("1::"), false),
            ("::0000000.1.2.3", Some("::1:203"), false),
            ("::00001", Some("::1"), false),
            ("1:2:3:4:5:6:7::", Some("1:2:3:4:5:6:7:0"), true),
            ("1:2:3:4::5:6:7:8", None, false),
            ("1.2.3", None, false),
            ("1.2.3.0000256", None, false),
            (":1.2.3.4", None, false),
            ("::1.2.3.", None, false),
            ("1::2::3", None, false),
            ("::%", None, false),
            ("", None, false),
        ] {
            let found = parse_sloppy(text);
            // Rust shows the dotted form that Go does not.
            let wanted = sloppy.map(|wanted| wanted.parse().expect("an address"));
            assert_eq!(found, wanted, "{text}");
            assert_eq!(parse(text).is_some(), is_strict, "{text}");
        }
    }

    /// Verified with Kubernetes' `ParseCIDRSloppy`.
    #[test]
    fn networks_are_read_sloppily() {
        for (text, network) in [
            ("1.2.3.4/08", Some("1.0.0.0/8")),
            ("1.2.3.4/000000032", Some("1.2.3.4/32")),
            ("::ffff:1.2.3.4/120", Some("1.2.3.0/24")),
            ("::ffff:01.2.3.4/100", Some("0.0.0.0/4")),
            ("1.2.3.4/0", Some("0.0.0.0/0")),
            ("1.2.3.4/33", None),
            ("1.2.3.4/", None),
            ("1.2.3.4/+1", None),
            ("::1/129", None),
            ("::1/00", Some("::/0")),
        ] {
            let found = SloppyCidr::parse(text);
            let found = found.map(|cidr| format!("{}/{}", cidr.masked(), cidr.bits));
            assert_eq!(found.as_deref(), network, "{text}");
        }
        assert!(SloppyCidr::parse("10.0.0.0/8").is_some_and(|cidr| cidr.is_strict));
        assert!(SloppyCidr::parse("10.0.0.0/08").is_some_and(|cidr| !cidr.is_strict));
    }
}
