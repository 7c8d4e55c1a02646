//! What containers say.

use crate::pod::{Pod, confined, confinements, shell};
use crate::wait::until;

#[tokio::test]
async fn both_streams_are_logged() {
    for confinement in confinements() {
        let mut pod = Pod::launch(confinement).await;
        let script = "echo out; printf 'no end' ; echo err >&2; echo again > /dev/stdout";
        pod.run("web", script).await;
        assert_eq!(pod.next_end().await.1.exit_code, 0);
        let mut log = pod.log("web", 0);
        log.sort();
        // Opened again, a pipe is the same pipe.
        assert_eq!(log, ["stderr F err", "stdout F no endagain", "stdout F out"]);
        pod.end().await;
    }
}

#[tokio::test]
async fn a_log_is_whole_when_the_end_is_told() {
    let mut pod = Pod::launch(confined()).await;
    for attempt in 0..20 {
        // A child that is left over writes up to the moment at which it is killed.
        let script = "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo line $i; done; \
                      (while :; do echo left; sleep 0.001; done) & exit 0";
        pod.handle().start(shell("web", attempt, script)).await.expect("it starts");
        pod.next_end().await;
        let size = std::fs::metadata(pod.folder.log("web", attempt)).expect("a log").len();
        let mut log = pod.log("web", attempt);
        log.retain(|line| line != "stdout F left");
        assert_eq!(log.len(), 3000);
        assert_eq!(log[2999], "stdout F line 3000");
        pod.handle().state().await.expect("it lives");
        let later = std::fs::metadata(pod.folder.log("web", attempt)).expect("a log").len();
        assert_eq!(size, later, "nothing is written after the end");
    }
    pod.end().await;
}

#[tokio::test]
async fn a_flood_fills_no_disk_and_starves_nobody() {
    let mut pod = Pod::launch(confined()).await;
    let share = pod.shim_config.log_limit / 8;
    pod.run("flood", "yes $(head -c 200 /dev/zero | tr '\\0' y)").await;
    pod.run("lines", "yes ''").await;
    let rotated = |container| pod.folder.older_log(container, 0).exists();
    until("both were rotated", || rotated("flood") && rotated("lines")).await;
    // The loop still turns: an answer comes, and another container runs to its end.
    pod.run("web", "echo through; exit 8").await;
    let (record, end) = pod.next_end().await;
    assert_eq!((record.container.as_str(), end.exit_code), ("web", 8));
    assert_eq!(pod.log("web", 0), ["stdout F through"]);
    for container in ["flood", "lines"] {
        pod.handle().kill(container).await.expect("it runs");
    }
    pod.next_end().await;
    pod.next_end().await;
    for container in ["flood", "lines"] {
        let files = std::fs::read_dir(pod.folder.logs(container)).expect("a folder").flatten();
        let sizes: Vec<_> = files.map(|file| file.metadata().expect("a file").len()).collect();
        assert!(sizes.len() == 2 && sizes.iter().all(|size| *size <= share), "{sizes:?}");
    }
    pod.end().await;
}

#[tokio::test]
async fn a_log_that_cannot_be_written_does_not_stop_a_container() {
    let mut pod = Pod::launch(confined()).await;
    // A file in the place of the folder.
    std::fs::write(pod.folder.path().join("logs").join("web"), "").expect("a file");
    pod.run("web", "head -c 1000000 /dev/zero; exit 11").await;
    assert_eq!(pod.next_end().await.1.exit_code, 11);
    assert!(pod.shim_log().contains("cannot"), "{}", pod.shim_log());
    pod.end().await;
}
