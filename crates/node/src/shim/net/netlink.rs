//! What is told to the kernel about a Pod's network, by netlink: that `lo` is up, that every
//! address is here, and which connections are redirected to the shim.
//!
//! The kernel's rules, as `nft` would write them:
//!
//! ```text
//! table inet sojourn {
//!     chain output {
//!         type nat hook output priority -100
//!         meta mark 0x736f6a accept                       # the shim's own, into the Pod
//!         ip daddr 127.0.0.1 tcp dport 7443 redirect to :1   # a service of the machine, stated
//!         ip daddr 127.0.0.0/8 accept                     # the Pod's own
//!         ip6 daddr ::1 accept
//!         udp dport 53 redirect to :1
//!         meta l4proto tcp redirect to :1
//!     }
//! }
//! ```

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send,
    socket_with,
};

use super::{MARK, RELAY_PORT};

/// The index of `lo`, the first device of every network namespace.
const LOOPBACK: u32 = 1;
/// The kernel answers at once or not at all.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

const REQUEST: u16 = 1;
const ACK: u16 = 4;
const CREATE: u16 = 0x400;
/// A rule goes behind those that are there; without this, before them.
const APPEND: u16 = 0x800;
const NESTED: u16 = 0x8000;
const MESSAGE_ERROR: u16 = 2;
const HEADER: usize = 16;

const NEW_LINK: u16 = 16;
const NEW_ROUTE: u16 = 24;
const ROUTE_OUT: u16 = 4;
const ROUTE_SOURCE: u16 = 7;
const TABLE_LOCAL: u8 = 255;
const PROTOCOL_BOOT: u8 = 3;
const SCOPE_HOST: u8 = 254;
const TYPE_LOCAL: u8 = 2;
const IFF_UP: u32 = 1;

const NFTABLES: u16 = 10;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const NEW_TABLE: u16 = NFTABLES << 8;
const NEW_CHAIN: u16 = NFTABLES << 8 | 3;
const NEW_RULE: u16 = NFTABLES << 8 | 6;
const FAMILY_INET: u8 = 1;
const HOOK_OUTPUT: u32 = 3;
/// Where destinations are changed; as a big-endian number of 32 bits, −100.
const PRIORITY: u32 = (-100_i32).cast_unsigned();
const ACCEPT: u32 = 1;
const REGISTER: u32 = 1;
const VERDICT: u32 = 0;
const META_MARK: u32 = 3;
const META_FAMILY: u32 = 15;
const META_TRANSPORT: u32 = 16;
const NETWORK_HEADER: u32 = 1;
const TRANSPORT_HEADER: u32 = 2;
/// Where in their headers destinations stand.
const V4_DESTINATION: u32 = 16;
const V6_DESTINATION: u32 = 24;
const PORT_DESTINATION: u32 = 2;
const FAMILY_V4: u8 = 2;
const FAMILY_V6: u8 = 10;
const TCP: u8 = 6;
const UDP: u8 = 17;
const DNS: u16 = 53;
const TABLE: &str = "sojourn";
const CHAIN: &str = "output";

/// Brings `lo` up, in the network namespace that we are in.
pub(super) fn bring_up() -> io::Result<()> {
    let mut link = Message::new(NEW_LINK, REQUEST | ACK, 1);
    // Family and padding, type; index; flags; which of the flags.
    link.bytes(&[0; 4]).native(LOOPBACK).native(IFF_UP).native(IFF_UP);
    exchange(None, &link.finish(), 1)
}

/// Makes every address one of this namespace's own.
pub(super) fn take_every_address(v6: bool) -> io::Result<()> {
    exchange(None, &route(FAMILY_V4), 1)?;
    if v6 { exchange(None, &route(FAMILY_V6), 1) } else { Ok(()) }
}

fn route(family: u8) -> Vec<u8> {
    let mut route = Message::new(NEW_ROUTE, REQUEST | ACK | CREATE, 1);
    route.bytes(&[family, 0, 0, 0, TABLE_LOCAL, PROTOCOL_BOOT, SCOPE_HOST, TYPE_LOCAL]);
    route.native(0).attribute(ROUTE_OUT, &LOOPBACK.to_ne_bytes());
    if family == FAMILY_V4 {
        route.attribute(ROUTE_SOURCE, &Ipv4Addr::LOCALHOST.octets());
    }
    route.finish()
}

/// Redirects to the shim what leaves the Pod: see the module. `stated`: addresses among the Pod's
/// own that mean the machine's.
pub(super) fn redirect(stated: &[(IpAddr, Option<u16>)]) -> io::Result<()> {
    let rules = rules(stated);
    exchange(Some(netlink::NETFILTER), &batch(&rules), rules.len() + 2)
}

/// What a rule looks at, and what it does.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Meta { key: u32, is: Vec<u8> },
    Payload { base: u32, offset: u32, is: Vec<u8> },
    Accept,
    Redirect,
}

fn rules(stated: &[(IpAddr, Option<u16>)]) -> Vec<Vec<Part>> {
    let transport = |number: u8| Part::Meta { key: META_TRANSPORT, is: vec![number] };
    let port = |port: u16| Part::Payload {
        base: TRANSPORT_HEADER,
        offset: PORT_DESTINATION,
        is: port.to_be_bytes().into(),
    };
    let to = |offset: u32, is: &[u8]| Part::Payload { base: NETWORK_HEADER, offset, is: is.into() };
    let family = |number: u8| Part::Meta { key: META_FAMILY, is: vec![number] };
    let mut rules =
        vec![vec![Part::Meta { key: META_MARK, is: MARK.to_ne_bytes().into() }, Part::Accept]];
    for (ip, number) in stated {
        let mut rule = match ip {
            IpAddr::V4(ip) => vec![family(FAMILY_V4), to(V4_DESTINATION, &ip.octets())],
            IpAddr::V6(ip) => vec![family(FAMILY_V6), to(V6_DESTINATION, &ip.octets())],
        };
        rule.push(transport(TCP));
        rule.extend(number.map(port));
        rule.push(Part::Redirect);
        rules.push(rule);
    }
    let v4_loopback = &Ipv4Addr::LOCALHOST.octets()[..1];
    let v6_loopback = &Ipv6Addr::LOCALHOST.octets();
    rules.push(vec![family(FAMILY_V4), to(V4_DESTINATION, v4_loopback), Part::Accept]);
    rules.push(vec![family(FAMILY_V6), to(V6_DESTINATION, v6_loopback), Part::Accept]);
    rules.push(vec![transport(UDP), port(DNS), Part::Redirect]);
    rules.push(vec![transport(TCP), Part::Redirect]);
    rules
}

fn batch(rules: &[Vec<Part>]) -> Vec<u8> {
    let mut sequence = 0;
    let mut message = |kind: u16, family: u8, about: u16| {
        sequence += 1;
        let flags = if kind >> 8 == NFTABLES { REQUEST | ACK | CREATE | APPEND } else { REQUEST };
        let mut message = Message::new(kind, flags, sequence);
        message.bytes(&[family, 0]).bytes(&about.to_be_bytes());
        message
    };
    let mut all = message(BATCH_BEGIN, 0, NFTABLES).finish();
    let mut table = message(NEW_TABLE, FAMILY_INET, 0);
    all.extend(table.text(1, TABLE).finish_mut());
    let mut chain = message(NEW_CHAIN, FAMILY_INET, 0);
    chain.text(1, TABLE).text(3, CHAIN).text(7, "nat");
    chain.nested(4, |hook| {
        hook.number(1, HOOK_OUTPUT).number(2, PRIORITY);
    });
    all.extend(chain.finish());
    for parts in rules {
        let mut rule = message(NEW_RULE, FAMILY_INET, 0);
        rule.text(1, TABLE).text(2, CHAIN);
        rule.nested(4, |expressions| parts.iter().for_each(|part| express(expressions, part)));
        all.extend(rule.finish());
    }
    all.extend(message(BATCH_END, 0, NFTABLES).finish());
    all
}

fn express(rule: &mut Message, part: &Part) {
    let compare = |rule: &mut Message, is: &[u8]| {
        expression(rule, "cmp", |data| {
            data.number(1, REGISTER).number(2, 0).nested(3, |value| {
                value.attribute(1, is);
            });
        });
    };
    match part {
        Part::Meta { key, is } => {
            expression(rule, "meta", |data| {
                data.number(1, REGISTER).number(2, *key);
            });
            compare(rule, is);
        }
        Part::Payload { base, offset, is } => {
            let length = u32::try_from(is.len()).unwrap_or(u32::MAX);
            expression(rule, "payload", |data| {
                data.number(1, REGISTER).number(2, *base).number(3, *offset).number(4, length);
            });
            compare(rule, is);
        }
        Part::Accept => expression(rule, "immediate", |data| {
            data.number(1, VERDICT).nested(2, |value| {
                value.nested(2, |verdict| {
                    verdict.number(1, ACCEPT);
                });
            });
        }),
        Part::Redirect => {
            expression(rule, "immediate", |data| {
                data.number(1, REGISTER).nested(2, |value| {
                    value.attribute(1, &RELAY_PORT.to_be_bytes());
                });
            });
            expression(rule, "redir", |data| {
                data.number(1, REGISTER);
            });
        }
    }
}

fn expression(rule: &mut Message, name: &str, data: impl FnOnce(&mut Message)) {
    rule.nested(1, |element| {
        element.text(1, name).nested(2, data);
    });
}

/// A message that is being written.
#[derive(Debug)]
struct Message(Vec<u8>);

impl Message {
    fn new(kind: u16, flags: u16, sequence: u32) -> Self {
        let mut message = Self(vec![0; 4]);
        message.bytes(&kind.to_ne_bytes()).bytes(&flags.to_ne_bytes());
        message.native(sequence).native(0);
        message
    }

    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    fn native(&mut self, number: u32) -> &mut Self {
        self.bytes(&number.to_ne_bytes())
    }

    fn attribute(&mut self, kind: u16, value: &[u8]) -> &mut Self {
        let length = u16::try_from(4 + value.len()).unwrap_or(u16::MAX);
        self.bytes(&length.to_ne_bytes()).bytes(&kind.to_ne_bytes()).bytes(value).pad()
    }

    /// As netfilter writes numbers.
    fn number(&mut self, kind: u16, number: u32) -> &mut Self {
        self.attribute(kind, &number.to_be_bytes())
    }

    fn text(&mut self, kind: u16, text: &str) -> &mut Self {
        self.attribute(kind, &[text.as_bytes(), &[0]].concat())
    }

    fn nested(&mut self, kind: u16, write: impl FnOnce(&mut Self)) -> &mut Self {
        let start = self.0.len();
        self.bytes(&[0; 2]).bytes(&(kind | NESTED).to_ne_bytes());
        write(self);
        let length = u16::try_from(self.0.len() - start).unwrap_or(u16::MAX);
        self.0[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self
    }

    fn pad(&mut self) -> &mut Self {
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    fn finish(mut self) -> Vec<u8> {
        self.finish_mut()
    }

    fn finish_mut(&mut self) -> Vec<u8> {
        let length = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        self.0[..4].copy_from_slice(&length.to_ne_bytes());
        std::mem::take(&mut self.0)
    }
}

/// Sends messages and waits until so many of them are acknowledged, or one is refused. Without a
/// protocol they are about devices and routes.
fn exchange(protocol: Option<Protocol>, messages: &[u8], acknowledged: usize) -> io::Result<()> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol)?;
    set_socket_timeout(&socket, Timeout::Recv, Some(ANSWER_TIMEOUT))?;
    send(&socket, messages, SendFlags::empty())?;
    let mut left = acknowledged;
    while left > 0 {
        left = left.saturating_sub(read(&socket)?);
    }
    Ok(())
}

/// How many messages were acknowledged by what the kernel says next.
fn read(socket: &OwnedFd) -> io::Result<usize> {
    let mut buffer = [0_u8; 8192];
    let (count, _) = recv(socket, &mut buffer, RecvFlags::empty())?;
    let mut answers = &buffer[..count];
    let mut acknowledged = 0;
    while let Some((length, kind, error)) = answer(answers) {
        if kind == MESSAGE_ERROR && error != 0 {
            return Err(io::Error::from_raw_os_error(-error));
        }
        acknowledged += usize::from(kind == MESSAGE_ERROR);
        answers = answers.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(acknowledged)
}

/// Length and kind of the first message, and what follows its header: an error's number.
fn answer(bytes: &[u8]) -> Option<(usize, u16, i32)> {
    let word = |at: usize| bytes.get(at..at + 4)?.try_into().ok();
    let length = usize::try_from(u32::from_ne_bytes(word(0)?)).ok()?;
    let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
    let error = i32::from_ne_bytes(word(HEADER)?);
    (length >= HEADER).then_some((length, kind, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_have_their_length_and_are_padded() {
        let mut message = Message::new(NEW_LINK, REQUEST, 7);
        message.text(1, "ab").nested(4, |inner| {
            inner.number(2, 0x0102_0304);
        });
        let bytes = message.finish();
        assert_eq!(bytes.len(), HEADER + 8 + 4 + 8);
        assert_eq!(bytes[..4], 36_u32.to_ne_bytes());
        assert_eq!(bytes[HEADER..HEADER + 2], 7_u16.to_ne_bytes());
        assert_eq!(bytes[HEADER + 4..HEADER + 8], *b"ab\0\0");
        assert_eq!(bytes[HEADER + 8..HEADER + 10], 12_u16.to_ne_bytes());
        assert_eq!(bytes[HEADER + 16..], [1, 2, 3, 4]);
    }

    #[test]
    fn the_pods_own_addresses_come_before_what_leaves_it() {
        let stated = [("127.0.0.1".parse().unwrap(), Some(7443)), ("::1".parse().unwrap(), None)];
        let rules = rules(&stated);
        let ends: Vec<bool> =
            rules.iter().map(|rule| rule.last() == Some(&Part::Redirect)).collect();
        assert_eq!(ends, [false, true, true, false, false, true, true]);
        assert_eq!(rules[1].len(), 5);
        assert_eq!(rules[2].len(), 4);
    }

    #[test]
    fn an_answer_is_an_error_or_not() {
        let mut refused = Message::new(MESSAGE_ERROR, 0, 1);
        refused.bytes(&(-libc::EPERM).to_ne_bytes());
        assert_eq!(answer(&refused.finish()), Some((20, MESSAGE_ERROR, -libc::EPERM)));
        assert_eq!(answer(&[0; 8]), None);
        assert_eq!(answer(&[0; 32]), None);
    }
}
