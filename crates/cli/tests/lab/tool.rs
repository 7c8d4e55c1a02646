//! The programs that play the outside world, and where they are.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

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

/// A port of loopback that nobody uses now.
pub(crate) fn free_port() -> u16 {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let listener = TcpListener::bind(any).expect("a free port");
    listener.local_addr().expect("it is bound").port()
}
