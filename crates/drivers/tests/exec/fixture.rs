//! A folder with a program in it, and a clock to wait by.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::Value;
use sojourn_drivers::exec::{Limits, ProgramState, Programs};

use crate::skip;

const PYTHON: &str = "/usr/bin/python3";
const EXAMPLE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/provider/sojourn-provider-folder");
const TIMEOUT: Duration = Duration::from_secs(60);

/// As in production, but for how long is waited before a program is started again.
pub(crate) fn limits() -> Limits {
    Limits { min_restart: Duration::from_millis(10), ..Limits::default() }
}

/// A folder of programs and what they keep in it; gone with its test.
pub(crate) struct Folder(PathBuf);

impl Folder {
    fn empty() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("sojourn-exec-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).expect("a new folder");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
        Self(path)
    }

    /// With the example in it; none where there is no Python.
    #[track_caller]
    pub(crate) fn with_example() -> Option<Self> {
        let folder = Self::with_program("folder", "")?;
        fs::copy(EXAMPLE, folder.program("folder")).expect("the example is there");
        Some(folder)
    }

    /// With a program of a test's own, in Python, called NAME.
    #[track_caller]
    pub(crate) fn with_program(name: &str, text: &str) -> Option<Self> {
        if !Path::new(PYTHON).exists() {
            skip::whole(format_args!("there is no {PYTHON}"));
            return None;
        }
        let folder = Self::empty();
        let path = folder.program(name);
        fs::write(&path, format!("#!{PYTHON}\n{text}")).expect("it is ours");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
        Some(folder)
    }

    /// With a program that is the example, changed by these lines of Python.
    #[track_caller]
    pub(crate) fn with_changed_example(name: &str, change: &str) -> Option<Self> {
        let text = format!(
            "import importlib.machinery, importlib.util, os, sys, time\n\
             sys.dont_write_bytecode = True\n\
             loader = importlib.machinery.SourceFileLoader('example', 'example')\n\
             spec = importlib.util.spec_from_loader('example', loader)\n\
             example = importlib.util.module_from_spec(spec)\n\
             loader.exec_module(example)\n\
             {change}\n\
             example.Provider().run()\n"
        );
        let folder = Self::with_program(name, &text)?;
        fs::copy(EXAMPLE, folder.path().join("example")).expect("the example is there");
        Some(folder)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.0.join(format!("sojourn-provider-{name}"))
    }

    /// The files of machines.
    pub(crate) fn machines(&self) -> Vec<PathBuf> {
        let folders = fs::read_dir(self.0.join("machines")).into_iter().flatten();
        let folders = folders.map(|folder| folder.expect("it is read").path());
        let files = folders.flat_map(|folder| fs::read_dir(folder).expect("it is read"));
        let files = files.map(|file| file.expect("it is read").path());
        files.filter(|file| file.extension().is_some_and(|end| end == "json")).collect()
    }

    pub(crate) fn machine(&self, machine: &str) -> PathBuf {
        self.0.join("machines").join(format!("{machine}.json"))
    }

    /// Puts a machine there, as somebody else does.
    pub(crate) fn put(&self, machine: &str, record: &Value) {
        let path = self.machine(machine);
        fs::create_dir_all(path.parent().expect("it has one")).expect("it is ours");
        let draft = path.with_extension("draft");
        fs::write(&draft, record.to_string()).expect("it is ours");
        fs::rename(draft, path).expect("it is ours");
    }

    /// Every program of the folder, up.
    pub(crate) async fn start(&self, limits: Limits) -> Programs {
        let programs = Programs::start(self.path(), limits).expect("the folder is good");
        for (name, client) in programs.iter() {
            let mut state = client.state();
            let up = state.wait_for(|state| *state == ProgramState::Up);
            let up = tokio::time::timeout(TIMEOUT, up).await;
            assert!(up.is_ok(), "{name}: {:?}", client.state().borrow());
        }
        programs
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// Waits until something is there.
pub(crate) async fn eventually<T>(what: &str, look: impl AsyncFn() -> Option<T>) -> T {
    let waiting = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let waited = tokio::time::timeout(TIMEOUT, waiting).await;
    waited.unwrap_or_else(|_| panic!("{what}: not within {} s", TIMEOUT.as_secs()))
}

/// Whether a process is there and has not ended.
pub(crate) fn runs(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(')').map(|(_, rest)| rest.trim_start().starts_with(['Z', 'X']));
    state == Some(false)
}
