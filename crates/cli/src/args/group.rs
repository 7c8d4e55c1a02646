//! The commands about machines and their groups.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::{Connection, Named};

/// Have a machine drained and taken away.
///
/// One of a group is replaced first. Waits until it is drained; Ctrl-C ends the waiting, and not the
/// drain.
#[derive(Debug, clap::Args)]
pub(crate) struct Drain {
    /// The machine, such as machine/web-7k2qd
    #[arg(value_name = "KIND/NAME")]
    pub(crate) object: Named,

    /// Ask for it, and do not wait
    #[arg(long)]
    pub(crate) no_wait: bool,

    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// Have every machine replaced that a group has now.
///
/// One after the other, each drained after its replacement is ready, as the group's budgets allow.
#[derive(Debug, clap::Args)]
pub(crate) struct Rotate {
    /// The group, such as group/web
    #[arg(value_name = "KIND/NAME")]
    pub(crate) object: Named,

    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// Start no rotation in a group for a while, not even a forced one.
///
/// Drains that are open end as they would have.
#[derive(Debug, clap::Args)]
pub(crate) struct Freeze {
    /// The group, such as group/web
    #[arg(value_name = "KIND/NAME")]
    pub(crate) object: Named,

    /// Until when, e.g. 2026-11-17T09:00:00Z, or for how long from now, e.g. 2h
    #[arg(long, value_name = "TIME", required_unless_present = "lift", conflicts_with = "lift")]
    pub(crate) until: Option<String>,

    /// Not any longer
    #[arg(long)]
    pub(crate) lift: bool,

    #[command(flatten)]
    pub(crate) connection: Connection,
}

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
