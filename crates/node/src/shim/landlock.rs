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
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};

use crate::shim::kernel::check;
use crate::shim::protocol::TcpPorts;

/// The first version with rules for TCP ports (Linux 6.7).
const WITH_PORTS: i64 = 4;
/// The first version that can shut abstract sockets off (Linux 6.12).
const WITH_SCOPES: i64 = 6;

const CREATE_RULESET_VERSION: libc::c_uint = 1;
const SCOPE_ABSTRACT_UNIX_SOCKET: u64 = 1;
const BIND_TCP: u64 = 1;
const CONNECT_TCP: u64 = 2;
const RULE_NET_PORT: libc::c_uint = 2;
/// Whichever the kernel picks.
const ANY_FREE: u16 = 0;
/// One of these is tried to see whether the rules hold. The ports below are refused to ordinary users
/// in any case.
const TRIED_PORTS: std::ops::Range<u16> = 1024..u16::MAX;

/// What is told to the kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Ruleset {
    handled: u64,
    scoped: u64,
    /// By port, what may be done with it.
    ports: BTreeMap<u16, u64>,
}

/// What a kernel of that version can be told.
fn ruleset(version: i64, ports: Option<&TcpPorts>) -> Ruleset {
    let mut rules = Ruleset::default();
    if version >= WITH_SCOPES {
        rules.scoped = SCOPE_ABSTRACT_UNIX_SOCKET;
    }
    let Some(ports) = ports.filter(|_| version >= WITH_PORTS) else { return rules };
    rules.handled = BIND_TCP;
    for port in ports.listen.iter().copied().chain([ANY_FREE]) {
        *rules.ports.entry(port).or_default() |= BIND_TCP;
    }
    if let Some(connect) = &ports.connect {
        rules.handled |= CONNECT_TCP;
        for port in connect {
            *rules.ports.entry(*port).or_default() |= CONNECT_TCP;
        }
    }
    rules
}

/// Holds this process to what this kernel can hold it to. It has renounced new privileges.
pub(super) fn restrict(ports: Option<&TcpPorts>) -> io::Result<()> {
    let rules = ruleset(version(), ports);
    if rules == Ruleset::default() {
        return Ok(());
    }
    let ruleset = create(&rules)?;
    for (port, allowed) in &rules.ports {
        add(&ruleset, *port, *allowed)?;
    }
    #[expect(unsafe_code, reason = "no safe face exists")]
    // SAFETY: it takes a descriptor and no memory.
    let result = unsafe {
        libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0 as libc::c_uint)
    };
    check(result).map(drop)
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

fn version() -> i64 {
    #[expect(unsafe_code, reason = "no safe face exists")]
    // SAFETY: with this flag the kernel takes no attributes and answers a number.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<u64>(),
            0_usize,
            CREATE_RULESET_VERSION,
        )
    };
    version
}

fn create(rules: &Ruleset) -> io::Result<OwnedFd> {
    // What is handled of files, of the network, and what is scoped. A kernel that does not know the
    // last ones takes them as long as they are 0.
    let attributes = [0_u64, rules.handled, rules.scoped];
    #[expect(unsafe_code, reason = "no safe face exists")]
    // SAFETY: the attributes live until the call returns and their size is theirs.
    let ruleset = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            attributes.as_ptr(),
            size_of_val(&attributes),
            0 as libc::c_uint,
        )
    };
    let ruleset = i32::try_from(check(ruleset)?).map_err(io::Error::other)?;
    #[expect(unsafe_code, reason = "the kernel's answer is a new descriptor")]
    // SAFETY: the kernel has just made it for us and nobody else knows of it.
    let ruleset = unsafe { OwnedFd::from_raw_fd(ruleset) };
    Ok(ruleset)
}

fn add(ruleset: &OwnedFd, port: u16, allowed: u64) -> io::Result<()> {
    let rule = [allowed, u64::from(port)];
    #[expect(unsafe_code, reason = "no safe face exists")]
    // SAFETY: the kernel reads the rule, which is of the kind that is named, while the call lasts.
    let result = unsafe {
        libc::syscall(
            libc::SYS_landlock_add_rule,
            ruleset.as_raw_fd(),
            RULE_NET_PORT,
            rule.as_ptr(),
            0 as libc::c_uint,
        )
    };
    check(result).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports(connect: Option<&[u16]>) -> TcpPorts {
        TcpPorts { listen: vec![8080, 20_001], connect: connect.map(Into::into) }
    }

    #[test]
    fn a_kernel_is_told_what_it_knows() {
        let some = ports(Some(&[443, 8080]));
        for (version, handled, scoped) in [(-1, 0, 0), (3, 0, 0), (4, 3, 0), (5, 3, 0), (6, 3, 1)] {
            let rules = ruleset(version, Some(&some));
            assert_eq!((rules.handled, rules.scoped), (handled, scoped), "version {version}");
        }
        assert_eq!(ruleset(7, None), Ruleset { scoped: 1, ..Ruleset::default() });
    }

    #[test]
    fn listening_and_connecting_are_held_by_themselves() {
        let listening = [(0, BIND_TCP), (8080, BIND_TCP), (20_001, BIND_TCP)];
        let rules = ruleset(7, Some(&ports(None)));
        assert_eq!((rules.handled, rules.ports), (BIND_TCP, listening.into()));
        let rules = ruleset(7, Some(&ports(Some(&[443, 8080]))));
        let both = BIND_TCP | CONNECT_TCP;
        let all = [(0, BIND_TCP), (443, CONNECT_TCP), (8080, both), (20_001, BIND_TCP)];
        assert_eq!((rules.handled, rules.ports), (both, all.into()));
        let nothing = TcpPorts { listen: Vec::new(), connect: Some(Vec::new()) };
        let rules = ruleset(7, Some(&nothing));
        assert_eq!((rules.handled, rules.ports), (both, [(0, BIND_TCP)].into()));
    }
}
