//! Real groups and real processes: they need root and version 1 controllers or a version 2 mount,
//! and say so where they cannot run.

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::skip;

/// How long a process may take to do what it is expected to do.
const PROCESS_TIMEOUT: Duration = Duration::from_secs(30);

static NEXT: AtomicU32 = AtomicU32::new(0);

/// Groups of a test of its own, taken away at its end.
struct Fixture {
    groups: Cgroups,
    uid: &'static str,
    base: String,
}

impl Fixture {
    fn new() -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let base = format!("sojourn-test-{}-{number}", std::process::id());
        let groups = Cgroups::detect(&base).unwrap();
        Self { groups, uid: "0a1b-2c3d", base }
    }

    /// `None` and a word on it where the machine cannot show this.
    #[track_caller]
    fn with(what: &str, has: fn(&Self) -> bool) -> Option<Self> {
        let fixture = Self::new();
        if has(&fixture) {
            return Some(fixture);
        }
        let why = format!("{what} cannot be had here: {}", fixture.groups.enforced().how);
        if rustix::process::geteuid().is_root() {
            skip::whole(why);
        } else {
            skip::left_to_another_run(why);
        }
        None
    }

    /// The same for groups of a version, of which a kernel may have only the other.
    #[track_caller]
    fn of_version(version: Version, has: fn(&Tree) -> bool) -> Option<Self> {
        let fixture = Self::new();
        if fixture.groups.trees.iter().any(|tree| tree.version == version && has(tree)) {
            return Some(fixture);
        }
        let why =
            format!("no group of version {version:?} here: {}", fixture.groups.enforced().how);
        skip::left_to_another_run(why);
        None
    }

    fn container(&self, limits: Limits, pids: u64) -> ContainerGroup {
        self.groups.pod(self.uid, limits, pids).unwrap();
        self.groups.container(self.uid, "main", limits).unwrap()
    }

    fn tree(&self, has: fn(&Tree) -> bool) -> &Tree {
        self.groups.trees.iter().find(|tree| has(tree)).unwrap()
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let _ = self.groups.kill(self.uid);
        let _ = self.groups.remove(self.uid);
        self.groups.remove_base();
    }
}

/// Runs a script that has entered the groups before its first line.
fn run(group: &ContainerGroup, script: &str) -> Child {
    let enter: String = group
        .procs
        .iter()
        .map(|path| format!("echo $$ > {} || exit 99\n", path.display()))
        .collect();
    Command::new("sh")
        .args(["-c", &format!("{enter}{script}")])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < PROCESS_TIMEOUT, "not within {PROCESS_TIMEOUT:?}: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn ended(child: &mut Child) -> ExitStatus {
    until("the process ends", || child.try_wait().unwrap())
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap().trim().to_owned()
}

fn oom_kills(group: &ContainerGroup) -> u64 {
    let text = read(group.oom_events.as_ref().unwrap());
    let line = text.lines().find_map(|line| line.strip_prefix("oom_kill ")).unwrap();
    line.parse().unwrap()
}

#[test]
fn a_process_over_its_memory_is_killed_and_counted() {
    let Some(fixture) = Fixture::with("a memory limit", |fixture| fixture.groups.enforced().memory)
    else {
        return;
    };
    let limits = Limits { memory: Some(24 << 20), ..Limits::default() };
    let group = fixture.container(limits, DEFAULT_PIDS);
    assert_eq!(group.memory_limit, None, "nobody needs to sample it");
    assert_eq!(oom_kills(&group), 0);
    // Looks for the last line of something endless without one.
    let mut hog = run(&group, "exec tail /dev/zero");
    assert_eq!(ended(&mut hog).signal(), Some(9));
    assert_eq!(oom_kills(&group), 1);
    // The limit is on the container, not on whoever runs beside it.
    let mut modest = run(&group, "exit 3");
    assert_eq!(ended(&mut modest).code(), Some(3));
}

#[test]
fn limits_are_set_moved_and_set_again() {
    let Some(fixture) = Fixture::with("memory and cpu limits", |fixture| {
        let enforced = fixture.groups.enforced();
        enforced.memory && enforced.cpu
    }) else {
        return;
    };
    let file = |tree: &Tree, one: &str, two: &str| {
        tree.container(fixture.uid, "main").join(if tree.version == Version::One {
            one
        } else {
            two
        })
    };
    let memory =
        file(fixture.tree(|tree| tree.controllers.memory), "memory.limit_in_bytes", "memory.max");
    let cpu = file(fixture.tree(|tree| tree.controllers.cpu), "cpu.cfs_quota_us", "cpu.max");
    for (bytes, milli, quota) in [
        (64 << 20, 250, "25000"),
        (64 << 20, 250, "25000"),
        (128 << 20, 1500, "150000"),
        (32 << 20, 5, "1000"),
    ] {
        let limits =
            Limits { memory: Some(bytes), milli_cpu: Some(milli), milli_cpu_request: milli };
        fixture.container(limits, DEFAULT_PIDS);
        assert_eq!(read(&memory), bytes.to_string());
        assert_eq!(read(&cpu).split(' ').next(), Some(quota));
    }
}

#[test]
fn a_fork_bomb_is_bounded_and_dies_as_a_whole() {
    let Some(fixture) =
        Fixture::with("a limit on processes", |fixture| fixture.groups.enforced().pids)
    else {
        return;
    };
    let group = fixture.container(Limits::default(), 20);
    // Forks until it cannot, then has its children do the same.
    let mut bomb = run(&group, "bomb() { while :; do bomb & done; }; bomb");
    let tree = fixture.tree(|tree| tree.controllers.pids);
    let current = tree.pod(fixture.uid).join("pids.current");
    // A fork that is refused is counted for a moment, so processes are counted instead.
    until("the bomb reaches its bound", || {
        (read(&current).parse::<u64>().unwrap() >= 20).then_some(())
    });
    assert!(processes(&tree.pod(fixture.uid)).unwrap().len() <= 20);
    fixture.groups.kill(fixture.uid).unwrap();
    ended(&mut bomb);
    assert_eq!(processes(&tree.pod(fixture.uid)).unwrap(), []);
    fixture.groups.remove(fixture.uid).unwrap();
    assert!(!tree.pod(fixture.uid).exists());
}

/// The kernel's own `cgroup.kill`, in a version 2 tree with or without controllers.
#[test]
fn version_two_kills_at_once() {
    let Some(fixture) = Fixture::of_version(Version::Two, |_| true) else { return };
    let group = fixture.container(Limits::default(), DEFAULT_PIDS);
    let pod = fixture.tree(|tree| tree.version == Version::Two).pod(fixture.uid);
    let mut child = run(&group, "setsid sleep 1000 & setsid sleep 1000 & wait");
    until("three processes are in it", || (processes(&pod).unwrap().len() == 3).then_some(()));
    assert!(v2::kill(&pod));
    assert_eq!(ended(&mut child).signal(), Some(9));
    until("all are gone", || processes(&pod).unwrap().is_empty().then_some(()));
}

#[test]
fn one_by_one_where_nothing_kills_at_once() {
    let Some(mut fixture) = Fixture::of_version(Version::One, |tree| tree.controllers.pids) else {
        return;
    };
    let whole = fixture.groups.trees.clone();
    fixture.groups.trees.retain(|tree| tree.version == Version::One);
    let group = fixture.container(Limits::default(), 50);
    let mut bomb = run(&group, "bomb() { while :; do bomb & done; }; bomb");
    let pod = fixture.tree(|tree| tree.controllers.pids).pod(fixture.uid);
    until("there are many", || (processes(&pod).unwrap().len() > 10).then_some(()));
    fixture.groups.kill(fixture.uid).unwrap();
    ended(&mut bomb);
    assert_eq!(processes(&pod).unwrap(), []);
    fixture.groups.trees = whole;
}

#[test]
fn only_what_is_empty_and_unknown_is_swept() {
    let Some(fixture) = Fixture::with("any group", |fixture| !fixture.groups.trees.is_empty())
    else {
        return;
    };
    let group = fixture.container(Limits::default(), DEFAULT_PIDS);
    for uid in ["known", "unknown"] {
        fixture.groups.pod(uid, Limits::default(), DEFAULT_PIDS).unwrap();
        fixture.groups.container(uid, "a", Limits::default()).unwrap();
    }
    let mut child = run(&group, "exec sleep 1000");
    let tree = &fixture.groups.trees[0];
    until("it is in", || (!processes(&tree.pod(fixture.uid)).unwrap().is_empty()).then_some(()));

    let known = BTreeSet::from(["known".to_owned()]);
    assert_eq!(fixture.groups.sweep(&known), [fixture.uid]);
    assert!(tree.pod("known").exists() && tree.pod(fixture.uid).exists());
    assert!(!tree.pod("unknown").exists());

    fixture.groups.kill(fixture.uid).unwrap();
    ended(&mut child);
    assert_eq!(fixture.groups.sweep(&BTreeSet::new()), [""; 0]);
    assert!(subgroups(&tree.base).unwrap().is_empty(), "{}", fixture.base);
    // What is not there is as good as removed.
    fixture.groups.remove(fixture.uid).unwrap();
    fixture.groups.kill(fixture.uid).unwrap();
}

#[test]
fn all_pods_together_are_bounded() {
    let Some(fixture) = Fixture::with("a memory limit", |fixture| fixture.groups.enforced().memory)
    else {
        return;
    };
    fixture.groups.bound(1 << 30, 2000).unwrap();
    let tree = fixture.tree(|tree| tree.controllers.memory);
    let file = match tree.version {
        Version::One => "memory.limit_in_bytes",
        Version::Two => "memory.max",
    };
    assert_eq!(read(&tree.base.join(file)), (1 << 30).to_string());
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    let groups = Cgroups::none("this is a test");
    let long = "x".repeat(201);
    for name in ["", ".", "..", "../up", "a/b", "a\0b", "a b", "ä", ".hidden", &long] {
        assert!(groups.pod(name, Limits::default(), 1).is_err(), "{name:?}");
        assert!(groups.container("uid", name, Limits::default()).is_err(), "{name:?}");
        assert!(groups.kill(name).is_err() && groups.remove(name).is_err(), "{name:?}");
        assert!(Cgroups::detect(name).is_err(), "{name:?}");
    }
}

#[test]
fn without_groups_memory_is_left_to_sampling() {
    let groups = Cgroups::none("this is a test");
    let limits = Limits { memory: Some(5 << 20), milli_cpu: Some(1), milli_cpu_request: 1 };
    groups.pod("uid", limits, DEFAULT_PIDS).unwrap();
    let group = groups.container("uid", "tasks", limits).unwrap();
    assert_eq!(group, ContainerGroup { memory_limit: Some(5 << 20), ..ContainerGroup::default() });
    let unlimited = Limits { memory: Some(0), ..Limits::default() };
    assert_eq!(groups.container("uid", "a", unlimited).unwrap().memory_limit, None);
    assert!(!groups.enforced().memory && groups.enforced().how.contains("this is a test"));
}

/// Version 2 with every controller, as files that are there already.
#[test]
fn version_two_as_files() {
    let base = std::env::temp_dir().join(format!("sojourn-cgroup-files-{}", std::process::id()));
    let controllers = Controllers { memory: true, cpu: true, pids: true };
    let tree = Tree { version: Version::Two, base: base.clone(), controllers };
    let (pod, container) = (tree.pod("u"), tree.container("u", "tasks"));
    fs::create_dir_all(&container).unwrap();
    for group in [&pod, &container] {
        for file in ["memory.max", "cpu.max", "cpu.weight", "pids.max", "cgroup.subtree_control"] {
            fs::write(group.join(file), "").unwrap();
        }
    }
    let groups =
        Cgroups { enforced: detect::summary(std::slice::from_ref(&tree), &[]), trees: vec![tree] };
    let of_pod = Limits { memory: Some(2 << 20), milli_cpu: Some(200), milli_cpu_request: 1000 };
    groups.pod("u", of_pod, 30).unwrap();
    let own = Limits { memory: Some(1 << 20), ..Limits::default() };
    assert_eq!(
        groups.container("u", "tasks", own).unwrap(),
        ContainerGroup {
            procs: vec![container.join("cgroup.procs")],
            oom_events: Some(container.join("memory.events")),
            memory_limit: None,
        }
    );
    for (group, file, want) in [
        (&pod, "memory.max", "2097152"),
        (&pod, "cpu.max", "20000 100000"),
        (&pod, "cpu.weight", "39"),
        (&pod, "pids.max", "30"),
        (&pod, "cgroup.subtree_control", "+memory +cpu +pids"),
        (&container, "memory.max", "1048576"),
        (&container, "cpu.max", "max 100000"),
        (&container, "cpu.weight", "1"),
        (&container, "pids.max", ""),
        (&container, "cgroup.subtree_control", ""),
    ] {
        assert_eq!(read(&group.join(file)), want, "{file}");
    }
    // A limit that cannot be set is an error, not a container without a limit.
    fs::remove_file(container.join("memory.max")).unwrap();
    assert!(matches!(groups.container("u", "tasks", own), Err(CgroupError::Set { .. })));
    fs::remove_dir_all(base).unwrap();
}
