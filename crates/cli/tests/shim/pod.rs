//! A Pod of a test: a folder, a shim, and what it runs.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use sojourn_node::folder::PodFolder;
use sojourn_node::shim::handle::{Adopted, Handle, LaunchError};
use sojourn_node::shim::protocol::{
    Confinement, End, Network, OwnNetwork, Record, ShimConfig, Start,
};
use tokio::sync::mpsc;

use crate::user;
use crate::wait::within;

/// The user that Pods of the tests have: nobody's.
const UID: u32 = 1_500_000_321;

/// The confinements that can be tested here.
pub(crate) fn confinements() -> Vec<Confinement> {
    let confined = if rustix::process::geteuid().is_root() {
        Confinement::User { uid: UID, gid: UID }
    } else {
        Confinement::UserNamespace
    };
    vec![confined, Confinement::Unconfined]
}

/// The confinement that Pods have unless somebody insists on none.
pub(crate) fn confined() -> Confinement {
    confinements()[0]
}

pub(crate) struct Pod {
    pub(crate) folder: PodFolder,
    pub(crate) shim_config: ShimConfig,
    pub(crate) handle: Option<Handle>,
    pub(crate) ended: Option<mpsc::Receiver<Record>>,
    place: PathBuf,
}

impl Pod {
    /// A Pod whose shim runs.
    pub(crate) async fn launch(confinement: Confinement) -> Self {
        let mut pod = Self::new(confinement);
        pod.start_shim(None).await.expect("the shim starts");
        pod
    }

    /// A Pod whose shim does not run yet.
    pub(crate) fn new(confinement: Confinement) -> Self {
        static PODS: AtomicU32 = AtomicU32::new(0);
        let number = PODS.fetch_add(1, Ordering::Relaxed);
        let place = user::place().join(format!("shim-{}-{number}", std::process::id()));
        // Longer than the name of a socket may be.
        let path = place.join("a-folder-with-a-long-name-".repeat(5)).join("pod");
        std::fs::create_dir_all(path.parent().expect("it has one")).expect("a folder");
        let shim_config = ShimConfig {
            pod_uid: format!("pod-{number}"),
            hostname: "pod".to_owned(),
            confinement,
            exposed: Vec::new(),
            hidden: Vec::new(),
            dies_with_node: false,
            log_limit: 4 << 20,
            containers: 2,
            network: match confinement {
                Confinement::Unconfined => Network::Machine { ports: None },
                _ => Network::Own(OwnNetwork::default()),
            },
        };
        Self { folder: PodFolder::new(path), shim_config, handle: None, ended: None, place }
    }

    pub(crate) async fn start_shim(
        &mut self,
        lifeline: Option<OwnedFd>,
    ) -> Result<(), LaunchError> {
        self.shim_config.dies_with_node = lifeline.is_some();
        let program = Path::new(env!("CARGO_BIN_EXE_sojourn"));
        let (handle, ended) =
            Handle::launch(program, &self.folder, &self.shim_config, lifeline).await?;
        (self.handle, self.ended) = (Some(handle), Some(ended));
        Ok(())
    }

    pub(crate) fn handle(&self) -> &Handle {
        self.handle.as_ref().expect("the shim runs")
    }

    /// A shell script as attempt 0 of a container.
    pub(crate) async fn run(&self, container: &str, script: &str) -> Record {
        self.handle().start(shell(container, 0, script)).await.expect("it starts")
    }

    /// The next container that ends.
    pub(crate) async fn next_end(&mut self) -> (Record, End) {
        let ended = self.ended.as_mut().expect("the shim runs");
        let record = within("the end of a container", ended.recv()).await;
        let record = record.expect("the shim lives");
        let end = record.end.clone().expect("it ended");
        (record, end)
    }

    /// What a container logged: stream, tag and text of each line.
    pub(crate) fn log(&self, container: &str, attempt: u32) -> Vec<String> {
        let text = std::fs::read(self.folder.log(container, attempt)).expect("there is a log");
        let text = String::from_utf8_lossy(&text).into_owned();
        let without_time = |line: &str| line.split_once(' ').expect("a time").1.to_owned();
        text.lines().map(without_time).collect()
    }

    /// The PID of the shim, as we see it.
    pub(crate) fn shim(&self) -> u32 {
        let folder = self.folder.path().to_str().expect("a plain path");
        let found: Vec<_> = processes_with(folder);
        assert_eq!(found.len(), 1, "one process of {folder}");
        found[0]
    }

    /// Forgets the handle, as a node does that is killed.
    pub(crate) fn abandon(&mut self) {
        (self.handle, self.ended) = (None, None);
    }

    pub(crate) async fn adopt(&mut self) -> Vec<Record> {
        match Handle::adopt(&self.folder).await.expect("it can be told") {
            Adopted::Running(handle, ended, records) => {
                (self.handle, self.ended) = (Some(handle), Some(ended));
                records
            }
            Adopted::Ended(records) => {
                panic!("the shim is gone, leaving {records:?}: {}", self.shim_log())
            }
        }
    }

    pub(crate) fn shim_log(&self) -> String {
        std::fs::read_to_string(self.folder.shim_log()).unwrap_or_default()
    }

    /// Ends the shim.
    pub(crate) async fn end(mut self) {
        let handle = self.handle.take().expect("the shim runs");
        within("the end of the shim", handle.end()).await.expect("it ends");
        assert!(matches!(Handle::adopt(&self.folder).await, Ok(Adopted::Ended(_))));
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        // A test that failed has not ended its shim.
        if std::thread::panicking() {
            let folder = self.folder.path().to_string_lossy().into_owned();
            for pid in processes_with(&folder) {
                kill(pid);
            }
        }
        let _ = std::fs::remove_dir_all(&self.place);
    }
}

/// A container that runs a shell script.
pub(crate) fn shell(container: &str, attempt: u32, script: &str) -> Start {
    let env = [("PATH", "/usr/bin:/bin"), ("GREETING", "hello")];
    Start {
        container: container.to_owned(),
        attempt,
        argv: ["/bin/sh", "-c", script].map(str::to_owned).into(),
        env: env.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        ..Start::default()
    }
}

/// PIDs of living processes that have `marker` in their arguments.
pub(crate) fn processes_with(marker: &str) -> Vec<u32> {
    let pids = std::fs::read_dir("/proc").expect("/proc").flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| {
        let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&arguments).replace('\0', " ").contains(marker)
    })
    .collect()
}

pub(crate) fn kill(pid: u32) {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw).expect("a PID");
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
}

/// A number that no process has among its arguments by chance, for `sleep`.
pub(crate) fn marker() -> String {
    static MARKERS: AtomicU32 = AtomicU32::new(0);
    format!("{}{:07}", 100 + MARKERS.fetch_add(1, Ordering::Relaxed), std::process::id())
}
