//! Servers for tests.

use super::server::{PodState, Server, ServerHealth};

/// The template that servers of tests are made from.
pub(super) const REVISION: &str = "r1";

/// One that can be played on, with so many players.
pub(super) fn ready_server(name: &str, node: &str, players: u32) -> Server {
    Server {
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        health: ServerHealth::Healthy,
        pod_state: PodState::Running,
        node: Some(node.to_owned()),
        address: Some("192.0.2.7".to_owned()),
        active_players: Some(players),
        revision: REVISION.to_owned(),
        ..Server::default()
    }
}
