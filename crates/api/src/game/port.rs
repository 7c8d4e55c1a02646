//! The ports of a server, as they are asked for.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::grammar::PORT_NAME;
use crate::schema::rule_at;

/// So many ports one server may have.
pub const MAX_PORTS: usize = 32;

/// One port that players come by.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules()))]
pub struct GamePort {
    /// What it is called. With TCPUDP, `-tcp` and `-udp` are added in the Pod.
    #[schemars(length(max = 15), extend("x-kubernetes-validations" = PORT_NAME.rules()))]
    pub name: String,
    /// Where the container listens. With Passthrough it is the node's port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65_535))]
    pub container_port: Option<i32>,
    /// The port of the node. It is asked for with Static; otherwise it is what was granted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65_535))]
    pub host_port: Option<i32>,
    /// How the port of the node is chosen.
    #[serde(default)]
    pub policy: PortPolicy,
    #[serde(default)]
    pub protocol: PortProtocol,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PortPolicy {
    /// Any port of the pool.
    #[default]
    Dynamic,
    /// The one that is named.
    Static,
    /// Any port of the pool, and the container listens on the same.
    Passthrough,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PortProtocol {
    TCP,
    #[default]
    UDP,
    /// The same number for both.
    TCPUDP,
}

pub(super) const CONTAINER_PORT_NEEDED: &str = "is needed unless the policy is Passthrough";
pub(super) const HOST_PORT_NEEDED: &str = "is needed with the policy Static";
pub(super) const PASSTHROUGH_PORT: &str = "must be left out with the policy Passthrough";

fn rules() -> Value {
    let passthrough = "(has(self.policy) && self.policy == 'Passthrough')";
    let fixed = "(has(self.policy) && self.policy == 'Static')";
    json!([
        rule_at(
            &format!("{passthrough} || has(self.containerPort)"),
            ".containerPort",
            CONTAINER_PORT_NEEDED,
        ),
        rule_at(
            &format!("!{passthrough} || !has(self.containerPort)"),
            ".containerPort",
            PASSTHROUGH_PORT,
        ),
        rule_at(&format!("!{fixed} || has(self.hostPort)"), ".hostPort", HOST_PORT_NEEDED),
    ])
}
