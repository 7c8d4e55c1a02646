//! The command line: its shape and its help, nothing else.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::{Parser, Subcommand};

/// Where the API is served unless `--listen` says otherwise.
pub(crate) const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7443);
/// A kubelet takes 110, for its network's sake; processes of one machine take less.
const MAX_PODS: u32 = 600;

/// The command by which a node starts the shim of a Pod. It is for nobody else, so it is in no help.
pub(crate) const SHIM: &str = "shim";

const ENVIRONMENT: &str = "\
Environment:
  SOJOURN_LOG    what is logged to stderr: error, warn (as a rule), info, debug (with every
                 request), trace; or a list such as `warn,sojourn_apiserver=debug`
  XDG_DATA_HOME  data is kept in the folder `sojourn` in there; without it in ~/.local/share
  NO_COLOR       if set, nothing is coloured

Exit codes: 0 done, 1 the answer is no, 2 wrong usage, 3 something needed is not available,
4 a bug in sojourn.";

/// A Kubernetes API for one machine, in one binary.
#[derive(Debug, Parser)]
#[command(name = "sojourn", version, after_help = ENVIRONMENT, propagate_version = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Up(Up),
    Node(Node),
    Backup(Backup),
}

/// Serve the API and run Pods until Ctrl-C.
///
/// Everything is kept in one folder; nothing else on the machine is changed. A kubeconfig for
/// kubectl and other clients is written there, too. Pods run as processes of this machine, each kept
/// apart from it and from the others.
#[derive(Debug, clap::Args)]
pub(crate) struct Up {
    /// Folder to keep everything in; made if it is missing [default: the user's data folder]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,

    /// Address to serve on; port 0 takes any free one
    #[arg(long, value_name = "ADDR", default_value_t = LISTEN)]
    pub(crate) listen: SocketAddr,

    /// Keep nothing: everything is gone at the end
    #[arg(long, conflicts_with = "data")]
    pub(crate) in_memory: bool,

    /// Further host name or address under which clients reach the server; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) tls_san: Vec<String>,

    /// Leave Pods running at the end; the next `up` on the same data takes them over
    #[arg(long, conflicts_with = "in_memory")]
    pub(crate) keep_pods: bool,

    /// Serve the API alone: Pods stay pending
    #[arg(long, conflicts_with_all = ["keep_pods", "unconfined", "expose"])]
    pub(crate) no_pods: bool,

    #[command(flatten)]
    pub(crate) pods: Pods,
}

/// How Pods are run.
#[derive(Debug, clap::Args)]
pub(crate) struct Pods {
    /// Run Pods even where they cannot be kept apart: they may do whatever this user may
    #[arg(long)]
    pub(crate) unconfined: bool,

    /// Folder of this machine that every Pod may read; may be repeated
    #[arg(long, value_name = "DIR")]
    pub(crate) expose: Vec<PathBuf>,

    /// Ports that are given to Pods [default: 20000-29999]
    #[arg(long, value_name = "FIRST-LAST")]
    pub(crate) pod_ports: Option<String>,

    /// How many Pods are run at most
    #[arg(long, value_name = "N", default_value_t = MAX_PODS)]
    pub(crate) max_pods: u32,
}

/// Run Pods of any Kubernetes API server on this machine.
///
/// The node registers itself and runs, as processes of this machine, whatever Pods are bound to it.
/// Scheduling and Jobs are the control plane's affair.
#[derive(Debug, clap::Args)]
pub(crate) struct Node {
    /// Kubeconfig with the identity of the node: user system:node:NAME in group system:nodes
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: PathBuf,

    /// Bind claims of storage class `sojourn` to folders of this node, as the user of this kubeconfig
    #[arg(long, value_name = "FILE")]
    pub(crate) claims_kubeconfig: Option<PathBuf>,

    /// Name of the node [default: the host's name]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Folder to keep Pods in [default: `node` in the user's data folder]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,

    /// Address under which Pods and their logs are reached
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub(crate) address: IpAddr,

    /// Port to serve logs on; 0 takes any free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub(crate) port: u16,

    /// Certificate with which logs are served, in PEM
    #[arg(long, value_name = "FILE", requires_all = ["tls_key", "client_ca"])]
    pub(crate) tls_cert: Option<PathBuf>,

    /// Its private key
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,

    /// Authority that signs the certificates of those who may read logs
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) client_ca: Option<PathBuf>,

    /// Leave Pods running at the end; the next node takes them over
    #[arg(long)]
    pub(crate) keep_pods: bool,

    #[command(flatten)]
    pub(crate) pods: Pods,
}

/// Copy the database into a file, whether it is in use or not.
///
/// The copy is complete and consistent as of one moment, and holds every secret that the database
/// holds. To restore it, stop sojourn, take sojourn.db, sojourn.db-wal and sojourn.db-shm out of
/// the data folder, and put the copy there as sojourn.db.
#[derive(Debug, clap::Args)]
pub(crate) struct Backup {
    /// Folder that the data is in [default: the user's data folder]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,

    /// File to write; it must not exist yet
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn up_has_defaults_for_everything() {
        let Command::Up(up) = Args::parse_from(["sojourn", "up"]).command else { panic!("not up") };
        assert_eq!((up.data, up.in_memory, up.tls_san.len()), (None, false, 0));
        assert_eq!(up.listen.to_string(), "127.0.0.1:7443");
    }

    #[test]
    fn data_in_memory_is_a_contradiction() {
        let typed = ["sojourn", "up", "--in-memory", "--data", "x"];
        let refused = Args::try_parse_from(typed).expect_err("refused");
        assert_eq!(refused.exit_code(), 2);
    }
}
