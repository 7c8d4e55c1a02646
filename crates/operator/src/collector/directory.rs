//! Whose series it is. Names and addresses are compared whole: `vm-1` is not `vm-10`.

use std::net::IpAddr;

use sojourn_core::key::Key;
use sojourn_drivers::metrics::Labels;

use super::options::Identity;

/// The objects of a family, by what metrics call them. Looked up for every series: an index, kept up
/// to date by whoever watches the objects.
pub trait Directory: Send + Sync {
    /// The object behind a Service.
    fn by_service(&self, namespace: &str, service: &str) -> Option<Key>;

    /// The object that has an address, on any of its environments. Without a port only if no other
    /// object has the same address.
    fn by_address(&self, ip: IpAddr, port: Option<u16>) -> Option<Key>;
}

/// The object that a series is about, if it is one of ours.
pub(super) fn find(directory: &dyn Directory, labels: &Labels, by: &Identity) -> Option<Key> {
    match by {
        Identity::Service { namespace, name } => {
            directory.by_service(labels.get(namespace)?, labels.get(name)?)
        }
        Identity::Address { ip, port } => {
            let ip: IpAddr = labels.get(ip)?.parse().ok()?;
            let port = match labels.get(port) {
                // A port that cannot be read is not "any port".
                Some(port) => Some(port.parse().ok()?),
                None => None,
            };
            directory.by_address(ip.to_canonical(), port)
        }
    }
}
