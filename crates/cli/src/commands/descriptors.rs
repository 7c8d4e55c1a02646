//! File descriptors: as many as this user may have, and some that no client gets.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Connections to the API, however many descriptors there are.
const MAX_CONNECTIONS: usize = 10_000;
/// Descriptors that no connection to the API takes: those of the database, of Pods' sockets and
/// logs, and of the listener for people. Where there are few, half of them.
const RESERVED_DESCRIPTORS: u64 = 4_096;

/// Raises the limit as far as it goes and says how many connections to the API it allows.
pub(super) fn connections() -> usize {
    let limit = raise();
    let connections = connections_within(limit);
    if connections < MAX_CONNECTIONS {
        tracing::warn!(
            limit,
            connections,
            "few file descriptors: raise the hard limit (ulimit -Hn) to serve more connections"
        );
    }
    connections
}

/// The limit that holds afterwards.
fn raise() -> u64 {
    let before = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: before.maximum, maximum: before.maximum };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => before.maximum.unwrap_or(u64::MAX),
        Err(error) => {
            tracing::warn!(%error, "cannot raise the limit of file descriptors");
            before.current.unwrap_or(u64::MAX)
        }
    }
}

fn connections_within(limit: u64) -> usize {
    let left = limit - RESERVED_DESCRIPTORS.min(limit / 2);
    usize::try_from(left).unwrap_or(usize::MAX).min(MAX_CONNECTIONS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_descriptors_are_never_a_clients() {
        for (limit, expected) in [
            (256, 128),
            (1_024, 512),
            (4_096, 2_048),
            (10_000, 5_904),
            (524_288, 10_000),
            (u64::MAX, 10_000),
        ] {
            assert_eq!(connections_within(limit), expected, "{limit}");
        }
    }
}
