//! Who sees that an instance is used.

use crate::activity::Source;

/// Requests that an ingress passed on.
pub const NGINX: Source = Source::new(0, "Nginx");
/// Connections through the bastion for SSH.
pub const BASTION_SSH: Source = Source::new(1, "BastionSSH");
/// The same in a browser.
pub const WEB_SSH: Source = Source::new(2, "WebSSH");
/// Our own gateway.
pub const GATEWAY: Source = Source::new(3, "Gateway");
/// Whoever is given a token for it.
pub const REPORT: Source = Source::new(4, "Report");

pub const ALL: [Source; 5] = [NGINX, BASTION_SSH, WEB_SSH, GATEWAY, REPORT];

/// The source of that name.
pub fn parse(name: &str) -> Option<Source> {
    ALL.into_iter().find(|source| source.as_str() == name)
}
