//! How a shim ends.

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Signal;
use sojourn_node::shim::handle::{Adopted, CommandError, Handle, LaunchError};

use crate::pod::{Pod, confined, confinements, marker, processes_with};
use crate::wait::{until, within};

#[tokio::test]
async fn the_end_of_a_shim_is_that_of_its_containers() {
    for confinement in confinements() {
        let mut pod = Pod::launch(confinement).await;
        let marker = marker();
        pod.run(
            "web",
            &format!("trap '' TERM; (setsid sleep {marker} &); sleep {marker}; sleep {marker}"),
        )
        .await;
        pod.run("other", &format!("exec sleep {marker}")).await;
        until("they run", || processes_with(&marker).len() >= 4).await;
        within("the end", pod.handle().end()).await.expect("it ends");
        assert_eq!(processes_with(&marker), [0; 0]);
        for _ in 0..2 {
            assert_eq!(pod.next_end().await.1.exit_code, 137);
        }
        let Ok(Adopted::Ended(records)) = Handle::adopt(&pod.folder).await else {
            panic!("it is gone");
        };
        assert!(records.iter().all(|record| record.end.is_some()), "{records:?}");
        assert!(!pod.folder.socket().exists());
        assert!(matches!(pod.handle().kill("web").await, Err(CommandError::Lost)));
        pod.handle().end().await.expect("it has ended");
    }
}

#[tokio::test]
async fn a_stopped_shim_is_killed() {
    let pod = Pod::launch(confined()).await;
    let marker = marker();
    pod.run("web", &format!("exec sleep {marker}")).await;
    let shim = i32::try_from(pod.shim()).ok().and_then(rustix::process::Pid::from_raw);
    rustix::process::kill_process(shim.expect("a PID"), Signal::STOP).expect("it lives");
    within("the end", pod.handle().end()).await.expect("it ends");
    assert_eq!(processes_with(&marker), [0; 0]);
}

#[tokio::test]
async fn a_shim_with_a_lifeline_ends_with_it() {
    for confinement in confinements() {
        let mut pod = Pod::new(confinement);
        let (reading, writing) = pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
        pod.start_shim(Some(reading)).await.expect("it starts");
        let marker = marker();
        pod.run("web", &format!("(setsid sleep {marker} &); sleep {marker}")).await;
        until("they run", || processes_with(&marker).len() >= 2).await;
        drop(writing);
        let mut ended = pod.ended.take().expect("the shim runs");
        let record = within("the end of the container", ended.recv()).await.expect("it is told");
        assert_eq!(record.end.map(|end| end.exit_code), Some(137));
        assert_eq!(within("the end of the shim", ended.recv()).await, None);
        assert_eq!(processes_with(&marker), [0; 0]);
    }
}

#[tokio::test]
async fn a_lifeline_must_be_one() {
    let mut pod = Pod::new(confined());
    let null = std::fs::File::open("/dev/null").expect("/dev/null");
    let failed = pod.start_shim(Some(null.into())).await;
    let Err(LaunchError::Failed { log_tail }) = failed else { panic!("{failed:?}") };
    assert!(log_tail.contains("not a pipe of the node"), "{log_tail}");
}

#[tokio::test]
async fn signals_do_not_end_a_shim() {
    for confinement in confinements() {
        let mut pod = Pod::launch(confinement).await;
        let shim = i32::try_from(pod.shim()).ok().and_then(rustix::process::Pid::from_raw);
        let shim = shim.expect("a PID");
        for signal in [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM, Signal::PIPE] {
            rustix::process::kill_process(shim, signal).expect("it lives");
        }
        pod.run("web", "exit 12").await;
        assert_eq!(pod.next_end().await.1.exit_code, 12);
        pod.end().await;
    }
}
