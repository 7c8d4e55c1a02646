//! The command line: its shape and its help, nothing else. What families add to it is theirs
//! ([`crate::commands::command_line`]).

mod drain_agent;
mod game;
mod game_server;
mod object;
mod provider_test;
mod sdk;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use clap::{Parser, Subcommand};
use sojourn_node::shim::protocol::Reachable;

pub(crate) use self::drain_agent::DrainAgent;
pub(crate) use self::game::Game;
pub(crate) use self::game_server::GameServer;
pub(crate) use self::object::{Apply, Delete, DryRun, Get, ListOutput, Logs, ObjectOutput};
pub(crate) use self::provider_test::ProviderTest;
pub(crate) use self::sdk::Sdk;

/// Where the API is served unless `--listen` says otherwise.
pub(crate) const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7443);
/// Where people are served unless `--web` says otherwise.
pub(crate) const WEB: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7080);
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

/// Manages the life of everything that a platform team lends out.
///
/// It sees what is used, warns owners, stops, wakes and deletes, and never takes a thing from somebody
/// who is using it. On one machine (`sojourn up`) it brings a Kubernetes API of its own; on a cluster
/// (`sojourn operator`) it uses that.
#[derive(Debug, Parser)]
#[command(name = "sojourn", version, after_help = ENVIRONMENT, propagate_version = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Up(Up),
    Operator(Operator),
    Node(Node),
    Plan(Plan),
    Why(Why),
    Keep(Keep),
    Extend(Extend),
    Open(Open),
    Apply(Apply),
    Get(Get),
    Delete(Delete),
    Logs(Logs),
    Config(Config),
    Crds(Crds),
    Families(Families),
    Backup(Backup),
    SshTracker(SshTracker),
    DrainAgent(DrainAgent),
    ProviderTest(ProviderTest),
    #[command(hide = true)]
    Submit(Submit),
    Sdk(Sdk),
    #[command(hide = true)]
    GameServer(GameServer),
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

    /// Serve the API and Pods without the controllers of Sojourn's own kinds
    #[arg(long)]
    pub(crate) no_controllers: bool,

    /// Serve the metrics of the controllers here, for everybody who can reach it; those of the API are
    /// at its own /metrics
    #[arg(long, value_name = "ADDR", conflicts_with = "no_controllers")]
    pub(crate) metrics: Option<SocketAddr>,

    /// Folder with programs sojourn-provider-NAME, which make machines for the provider `exec`; only you
    /// and root may be able to write there
    #[arg(long, value_name = "DIR", conflicts_with = "no_controllers")]
    pub(crate) providers: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) web: Web,

    #[command(flatten)]
    pub(crate) pods: Pods,

    #[command(flatten)]
    pub(crate) game: Game,
}

/// Where people come in.
#[derive(Debug, clap::Args)]
pub(crate) struct Web {
    /// Address to serve people on: plain on this machine, with TLS elsewhere; port 0 takes any
    #[arg(long, value_name = "ADDR", default_value_t = WEB)]
    pub(crate) web: SocketAddr,

    /// Serve nobody but the API's clients
    #[arg(long, conflicts_with = "web")]
    pub(crate) no_web: bool,
}

/// How Pods are run.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Pods {
    /// Run Pods even where they cannot be kept apart: they may do whatever this user may
    #[arg(long)]
    pub(crate) unconfined: bool,

    /// Folder of this machine that every Pod may read; may be repeated
    #[arg(long, value_name = "DIR")]
    pub(crate) expose: Vec<PathBuf>,

    /// What Pods may connect to on this machine, beside the API and the web; may be repeated
    #[arg(long, value_name = "IP[:PORT]", value_parser = reachable)]
    pub(crate) pods_may_reach: Vec<Reachable>,

    /// Who resolves names for Pods; may be repeated [default: as for this machine]
    #[arg(long, value_name = "IP:PORT")]
    pub(crate) pods_resolver: Vec<SocketAddr>,

    /// Ports of this machine that are drawn for Pods where one is needed; those of TCP and UDP are
    /// apart [default: 10000-19999]
    #[arg(long, value_name = "FIRST-LAST")]
    pub(crate) pod_ports: Option<String>,

    /// How many Pods are run at most
    #[arg(long, value_name = "N", default_value_t = MAX_PODS)]
    pub(crate) max_pods: u32,
}

/// An address that Pods may reach. A Pod has a 127.0.0.1 of its own, of which only ports can be
/// taken away.
fn reachable(text: &str) -> Result<Reachable, String> {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(address.into());
    }
    let ip: IpAddr = text.parse().map_err(|_| "give an address, or an address and a port")?;
    let own = [IpAddr::from([127, 0, 0, 1]), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    if own.contains(&ip) || ip.is_unspecified() {
        return Err("say which port of it".to_owned());
    }
    Ok(Reachable { ip, port: None })
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

    /// Lead a port of this node to every port of a Pod, for those who cannot dial into Pods
    #[arg(long)]
    pub(crate) publish_ports: bool,

    #[command(flatten)]
    pub(crate) pods: Pods,
}

/// Run the controllers on a Kubernetes cluster.
///
/// The kinds must be there (`sojourn crds | kubectl apply -f -`). The configuration is the ConfigMap
/// sojourn-system/sojourn. Of several replicas, the one that holds the Lease of the same name acts; the
/// others serve admission, metrics and health, and take over when it is gone.
#[derive(Debug, clap::Args)]
pub(crate) struct Operator {
    /// Kubeconfig of the operator [default: the one of the Pod it runs in]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// Serve people and their instances here: plain on this machine, with TLS elsewhere
    #[arg(long, value_name = "ADDR")]
    pub(crate) web: Option<SocketAddr>,

    /// Certificate to serve people with, in PEM; for the names of publicURL and *.<gateway.domain>
    /// [default: one of our own making, for the address]
    #[arg(long, value_name = "FILE", requires_all = ["web", "web_tls_key"])]
    pub(crate) web_tls_cert: Option<PathBuf>,

    /// Its private key
    #[arg(long, value_name = "FILE", requires = "web_tls_cert")]
    pub(crate) web_tls_key: Option<PathBuf>,

    /// Serve admission here, and register it with the API server; reviews of access are answered at
    /// /authorize
    #[arg(long, value_name = "ADDR", requires = "webhook_place")]
    pub(crate) webhook: Option<SocketAddr>,

    /// The URL under which the API server reaches it
    #[arg(long, value_name = "URL", requires = "webhook", group = "webhook_place")]
    pub(crate) webhook_url: Option<String>,

    /// The Service by which the API server reaches it, where the operator runs in the cluster
    #[arg(
        long,
        value_name = "NAMESPACE/NAME[:PORT]",
        requires = "webhook",
        group = "webhook_place"
    )]
    pub(crate) webhook_service: Option<String>,

    /// Authority that signs the certificates of API servers which ask there who may do what (/authorize)
    #[arg(long, value_name = "FILE", requires = "webhook")]
    pub(crate) authorize_client_ca: Option<PathBuf>,

    /// Hear game servers here, through the sidecars in their Pods: plain on this machine, with TLS elsewhere
    #[arg(long, value_name = "ADDR")]
    pub(crate) sdk: Option<SocketAddr>,

    /// Certificate for it, in PEM, with the name of `sdk.url` in game.yaml; needed but on this machine
    #[arg(long, value_name = "FILE", requires_all = ["sdk", "sdk_tls_key"])]
    pub(crate) sdk_tls_cert: Option<PathBuf>,

    /// Its private key
    #[arg(long, value_name = "FILE", requires = "sdk_tls_cert")]
    pub(crate) sdk_tls_key: Option<PathBuf>,

    /// Serve metrics and health here, for everybody who can reach it
    #[arg(long, value_name = "ADDR")]
    pub(crate) metrics: Option<SocketAddr>,

    /// Act only while holding the lease; without it, see to it that there is never a second replica
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    pub(crate) leader_elect: bool,

    /// Folder with programs sojourn-provider-NAME, which make machines for the provider `exec`; only you
    /// and root may be able to write there
    #[arg(long, value_name = "DIR")]
    pub(crate) providers: Option<PathBuf>,

    /// This program, as the Pods that hand volumes in or hear game servers find it
    #[arg(long, value_name = "PATH", default_value = "sojourn")]
    pub(crate) submit_program: String,

    #[command(flatten)]
    pub(crate) game: Game,
}

/// How to reach the API.
#[derive(Debug, clap::Args)]
pub(crate) struct Connection {
    /// Kubeconfig to use [default: $KUBECONFIG, else that of `sojourn up`, else kubectl's]
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig to use [default: the one that it names]
    #[arg(long, value_name = "NAME", global = true)]
    pub(crate) context: Option<String>,

    /// Namespace to look in [default: the kubeconfig's]
    #[arg(short, long, value_name = "NAMESPACE", global = true)]
    pub(crate) namespace: Option<String>,
}

/// How to reach the listener for people.
#[derive(Debug, clap::Args)]
pub(crate) struct People {
    /// Where people are served [default: where `sojourn up` on the same data says]
    #[arg(long, value_name = "URL")]
    pub(crate) web: Option<String>,

    /// Authorities to trust there, in PEM, beside the system's and the kubeconfig's
    #[arg(long, value_name = "FILE")]
    pub(crate) web_ca: Option<PathBuf>,
}

/// How answers are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Output {
    Table,
    Json,
    Yaml,
    Name,
}

/// Say what will happen by itself, when, and why.
///
/// The next thing for each object, the soonest first, and until when something is kept. It is a forecast:
/// it may move until its owner has been told. A table leaves columns out that the terminal has no room for.
#[derive(Debug, clap::Args)]
pub(crate) struct Plan {
    /// One object, such as instance/alice [default: everything]
    #[arg(value_name = "KIND/NAME")]
    pub(crate) object: Option<Named>,

    /// Look in every namespace that you may read [default, unless there is -n]
    #[arg(short = 'A', long)]
    pub(crate) all_namespaces: bool,

    /// How to write it
    #[arg(short, long, default_value = "table")]
    pub(crate) output: ListOutput,

    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// Say how something is, what was seen of it, and what follows.
///
/// With json or yaml it is the object's status as it is.
#[derive(Debug, clap::Args)]
pub(crate) struct Why {
    /// The object, such as instance/alice
    #[arg(value_name = "KIND/NAME")]
    pub(crate) object: Named,

    /// How to write it
    #[arg(short, long, default_value = "table")]
    pub(crate) output: Output,

    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// Ask that nothing is taken for a while.
///
/// While it is kept, it is neither stopped nor deleted, and nobody is warned. How often and for how
/// long that is given is limited; the answer says until when it is kept.
#[derive(Debug, clap::Args)]
pub(crate) struct Keep {
    /// The object, such as instance/alice
    #[arg(value_name = "KIND/NAME")]
    pub(crate) object: Named,

    /// For how long from now, e.g. 90m, 2h or 1d
    #[arg(long = "for", value_name = "SPAN", default_value = "1h")]
    pub(crate) span: String,

    /// Until when, e.g. 2026-11-17T09:00:00Z
    #[arg(long, value_name = "TIME", conflicts_with = "span")]
    pub(crate) until: Option<String>,

    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// Ask that what comes next comes later.
///
/// The same as `keep`, counted from what comes next, or from the time until which it is kept already. A
/// session (bgs/NAME) ends later by the step that its escalation says.
#[derive(Debug, clap::Args)]
pub(crate) struct Extend {
    /// The object, such as instance/alice
    #[arg(value_name = "KIND/NAME")]
    pub(crate) object: Named,

    /// How much later, e.g. 90m, 2h or 1d [default: 1h]
    #[arg(long, value_name = "SPAN")]
    pub(crate) by: Option<String>,

    #[command(flatten)]
    pub(crate) people: People,

    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// Print a link that signs a browser in, once, and open it where there is a browser.
///
/// Whoever opens it is you, for the API and for every instance: give it to nobody. The browser is started
/// by xdg-open (or open, on macOS) if this is typed at a terminal of a desktop; for a moment, the other
/// users of this machine can see what a program is started with. --print only prints the link.
#[derive(Debug, clap::Args)]
pub(crate) struct Open {
    /// Open no browser
    #[arg(long)]
    pub(crate) print: bool,

    #[command(flatten)]
    pub(crate) people: People,

    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// Print the configuration that is in force, and where each value comes from.
///
/// Values come from the ConfigMap sojourn-system/sojourn, one key for each family, or are defaults.
#[derive(Debug, clap::Args)]
pub(crate) struct Config {
    /// How to write it
    #[arg(short, long, default_value = "table")]
    pub(crate) output: Output,

    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// Print the definitions of Sojourn's kinds and its roles, for kubectl apply.
#[derive(Debug, clap::Args)]
pub(crate) struct Crds {}

/// List what can be lent: the families of kinds that this program knows.
#[derive(Debug, clap::Args)]
pub(crate) struct Families {
    /// How to write it
    #[arg(short, long, default_value = "table")]
    pub(crate) output: Output,
}

/// An object as people name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) kind: String,
    pub(crate) name: String,
}

impl std::str::FromStr for Named {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('/') {
            Some((kind, name)) if !kind.is_empty() && !name.is_empty() && !name.contains('/') => {
                Ok(Self { kind: kind.to_ascii_lowercase(), name: name.to_owned() })
            }
            _ => Err("write KIND/NAME, such as instance/alice".to_owned()),
        }
    }
}

impl std::fmt::Display for Named {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.kind, self.name)
    }
}

/// Count SSH connections that this host opens, for Prometheus.
///
/// Run it on a bastion host: what people reach through it then counts as used.
#[derive(Debug, clap::Args)]
pub(crate) struct SshTracker {
    /// Address to serve metrics on
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9112")]
    pub(crate) listen: SocketAddr,

    /// Port, or FIRST-LAST, that counts as SSH; may be repeated
    #[arg(long, value_name = "PORTS", default_value = "22")]
    pub(crate) port: Vec<String>,
}

/// Archive a volume and hand it in: what a submission's Job runs.
#[derive(Debug, clap::Args)]
pub(crate) struct Submit {
    /// Folder whose files go into the archive
    #[arg(long, value_name = "DIR", required_unless_present = "device", conflicts_with = "device")]
    pub(crate) root: Option<PathBuf>,

    /// Device, or file that stands for one, which goes into the archive as disk.img
    #[arg(long, value_name = "FILE")]
    pub(crate) device: Option<PathBuf>,

    /// What the archive is called, without .zip
    #[arg(long)]
    pub(crate) filename: String,

    #[arg(long)]
    pub(crate) url: String,

    #[arg(long, value_parser = ["Multipart", "Put", "S3"])]
    pub(crate) method: String,

    #[arg(long)]
    pub(crate) idempotency_key: String,

    /// Folder with the credentials
    #[arg(long, value_name = "DIR")]
    pub(crate) secret_dir: Option<PathBuf>,

    /// Further authority to trust, in PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,

    /// Address range that may be reached besides the public ones; may be repeated
    #[arg(long, value_name = "RANGE")]
    pub(crate) allow_address: Vec<String>,

    /// File to leave the receipt in
    #[arg(long, value_name = "FILE", default_value = "/dev/termination-log")]
    pub(crate) receipt: PathBuf,
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
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        crate::commands::command_line().debug_assert();
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
