use super::*;
use crate::shim::protocol::{Confinement, Mount, Source};

fn shim_config(exposed: &[&str]) -> ShimConfig {
    ShimConfig {
        pod_uid: "uid".to_owned(),
        hostname: "pod".to_owned(),
        confinement: Confinement::UserNamespace,
        exposed: exposed.iter().map(PathBuf::from).collect(),
        hidden: Vec::new(),
        dies_with_node: false,
        log_limit: 0,
        containers: 1,
        network: Network::Machine { ports: None },
    }
}

fn start(targets: &[&str]) -> Start {
    let mount = |target: &&str| Mount {
        target: target.into(),
        source: Source::Host { path: "/node/volume".into(), beneath: None, create: false },
        read_only: false,
    };
    Start {
        container: "c".to_owned(),
        mounts: targets.iter().map(mount).collect(),
        ..Start::default()
    }
}

/// A machine as most are today: `/bin` and the like are links into `/usr`.
fn host() -> Host {
    let folder = |name: &str| (name.to_owned(), Entry::Folder);
    let link = |name: &str, to: &str| (name.to_owned(), Entry::Link(to.into()));
    let top = [
        link("bin", "usr/bin"),
        folder("boot"),
        folder("data"),
        folder("dev"),
        folder("etc"),
        folder("home"),
        link("lib", "usr/lib"),
        link("lib64", "/usr/lib64"),
        folder("opt"),
        folder("proc"),
        folder("root"),
        folder("run"),
        link("sbin", "usr/sbin"),
        folder("sys"),
        folder("tmp"),
        folder("usr"),
        folder("var"),
    ];
    Host { top: top.into(), ..Host::default() }
}

/// A line for each step but for folders and covers that are always there.
fn described(steps: &[Step]) -> Vec<String> {
    let line = |step: &Step| match step {
        Step::Folder(_) => None,
        Step::Link { at, to } => Some(format!("{} -> {}", at.display(), to.display())),
        Step::Host(path) => Some(format!("host {}", path.display())),
        Step::Own { source, at } => Some(format!("own {} at {}", source.display(), at.display())),
        Step::Cover(path) if NOT_SHOWN.iter().any(|always| path == Path::new(always)) => None,
        Step::Cover(path) => Some(format!("cover {}", path.display())),
        Step::Volume { index, at } => Some(format!("volume {index} at {}", at.display())),
        Step::Processes => Some("processes".to_owned()),
        Step::Devices => Some("devices".to_owned()),
        Step::Groups => Some("groups".to_owned()),
        Step::Names(path) => Some(format!("names in {path}")),
        Step::Resolver(path) => Some(format!("resolver in {}", path.display())),
    };
    steps.iter().filter_map(line).collect()
}

fn made(spec: &Start, shim_config: &ShimConfig, host: &Host) -> Result<Vec<String>, String> {
    let folder = PodFolder::new("/pod");
    match plan(spec, shim_config, &folder, host) {
        Ok(steps) => Ok(described(&steps)),
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn the_whole_plan() {
    let mut host = host();
    host.resolver = Some("/run/systemd/resolve/stub-resolv.conf".into());
    host.hidden =
        ["/opt/sojourn", "/home", "/data/models/secret", "/var/lib/x"].map(PathBuf::from).into();
    let spec = start(&["/var/run/secrets/token", "/data", "/lib/thing", "/data/inner"]);
    let shim_config = shim_config(&["/data/models", "/usr/share", "/home/alice/work"]);
    let steps = made(&spec, &shim_config, &host).unwrap();
    let expected = [
        "/var/run -> /run",
        "/var/lock -> /run/lock",
        "/bin -> usr/bin",
        "/lib -> usr/lib",
        "/lib64 -> /usr/lib64",
        "/sbin -> usr/sbin",
        "host /data/models",
        "host /etc",
        "host /home/alice/work",
        "own /pod/home at /home/pod",
        "host /opt",
        "host /run/systemd/resolve/stub-resolv.conf",
        "host /sys",
        "own /pod/tmp at /tmp",
        "host /usr",
        "own /pod/tmp at /var/tmp",
        "processes",
        "devices",
        "groups",
        "cover /data/models/secret",
        "cover /opt/sojourn",
        "volume 1 at /data",
        "volume 3 at /data/inner",
        "volume 0 at /run/secrets/token",
        "volume 2 at /usr/lib/thing",
        "names in /etc/passwd",
        "names in /etc/group",
    ];
    assert_eq!(steps, expected);
}

#[test]
fn targets() {
    let cases = [
        ("/data", Ok("/data")),
        ("//data/./x/", Ok("/data/x")),
        ("/bin/tool", Ok("/usr/bin/tool")),
        ("/lib64", Ok("/usr/lib64")),
        ("/var/run", Ok("/run")),
        ("/var/running", Ok("/var/running")),
        ("/tmp", Ok("/tmp")),
        ("/etc", Ok("/etc")),
        ("/dev/shm", Ok("/dev/shm")),
        ("/devices", Ok("/devices")),
        ("/", Err("nothing can be mounted at /: the system needs it")),
        ("/.", Err("nothing can be mounted at /.: the system needs it")),
        ("/proc", Err("nothing can be mounted at /proc: the system needs it")),
        ("/proc/self/fd", Err("nothing can be mounted at /proc/self/fd: the system needs it")),
        ("/sys/fs/cgroup", Err("nothing can be mounted at /sys/fs/cgroup: the system needs it")),
        ("/dev", Err("nothing can be mounted at /dev: the system needs it")),
        ("/dev/shm/x", Err("nothing can be mounted at /dev/shm/x: the system needs it")),
        ("/dev/sda", Err("nothing can be mounted at /dev/sda: the system needs it")),
        ("data", Err("the mount path data must be absolute and go without `..`")),
        ("", Err("the mount path  must be absolute and go without `..`")),
        ("/data/..", Err("the mount path /data/.. must be absolute and go without `..`")),
    ];
    for (target, expected) in cases {
        let steps = made(&start(&[target]), &shim_config(&[]), &host());
        let at = steps.map(|steps| {
            let volume = steps.iter().find_map(|step| step.strip_prefix("volume 0 at "));
            volume.unwrap().to_owned()
        });
        assert_eq!(at, expected.map(str::to_owned).map_err(str::to_owned), "{target}");
    }
    for twice in [["/a", "/a/"], ["/bin/x", "/usr/bin/x"], ["/run/x", "/var/run/x"]] {
        let error = made(&start(&twice), &shim_config(&[]), &host()).unwrap_err();
        assert_eq!(error, format!("two volumes are mounted at {}", twice[1]));
    }
}

/// Links that the machine has at its top lead targets nowhere that is not allowed anyway.
#[test]
fn links_at_the_top_are_seen_through() {
    for to in ["/proc", "proc", "/dev", "sys/fs"] {
        let mut host = host();
        host.top.insert("opt".to_owned(), Entry::Link(to.into()));
        let refused = made(&start(&["/opt"]), &shim_config(&[]), &host).unwrap_err();
        assert_eq!(refused, "nothing can be mounted at /opt: the system needs it", "{to}");
    }
}

#[test]
fn termination_message_goes_to_dev() {
    for (target, is_allowed) in [
        ("/dev/termination-log", true),
        ("/dev/words", true),
        ("/dev/null", false),
        ("/dev/shm", true),
        ("/dev/pts", false),
        ("/dev/pts/words", false),
        ("/proc/words", false),
        ("/log/words", true),
    ] {
        let mut spec = start(&[target]);
        spec.termination_message = Some("/node/volume".into());
        assert_eq!(made(&spec, &shim_config(&[]), &host()).is_ok(), is_allowed, "{target}");
    }
}

#[test]
fn devices_stand_where_dev_is_free() {
    for (target, is_allowed) in [
        ("/dev/xvda", true),
        ("/dev/mapper/data", true),
        ("/srv/disk", true),
        ("/dev", false),
        ("/dev/null", false),
        ("/dev/null/x", false),
        ("/dev/shm", false),
        ("/dev/shm/x", false),
        ("/dev/pts/0", false),
        ("/dev/fd/3", false),
        ("/proc/x", false),
        ("/sys/block/x", false),
        ("/", false),
        ("/dev/../proc/x", false),
    ] {
        let mut spec = start(&[target]);
        spec.mounts[0].source = Source::Device { path: "/node/claim/disk.img".into() };
        assert_eq!(made(&spec, &shim_config(&[]), &host()).is_ok(), is_allowed, "{target}");
    }
}

#[test]
fn not_everything_can_be_exposed() {
    for path in ["/", "/proc", "/dev/mem", "/sys", "relative", "/data/../etc"] {
        let refused = made(&start(&[]), &shim_config(&[path]), &host()).unwrap_err();
        assert!(refused.ends_with("cannot be exposed to Pods"), "{path}: {refused}");
    }
}

/// What the Pod has of its own stands above what everybody sees, and beneath what is in it.
#[test]
fn exposed_folders_around_the_pods_own() {
    let shim_config = shim_config(&["/home", "/tmp", "/tmp/models"]);
    let steps = made(&start(&[]), &shim_config, &host()).unwrap();
    let of_interest = |step: &&String| step.contains("/home") || step.contains("/tmp");
    let steps: Vec<&String> = steps.iter().filter(of_interest).collect();
    let expected = [
        "host /home",
        "own /pod/home at /home/pod",
        "own /pod/tmp at /tmp",
        "host /tmp/models",
        "own /pod/tmp at /var/tmp",
    ];
    assert_eq!(steps, expected);
}

#[test]
fn what_is_hidden_is_hidden_by_every_name() {
    let mut host = host();
    host.real = BTreeMap::from([("/link".into(), "/data/real".into())]);
    host.hidden = ["/data/real/secret", "/data/real", "/data"].map(PathBuf::from).into();
    let mut steps = made(&start(&[]), &shim_config(&["/link"]), &host).unwrap();
    steps.retain(|step| step.starts_with("cover"));
    assert_eq!(steps, ["cover /link", "cover /link/secret"]);
}

/// Only what is there already can be covered.
#[test]
fn what_the_kernel_tells_of_others_is_covered_once_it_is_there() {
    let folder = PodFolder::new("/pod");
    let steps = plan(&start(&["/data"]), &shim_config(&[]), &folder, &host()).unwrap();
    let at = |wanted: &Step| steps.iter().position(|step| step == wanted);
    let shown = at(&Step::Processes).max(at(&Step::Host("/sys".into())));
    for path in NOT_SHOWN {
        let covered = at(&Step::Cover(path.into()));
        assert!(covered > shown && shown.is_some(), "{path}");
    }
}

#[test]
fn names_are_left_to_whoever_brings_them() {
    for (targets, expected) in [
        (&[][..], &["names in /etc/passwd", "names in /etc/group"][..]),
        (&["/etc/ssl"], &["names in /etc/passwd", "names in /etc/group"]),
        (&["/etc/passwd"], &["names in /etc/group"]),
        (&["/etc"], &[]),
    ] {
        let mut steps = made(&start(targets), &shim_config(&[]), &host()).unwrap();
        steps.retain(|step| step.starts_with("names"));
        assert_eq!(steps, expected, "{targets:?}");
    }
}

#[test]
fn a_machine_with_little() {
    let host = Host { top: [("usr".to_owned(), Entry::Folder)].into(), ..Host::default() };
    let steps = made(&start(&[]), &shim_config(&[]), &host).unwrap();
    assert!(steps.contains(&"host /usr".to_owned()));
    assert!(!steps.contains(&"host /sys".to_owned()));
}
