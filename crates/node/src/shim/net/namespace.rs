//! The Pod's network namespace, and sockets in it.
//!
//! The shim itself stays in the machine's network: an ordinary user who left it could not come
//! back. A socket belongs to the namespace that it was made in, whoever has it, so a child goes in,
//! makes what is needed, hands it over and ends.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socket_with,
    sockopt,
};
use rustix::process::{Pid, WaitOptions};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

use super::{MARK, RELAY_PORT, netlink};
use crate::shim::kernel;

/// How many connections wait for the relay.
const BACKLOG: i32 = 64;
/// How many sockets are made at once. One message carries at most 253 descriptors.
const BATCH: usize = 16;
/// What a child may say.
const MAX_ERROR_BYTES: usize = 1024;
/// From here on anybody in the Pod may listen, as in the containers of a cluster.
const UNPRIVILEGED_PORTS: &str = "/proc/sys/net/ipv4/ip_unprivileged_port_start";

/// A network namespace, and the sockets in it that the shim needs.
#[derive(Debug)]
pub(super) struct Namespace {
    pub(super) link: OwnedFd,
    /// What listens there for connections that leave the Pod; or why nothing does.
    pub(super) outgoing: Result<Outgoing, String>,
    streams: Vec<OwnedFd>,
    datagrams: Vec<OwnedFd>,
}

#[derive(Debug)]
pub(super) struct Outgoing {
    /// One, or one for each family.
    pub(super) connections: Vec<OwnedFd>,
    pub(super) questions: OwnedFd,
}

impl Namespace {
    /// Begins to make one. `stated`: addresses in it that mean the machine's; `v6`: whether the
    /// machine itself gets anywhere by IPv6.
    pub(super) fn begin(stated: &[(IpAddr, Option<u16>)], v6: bool) -> io::Result<NamespaceChild> {
        NamespaceChild::begin(|| {
            kernel::unshare(UnshareFlags::NEWNET)?;
            netlink::bring_up()?;
            // Without it Pods cannot listen below 1024, which is no reason not to run them.
            let _ = std::fs::write(UNPRIVILEGED_PORTS, "0");
            let link = rustix::fs::open(
                "/proc/self/ns/net",
                OFlags::RDONLY | OFlags::CLOEXEC,
                Mode::empty(),
            )?;
            let mut made = vec![link];
            made.extend(sockets(SocketType::STREAM)?);
            match set_up_redirection(stated, v6) {
                Ok(outgoing) => {
                    made.extend(outgoing);
                    Ok((made, String::new()))
                }
                Err(error) => Ok((made, format!("{error}"))),
            }
        })
    }

    /// Takes over what was begun, as soon as it is made.
    pub(super) fn receive(from: &OwnedFd) -> io::Result<Self> {
        let (mut made, words) = take_over(from)?;
        let broken = || io::Error::other("sockets of the Pod's network are missing");
        let mut outgoing = made.split_off((1 + BATCH).min(made.len()));
        let streams = made.split_off(1.min(made.len()));
        let link = made.pop().ok_or_else(broken)?;
        let outgoing = match outgoing.pop() {
            Some(questions) => Ok(Outgoing { connections: outgoing, questions }),
            None => Err(words),
        };
        Ok(Self { link, outgoing, streams, datagrams: Vec::new() })
    }

    /// A socket that connects to a TCP port of the Pod's.
    pub(super) fn connect(&mut self, port: u16) -> io::Result<OwnedFd> {
        if self.streams.is_empty() {
            self.streams = self.more(SocketType::STREAM)?;
        }
        begin(take(&mut self.streams)?, port)
    }

    /// A UDP socket of the Pod's network.
    pub(super) fn datagram_socket(&mut self) -> io::Result<OwnedFd> {
        if self.datagrams.is_empty() {
            self.datagrams = self.more(SocketType::DGRAM)?;
        }
        take(&mut self.datagrams)
    }

    fn more(&self, kind: SocketType) -> io::Result<Vec<OwnedFd>> {
        let (sockets, _) = run_in_child(|| {
            enter(self.link.as_fd())?;
            Ok((sockets(kind)?, String::new()))
        })?;
        Ok(sockets)
    }
}

fn take(sockets: &mut Vec<OwnedFd>) -> io::Result<OwnedFd> {
    sockets.pop().ok_or_else(|| io::Error::other("there is no socket of the Pod's network"))
}

fn begin(socket: OwnedFd, port: u16) -> io::Result<OwnedFd> {
    match rustix::net::connect(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, port))) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error.into()),
    }
}

/// Goes into a network namespace, for good.
pub(in crate::shim) fn enter(link: BorrowedFd<'_>) -> io::Result<()> {
    Ok(move_into_link_name_space(link, Some(LinkNameSpaceType::Network))?)
}

/// Sockets that the Pod's own rules do not redirect.
fn sockets(kind: SocketType) -> io::Result<Vec<OwnedFd>> {
    let make = || {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::INET, kind, flags, None)?;
        kernel::mark(&socket, MARK)?;
        Ok(socket)
    };
    (0..BATCH).map(|_| make()).collect()
}

/// Routes, rules, and who listens for what they redirect. The last is for questions.
fn set_up_redirection(stated: &[(IpAddr, Option<u16>)], v6: bool) -> io::Result<Vec<OwnedFd>> {
    netlink::take_every_address(v6)?;
    netlink::redirect(stated)?;
    let v4 = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, RELAY_PORT));
    let mut listening = vec![listener(v4)?];
    let v6 = SocketAddr::V6(SocketAddrV6::new(Ipv6Addr::LOCALHOST, RELAY_PORT, 0, 0));
    // A kernel without it redirects nothing there.
    listening.extend(listener(v6));
    listening.push(bound(v4, SocketType::DGRAM)?);
    Ok(listening)
}

/// A TCP socket that listens and never waits.
pub(super) fn listener(address: SocketAddr) -> io::Result<OwnedFd> {
    let socket = bound(address, SocketType::STREAM)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// A socket that is bound and never waits.
pub(super) fn bound(address: SocketAddr, kind: SocketType) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, kind, flags, None)?;
    if kind == SocketType::STREAM {
        // What is left of the connections of an earlier Pod is in nobody's way.
        sockopt::set_socket_reuseaddr(&socket, true)?;
    }
    rustix::net::bind(&socket, &address)?;
    Ok(socket)
}

/// Does something in a child, and takes over the descriptors that it made and what it said.
fn run_in_child(
    work: impl FnOnce() -> io::Result<(Vec<OwnedFd>, String)>,
) -> io::Result<(Vec<OwnedFd>, String)> {
    let making = NamespaceChild::begin(work)?;
    let taken = take_over(&making.socket);
    making.end();
    taken
}

/// A child process that makes a namespace, and the socket by which it hands that over.
#[derive(Debug)]
pub(in crate::shim) struct NamespaceChild {
    pub(in crate::shim) socket: OwnedFd,
    child: Pid,
}

impl NamespaceChild {
    fn begin(work: impl FnOnce() -> io::Result<(Vec<OwnedFd>, String)>) -> io::Result<Self> {
        let (socket, theirs) = pair()?;
        let child = fork(|| i32::from(hand_over(&theirs, work()).is_err()))?;
        Ok(Self { socket, child })
    }

    /// Reaps the child, which has handed over what it made.
    pub(in crate::shim) fn end(self) {
        let _ = rustix::process::waitpid(Some(self.child), WaitOptions::empty());
    }
}

fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?)
}

/// Runs something in a child; its end is what comes of it.
fn fork(work: impl FnOnce() -> i32) -> io::Result<Pid> {
    #[expect(unsafe_code, reason = "no safe face exists")]
    // SAFETY: the shim has one thread, so no lock is held by another one in the child, which ends
    // without returning from here.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let code = work();
        #[expect(unsafe_code, reason = "what the parent has must not be taken apart here")]
        // SAFETY: it ends the process and nothing else.
        unsafe {
            libc::_exit(code)
        }
    }
    Pid::from_raw(pid).filter(|_| pid > 0).ok_or_else(io::Error::last_os_error)
}

fn hand_over(to: &OwnedFd, made: io::Result<(Vec<OwnedFd>, String)>) -> io::Result<()> {
    let (fds, words, good) = match made {
        Ok((fds, words)) => (fds, words, true),
        Err(error) => (Vec::new(), error.to_string(), false),
    };
    let words = &words.as_bytes()[..words.len().min(MAX_ERROR_BYTES)];
    let fds: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(64))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&fds)) {
        return Err(io::Error::other("too many descriptors"));
    }
    let first = [u8::from(good)];
    let parts = [IoSlice::new(&first), IoSlice::new(words)];
    sendmsg(to, &parts, &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

fn take_over(from: &OwnedFd) -> io::Result<(Vec<OwnedFd>, String)> {
    let mut bytes = [0_u8; 1 + MAX_ERROR_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(64))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    let message = loop {
        match recvmsg(from, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags) {
            Err(rustix::io::Errno::INTR) => {}
            message => break message?,
        }
    };
    let mut fds = Vec::new();
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = part {
            fds.extend(received);
        }
    }
    let words = String::from_utf8_lossy(&bytes[1..message.bytes.max(1)]).into_owned();
    match (message.bytes, bytes[0]) {
        (1.., 1) => Ok((fds, words)),
        (1.., _) => Err(io::Error::other(words)),
        _ => Err(io::Error::other("the child that makes the Pod's network died")),
    }
}

/// Whether this machine has an address: whoever connects to it comes from it. Nothing is sent.
pub(super) fn is_own(ip: IpAddr) -> bool {
    local_towards(ip) == Some(ip)
}

/// Whether this machine gets anywhere by IPv6. Nothing is sent.
pub(super) fn has_v6() -> bool {
    local_towards(IpAddr::V6(Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 1))).is_some()
}

fn local_towards(ip: IpAddr) -> Option<IpAddr> {
    let family = if ip.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None).ok()?;
    // The port does not matter; 0 would be refused.
    rustix::net::connect(&socket, &SocketAddr::new(ip, 9)).ok()?;
    let name = rustix::net::getsockname(&socket).ok()?;
    SocketAddr::try_from(name).ok().map(|address| address.ip())
}
