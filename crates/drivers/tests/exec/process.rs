//! What a program is given, and what is left of it.

use std::fs;
use std::time::Duration;

use serde_json::json;
use sojourn_core::key::Key;
use sojourn_drivers::actuator::exec::ExecActuator;
use sojourn_drivers::actuator::{Account, Actuator as _, ActuatorError, Cluster, Platform};
use sojourn_drivers::exec::{Limits, Programs};

use crate::fixture::{Folder, eventually, limits, runs};

/// It answers every list with an error that says how it was started.
const SAYS_HOW: &str = r#"
import json, os, sys
json.loads(sys.stdin.readline())
can = ["list", "stop", "start"]
print(json.dumps({"protocol": 1, "can": can, "schema": {}}), flush=True)
for line in sys.stdin:
    environment = open("/proc/self/environ", "rb").read().decode()
    descriptors = sorted(int(number) for number in os.listdir("/proc/self/fd"))
    own = os.open("/", os.O_RDONLY)
    how = {"environment": environment, "folder": os.getcwd(), "words": sys.argv,
           "descriptors": [number for number in descriptors if number < own]}
    os.close(own)
    answer = {"class": "Refused", "message": json.dumps(how)}
    print(json.dumps({"id": json.loads(line)["id"], "error": answer}), flush=True)
"#;

#[tokio::test]
async fn a_program_gets_no_environment_and_nothing_but_its_pipes() {
    let Some(folder) = Folder::with_program("how", SAYS_HOW) else { return };
    let programs = folder.start(limits()).await;
    let platform = Platform { name: "exec".to_owned(), config: json!({"name": "how"}) };
    let cluster = Cluster {
        key: Key::new("team", "one"),
        infra_id: "one".to_owned(),
        platform,
        account: Account::default(),
    };
    let refused = ExecActuator::new(programs).list(&cluster).await;
    let Err(ActuatorError::Failed { message, .. }) = refused else { panic!("{refused:?}") };
    let how: serde_json::Value = serde_json::from_str(&message).expect("JSON");
    let whole = folder.path().canonicalize().expect("it is there");
    assert_eq!(how["environment"], "");
    assert_eq!(how["folder"], json!(whole));
    assert_eq!(how["words"], json!([whole.join("sojourn-provider-how")]));
    assert_eq!(how["descriptors"], json!([0, 1, 2]));
}

/// It starts another process, and neither ends with its input.
const STAYS: &str = r#"
import json, os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
sys.stdin.readline()
other = subprocess.Popen(["/usr/bin/python3", "-c", "import time; time.sleep(3600)"])
with open("pids.draft", "w") as file:
    file.write(f"{os.getpid()} {other.pid}")
os.rename("pids.draft", "pids")
print(json.dumps({"protocol": 1, "can": ["list"], "schema": {}}), flush=True)
while True:
    time.sleep(3600)
"#;

fn pids(folder: &Folder) -> Vec<u32> {
    let pids = fs::read_to_string(folder.path().join("pids")).expect("it has said so");
    let pids = pids.split_whitespace().map(|pid| pid.parse().expect("a number"));
    pids.collect()
}

async fn until_gone(pids: &[u32]) {
    let gone = async || (!pids.iter().any(|pid| runs(*pid))).then_some(());
    eventually("nothing is left of the program", gone).await;
}

#[tokio::test]
async fn what_does_not_end_is_ended_with_all_that_it_has_started() {
    let Some(folder) = Folder::with_program("stays", STAYS) else { return };
    let limits = Limits { end: Duration::from_millis(50), ..limits() };
    let programs = folder.start(limits).await;
    let pids = pids(&folder);
    assert!(pids.len() == 2 && pids.iter().all(|pid| runs(*pid)));
    programs.stop().await;
    until_gone(&pids).await;
}

#[tokio::test]
async fn who_drops_the_programs_ends_them() {
    let Some(folder) = Folder::with_program("stays", STAYS) else { return };
    let programs = folder.start(limits()).await;
    let pids = pids(&folder);
    drop(programs);
    until_gone(&pids).await;
}

/// When nobody is left to end it, the end of its input does.
#[tokio::test]
async fn the_example_ends_with_its_input() {
    let Some(folder) = Folder::with_example() else { return };
    let mut child = tokio::process::Command::new(folder.program("folder"))
        .env_clear()
        .current_dir(folder.path())
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .expect("it is started");
    drop(child.stdin.take());
    let ended = tokio::time::timeout(Duration::from_secs(60), child.wait()).await;
    assert!(ended.expect("it ends").expect("it is ours").success());
}

#[tokio::test]
async fn how_a_program_ended_is_said() {
    let Some(folder) = Folder::with_program("ends", "import sys\nsys.exit(7)\n") else { return };
    let programs = Programs::start(folder.path(), limits()).expect("the folder is good");
    let mut state = programs.get("ends").expect("there").state();
    // It may have been slower to end than to close its output.
    let told = |state: &sojourn_drivers::exec::ProgramState| matches!(state, sojourn_drivers::exec::ProgramState::Down(why) if why.contains("it ended"));
    state.wait_for(told).await.expect("the client goes on");
}
