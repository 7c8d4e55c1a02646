//! IP addresses and networks.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use super::super::eval::{Evaluated, Fault};
use super::super::value::Val;
use super::{Native, only, text_first};

/// A network: an address and how many of its leading bits count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Cidr {
    address: IpAddr,
    pub(in super::super) bits: u8,
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

impl Cidr {
    fn parse(text: &str) -> Result<Self, Fault> {
        let quoted = crate::go::quote(text);
        let wrong = |why: &str| {
            Fault::new(format!(
                "network address parse error during conversion from string: network address parse \
                 error during conversion from string: netip.ParsePrefix({quoted}): {why}"
            ))
        };
        let (address, bits) = text.rsplit_once('/').ok_or_else(|| wrong("no '/'"))?;
        let address: IpAddr = address.parse().map_err(|_| wrong("unable to parse IP"))?;
        let plain = bits.bytes().all(|b| b.is_ascii_digit())
            && (1..=3).contains(&bits.len())
            && (bits == "0" || !bits.starts_with('0'));
        let number: u8 = match bits.parse() {
            Ok(number) if plain => number,
            _ => return Err(wrong(&format!("bad bits after slash: {bits:?}"))),
        };
        if number > width(address) {
            return Err(wrong("prefix length out of range"));
        }
        if is_mapped(address) {
            return Err(Fault::new(format!(
                "network address parse error during conversion from string: IPv4-mapped IPv6 \
                 address {quoted} is not allowed"
            )));
        }
        Ok(Self { address, bits: number })
    }

    /// The bits of an address that this network counts, at the top.
    fn prefix(self, address: IpAddr) -> Option<u128> {
        let value = match (self.address, address) {
            (IpAddr::V4(_), IpAddr::V4(address)) => u128::from(address.to_bits()) << 96,
            (IpAddr::V6(_), IpAddr::V6(address)) => address.to_bits(),
            _ => return None,
        };
        let dropped = 128 - u32::from(self.bits);
        Some(value.checked_shr(dropped).unwrap_or(0))
    }

    fn contains(self, address: IpAddr) -> bool {
        let own = self.prefix(self.address);
        own.is_some() && own == self.prefix(address)
    }

    fn masked(self) -> Self {
        let kept = |value: u128, width: u32| {
            let dropped = width - u32::from(self.bits);
            value.checked_shr(dropped).and_then(|v| v.checked_shl(dropped)).unwrap_or(0)
        };
        let address = match self.address {
            IpAddr::V4(address) => {
                let bits = kept(u128::from(address.to_bits()), 32);
                IpAddr::V4(u32::try_from(bits).unwrap_or_default().into())
            }
            IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(kept(address.to_bits(), 128))),
        };
        Self { address, ..self }
    }
}

const fn width(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some())
}

fn parse_ip(text: &str) -> Result<IpAddr, Fault> {
    let quoted = crate::go::quote(text);
    if text.contains('%') && text.contains(':') {
        return Err(Fault::new(format!("IP address {quoted} with zone value is not allowed")));
    }
    let address: IpAddr = text.parse().map_err(|_| {
        Fault::new(format!(
            "IP Address {quoted} parse error during conversion from string: ParseAddr({quoted}): \
             unable to parse IP"
        ))
    })?;
    if is_mapped(address) {
        return Err(Fault::new(format!("IPv4-mapped IPv6 address {quoted} is not allowed")));
    }
    Ok(address)
}

pub(super) fn native(function: &str) -> Option<Native> {
    let found: Native = match function {
        "ip" => |args, _| match only(args)? {
            Val::Text(text) => Ok(Val::Ip(parse_ip(text)?)),
            Val::Cidr(cidr) => Ok(Val::Ip(cidr.address)),
            _ => Err(Fault::no_such_overload()),
        },
        "isIP" => |args, _| Ok(Val::Bool(parse_ip(text_first(args)?.0).is_ok())),
        "ip.isCanonical" => |args, _| {
            let text = text_first(args)?.0;
            Ok(Val::Bool(parse_ip(text)?.to_string() == **text))
        },
        "family" => |args, _| of_ip(args, |ip| Val::Int(if ip.is_ipv4() { 4 } else { 6 })),
        "isUnspecified" => |args, _| of_ip(args, |ip| Val::Bool(ip.is_unspecified())),
        "isLoopback" => |args, _| of_ip(args, |ip| Val::Bool(ip.is_loopback())),
        "isLinkLocalMulticast" => {
            |args, _| of_ip(args, |ip| Val::Bool(is_link_local_multicast(ip)))
        }
        "isLinkLocalUnicast" => |args, _| of_ip(args, |ip| Val::Bool(is_link_local_unicast(ip))),
        "isGlobalUnicast" => |args, _| of_ip(args, |ip| Val::Bool(is_global_unicast(ip))),
        "cidr" => |args, _| Ok(Val::Cidr(Cidr::parse(text_first(args)?.0)?)),
        "isCIDR" => |args, _| Ok(Val::Bool(Cidr::parse(text_first(args)?.0).is_ok())),
        "containsIP" => |args, _| match args {
            [Val::Cidr(cidr), Val::Ip(ip)] => Ok(Val::Bool(cidr.contains(*ip))),
            [Val::Cidr(cidr), Val::Text(text)] => match parse_ip(text) {
                Ok(ip) => Ok(Val::Bool(cidr.contains(ip))),
                Err(_) => Err(Fault::no_such_overload()),
            },
            _ => Err(Fault::no_such_overload()),
        },
        "containsCIDR" => |args, _| {
            let (outer, inner) = match args {
                [Val::Cidr(outer), Val::Cidr(inner)] => (outer, *inner),
                [Val::Cidr(outer), Val::Text(text)] => (outer, Cidr::parse(text)?),
                _ => return Err(Fault::no_such_overload()),
            };
            Ok(Val::Bool(outer.bits <= inner.bits && outer.contains(inner.address)))
        },
        "prefixLength" => |args, _| match only(args)? {
            Val::Cidr(cidr) => Ok(Val::Int(cidr.bits.into())),
            _ => Err(Fault::no_such_overload()),
        },
        "masked" => |args, _| match only(args)? {
            Val::Cidr(cidr) => Ok(Val::Cidr(cidr.masked())),
            _ => Err(Fault::no_such_overload()),
        },
        _ => return None,
    };
    Some(found)
}

fn of_ip<'a>(args: &[Val<'a>], give: impl Fn(IpAddr) -> Val<'a>) -> Evaluated<'a> {
    match only(args)? {
        Val::Ip(address) => Ok(give(*address)),
        _ => Err(Fault::no_such_overload()),
    }
}

fn is_link_local_multicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.octets()[..3] == [224, 0, 0],
        IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
    }
}

fn is_link_local_unicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.segments()[0] & 0xffc0 == 0xfe80,
    }
}

fn is_global_unicast(address: IpAddr) -> bool {
    let is_broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    !is_broadcast
        && !address.is_unspecified()
        && !address.is_loopback()
        && !address.is_multicast()
        && !is_link_local_unicast(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_contain_what_shares_their_prefix() {
        let cidr = Cidr::parse("192.168.1.7/24").unwrap();
        assert_eq!(cidr.masked().to_string(), "192.168.1.0/24");
        assert!(cidr.contains(parse_ip("192.168.1.255").unwrap()));
        assert!(!cidr.contains(parse_ip("192.168.2.1").unwrap()));
        assert!(!cidr.contains(parse_ip("::1").unwrap()));
        assert!(Cidr::parse("0.0.0.0/0").unwrap().contains(parse_ip("8.8.8.8").unwrap()));
        assert_eq!(Cidr::parse("::1/0").unwrap().masked().to_string(), "::/0");
        for wrong in ["1.2.3.4", "1.2.3.4/33", "1.2.3.4/01", "1.2.3.4/+1", "::ffff:1.2.3.4/96"] {
            assert!(Cidr::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn addresses_are_read_strictly() {
        for wrong in ["1.2.3", "01.2.3.4", "fe80::1%eth0", "::ffff:1.2.3.4", ""] {
            assert!(parse_ip(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse_ip("2001:DB8::1").unwrap().to_string(), "2001:db8::1");
        assert!(is_global_unicast(parse_ip("8.8.8.8").unwrap()));
        assert!(!is_global_unicast(parse_ip("ff00::1").unwrap()));
    }
}
