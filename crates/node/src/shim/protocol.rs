//! What a node and a shim say to each other.
//!
//! A shim is started with [`ShimConfig`] in its Pod's folder and then listens on a socket there.
//! Each message is a line of JSON. A node may come and go; a shim answers whoever is connected and
//! tells every connected node what ended. What must not be lost is on disk as well ([`Record`]).

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The longest line that either side reads: environments hold whole Secrets.
pub const MAX_LINE_BYTES: usize = 8 << 20;
/// How much of what a hook or probe says is kept.
pub const MAX_EXEC_OUTPUT_BYTES: usize = 10 << 10;
/// How much of a termination message is kept, as in Kubernetes.
pub const MAX_TERMINATION_MESSAGE_BYTES: usize = 4096;

/// Where a Pod's own folder stands in its containers' roots.
pub const HOME: &str = "/home/pod";

/// How a Pod is kept apart from the machine and from other Pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Confinement {
    /// We are root: PID, mount, IPC and UTS namespaces, and an unprivileged user of the Pod's own
    /// namespace.
    User { uid: u32, gid: u32 },
    /// We are an ordinary user: the same namespaces inside a user namespace.
    UserNamespace,
    /// None, because somebody insisted: a subreaper stands in for the PID namespace.
    Unconfined,
}

/// What a shim is started with: `shim.json` in its Pod's folder. It holds no secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShimConfig {
    pub pod_uid: String,
    pub hostname: String,
    pub confinement: Confinement,
    /// Host folders that Pods may read beside the system's own (`/usr`, `/etc`, …).
    pub exposed: Vec<PathBuf>,
    /// Folders that no Pod may see even where they lie in a visible one: the data folder, homes.
    pub hidden: Vec<PathBuf>,
    /// Ends with the node: the shim's standard output is then a pipe that the node holds.
    pub dies_with_node: bool,
    /// How many bytes of logs the whole Pod may keep.
    pub log_limit: u64,
    /// How many containers share that, init containers included.
    pub containers: u32,
    /// A configuration that does not say is of a Pod that shares the machine's.
    #[serde(default)]
    pub network: Network,
}

/// The network of a Pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum Network {
    /// The machine's, where no other can be made or somebody insisted. The Pod is held to these ports,
    /// if any are given and the kernel can.
    Machine {
        #[serde(default)]
        ports: Option<TcpPorts>,
    },
    /// A namespace of its own. What passes between it and the machine passes through the shim.
    Own(OwnNetwork),
}

impl Default for Network {
    fn default() -> Self {
        Self::Machine { ports: None }
    }
}

/// The TCP ports that a Pod's processes have use of.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TcpPorts {
    /// Where they may listen, beside at ports that the kernel picks.
    pub listen: Vec<u16>,
    /// What they may connect to, at whatever address; `None`: everything.
    pub connect: Option<Vec<u16>>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnNetwork {
    /// The machine's ports that lead into the Pod.
    pub forwards: Vec<Forward>,
    /// What its processes may connect to although it is this machine's.
    pub reachable: Vec<Reachable>,
    /// Who resolves names for it; if nobody is named, those that the machine itself asks.
    pub resolvers: Vec<SocketAddr>,
}

/// A port of the machine that leads to one of the Pod's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Forward {
    pub transport: Transport,
    pub listen: SocketAddr,
    /// The Pod's.
    pub port: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Transport {
    Tcp,
    Udp,
}

/// A service of this machine that Pods may connect to, by TCP. An unspecified address stands for
/// every one that the machine has; without a port, all are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reachable {
    pub ip: IpAddr,
    pub port: Option<u16>,
}

impl From<SocketAddr> for Reachable {
    fn from(address: SocketAddr) -> Self {
        Self { ip: address.ip(), port: Some(address.port()) }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    pub id: u64,
    #[serde(flatten)]
    pub command: ShimCommand,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "camelCase")]
pub enum ShimCommand {
    /// Everything that the shim knows: answered by [`Answer::State`].
    State,
    /// Runs a container. The same attempt twice starts one process: the second answer is the first.
    Start(Box<Start>),
    /// Sends a signal to a container's first process.
    Signal { container: String, signal: i32 },
    /// Kills every process of a container.
    Kill { container: String },
    /// Runs a command beside a running container, in its root and with its environment.
    Exec { container: String, argv: Vec<String>, timeout_ms: u64 },
    /// Connects to a TCP port of the Pod's, inside its own network: answered by
    /// [`Answer::Dialing`], with the socket.
    Dial { port: u16 },
    /// What the Pod's network can do: answered by [`Answer::Network`].
    Network,
    /// Kills whatever runs, writes the last records, and ends.
    End,
}

/// A container, ready to run: everything is resolved.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Start {
    pub container: String,
    /// Counts the runs of this container from 0.
    pub attempt: u32,
    pub argv: Vec<String>,
    /// The whole environment, in order; a later value of the same name wins.
    pub env: Vec<(String, String)>,
    /// Inside the Pod's root.
    pub working_dir: Option<PathBuf>,
    pub mounts: Vec<Mount>,
    pub read_only_root: bool,
    /// `cgroup.procs` files that the process is entered into before it runs.
    pub cgroups: Vec<PathBuf>,
    /// Where the kernel counts out-of-memory kills of this container: a file of lines
    /// `oom_kill N`.
    pub oom_events: Option<PathBuf>,
    /// Without a memory cgroup: the bytes over which the container's processes are killed.
    pub memory_limit: Option<u64>,
    /// The file that the container may leave its termination message in; it is one of `mounts`.
    pub termination_message: Option<PathBuf>,
    /// A container without a message that failed: the end of its log stands in for it.
    pub message_from_log: bool,
}

/// Something of the host at a path of the container's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Mount {
    /// Where the container sees it: absolute, without `..`.
    pub target: PathBuf,
    pub source: Source,
    pub read_only: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum Source {
    /// A folder or file of the node's, by its path on the host. `beneath` is walked from there
    /// without following links out of it, at the moment of mounting; with `create` a missing
    /// `beneath` becomes a folder of the Pod's user.
    Host { path: PathBuf, beneath: Option<PathBuf>, create: bool },
    /// A file of the node's that stands in for a block device. Only such may stand in `/dev` under
    /// a name that is free there.
    Device { path: PathBuf },
    /// Memory, of at most so many bytes. It stands at `path`, an empty folder of the Pod's, in the
    /// shim's mount namespace and nowhere else: so all containers of a Pod share it and it
    /// outlives their restarts. `beneath` and `create` as above.
    Memory { path: PathBuf, beneath: Option<PathBuf>, create: bool, bytes: u64 },
}

/// A line from the shim.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Line {
    Answer {
        id: u64,
        answer: Answer,
    },
    /// A container ended; told once to every connected node, and on disk before.
    Ended(Record),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "camelCase")]
pub enum Answer {
    State {
        records: Vec<Record>,
    },
    Started(Record),
    Done,
    Executed(Executed),
    /// The descriptor that comes with this line is a socket that connects, or has connected.
    Dialing,
    /// Why no connection leads out of the Pod's network, if none does; and whether in the machine's
    /// network the Pod is held to its ports.
    Network {
        no_way_out: Option<String>,
        #[serde(default)]
        is_held_to_ports: bool,
    },
    /// It could not be done; `reason` is one word for programs, `message` is for people.
    Refused {
        reason: Refusal,
        message: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Refusal {
    /// No such container runs.
    NotRunning,
    /// The command is not there or may not be run.
    CannotRun,
    /// The root, a mount, or the working directory could not be made.
    CannotPrepare,
    /// The shim does not understand the request.
    BadRequest,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Executed {
    /// `None` when it took too long and was killed.
    pub exit_code: Option<i32>,
    /// The beginning of what it wrote to stdout and stderr.
    pub output: String,
}

/// One run of a container, as it is kept in `records/<container>.<attempt>.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    pub container: String,
    pub attempt: u32,
    /// As the shim's own PID namespace numbers it.
    pub pid: u32,
    pub started_at: Timestamp,
    /// `None` while it runs, and for ever if the shim was killed with it.
    pub end: Option<End>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct End {
    pub finished_at: Timestamp,
    /// 128 + signal when a signal ended it, as Kubernetes counts.
    pub exit_code: i32,
    pub signal: Option<i32>,
    pub oom_killed: bool,
    /// Its termination message.
    pub message: String,
}
