//! What a node is told when it starts.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use crate::cgroup::DEFAULT_PIDS;
use crate::pod_services::PodServices;
use crate::server::Certified;
use crate::shim::protocol::Reachable;

/// The settings of one node. [`Config::new`] has what suits most; everything else is public.
#[derive(Debug, Clone)]
pub struct Config {
    /// Of the Node object.
    pub name: String,
    /// Where it keeps everything, see `folder`.
    pub folder: PathBuf,
    /// Our own program: it is run as `PROGRAM shim FOLDER`.
    pub program: PathBuf,
    /// Under which it is reached, and which its Pods have as well.
    pub address: IpAddr,
    /// Where logs are asked for.
    pub listen: SocketAddr,
    /// With which certificate; without one, logs are not served.
    pub serving: Option<Serving>,
    /// Where Pods reach the API server.
    pub api_server: Option<(String, u16)>,
    /// Run Pods although they cannot be confined.
    pub unconfined: bool,
    /// Pods end with this process, however it ends.
    pub pods_end_with_node: bool,
    /// Host folders that Pods may read beside the system's.
    pub exposed: Vec<PathBuf>,
    /// Folders that no Pod may see.
    pub hidden: Vec<PathBuf>,
    pub max_pods: u32,
    pub pids_per_pod: u64,
    /// Bytes of logs that a Pod may keep.
    pub log_limit: u64,
    /// The ports that are given to Pods, as `FIRST-LAST`; else the usual ones.
    pub port_range: Option<String>,
    /// Every port of a Pod is one of this node's address, too, for those who cannot dial into Pods.
    pub publish_ports: bool,
    /// What Pods may connect to on this machine.
    pub reachable: Vec<Reachable>,
    /// What single Pods may connect to beside that, and no others.
    pub pod_services: Option<Arc<dyn PodServices>>,
    /// Who resolves names for Pods; if nobody is named, those that the machine itself asks.
    pub resolvers: Vec<SocketAddr>,
    /// What Pods have as PATH, LANG and TZ.
    pub path: String,
    pub lang: Option<String>,
    pub time_zone: Option<String>,
}

/// How a node proves itself to the API server, and the API server to it.
#[derive(Debug, Clone)]
pub struct Serving {
    pub certified: Certified,
    /// Who signs the certificates of those who may read logs, in PEM.
    pub client_authority_pem: String,
}

impl Config {
    pub fn new(name: impl Into<String>, folder: PathBuf, program: PathBuf) -> Self {
        let address = IpAddr::from([127, 0, 0, 1]);
        Self {
            name: name.into(),
            hidden: vec![folder.clone()],
            folder,
            program,
            address,
            listen: SocketAddr::new(address, 0),
            serving: None,
            api_server: None,
            unconfined: false,
            pods_end_with_node: false,
            exposed: Vec::new(),
            // A kubelet takes 110, for its network's sake; processes of one machine take less.
            max_pods: 600,
            pids_per_pod: DEFAULT_PIDS,
            log_limit: 32 << 20,
            port_range: None,
            publish_ports: false,
            reachable: Vec::new(),
            pod_services: None,
            resolvers: Vec::new(),
            path: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned(),
            lang: None,
            time_zone: None,
        }
    }

    pub(crate) fn host_ip(&self) -> String {
        self.address.to_string()
    }
}
