//! What a shim costs.

use crate::pod::{Pod, confined, shell};
use crate::wait::until;

/// What is promised for each Pod.
const LIMIT_KB: u64 = 2048;

/// Memory that is the shim's alone, in kilobytes.
fn private_kb(pid: u32) -> u64 {
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).expect("it lives");
    let of = |name: &str| -> u64 {
        let line = rollup.lines().find(|line| line.starts_with(name)).expect("it is counted");
        line.split_ascii_whitespace().nth(1).and_then(|kb| kb.parse().ok()).expect("a number")
    };
    of("Private_Dirty:") + of("Private_Clean:")
}

#[tokio::test]
async fn a_shim_is_small_and_idle() {
    // Pages of the program are shared by all shims and by the node.
    let mut other = Pod::launch(confined()).await;
    let mut pod = Pod::launch(confined()).await;
    for attempt in 0..20 {
        let mut spec = shell("web", attempt, "head -c 300000 /dev/zero; echo; seq 2000; exit 1");
        spec.env.push(("SECRET".to_owned(), "x".repeat(100_000)));
        pod.handle().start(spec).await.expect("it starts");
        pod.next_end().await;
    }
    pod.handle().start(shell("web", 20, "echo ready; exec sleep 1000")).await.expect("it starts");
    until("it is ready", || pod.log("web", 20) == ["stdout F ready"]).await;

    let (shim, ticks) = (pod.shim(), ticks(pod.shim()));
    let private = private_kb(shim);
    eprintln!("private memory of a shim: {private} kB");
    if cfg!(debug_assertions) {
        eprintln!("not compared: only an optimised build is what users run");
    } else {
        assert!(private < LIMIT_KB, "{private} kB");
    }
    // A second in which nothing happens here, by the clock of something elsewhere.
    other.run("clock", "exec sleep 1").await;
    other.next_end().await;
    assert!(self::ticks(shim) - ticks <= 1, "an idle shim does nothing");
    pod.end().await;
    other.end().await;
}

/// Processor time so far, in ticks of a hundredth of a second.
fn ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
    let (_, rest) = stat.rsplit_once(") ").expect("a name");
    rest.split(' ').skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum()
}
