//! `sojourn up`.

use std::path::PathBuf;

use crate::client;
use crate::folder::Folder;
use crate::place::Place;
use crate::process::Running;
use crate::survivors;

/// Ports that no other place in this suite gives to its Pods.
const PORTS: &str = "21000-21999";

pub(crate) struct Embedded {
    place: Place,
    server: Running,
    folder: Folder,
}

impl Embedded {
    /// Kept in memory, so that its Pods end with it however the test ends.
    pub(crate) async fn start(assets: Option<PathBuf>) -> Self {
        let folder = Folder::new();
        let server = Running::up_in_memory(&folder, &["--pod-ports", PORTS]);
        let kubeconfig = server.kubeconfig();
        let place = Place {
            client: client::connect(&kubeconfig).await,
            kubeconfig,
            kubectl: assets.map(|assets| assets.join("kubectl")),
            node: "local".to_owned(),
        };
        Self { place, server, folder }
    }

    pub(crate) const fn place(&self) -> &Place {
        &self.place
    }

    pub(crate) fn stop(self) {
        self.server.signal("INT");
        let ended = self.server.ended();
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        survivors::assert_none(self.folder.path());
    }
}
