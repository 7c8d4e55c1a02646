//! IP addresses and networks.

use std::fmt;
use std::net::IpAddr;

use super::super::eval::{Evaluated, Fault};
use super::super::value::Val;
use super::{Native, only, text_first};
use crate::go::address;

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
        let address = address::parse(address).ok_or_else(|| wrong("unable to parse IP"))?;
        let plain = bits.bytes().all(|b| b.is_ascii_digit())
            && (1..=3).contains(&bits.len())
            && (bits == "0" || !bits.starts_with('0'));
        let number: u8 = match bits.parse() {
            Ok(number) if plain => number,
            _ => return Err(wrong(&format!("bad bits after slash: {}", crate::go::quote(bits)))),
        };
        if number > address::width(address) {
            return Err(wrong("prefix length out of range"));
        }
        if address::is_mapped(address) {
            return Err(Fault::new(format!(
                "network address parse error during conversion from string: IPv4-mapped IPv6 \
                 address {quoted} is not allowed"
            )));
        }
        Ok(Self { address, bits: number })
    }

    fn contains(self, address: IpAddr) -> bool {
        address::width(address) == address::width(self.address)
            && address::masked(address, self.bits) == address::masked(self.address, self.bits)
    }

    fn masked(self) -> Self {
        Self { address: address::masked(self.address, self.bits), ..self }
    }
}

fn parse_ip(text: &str) -> Result<IpAddr, Fault> {
    let quoted = crate::go::quote(text);
    if text.contains('%') && text.contains(':') {
        return Err(Fault::new(format!("IP address {quoted} with zone value is not allowed")));
    }
    let address = address::parse(text).ok_or_else(|| {
        Fault::new(format!(
            "IP Address {quoted} parse error during conversion from string: ParseAddr({quoted}): \
             unable to parse IP"
        ))
    })?;
    if address::is_mapped(address) {
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
            |args, _| of_ip(args, |ip| Val::Bool(address::is_link_local_multicast(ip)))
        }
        "isLinkLocalUnicast" => {
            |args, _| of_ip(args, |ip| Val::Bool(address::is_link_local_unicast(ip)))
        }
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

fn is_global_unicast(address: IpAddr) -> bool {
    let is_broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    !is_broadcast
        && !address.is_unspecified()
        && !address.is_loopback()
        && !address.is_multicast()
        && !address::is_link_local_unicast(address)
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
