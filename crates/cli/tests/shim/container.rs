//! How containers start and end.

use std::path::PathBuf;

use sojourn_node::shim::handle::CommandError;
use sojourn_node::shim::protocol::{Confinement, Mount, Refusal, Source, Start};

use crate::pod::{Pod, confined, confinements, kill, marker, processes_with, shell};
use crate::skip;
use crate::wait::until;

#[tokio::test]
async fn exit_codes_and_signals() {
    let cases = [
        ("exit 0", 0, None),
        ("exit 7", 7, None),
        ("exit 255", 255, None),
        ("kill -TERM $$", 143, Some(15)),
        ("kill -KILL $$", 137, Some(9)),
        ("kill -SEGV $$", 139, Some(11)),
    ];
    for confinement in confinements() {
        let mut pod = Pod::launch(confinement).await;
        for (attempt, (script, exit_code, signal)) in (0..).zip(cases) {
            let started = pod.handle().start(shell("web", attempt, script)).await;
            let started = started.expect("it starts");
            let (record, end) = pod.next_end().await;
            assert_eq!((record.attempt, record.pid), (attempt, started.pid), "{script}");
            assert_eq!((end.exit_code, end.signal), (exit_code, signal), "{script}");
            assert!(!end.oom_killed && end.finished_at >= record.started_at, "{script}");
        }
        pod.end().await;
    }
}

#[tokio::test]
async fn an_attempt_is_started_once() {
    for confinement in confinements() {
        let mut pod = Pod::launch(confinement).await;
        let (marker, script) = (marker(), "echo once; exec sleep");
        let spec = shell("web", 0, &format!("{script} {marker}"));
        let first = pod.handle().start(spec.clone()).await.expect("it starts");
        let again = pod.handle().start(spec.clone()).await.expect("it has started");
        assert_eq!(first, again);
        until("it says so", || pod.log("web", 0) == ["stdout F once"]).await;
        // While a program takes the place of another, it has no arguments.
        until("one runs", || processes_with(&marker).len() == 1).await;

        let other = pod.handle().start(shell("web", 1, "true")).await;
        assert!(
            matches!(&other, Err(CommandError::Refused { reason: Refusal::BadRequest, .. })),
            "{other:?}"
        );
        pod.handle().kill("web").await.expect("it runs");
        let (ended, _) = pod.next_end().await;
        assert_eq!(pod.handle().start(spec).await.expect("it has ended"), ended);
        assert_eq!(pod.log("web", 0), ["stdout F once"]);
        pod.end().await;
    }
}

#[tokio::test]
async fn what_cannot_run_says_why() {
    for confinement in confinements() {
        let pod = Pod::launch(confinement).await;
        let with = |change: fn(&mut Start)| {
            let mut spec = shell("web", 0, "true");
            change(&mut spec);
            spec
        };
        let cases = [
            (
                with(|s| s.argv = vec!["/no/such".into()]),
                Refusal::CannotRun,
                "\"/no/such\": No such file",
            ),
            (
                with(|s| s.argv = vec!["no-such".into()]),
                Refusal::CannotRun,
                "\"no-such\": No such file",
            ),
            (
                with(|s| s.argv = vec!["/etc/passwd".into()]),
                Refusal::CannotRun,
                "Permission denied",
            ),
            (with(|s| s.argv = vec!["a\0b".into()]), Refusal::CannotRun, "nul byte"),
            (with(|s| s.argv.clear()), Refusal::BadRequest, "no command"),
            (with(|s| s.container = "../up".into()), Refusal::BadRequest, "names no container"),
            (with(|s| s.working_dir = Some("/no/such".into())), Refusal::CannotPrepare, "/no/such"),
        ];
        for (spec, expected, words) in cases {
            let refused = pod.handle().start(spec).await;
            let Err(CommandError::Refused { reason, message }) = refused else {
                panic!("{words}: {refused:?}");
            };
            assert_eq!(reason, expected, "{message}");
            assert!(message.contains(words), "{message}");
        }
        assert_eq!(pod.handle().state().await.expect("it lives"), [], "no trace of them");
        pod.run("web", "true").await;
        pod.end().await;
    }
}

#[tokio::test]
async fn signals_reach_the_first_process() {
    for confinement in confinements() {
        let mut pod = Pod::launch(confinement).await;
        let nobody = pod.handle().signal("web", 15).await;
        assert!(matches!(nobody, Err(CommandError::Refused { reason: Refusal::NotRunning, .. })));
        pod.run("web", "trap 'exit 42' TERM; echo ready; while :; do sleep 0.01; done").await;
        until("it is ready", || pod.log("web", 0) == ["stdout F ready"]).await;
        let unknown = pod.handle().signal("web", 4711).await;
        assert!(matches!(unknown, Err(CommandError::Refused { reason: Refusal::BadRequest, .. })));
        pod.handle().signal("web", 15).await.expect("it runs");
        assert_eq!(pod.next_end().await.1.exit_code, 42);
        pod.end().await;
    }
}

#[tokio::test]
async fn a_container_gets_its_environment_and_nothing_else() {
    for confinement in confinements() {
        let mut pod = Pod::launch(confinement).await;
        let script = "env | sort | grep -v ^PWD=; ls /proc/self/fd; cat; umask; ulimit -c";
        pod.run("web", script).await;
        assert_eq!(pod.next_end().await.1.exit_code, 0);
        // `ls` has one more, of the folder that it lists.
        let expected = ["GREETING=hello", "PATH=/usr/bin:/bin", "0", "1", "2", "3", "0022", "0"];
        assert_eq!(pod.log("web", 0), expected.map(|line| format!("stdout F {line}")));
        pod.end().await;
    }
}

#[tokio::test]
async fn nothing_outlives_a_container() {
    for confinement in confinements() {
        let mut pod = Pod::launch(confinement).await;
        let (marker, beside) = (marker(), marker());
        // Double-forked, in a session of its own, deaf to SIGTERM and still writing.
        let daemon = format!(
            "(setsid sh -c 'trap \"\" TERM HUP; while :; do sleep {marker}; done' &) & exit 3"
        );
        pod.run("web", &daemon).await;
        assert_eq!(pod.next_end().await.1.exit_code, 3);
        assert_eq!(processes_with(&marker), [0; 0], "alone: {confinement:?}");

        pod.run("beside", &format!("sleep {beside} & sleep {beside} & wait")).await;
        until("they run", || processes_with(&beside).len() == 3).await;
        let child = format!("sleep {marker} & exit 4");
        pod.handle().start(shell("web", 1, &child)).await.expect("it starts");
        assert_eq!(pod.next_end().await.1.exit_code, 4);
        assert_eq!(processes_with(&marker), [0; 0], "beside another: {confinement:?}");
        assert_eq!(processes_with(&beside).len(), 3, "which is left alone");

        pod.handle().kill("beside").await.expect("it runs");
        assert_eq!(pod.next_end().await.1.exit_code, 137);
        assert_eq!(processes_with(&beside), [0; 0]);
        pod.end().await;
    }
}

#[tokio::test]
async fn a_daemon_of_one_container_does_not_outlive_it_beside_another() {
    let mut pod = Pod::launch(confined()).await;
    let (marker, beside) = (marker(), marker());
    pod.run("beside", &format!("(setsid sleep {beside} &); sleep {beside}")).await;
    pod.run("web", &format!("(setsid sleep {marker} &); exit 5")).await;
    assert_eq!(pod.next_end().await.1.exit_code, 5);
    assert_eq!(processes_with(&marker), [0; 0]);
    until("the other has both", || processes_with(&beside).len() == 3).await;
    pod.end().await;
    assert_eq!(processes_with(&beside), [0; 0]);
}

/// Only a cgroup tells whose such a process is.
#[tokio::test]
async fn a_daemon_in_namespaces_of_its_own_does_not_outlive_its_container() {
    let Some(group) = Group::make() else {
        return skip::left_to_another_run("only root makes control groups of version 2");
    };
    let mut pod = Pod::launch(confined()).await;
    let (marker, beside) = (marker(), marker());
    pod.run("beside", &format!("exec sleep {beside}")).await;
    let hide = format!("unshare -Urm sh -c 'echo hidden; exec sleep {marker}' || echo seen");
    let script =
        format!("(setsid sh -c \"{hide}\" &); trap 'exit 7' TERM; while :; do sleep 0.01; done");
    let mut spec = shell("web", 0, &script);
    spec.cgroups.push(group.0.join("cgroup.procs"));
    pod.handle().start(spec).await.expect("it starts");
    let mut log = Vec::new();
    until("it hides, or cannot", || {
        log = pod.log("web", 0);
        log.iter().any(|line| line.ends_with("hidden") || line.ends_with("seen"))
    })
    .await;
    // Where containers may make no namespaces, it stays in those of its container. It ends all the same.
    pod.handle().signal("web", 15).await.expect("it runs");
    assert_eq!(pod.next_end().await.1.exit_code, 7);
    assert_eq!(processes_with(&marker), [0; 0]);
    assert_eq!(processes_with(&beside).len(), 1, "the other is left alone");
    pod.end().await;
}

/// A cgroup of version 2, removed with this.
struct Group(PathBuf);

impl Group {
    fn make() -> Option<Self> {
        let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
        let mount = mounts.lines().find(|line| line.split(' ').nth(2) == Some("cgroup2"))?;
        let group = PathBuf::from(mount.split(' ').nth(1)?)
            .join(format!("shim-test-{}", std::process::id()));
        std::fs::create_dir(&group).ok()?;
        Some(Self(group))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[tokio::test]
async fn a_fork_bomb_ends_with_its_container() {
    let mut pod = Pod::launch(confined()).await;
    let marker = marker();
    // Each puts two in its place, as long as there are not too many.
    let bomb = format!(
        "f() {{ while [ $(ls -d /proc/[0-9]* | wc -l) -gt 60 ]; do :; done; f {marker} & f {marker} & }}; f & sleep 0.3; exit 6"
    );
    pod.run("web", &bomb).await;
    assert_eq!(pod.next_end().await.1.exit_code, 6);
    assert_eq!(processes_with(&marker), [0; 0]);
    pod.end().await;
}

#[tokio::test]
async fn fifty_containers_in_sequence() {
    let mut pod = Pod::launch(confined()).await;
    for attempt in 0..50 {
        let script = format!("echo run {attempt}; exit {attempt}");
        pod.handle().start(shell("web", attempt, &script)).await.expect("it starts");
        let (record, end) = pod.next_end().await;
        assert_eq!((record.attempt, end.exit_code), (attempt, attempt.cast_signed()));
        assert_eq!(pod.log("web", attempt), [format!("stdout F run {attempt}")]);
    }
    let known = pod.handle().state().await.expect("it lives");
    let attempts: Vec<_> = known.iter().map(|record| record.attempt).collect();
    assert_eq!(attempts, (42..50).collect::<Vec<_>>());
    assert_eq!(std::fs::read_dir(pod.folder.records()).expect("a folder").count(), 8);
    assert_eq!(std::fs::read_dir(pod.folder.logs("web")).expect("a folder").count(), 2);
    pod.end().await;
}

#[tokio::test]
async fn termination_messages() {
    for confinement in confinements() {
        let mut pod = Pod::launch(confinement).await;
        let inside = "/dev/termination-log";
        let scripts: [(&str, bool, i32, &str); 5] = [
            ("printf bye > $OUT", false, 0, "bye"),
            ("printf bye > $OUT; exit 1", true, 1, "bye"),
            ("echo one; echo two >&2; exit 1", true, 1, "one\ntwo\n"),
            ("echo one; exit 1", false, 1, ""),
            ("echo one", true, 0, ""),
        ];
        for (attempt, (script, message_from_log, exit_code, message)) in (0..).zip(scripts) {
            let file = pod.folder.termination("web", attempt);
            std::fs::write(&file, "").expect("a file");
            let mut spec = shell("web", attempt, script);
            let seen_as = match confinement {
                Confinement::Unconfined => file.clone(),
                Confinement::User { uid, gid } => {
                    std::os::unix::fs::chown(&file, Some(uid), Some(gid)).expect("we are root");
                    inside.into()
                }
                Confinement::UserNamespace => inside.into(),
            };
            spec.env.push(("OUT".to_owned(), seen_as.to_string_lossy().into_owned()));
            spec.mounts.push(Mount {
                target: inside.into(),
                source: Source::Host { path: file.clone(), beneath: None, create: false },
                read_only: false,
            });
            spec.termination_message = Some(file.clone());
            spec.message_from_log = message_from_log;
            pod.handle().start(spec).await.expect("it starts");
            let (_, end) = pod.next_end().await;
            let sorted = |text: &str| {
                let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
                lines.sort();
                lines
            };
            assert_eq!(end.exit_code, exit_code, "{script}");
            assert_eq!(sorted(&end.message), sorted(message), "{script}");
            assert!(!file.exists(), "it is in the record now");
        }
        pod.end().await;
    }
}

#[tokio::test]
async fn too_much_memory_without_a_cgroup() {
    for confinement in confinements() {
        let mut pod = Pod::launch(confinement).await;
        let mut spec = shell("web", 0, "x=$(head -c 60000000 /dev/zero | tr '\\0' x); sleep 1000");
        spec.memory_limit = Some(30 << 20);
        pod.handle().start(spec).await.expect("it starts");
        let (_, end) = pod.next_end().await;
        assert_eq!((end.exit_code, end.signal, end.oom_killed), (137, Some(9), true));

        let mut small = shell("web", 1, "sleep 2.5; exit 9");
        small.memory_limit = Some(30 << 20);
        pod.handle().start(small).await.expect("it starts");
        let (_, end) = pod.next_end().await;
        assert_eq!((end.exit_code, end.oom_killed), (9, false));
        pod.end().await;
    }
}

/// Descriptors that leave a shim what it waits for and no other: with fewer it ends, and all with it.
const BLINDING: u64 = 12;

/// As an ordinary user the shim has the same user as its container.
#[tokio::test]
async fn a_container_cannot_blind_what_weighs_it() {
    let mut pod = Pod::launch(confined()).await;
    let script = format!(
        "prlimit --pid 1 --nofile={BLINDING}:{BLINDING} 2>/dev/null && echo blinded; \
         x=$(head -c 60000000 /dev/zero | tr '\\0' x); sleep 20; exit 3"
    );
    let mut spec = shell("web", 0, &script);
    spec.memory_limit = Some(30 << 20);
    pod.handle().start(spec).await.expect("it starts");
    let (_, end) = pod.next_end().await;
    assert_eq!((end.exit_code, end.oom_killed), (137, true));
    assert_eq!(pod.log("web", 0), Vec::<String>::new(), "it was not let");
    pod.end().await;
}

/// Whoever took its limits away, what cannot be weighed does not run on.
#[tokio::test]
async fn a_blinded_shim_ends_what_it_cannot_weigh() {
    let mut pod = Pod::launch(confined()).await;
    let mut spec = shell("web", 0, "sleep 20; exit 3");
    spec.memory_limit = Some(30 << 20);
    pod.handle().start(spec).await.expect("it starts");
    let shim = i32::try_from(pod.shim()).ok().and_then(rustix::process::Pid::from_raw);
    // It has our own, and what is once taken from the highest cannot be given back.
    let maximum = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
    let none = rustix::process::Rlimit { current: Some(BLINDING), maximum };
    let before = rustix::process::prlimit(shim, rustix::process::Resource::Nofile, none);
    let before = before.expect("whoever started it may");
    let (_, end) = pod.next_end().await;
    assert_eq!((end.exit_code, end.oom_killed), (137, true));
    rustix::process::prlimit(shim, rustix::process::Resource::Nofile, before).expect("again");
    pod.end().await;
}

#[tokio::test]
async fn the_kernel_killed_for_memory() {
    for (rises, killed) in [(true, true), (false, false)] {
        let mut pod = Pod::launch(confined()).await;
        let events = pod.folder.path().join("memory.events");
        std::fs::write(&events, "oom 0\noom_kill 3\n").expect("a file");
        let mut spec = shell("web", 0, "exec sleep 1000");
        spec.oom_events = Some(events.clone());
        let started = pod.handle().start(spec).await.expect("it starts");
        if rises {
            std::fs::write(&events, "oom 1\noom_kill 4\n").expect("a file");
        }
        assert!(started.pid > 1);
        pod.handle().kill("web").await.expect("it runs");
        let (_, end) = pod.next_end().await;
        assert_eq!((end.exit_code, end.oom_killed), (137, killed));
        pod.end().await;
    }
}

#[tokio::test]
async fn a_first_process_that_somebody_kills() {
    let mut pod = Pod::launch(confined()).await;
    let marker = marker();
    pod.run("web", &format!("exec sleep {marker}")).await;
    until("it runs", || processes_with(&marker).len() == 1).await;
    kill(processes_with(&marker)[0]);
    let (_, end) = pod.next_end().await;
    assert_eq!((end.exit_code, end.signal, end.oom_killed), (137, Some(9), false));
    pod.end().await;
}
