//! Where cases run: an API server with a node behind it.

use std::path::PathBuf;

use kube::Client;

#[derive(Clone)]
pub(crate) struct CaseCluster {
    pub(crate) client: Client,
    pub(crate) kubeconfig: PathBuf,
    pub(crate) kubectl: Option<PathBuf>,
    /// What its node is called.
    pub(crate) node: String,
}
