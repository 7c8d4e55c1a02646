//! Where a node keeps things.
//!
//! ```text
//! <node>/lock                      held by the one node that uses the folder
//! <node>/uids.json                 the user of each namespace
//! <node>/claims/<uid of the claim> a claim's directory, kept until the claim is deleted
//! <node>/pods/<uid of the Pod>/
//!     pod.json                     the Pod as it was accepted
//!     ports.json                   the ports that it was given
//!     lock                         held by the shim as long as it lives
//!     shim.json, shim.log, socket
//!     records/<container>.<attempt>.json
//!     logs/<container>/<attempt>.log, <attempt>.log.1
//!     volumes/<name>/
//!     termination/<container>.<attempt>
//!     hooks/<container>.<attempt>  a preStop hook was begun
//!     home/, tmp/                  the Pod's own
//!     root/                        where the private root is put together
//! ```

use std::path::{Path, PathBuf};

/// The folder of a whole node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeFolder(PathBuf);

impl NodeFolder {
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn pods(&self) -> PathBuf {
        self.0.join("pods")
    }

    pub fn pod(&self, uid: &str) -> PodFolder {
        PodFolder(self.pods().join(uid))
    }

    pub fn claims(&self) -> PathBuf {
        self.0.join("claims")
    }

    pub fn lock(&self) -> PathBuf {
        self.0.join("lock")
    }

    pub fn uids(&self) -> PathBuf {
        self.0.join("uids.json")
    }
}

/// The folder of one Pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodFolder(PathBuf);

impl PodFolder {
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn pod(&self) -> PathBuf {
        self.0.join("pod.json")
    }

    pub fn ports(&self) -> PathBuf {
        self.0.join("ports.json")
    }

    pub fn lock(&self) -> PathBuf {
        self.0.join("lock")
    }

    pub fn shim_config(&self) -> PathBuf {
        self.0.join("shim.json")
    }

    pub fn shim_log(&self) -> PathBuf {
        self.0.join("shim.log")
    }

    pub fn socket(&self) -> PathBuf {
        self.0.join("socket")
    }

    pub fn records(&self) -> PathBuf {
        self.0.join("records")
    }

    pub fn record(&self, container: &str, attempt: u32) -> PathBuf {
        self.records().join(format!("{container}.{attempt}.json"))
    }

    pub fn logs(&self, container: &str) -> PathBuf {
        self.0.join("logs").join(container)
    }

    pub fn log(&self, container: &str, attempt: u32) -> PathBuf {
        self.logs(container).join(format!("{attempt}.log"))
    }

    /// The older part of a log that was rotated.
    pub fn older_log(&self, container: &str, attempt: u32) -> PathBuf {
        self.logs(container).join(format!("{attempt}.log.1"))
    }

    pub fn volumes(&self) -> PathBuf {
        self.0.join("volumes")
    }

    pub fn volume(&self, name: &str) -> PathBuf {
        self.volumes().join(name)
    }

    pub fn termination(&self, container: &str, attempt: u32) -> PathBuf {
        self.0.join("termination").join(format!("{container}.{attempt}"))
    }

    pub fn hooks(&self) -> PathBuf {
        self.0.join("hooks")
    }

    pub fn hook_mark(&self, container: &str, attempt: u32) -> PathBuf {
        self.hooks().join(format!("{container}.{attempt}"))
    }

    pub fn home(&self) -> PathBuf {
        self.0.join("home")
    }

    pub fn tmp(&self) -> PathBuf {
        self.0.join("tmp")
    }

    pub fn root(&self) -> PathBuf {
        self.0.join("root")
    }
}
