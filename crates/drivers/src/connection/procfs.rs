//! Sockets as `/proc/net/tcp` and `/proc/net/tcp6` list them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::ReadError;
use super::socket::{LISTEN, Snapshot, Socket, Stage, canonical, stage};

const FILES: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];

/// All sockets now.
pub(super) fn read_sockets() -> Result<Snapshot, ReadError> {
    let mut snapshot = Snapshot::default();
    for path in FILES {
        match std::fs::read_to_string(path) {
            Ok(text) => parse(&text, &mut snapshot).ok_or(ReadError::ReadLine { path })?,
            // A kernel without IPv6 has no such file.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && path != FILES[0] => {}
            Err(source) => return Err(ReadError::ReadFile { path, source }),
        }
    }
    Ok(snapshot)
}

/// Adds the sockets of one file; nothing if a line cannot be read.
pub(super) fn parse(text: &str, snapshot: &mut Snapshot) -> Option<()> {
    for line in text.lines().skip(1) {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let (local, remote) = (address(fields.next()?)?, address(fields.next()?)?);
        let state = u8::from_str_radix(fields.next()?, 16).ok()?;
        let inode: u64 = fields.nth(5)?.parse().ok()?;
        if state == LISTEN {
            snapshot.listening.insert(local.port());
        }
        // One that its process let go of has no inode, so it cannot be told apart.
        if let Some(stage @ (Stage::Open | Stage::Closing)) = stage(state)
            && inode != 0
        {
            snapshot.sockets.push(Socket { id: inode, local, remote, stage });
        }
    }
    Some(())
}

/// `0100007F:0016`: words of the address as the machine stores them, then the port.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| u32::from_str_radix(ip.get(at..at + 8)?, 16).ok().map(u32::to_ne_bytes);
    let ip = match ip.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let mut octets = [0; 16];
            for (index, four) in octets.chunks_exact_mut(4).enumerate() {
                four.copy_from_slice(&word(index * 8)?);
            }
            IpAddr::V6(Ipv6Addr::from(octets))
        }
        _ => return None,
    };
    Some(canonical(SocketAddr::new(ip, port)))
}
