//! kubectl, the real one, while it runs.

use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command as Process};
use tokio::sync::{Mutex as AsyncMutex, Notify};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::expectation::pattern;

/// What a pipe gave so far.
#[derive(Debug, Clone, Default)]
struct Printed {
    text: Arc<Mutex<Vec<u8>>>,
    more: Arc<Notify>,
}

/// A command that runs, or has ended. It is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Command {
    words: String,
    child: AsyncMutex<Child>,
    stdout: Printed,
    stderr: Printed,
    reading: Vec<JoinHandle<()>>,
}

impl Command {
    pub(crate) fn start(
        program: &Path,
        kubeconfig: &Path,
        namespace: &str,
        words: &[String],
    ) -> Self {
        let mut child = Process::new(program)
            .arg("--namespace")
            .arg(namespace)
            .args(words)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", kubeconfig.parent().unwrap_or(kubeconfig))
            .env("KUBECONFIG", kubeconfig)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("kubectl starts");
        let (stdout, stderr) = (Printed::default(), Printed::default());
        let reading = vec![
            stdout.read(child.stdout.take().expect("piped")),
            stderr.read(child.stderr.take().expect("piped")),
        ];
        Self { words: words.join(" "), child: AsyncMutex::new(child), stdout, stderr, reading }
    }

    /// Waits until its stdout shows the pattern.
    pub(crate) async fn printed(&self, shows: &str, limit: Duration) -> Result<(), String> {
        let regex = pattern(shows);
        let seen = async {
            loop {
                // Before it looks, so that nothing that comes meanwhile is missed.
                let more = self.stdout.more.notified();
                if regex.is_match(&self.stdout.text()) {
                    return true;
                }
                if self.reading[0].is_finished() {
                    return regex.is_match(&self.stdout.text());
                }
                let _ = timeout(Duration::from_secs(1), more).await;
            }
        };
        match timeout(limit, seen).await {
            Ok(true) => Ok(()),
            _ => Err(format!("no `{shows}` in what was printed\n{}", self.shown())),
        }
    }

    /// Waits until it has ended by itself; whether well.
    pub(crate) async fn ended(&self, limit: Duration) -> Result<bool, String> {
        let mut child = self.child.lock().await;
        let status = timeout(limit, child.wait()).await;
        let status = status.map_err(|_| format!("it does not end\n{}", self.shown()))?;
        let succeeded = status.map_err(|e| e.to_string())?.success();
        // What it printed last may still be on its way.
        while !self.reading.iter().all(JoinHandle::is_finished) {
            let _ = timeout(Duration::from_millis(20), self.stdout.more.notified()).await;
        }
        Ok(succeeded)
    }

    pub(crate) fn shown(&self) -> String {
        let (stdout, stderr) = (self.stdout.text(), self.stderr.text());
        format!("    kubectl {}\n    stdout:\n{stdout}\n    stderr:\n{stderr}\n", self.words)
    }
}

impl Printed {
    fn read(&self, mut pipe: impl AsyncRead + Unpin + Send + 'static) -> JoinHandle<()> {
        let printed = self.clone();
        tokio::spawn(async move {
            let mut buffer = [0; 8192];
            while let Ok(count @ 1..) = pipe.read(&mut buffer).await {
                let mut text = printed.text.lock().unwrap_or_else(PoisonError::into_inner);
                text.extend_from_slice(&buffer[..count]);
                drop(text);
                printed.more.notify_waiters();
            }
            printed.more.notify_waiters();
        })
    }

    fn text(&self) -> String {
        let text = self.text.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&text).into_owned()
    }
}
