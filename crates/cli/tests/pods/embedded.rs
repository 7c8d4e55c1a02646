//! `sojourn up`.

use std::os::unix::fs::{MetadataExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;

use crate::case_cluster::CaseCluster;
use crate::client;
use crate::folder::Folder;
use crate::process::{Running, command};
use crate::survivors;

/// Ports that no other place in this suite gives to its Pods.
const PORTS: &str = "21000-21999";
const NOBODY: u32 = 65534;

/// Who runs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum As {
    Ourselves,
    Nobody,
}

impl As {
    /// Why it cannot be run so; in words.
    pub(crate) fn obstacle(self) -> Option<String> {
        if self == Self::Ourselves {
            return None;
        }
        if std::fs::metadata("/proc/self").expect("/proc").uid() != 0 {
            return Some("only root can become nobody".to_owned());
        }
        let mut version = command(&["--version"]);
        let tried = version.uid(NOBODY).gid(NOBODY).current_dir("/").output();
        tried.err().map(|error| format!("nobody cannot run the binary: {error}"))
    }
}

pub(crate) struct Embedded {
    case_cluster: CaseCluster,
    server: Running,
    folder: Folder,
}

impl Embedded {
    /// Kept in memory, so that its Pods end with it however the test ends.
    pub(crate) async fn start(who: As, assets: Option<PathBuf>) -> Self {
        let folder = Folder::new();
        let mut up = command(&["up", "--in-memory", "--listen", "127.0.0.1:0"]);
        up.args(["--pod-ports", PORTS]).env("XDG_RUNTIME_DIR", folder.path());
        if who == As::Nobody {
            chown(folder.path(), Some(NOBODY), Some(NOBODY)).expect("the folder is ours");
            up.uid(NOBODY).gid(NOBODY).current_dir("/");
        }
        let server = Running::start(up);
        server.ready();
        let kubeconfig = server.kubeconfig();
        let case_cluster = CaseCluster {
            client: client::connect(&kubeconfig).await,
            kubeconfig,
            kubectl: assets.map(|assets| assets.join("kubectl")),
            node: "local".to_owned(),
        };
        Self { case_cluster, server, folder }
    }

    pub(crate) const fn case_cluster(&self) -> &CaseCluster {
        &self.case_cluster
    }

    pub(crate) fn stop(self) {
        self.server.signal("INT");
        let ended = self.server.ended();
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        survivors::assert_none(self.folder.path());
    }
}
