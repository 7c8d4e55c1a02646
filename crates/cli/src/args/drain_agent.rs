//! The command of the agent that empties Nodes.

use std::net::SocketAddr;
use std::path::PathBuf;

/// Empty the Nodes of a cluster whose machines are being drained.
///
/// For every Machine with an open drain: cordon its Node (the one with its provider ID, else with its
/// name), take it out of load balancers, evict its Pods as their PodDisruptionBudgets allow, wait for
/// its volumes, and answer. A Machine whose Node is gone counts as drained; one whose Node was never
/// seen is refused, so run one agent for each cluster and tell each which Machines are its own.
#[derive(Debug, clap::Args)]
pub(crate) struct DrainAgent {
    /// Kubeconfig of the cluster with the Nodes
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: PathBuf,

    /// Kubeconfig of the cluster with the Machines [default: the same cluster]
    #[arg(long, value_name = "FILE")]
    pub(crate) machines_kubeconfig: Option<PathBuf>,

    /// Look after the Machines of this namespace alone [default: of all]
    #[arg(short, long, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,

    /// Look after the Machines with these labels alone, e.g. group.sojourn.dev/group=web
    #[arg(short = 'l', long, value_name = "LABELS")]
    pub(crate) selector: Option<String>,

    /// Serve metrics and health here, for everybody who can reach it
    #[arg(long, value_name = "ADDR")]
    pub(crate) metrics: Option<SocketAddr>,
}
