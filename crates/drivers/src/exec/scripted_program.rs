//! A program that a test plays, without a process: what it reads and writes are pipes in memory, so time
//! may be paused.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};
use tokio::sync::mpsc;

use super::client::Client;
use super::launch::{Launch, LaunchError, Launched, ProgramProcess};
use super::{Limits, message};

/// More than a line may have.
const PIPE_BYTES: usize = 4 << 20;

/// The program's side of one run.
#[derive(Debug)]
pub(crate) struct ScriptedRun {
    input: BufReader<DuplexStream>,
    output: DuplexStream,
    pub(crate) errors: DuplexStream,
}

/// Starts runs, each of which a test gets and plays.
#[derive(Debug)]
pub(crate) struct ScriptedLaunch {
    runs: mpsc::UnboundedSender<ScriptedRun>,
    /// So many starts fail.
    failures: Arc<Mutex<u32>>,
}

impl Launch for ScriptedLaunch {
    fn launch(&self) -> Result<Launched, LaunchError> {
        let mut failures = self.failures.lock().expect("not poisoned");
        if let Some(left) = failures.checked_sub(1) {
            *failures = left;
            return Err(LaunchError::Spawn(std::io::Error::other("no such file")));
        }
        let (input, their_input) = tokio::io::duplex(PIPE_BYTES);
        let (their_output, output) = tokio::io::duplex(PIPE_BYTES);
        let (their_errors, errors) = tokio::io::duplex(PIPE_BYTES);
        let run = ScriptedRun {
            input: BufReader::new(their_input),
            output: their_output,
            errors: their_errors,
        };
        self.runs.send(run).expect("the test goes on");
        let process = ProgramProcess::Played;
        Ok(Launched {
            input: Box::new(input),
            output: Box::new(output),
            errors: Box::new(errors),
            process,
        })
    }
}

/// A client, and the runs of its program.
pub(crate) struct Scripted {
    pub(crate) client: Client,
    runs: mpsc::UnboundedReceiver<ScriptedRun>,
}

impl Scripted {
    pub(crate) fn new(limits: Limits) -> Self {
        Self::failing(limits, 0)
    }

    /// The program cannot be started so often.
    pub(crate) fn failing(limits: Limits, failures: u32) -> Self {
        let (runs, started) = mpsc::unbounded_channel();
        let launch = ScriptedLaunch { runs, failures: Arc::new(Mutex::new(failures)) };
        Self { client: Client::launch("scripted", launch, limits), runs: started }
    }

    /// The next run, which has said nothing yet.
    pub(crate) async fn start(&mut self) -> ScriptedRun {
        self.runs.recv().await.expect("the client goes on")
    }

    /// The next run, once it has said what it can do.
    pub(crate) async fn greet(&mut self, can: &[&str]) -> ScriptedRun {
        let mut run = self.start().await;
        assert_eq!(run.read().await, Some(json!({"protocol": 1})));
        run.write(&json!({"protocol": 1, "can": can, "schema": {}})).await;
        if can.contains(&"watch") {
            let asked = run.request("watch").await;
            run.ok(&asked, &json!({})).await;
        }
        run
    }

    /// Waits until requests are taken.
    pub(crate) async fn up(&self) {
        let up = |state: &super::ProgramState| *state == super::ProgramState::Up;
        self.client.state().wait_for(up).await.expect("the client goes on");
    }
}

impl ScriptedRun {
    /// The next line; none when there is nothing more to read.
    pub(crate) async fn read(&mut self) -> Option<Value> {
        let mut line = String::new();
        let count = self.input.read_line(&mut line).await.expect("it is read");
        assert!(line.len() <= message::MAX_LINE_BYTES + 1);
        (count > 0).then(|| serde_json::from_str(&line).expect("JSON"))
    }

    /// The next request, which is of this kind.
    pub(crate) async fn request(&mut self, operation: &str) -> Value {
        let request = self.read().await.expect("there is a request");
        assert_eq!(request["op"], operation, "{request}");
        request
    }

    pub(crate) async fn write(&mut self, message: &Value) {
        self.write_text(&format!("{message}\n")).await;
    }

    pub(crate) async fn write_text(&mut self, text: &str) {
        // Whoever is not read any more is about to be ended.
        drop(self.output.write_all(text.as_bytes()).await);
    }

    pub(crate) async fn ok(&mut self, request: &Value, ok: &Value) {
        self.write(&json!({"id": request["id"], "ok": ok})).await;
    }

    pub(crate) async fn error(&mut self, request: &Value, class: &str) {
        let error = json!({"class": class, "message": "words"});
        self.write(&json!({"id": request["id"], "error": error})).await;
    }

    pub(crate) async fn event(&mut self, event: &Value) {
        self.write(&json!({"event": event})).await;
    }
}
