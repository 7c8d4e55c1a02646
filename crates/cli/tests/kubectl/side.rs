//! One of the two ends: a kubeconfig, a folder with the files, and what kubectl printed.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::folder::Folder;
use crate::normalize::normalize;
use crate::process::{Ended, Running};
use crate::table::{Command, Table};

/// How long something that happens a little later may take.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);
/// Between asking again.
const RETRY_DELAY: Duration = Duration::from_millis(250);
const NAMESPACE: &str = "lab";

#[derive(Debug)]
pub(crate) struct Side {
    kubectl: PathBuf,
    folder: Folder,
    server: String,
}

/// What a command printed, normalised.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Printed {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Side {
    /// Both ends get a kubeconfig with the same names in it.
    pub(crate) fn new(kubectl: &Path, kubeconfig: &Path, table: &Table) -> Self {
        let folder = Folder::new();
        for (name, text) in &table.files {
            std::fs::write(folder.join(name), text).expect("a file in a new folder");
        }
        let text = std::fs::read_to_string(kubeconfig).expect("a kubeconfig");
        let mut read: Value = serde_json::from_str(&text).expect("JSON");
        let cluster = &mut read["clusters"][0]["cluster"];
        if let Some(file) = cluster["certificate-authority"].as_str() {
            let pem = std::fs::read(file).expect("a certificate");
            *cluster = json!({
                "server": cluster["server"],
                "certificate-authority-data": STANDARD.encode(pem),
            });
        }
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": read["clusters"][0]["cluster"]}],
            "users": [{"name": "test", "user": read["users"][0]["user"]}],
            "contexts": [{"name": "test", "context": {
                "cluster": "test", "user": "test", "namespace": NAMESPACE,
            }}],
            "current-context": "test",
        });
        std::fs::write(folder.join("kubeconfig"), config.to_string()).expect("written");
        let server = read["clusters"][0]["cluster"]["server"].as_str().expect("a server");
        Self { kubectl: kubectl.to_owned(), folder, server: server.to_owned() }
    }

    pub(crate) fn run(&self, command: &Command) -> Printed {
        let started = Instant::now();
        let mut ended = self.run_once(command);
        while command.eventually && ended.code != Some(0) && started.elapsed() < COMMAND_TIMEOUT {
            std::thread::sleep(RETRY_DELAY);
            ended = self.run_once(command);
        }
        let normal = |text: &str| {
            let folder = self.folder.path().display().to_string();
            let text = text.replace(&folder, "FOLDER").replace(&self.server, "SERVER");
            let text = normalize(&text);
            if !command.unordered {
                return text;
            }
            let mut lines: Vec<_> = text.lines().collect();
            lines.sort_unstable();
            lines.join("\n")
        };
        Printed { code: ended.code, stdout: normal(&ended.stdout), stderr: normal(&ended.stderr) }
    }

    fn run_once(&self, command: &Command) -> Ended {
        let mut process = Process::new(&self.kubectl);
        process
            .args(command.words())
            .current_dir(self.folder.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.folder.path())
            .env("KUBECONFIG", self.folder.join("kubeconfig"));
        if let Some(editor) = &command.editor {
            process.env("KUBE_EDITOR", editor);
        }
        let stdin = command.stdin.as_ref().map_or_else(Stdio::null, |name| {
            File::open(self.folder.join(name)).expect("a file of the table").into()
        });
        // One that hangs differs from one that does not; the rest is still worth running.
        Running::start_reading(process, stdin).try_ended().unwrap_or_else(|problem| Ended {
            code: None,
            stdout: String::new(),
            stderr: problem,
        })
    }
}

impl Printed {
    /// What differs, line by line where that is of use.
    pub(crate) fn difference(&self, other: &Self) -> String {
        let mut text = String::new();
        if self.code != other.code {
            text.push_str(&format!(
                "real: exit code {:?}\nours: exit code {:?}\n",
                self.code, other.code
            ));
        }
        for (name, real, ours) in
            [("stdout", &self.stdout, &other.stdout), ("stderr", &self.stderr, &other.stderr)]
        {
            if real != ours {
                text.push_str(&format!("{name}:\n{}", lines(real, ours)));
            }
        }
        text
    }
}

/// The lines that only one has, after those at the start and before those at the end that both have.
fn lines(real: &str, ours: &str) -> String {
    let (real, ours): (Vec<_>, Vec<_>) = (real.lines().collect(), ours.lines().collect());
    let start = real.iter().zip(&ours).take_while(|(a, b)| a == b).count();
    let (real, ours) = (&real[start..], &ours[start..]);
    let end = real.iter().rev().zip(ours.iter().rev()).take_while(|(a, b)| a == b).count();
    let show = |name: &str, lines: &[&str]| -> String {
        lines.iter().map(|line| format!("  {name}: {line}\n")).collect()
    };
    show("real", &real[..real.len() - end]) + &show("ours", &ours[..ours.len() - end])
}
