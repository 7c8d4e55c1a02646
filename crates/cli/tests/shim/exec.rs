//! Commands beside a running container.

use std::time::{Duration, Instant};

use sojourn_node::shim::handle::CommandError;
use sojourn_node::shim::protocol::{Confinement, MAX_EXEC_OUTPUT_BYTES, Refusal};

use crate::pod::{Pod, confinements, marker, processes_with};
use crate::wait::until;

const EXEC_TIMEOUT: Duration = Duration::from_secs(50);

fn sh(script: &str) -> Vec<String> {
    ["/bin/sh", "-c", script].map(str::to_owned).into()
}

#[tokio::test]
async fn commands_see_what_their_container_sees() {
    for confinement in confinements() {
        let mut pod = Pod::launch(confinement).await;
        let scratch = pod.folder.tmp().join("seen");
        let path = match confinement {
            Confinement::Unconfined => scratch.to_str().expect("plain"),
            _ => "/tmp/seen",
        };
        pod.run("web", &format!("echo here > {path}; echo ready; exec sleep 1000")).await;
        until("it is ready", || pod.log("web", 0) == ["stdout F ready"]).await;
        let cases = [
            ("exit 0".to_owned(), 0, ""),
            ("echo $GREETING; exit 3".to_owned(), 3, "hello\n"),
            (format!("cat {path}"), 0, "here\n"),
            ("echo out; echo err >&2".to_owned(), 0, "out\nerr\n"),
            ("kill -TERM $$".to_owned(), 143, ""),
            ("cat; ls /proc/self/fd".to_owned(), 0, "0\n1\n2\n3\n"),
            ("(sleep 1000 &); echo left".to_owned(), 0, "left\n"),
        ];
        for (script, exit_code, output) in cases {
            let executed =
                pod.handle().exec("web", sh(&script), EXEC_TIMEOUT).await.expect("it runs");
            assert_eq!((executed.exit_code, executed.output.as_str()), (Some(exit_code), output));
        }
        let missing = pod.handle().exec("web", vec!["/no/such".to_owned()], EXEC_TIMEOUT).await;
        assert!(matches!(missing, Err(CommandError::Refused { reason: Refusal::CannotRun, .. })));
        let user = |script: &'static str| pod.handle().exec("web", sh(script), EXEC_TIMEOUT);
        let own = std::fs::read_to_string(pod.folder.log("web", 0)).expect("a log");
        assert!(!own.contains("hello"), "what commands say is not in the log");
        assert_eq!(user("id -u").await.expect("it runs").exit_code, Some(0));
        pod.handle().kill("web").await.expect("it runs");
        pod.next_end().await;
        let late = pod.handle().exec("web", sh("true"), EXEC_TIMEOUT).await;
        assert!(matches!(late, Err(CommandError::Refused { reason: Refusal::NotRunning, .. })));
        pod.end().await;
    }
}

#[tokio::test]
async fn a_command_that_takes_too_long_is_killed_with_its_children() {
    for confinement in confinements() {
        let pod = Pod::launch(confinement).await;
        let marker = marker();
        pod.run("web", "exec sleep 1000").await;
        let script = format!("echo begun; trap '' TERM; sleep {marker} & sleep {marker} & wait");
        let started = Instant::now();
        let limit = Duration::from_millis(300);
        let executed = pod.handle().exec("web", sh(&script), limit).await.expect("it runs");
        assert_eq!((executed.exit_code, executed.output.as_str()), (None, "begun\n"));
        assert!(started.elapsed() >= limit);
        until("its children are gone", || processes_with(&marker).is_empty()).await;
        let records = pod.handle().state().await.expect("it lives");
        assert!(records[0].end.is_none(), "the container runs on");
        pod.end().await;
    }
}

#[tokio::test]
async fn output_is_bounded_and_so_are_commands() {
    for confinement in confinements() {
        let mut pod = Pod::launch(confinement).await;
        pod.run("web", "exec sleep 1000").await;
        let flood = pod
            .handle()
            .exec("web", sh("head -c 3000000 /dev/zero | tr '\\0' a"), EXEC_TIMEOUT)
            .await;
        let flood = flood.expect("it runs");
        assert_eq!((flood.exit_code, flood.output.len()), (Some(0), MAX_EXEC_OUTPUT_BYTES));

        let marker = marker();
        let handle = pod.handle().clone();
        let many: Vec<_> = (0..8)
            .map(|_| {
                let (handle, script) = (handle.clone(), format!("exec sleep {marker}"));
                tokio::spawn(async move { handle.exec("web", sh(&script), EXEC_TIMEOUT).await })
            })
            .collect();
        until("eight run", || processes_with(&marker).len() == 8).await;
        let ninth = handle.exec("web", sh("true"), EXEC_TIMEOUT).await;
        assert!(matches!(ninth, Err(CommandError::Refused { reason: Refusal::CannotRun, .. })));
        // They end with their container.
        handle.kill("web").await.expect("it runs");
        assert_eq!(pod.next_end().await.1.exit_code, 137);
        for one in many {
            let executed = one.await.expect("no panic").expect("it ran");
            assert_eq!(executed.exit_code, Some(137));
        }
        pod.end().await;
    }
}
