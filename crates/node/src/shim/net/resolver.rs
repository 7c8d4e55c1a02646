//! Who resolves names for the Pod: those that the machine itself asks, on its loopback too.

use std::net::{IpAddr, SocketAddr};

use super::RESOLVER;

/// What the machine asks is written here.
const FILE: &str = "/etc/resolv.conf";
const DNS: u16 = 53;

/// Whom to ask: those that are `given`, else those of the machine. `turn` goes round among them, so
/// that one who does not answer is not asked every time.
pub(super) fn choose(given: &[SocketAddr], turn: usize) -> Option<SocketAddr> {
    if let Some(address) = pick(given, turn) {
        return Some(address);
    }
    // Read each time: a laptop that moves has others.
    let text = std::fs::read_to_string(FILE).ok()?;
    pick(&servers(&text), turn)
}

fn pick(all: &[SocketAddr], turn: usize) -> Option<SocketAddr> {
    all.get(turn.checked_rem(all.len())?).copied()
}

fn servers(text: &str) -> Vec<SocketAddr> {
    let server = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let ip: IpAddr = (words.next()? == "nameserver").then(|| words.next())??.parse().ok()?;
        Some(SocketAddr::new(ip, DNS))
    };
    text.lines().filter_map(server).collect()
}

/// The machine's file as the Pod sees it: with one server, the shim.
pub(in crate::shim) fn for_pod(text: &str) -> String {
    let (ip, _) = RESOLVER;
    let is_kept = |line: &&str| line.split_ascii_whitespace().next() != Some("nameserver");
    let kept: String = text.lines().filter(is_kept).flat_map(|line| [line, "\n"]).collect();
    format!("nameserver {ip}\n{kept}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# made by hand\nnameserver 127.0.0.53\nnameserver\t2001:db8::1 x\n\
                        nameserver fe80::1%eth0\nnameservers 1.1.1.1\nsearch example.org\n";

    #[test]
    fn servers_are_those_of_the_machine() {
        let found = servers(TEXT);
        assert_eq!(found, ["127.0.0.53:53", "[2001:db8::1]:53"].map(|text| text.parse().unwrap()));
        let asked: Vec<_> = (0..3).filter_map(|turn| pick(&found, turn)).collect();
        assert_eq!(asked, [found[0], found[1], found[0]]);
        assert_eq!(pick(&[], 0), None);
    }

    #[test]
    fn a_pod_asks_the_shim() {
        let text = for_pod(TEXT);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "nameserver 169.254.0.53",
                "# made by hand",
                "nameservers 1.1.1.1",
                "search example.org"
            ]
        );
    }
}
