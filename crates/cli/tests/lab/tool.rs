//! The programs that stand in for external services, and where they are.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Programs that `cargo xtask lab` puts in place.
#[derive(Debug, Clone)]
pub(crate) struct Tools {
    /// Has aiosmtpd and moto.
    pub(crate) python: PathBuf,
    pub(crate) prometheus: PathBuf,
}

impl Tools {
    /// Where one is missing, this says so, or fails where they are required.
    pub(crate) fn find() -> Option<Self> {
        let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
        let system = PathBuf::from("/usr/bin/prometheus");
        let unpacked = target.join("prometheus/usr/bin/prometheus");
        let tools = Self {
            python: target.join("python/bin/python"),
            prometheus: if system.exists() { system } else { unpacked },
        };
        let missing = [&tools.python, &tools.prometheus].into_iter().find(|path| !path.exists());
        let Some(missing) = missing else { return Some(tools) };
        let required = std::env::var("SOJOURN_REQUIRE_WORLD").is_ok_and(|value| value == "1");
        assert!(!required, "{} is not there", missing.display());
        println!("skipped: {} is not there (cargo xtask lab)", missing.display());
        None
    }
}

/// Below what the system gives to outgoing connections: whoever is killed and started again finds its
/// port free.
const OWN_PORTS: Range<u16> = 16_000..20_000;

/// A port of loopback that nobody uses now.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let many = u32::from(OWN_PORTS.end - OWN_PORTS.start);
    for _ in 0..many {
        let next = std::process::id().wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % many;
        let port = OWN_PORTS.start + u16::try_from(next).expect("it is less than there are ports");
        if TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).is_ok() {
            return port;
        }
    }
    panic!("no port of {OWN_PORTS:?} is free");
}
