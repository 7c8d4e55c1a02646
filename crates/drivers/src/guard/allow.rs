//! Which addresses may be connected to.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use std::sync::Arc;

/// Public addresses, and the ranges that the configuration lists beside them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allow {
    ranges: Arc<[Range]>,
}

/// A range that cannot be used, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{range}` is not a range of addresses such as 10.0.0.0/8: {why}")]
pub struct AllowError {
    range: String,
    why: &'static str,
}

impl Allow {
    /// Ranges such as `10.0.0.0/8` or `fd00::/8`; a bare address is a range of one.
    pub fn parse<I>(ranges: I) -> Result<Self, AllowError>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let parsed = ranges.into_iter().map(|range| {
            let range = range.as_ref().trim();
            range.parse().map_err(|why| AllowError { range: range.to_owned(), why })
        });
        Ok(Self { ranges: parsed.collect::<Result<_, _>>()? })
    }

    /// An IPv4 address may come as an IPv6 one (mapped, or behind NAT64); it is what it stands for.
    pub fn allows(&self, address: IpAddr) -> bool {
        let address = effective_address(address);
        is_public(address) || self.ranges.iter().any(|range| range.contains(address))
    }
}

/// The address that packets end at.
fn effective_address(address: IpAddr) -> IpAddr {
    const NAT64: Range = v6([0x64, 0xff9b, 0, 0, 0, 0], 96);
    match address {
        IpAddr::V6(v6) if NAT64.contains(address) => {
            let [.., a, b, c, d] = v6.octets();
            IpAddr::V4(Ipv4Addr::new(a, b, c, d))
        }
        _ => address.to_canonical(),
    }
}

/// Whether the address is one that anybody on the Internet may own, and nothing else. Metadata
/// services are in the ranges of link-local, shared and unique local addresses, but for one.
fn is_public(address: IpAddr) -> bool {
    let not = |ranges: &[Range]| !ranges.iter().any(|range| range.contains(address));
    match address {
        IpAddr::V4(_) => not(&NOT_PUBLIC_V4),
        IpAddr::V6(_) => GLOBAL_UNICAST_V6.contains(address) && not(&NOT_PUBLIC_V6),
    }
}

const NOT_PUBLIC_V4: [Range; 17] = [
    v4(0, 0, 0, 0, 8),        // this host
    v4(10, 0, 0, 0, 8),       // private
    v4(100, 64, 0, 0, 10),    // shared by carriers; a metadata service is in it
    v4(127, 0, 0, 0, 8),      // loopback
    v4(168, 63, 129, 16, 32), // the host below a virtual machine, at one provider
    v4(169, 254, 0, 0, 16),   // link-local; metadata services
    v4(172, 16, 0, 0, 12),    // private
    v4(192, 0, 0, 0, 24),     // protocol assignments; a metadata service is in it
    v4(192, 0, 2, 0, 24),     // documentation
    v4(192, 31, 196, 0, 24),  // AS112
    v4(192, 88, 99, 0, 24),   // relays of 6to4
    v4(192, 168, 0, 0, 16),   // private
    v4(198, 18, 0, 0, 15),    // benchmarks
    v4(198, 51, 100, 0, 24),  // documentation
    v4(203, 0, 113, 0, 24),   // documentation
    v4(224, 0, 0, 0, 4),      // multicast
    v4(240, 0, 0, 0, 4),      // reserved, and broadcast
];

const GLOBAL_UNICAST_V6: Range = v6([0x2000, 0, 0, 0, 0, 0], 3);

const NOT_PUBLIC_V6: [Range; 4] = [
    v6([0x2001, 0, 0, 0, 0, 0], 23), // protocol assignments; Teredo carries IPv4 addresses
    v6([0x2001, 0xdb8, 0, 0, 0, 0], 32), // documentation
    v6([0x2002, 0, 0, 0, 0, 0], 16), // 6to4 carries IPv4 addresses
    v6([0x3fff, 0, 0, 0, 0, 0], 20), // documentation
];

/// All addresses that start with the same bits.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Range {
    start: IpAddr,
    length: u8,
}

const fn v4(a: u8, b: u8, c: u8, d: u8, length: u8) -> Range {
    Range { start: IpAddr::V4(Ipv4Addr::new(a, b, c, d)), length }
}

const fn v6([a, b, c, d, e, f]: [u16; 6], length: u8) -> Range {
    Range { start: IpAddr::V6(Ipv6Addr::new(a, b, c, d, e, f, 0, 0)), length }
}

impl Range {
    fn contains(&self, address: IpAddr) -> bool {
        match (self.start, address) {
            // A shift by all bits gives nothing, on both sides.
            (IpAddr::V4(start), IpAddr::V4(address)) => {
                let drop = 32 - u32::from(self.length);
                start.to_bits().checked_shr(drop) == address.to_bits().checked_shr(drop)
            }
            (IpAddr::V6(start), IpAddr::V6(address)) => {
                let drop = 128 - u32::from(self.length);
                start.to_bits().checked_shr(drop) == address.to_bits().checked_shr(drop)
            }
            _ => false,
        }
    }

    /// Whether the start has no bits beyond the length; else somebody meant another range.
    fn is_exact(&self) -> bool {
        match self.start {
            IpAddr::V4(start) => start.to_bits().trailing_zeros() >= 32 - u32::from(self.length),
            IpAddr::V6(start) => start.to_bits().trailing_zeros() >= 128 - u32::from(self.length),
        }
    }
}

impl FromStr for Range {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let start: IpAddr = address.parse().map_err(|_| "what it starts with is no address")?;
        let most = if start.is_ipv4() { 32 } else { 128 };
        let length = match length {
            Some(length) if length.bytes().all(|byte| byte.is_ascii_digit()) => {
                length.parse().ok().filter(|length| *length <= most)
            }
            Some(_) => None,
            None => Some(most),
        };
        let length = length.ok_or("its length is not a number of bits")?;
        let range = Self { start, length };
        if !range.is_exact() {
            return Err("the address has bits set beyond the length");
        }
        Ok(match start.to_canonical() {
            // `::ffff:10.0.0.0/104` is 10.0.0.0/8, as its addresses are.
            canonical @ IpAddr::V4(_) if start.is_ipv6() && length >= 96 => {
                Self { start: canonical, length: length - 96 }
            }
            _ => range,
        })
    }
}

impl fmt::Debug for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.start, self.length)
    }
}
