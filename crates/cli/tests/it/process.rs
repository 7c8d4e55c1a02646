//! The binary as a child process. Every wait has a bound, and is on something that happens.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::folder::Folder;

/// How long anything may take on a slow and busy machine.
const PROCESS_TIMEOUT: Duration = Duration::from_secs(60);

/// What a command that has ended left.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs `sojourn` to its end.
pub(crate) fn sojourn<A: AsRef<OsStr>>(args: &[A]) -> Ended {
    Running::start(command(args)).ended()
}

/// `sojourn` with these arguments, untouched by the settings of whoever runs the tests. An `up` that
/// says nothing else serves people on any free port, because tests run beside each other.
pub(crate) fn command<A: AsRef<OsStr>>(args: &[A]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sojourn"));
    let args: Vec<&OsStr> = args.iter().map(AsRef::as_ref).collect();
    let decided = args.iter().any(|arg| ["--web", "--no-web"].map(OsStr::new).contains(arg));
    match args.split_first() {
        Some((first, rest)) if *first == "up" && !decided => {
            command.args(["up", "--web", "127.0.0.1:0"]).args(rest)
        }
        Some(_) | None => command.args(args),
    };
    command.env_remove("SOJOURN_LOG").env_remove("NO_COLOR").env_remove("KUBECONFIG");
    command
}

/// A child process whose output is collected. It is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Running {
    command: String,
    child: Child,
    stdout: Arc<Collected>,
    stderr: Arc<Collected>,
}

/// The lines so far, and whether there will be more.
#[derive(Debug, Default)]
struct Collected {
    state: Mutex<(Vec<String>, bool)>,
    changed: Condvar,
}

impl Running {
    pub(crate) fn start(command: Command) -> Self {
        Self::start_reading(command, Stdio::null())
    }

    /// The same, with something on stdin.
    pub(crate) fn start_reading(mut command: Command, stdin: Stdio) -> Self {
        command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the command starts");
        let command = format!("{command:?}");
        let stdout = Collected::from(child.stdout.take().expect("piped"));
        let stderr = Collected::from(child.stderr.take().expect("piped"));
        Self { command, child, stdout, stderr }
    }

    /// `sojourn up` on this data folder and any free port, once it is ready.
    pub(crate) fn up_on(data: &Path) -> Self {
        let mut up = command(&["up", "--listen", "127.0.0.1:0", "--data"]);
        up.arg(data);
        let running = Self::start(up);
        running.ready();
        running
    }

    /// `sojourn up --in-memory`; its kubeconfig goes into a folder of the test, where it cannot stay
    /// behind.
    pub(crate) fn up_in_memory(folder: &Folder, more: &[&str]) -> Self {
        let mut up = command(&["up", "--in-memory"]);
        up.args(more).env("XDG_RUNTIME_DIR", folder.path());
        if !more.contains(&"--listen") {
            up.args(["--listen", "127.0.0.1:0"]);
        }
        let running = Self::start(up);
        running.ready();
        running
    }

    /// Waits until the server says that it can be used.
    pub(crate) fn ready(&self) {
        self.stderr_line("Ctrl-C stops it.");
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for a line of stderr that contains `text`.
    pub(crate) fn stderr_line(&self, text: &str) -> String {
        let found = self
            .stderr
            .wait_until(|lines, _| lines.iter().find(|line| line.contains(text)).cloned());
        found.unwrap_or_else(|| panic!("no `{text}` in:\n{}", self.stderr.text()))
    }

    /// The same of stdout.
    pub(crate) fn stdout_line(&self, text: &str) -> String {
        let found = self
            .stdout
            .wait_until(|lines, _| lines.iter().find(|line| line.contains(text)).cloned());
        found.unwrap_or_else(|| panic!("no `{text}` in:\n{}", self.stdout.text()))
    }

    /// What `sojourn up` wrote after a label, such as `kubeconfig`.
    pub(crate) fn field(&self, label: &str) -> String {
        let line = self.stderr_line(&format!("  {label} "));
        line.trim_start().trim_start_matches(label).trim().to_owned()
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.field("kubeconfig").into()
    }

    /// Sends a signal by its name, as `INT`.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").arg(format!("-{name}")).arg(self.id().to_string()).status();
        assert!(sent.expect("kill is there").success(), "SIG{name} cannot be sent");
    }

    /// Ends it as a crash would, with no chance to do anything.
    pub(crate) fn crash(mut self) {
        self.child.kill().expect("it is running");
        self.child.wait().expect("it is ours");
    }

    /// Waits until it has ended by itself.
    pub(crate) fn ended(self) -> Ended {
        self.try_ended().unwrap_or_else(|problem| panic!("{problem}"))
    }

    /// The same; what does not end is killed, and described.
    pub(crate) fn try_ended(mut self) -> Result<Ended, String> {
        // Both pipes close when the process is gone, so this cannot miss any output.
        for output in [&self.stdout, &self.stderr] {
            let closed = output.wait_until(|_, closed| closed.then_some(()));
            let (command, said) = (&self.command, self.stderr.text());
            closed.ok_or_else(|| format!("{command} does not end; stderr:\n{said}"))?;
        }
        let status = self.child.wait().expect("it is ours");
        Ok(Ended { code: status.code(), stdout: self.stdout.text(), stderr: self.stderr.text() })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended already where the test got that far.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Collected {
    fn from(pipe: impl Read + Send + 'static) -> Arc<Self> {
        let collected = Arc::new(Self::default());
        let writer = collected.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(pipe).lines() {
                let Ok(line) = line else { break };
                writer.state.lock().expect("no panic inside").0.push(line);
                writer.changed.notify_all();
            }
            writer.state.lock().expect("no panic inside").1 = true;
            writer.changed.notify_all();
        });
        collected
    }

    /// Asks again with every line; stops when there will be no more, or after `PROCESS_TIMEOUT`.
    fn wait_until<T>(&self, ask: impl Fn(&[String], bool) -> Option<T>) -> Option<T> {
        let deadline = Instant::now() + PROCESS_TIMEOUT;
        let mut state = self.state.lock().expect("no panic inside");
        loop {
            let (lines, closed) = &*state;
            let answer = ask(lines, *closed);
            let left = deadline.saturating_duration_since(Instant::now());
            if answer.is_some() || *closed || left.is_zero() {
                return answer;
            }
            state = self.changed.wait_timeout(state, left).expect("no panic inside").0;
        }
    }

    fn text(&self) -> String {
        self.state.lock().expect("no panic inside").0.join("\n")
    }
}
