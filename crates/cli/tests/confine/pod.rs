//! A Pod of a test: a folder, a shim, and what it runs.

use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use sojourn_node::folder::PodFolder;
use sojourn_node::shim::handle::{CommandError, Handle};
use sojourn_node::shim::protocol::{
    Confinement, Mount, Network, OwnNetwork, Record, ShimConfig, Source, Start,
};
use tokio::sync::mpsc;

/// How long anything may take on a slow and busy machine.
const POD_TIMEOUT: Duration = Duration::from_secs(60);
/// The users of two namespaces.
pub(crate) const UID: u32 = 1_500_000_322;
pub(crate) const FOREIGN_UID: u32 = 1_500_000_323;

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// How Pods are confined for whoever runs the test.
pub(crate) fn confinement() -> Confinement {
    if is_root() { Confinement::User { uid: UID, gid: UID } } else { Confinement::UserNamespace }
}

/// A folder that everybody can reach, and that goes away with its test.
#[derive(Debug)]
pub(crate) struct TestFolder(PathBuf);

impl TestFolder {
    pub(crate) fn new() -> Self {
        static PLACES: AtomicU32 = AtomicU32::new(0);
        let number = PLACES.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("sojourn-confine-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// A folder in it that belongs to the Pod.
    pub(crate) fn volume(&self, name: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::create_dir_all(&path).expect("a folder");
        give(&path);
        path
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Makes something the Pod's own, and nobody else's.
pub(crate) fn give(path: &Path) {
    let mode = if path.is_dir() { 0o700 } else { 0o600 };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("ours");
    if is_root() {
        chown(path, Some(UID), Some(UID)).expect("we are root");
    }
}

pub(crate) struct Pod {
    pub(crate) folder: PodFolder,
    pub(crate) handle: Handle,
    ended: mpsc::Receiver<Record>,
    runs: AtomicU32,
    test_folder: TestFolder,
    /// A failed test leaves nothing running.
    _lifeline: OwnedFd,
}

/// What a container did.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RunOutput {
    pub(crate) code: i32,
    /// What it wrote, to stdout and stderr.
    pub(crate) text: String,
    /// Its termination message.
    pub(crate) message: String,
}

impl Pod {
    pub(crate) async fn launch() -> Self {
        Self::launch_with(|_| {}).await
    }

    pub(crate) async fn launch_with(change: impl FnOnce(&mut ShimConfig)) -> Self {
        Self::launch_as(Path::new(env!("CARGO_BIN_EXE_sojourn")), change).await
    }

    pub(crate) async fn launch_as(program: &Path, change: impl FnOnce(&mut ShimConfig)) -> Self {
        let test_folder = TestFolder::new();
        let folder = PodFolder::new(test_folder.path().join("pod"));
        for part in [folder.home(), folder.tmp()] {
            std::fs::create_dir_all(&part).expect("a folder");
            give(&part);
        }
        let mut shim_config = ShimConfig {
            pod_uid: "uid".to_owned(),
            hostname: "pod".to_owned(),
            confinement: confinement(),
            exposed: Vec::new(),
            hidden: Vec::new(),
            dies_with_node: true,
            log_limit: 4 << 20,
            containers: 1,
            network: Network::Own(OwnNetwork::default()),
        };
        change(&mut shim_config);
        let (theirs, lifeline) =
            rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).expect("a pipe");
        let launched = Handle::launch(program, &folder, &shim_config, Some(theirs)).await;
        let (handle, ended) = launched.expect("the shim starts");
        Self { folder, handle, ended, runs: AtomicU32::new(0), test_folder, _lifeline: lifeline }
    }

    pub(crate) fn test_folder(&self) -> &TestFolder {
        &self.test_folder
    }

    /// A container that runs a shell script, under a name of its own.
    pub(crate) fn shell(&self, script: &str) -> Start {
        let number = self.runs.fetch_add(1, Ordering::Relaxed);
        let env = [
            ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
            ("HOME", "/home/pod"),
            ("LC_ALL", "C"),
        ];
        Start {
            container: format!("c{number}"),
            attempt: 0,
            argv: ["/bin/sh", "-c", script].map(str::to_owned).into(),
            env: env.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            ..Start::default()
        }
    }

    /// Runs a script to its end.
    pub(crate) async fn run(&mut self, script: &str) -> RunOutput {
        let start = self.shell(script);
        self.finish(start).await
    }

    /// Runs a script to its end with volumes.
    pub(crate) async fn run_with(&mut self, mounts: Vec<Mount>, script: &str) -> RunOutput {
        let start = Start { mounts, ..self.shell(script) };
        self.finish(start).await
    }

    pub(crate) async fn finish(&mut self, start: Start) -> RunOutput {
        self.try_finish(start).await.expect("it starts")
    }

    /// Runs a container to its end, if it can be started.
    pub(crate) async fn try_finish(&mut self, start: Start) -> Result<RunOutput, CommandError> {
        let container = start.container.clone();
        self.handle.start(start).await?;
        let end = loop {
            let record = tokio::time::timeout(POD_TIMEOUT, self.ended.recv()).await;
            let record = record.expect("it ends in time").expect("the shim lives");
            if record.container == container {
                break record.end.expect("it ended");
            }
        };
        let log = std::fs::read(self.folder.log(&container, 0)).unwrap_or_default();
        // Time, stream and tag come before the text of a line.
        let lines = String::from_utf8_lossy(&log).into_owned();
        let lines = lines.lines().map(|line| line.splitn(4, ' ').nth(3).unwrap_or_default());
        let text = lines.collect::<Vec<_>>().join("\n");
        Ok(RunOutput { code: end.exit_code, text, message: end.message })
    }

    /// Why a container with these volumes is not started.
    pub(crate) async fn refusal(&mut self, mounts: Vec<Mount>) -> String {
        let start = Start { mounts, ..self.shell("true") };
        match self.handle.start(start).await {
            Err(CommandError::Refused { message, .. }) => message,
            other => panic!("it was not refused: {other:?}"),
        }
    }

    /// Where a container of this Pod has mounts, and how. The container itself cannot tell, so they
    /// are read from outside.
    pub(crate) async fn mounts(&mut self) -> Vec<(String, String)> {
        let marker = format!("86400.{}", marker_number());
        let start = self.shell(&format!("exec sleep {marker}"));
        let container = start.container.clone();
        self.handle.start(start).await.expect("it starts");
        until("the container runs", || find_process(&marker).is_some()).await;
        let pid = find_process(&marker).expect("it runs").to_string();
        let mut command = std::process::Command::new("nsenter");
        command.arg(format!("--mount=/proc/{pid}/ns/mnt")).arg(format!("--pid=/proc/{pid}/ns/pid"));
        if !is_root() {
            // The shim's user namespace, which has a say in everything of its Pod's.
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
            let shim = status.lines().find_map(|line| line.strip_prefix("PPid:\t"));
            let shim = shim.expect("a parent");
            command.arg(format!("--user=/proc/{shim}/ns/user")).arg("--preserve-credentials");
        }
        let output = command.args(["cat", "/proc/self/mountinfo"]).output().expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        self.handle.kill(&container).await.expect("it runs");
        let text = String::from_utf8(output.stdout).expect("text");
        let line = |line: &str| {
            let mut fields = line.split(' ').skip(4).map(str::to_owned);
            (fields.next().expect("a mount point"), fields.next().expect("its flags"))
        };
        text.lines().map(line).collect()
    }

    pub(crate) async fn end(self) {
        self.handle.end().await.expect("it ends");
    }
}

/// A number that no other process has among its arguments.
fn marker_number() -> String {
    static NUMBERS: AtomicU32 = AtomicU32::new(0);
    format!("{:07}{:04}", std::process::id(), NUMBERS.fetch_add(1, Ordering::Relaxed))
}

/// The process whose last argument this is, as we number it.
fn find_process(marker: &str) -> Option<u32> {
    let pids = std::fs::read_dir("/proc").expect("/proc").flatten();
    let mut pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.find(|pid| {
        let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&arguments).starts_with(&format!("sleep\0{marker}"))
    })
}

/// Waits until `condition` holds.
pub(crate) async fn until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < POD_TIMEOUT, "still not: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A volume of the host's at a path of the container's.
pub(crate) fn mount(target: &str, path: &Path) -> Mount {
    let source = Source::Host { path: path.to_owned(), beneath: None, create: false };
    Mount { target: target.into(), source, read_only: false }
}

pub(crate) fn read_only(target: &str, path: &Path) -> Mount {
    Mount { read_only: true, ..mount(target, path) }
}

/// A file in place of a device.
pub(crate) fn device(target: &str, path: &Path) -> Mount {
    let source = Source::Device { path: path.to_owned() };
    Mount { target: target.into(), source, read_only: false }
}

/// A part of a volume.
pub(crate) fn part(target: &str, path: &Path, beneath: &str, create: bool) -> Mount {
    let source = Source::Host { path: path.to_owned(), beneath: Some(beneath.into()), create };
    Mount { target: target.into(), source, read_only: false }
}
