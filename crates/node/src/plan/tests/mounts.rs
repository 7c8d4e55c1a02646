//! What a container finds mounted.

use std::path::{Component, Path, PathBuf};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::fixture::{Machine, Stored, pod};
use crate::plan::{PlanError, PlanInputs, device, mount, start};
use crate::shim::protocol::{Mount, Source};

fn planned(container: Value, inputs: &PlanInputs<'_>) -> Result<Vec<Mount>, PlanError> {
    let mut container = container;
    container["name"] = json!("main");
    container["command"] = json!(["x"]);
    container["env"] = json!([
        {"name": "DIR", "value": "a/b"}, {"name": "UP", "value": "../.."}, {"name": "EMPTY"}
    ]);
    start(&pod(&container), "main", 0, inputs, &Stored::default()).map(|start| start.mounts)
}

fn host(target: &str, path: &str, beneath: Option<&str>, create: bool, read_only: bool) -> Mount {
    let beneath = beneath.map(PathBuf::from);
    Mount {
        target: target.into(),
        source: Source::Host { path: path.into(), beneath, create },
        read_only,
    }
}

fn message_mount(target: &str) -> Mount {
    host(target, "/data/pods/uid-1/termination/main.0", None, false, false)
}

#[test]
fn volumes_are_mounted_parents_first() {
    let machine = Machine::default();
    let container = json!({"volumeMounts": [
        {"name": "scratch", "mountPath": "/data/sub/"},
        {"name": "config", "mountPath": "/data.d", "subPath": "key"},
        {"name": "claim", "mountPath": "/data", "readOnly": true},
        {"name": "read-claim", "mountPath": "/ro", "subPath": "x"},
        {"name": "scratch", "mountPath": "//a/./b", "subPath": "./x//y/"},
        {"name": "claim", "mountPath": "/expr", "subPathExpr": "$(DIR)/c"},
        {"name": "memory", "mountPath": "/dev/shm"},
        {"name": "memory", "mountPath": "/memory", "subPath": "part"},
    ]});
    let memory = |target: &str, beneath: Option<&str>| Mount {
        target: target.into(),
        source: Source::Memory {
            path: "/data/pods/uid-1/volumes/memory".into(),
            create: beneath.is_some(),
            beneath: beneath.map(PathBuf::from),
            bytes: 1 << 20,
        },
        read_only: false,
    };
    assert_eq!(
        planned(container, &machine.inputs()).expect("a plan"),
        [
            host("/a/b", "/data/volumes/scratch", Some("x/y"), true, false),
            host("/data", "/data/volumes/claim", None, false, true),
            host("/data/sub", "/data/volumes/scratch", None, false, false),
            host("/data.d", "/data/volumes/config", Some("key"), false, true),
            memory("/dev/shm", None),
            message_mount("/dev/termination-log"),
            host("/expr", "/data/volumes/claim", Some("a/b/c"), true, false),
            memory("/memory", Some("part")),
            host("/ro", "/data/volumes/read-claim", Some("x"), false, true),
        ]
    );
}

#[test]
fn devices_stand_where_they_are_asked_for() {
    let machine = Machine::default();
    let device = |target: &str, name: &str, read_only: bool| Mount {
        target: target.into(),
        source: Source::Device { path: format!("/data/volumes/{name}/disk.img").into() },
        read_only,
    };
    let container = json!({
        "volumeMounts": [{"name": "scratch", "mountPath": "/files"}],
        "volumeDevices": [
            {"name": "disk", "devicePath": "/dev/xvda"},
            {"name": "read-disk", "devicePath": "/dev/mapper//data/"},
            {"name": "disk", "devicePath": "/files/disk"},
        ],
    });
    assert_eq!(
        planned(container, &machine.inputs()).expect("a plan"),
        [
            device("/dev/mapper/data", "read-disk", true),
            message_mount("/dev/termination-log"),
            device("/dev/xvda", "disk", false),
            host("/files", "/data/volumes/scratch", None, false, false),
            device("/files/disk", "disk", false),
        ]
    );
}

#[test]
fn a_device_is_a_device_and_a_folder_is_mounted() {
    let machine = Machine::default();
    let device =
        |name: &str, path: &str| json!({"volumeDevices": [{"name": name, "devicePath": path}]});
    let taken = "/dev has something else by that name; choose another";
    let reserved = "/, /proc, /dev and /sys are not a Pod's to replace; mount it elsewhere";
    let at = |path: &str, why: &str| format!("device \"disk\" at {path:?}: {why}");
    let mut twice = device("disk", "/x");
    twice["volumeMounts"] = json!([{"name": "scratch", "mountPath": "/x/"}]);
    let many: Vec<_> =
        (0..300).map(|n| json!({"name": "disk", "devicePath": format!("/dev/d{n}")})).collect();
    for (container, expected) in [
        (device("disk", "/dev"), at("/dev", "a device stands in /dev, not in place of it")),
        (device("disk", "/dev/null"), at("/dev/null", taken)),
        (device("disk", "/dev/pts/0"), at("/dev/pts/0", taken)),
        (device("disk", "/dev/shm"), at("/dev/shm", taken)),
        (device("disk", "/dev/termination-log"), at("/dev/termination-log", taken)),
        (device("disk", "/proc/1/mem"), at("/proc/1/mem", reserved)),
        (device("disk", "/"), at("/", reserved)),
        (device("disk", "xvda"), at("xvda", "the path must be absolute, without '..'")),
        (
            device("disk", "/dev/../etc/passwd"),
            at("/dev/../etc/passwd", "the path must be absolute, without '..'"),
        ),
        (twice, at("/x", "something is mounted there already")),
        (json!({"volumeDevices": many}), at("/dev/d256", "a container may have 256 mounts")),
        (
            device("claim", "/dev/xvda"),
            "device \"claim\" at \"/dev/xvda\": only a claim of volumeMode Block can be a device"
                .to_owned(),
        ),
        (
            device("none", "/dev/xvda"),
            "cannot find volume \"none\" to mount into container \"main\"".to_owned(),
        ),
        (
            json!({"volumeMounts": [{"name": "disk", "mountPath": "/x"}]}),
            "volume \"disk\" at \"/x\": a claim of volumeMode Block cannot be mounted; name it in \
             volumeDevices"
                .to_owned(),
        ),
    ] {
        let error = planned(container, &machine.inputs()).expect_err(&expected);
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn termination_message_is_mounted_where_asked() {
    let machine = Machine::default();
    for (path, expected) in [
        (json!(null), "/dev/termination-log"),
        (json!(""), "/dev/termination-log"),
        (json!("/dev/termination-log"), "/dev/termination-log"),
        (json!("/dev/termination-custom-log"), "/dev/termination-custom-log"),
        (json!("/tmp/message"), "/tmp/message"),
    ] {
        let mounts = planned(json!({"terminationMessagePath": path}), &machine.inputs());
        assert_eq!(mounts, Ok(vec![message_mount(expected)]));
    }
}

#[test]
fn what_leads_elsewhere_is_refused() {
    let machine = Machine::default();
    let volume = |path: &str| json!({"volumeMounts": [{"name": "scratch", "mountPath": path}]});
    let part = |kind: &str, path: &str| {
        let mut container = volume("/x");
        container["volumeMounts"][0][kind] = json!(path);
        container
    };
    let reserved = "/, /proc, /dev and /sys are not a Pod's to replace; mount it elsewhere";
    let relative = "the path must be absolute, without '..'";
    let both = |one: &str, two: &str| {
        json!({"volumeMounts": [
            {"name": "scratch", "mountPath": one}, {"name": "claim", "mountPath": two},
        ]})
    };
    let at = |path: &str, why: &str| format!("volume \"scratch\" at {path:?}: {why}");
    for (container, expected) in [
        (volume("/"), at("/", reserved)),
        (volume("/."), at("/.", reserved)),
        (volume("/proc"), at("/proc", reserved)),
        (volume("//proc//self"), at("//proc//self", reserved)),
        (volume("/dev"), at("/dev", reserved)),
        (volume("/dev/shmem"), at("/dev/shmem", reserved)),
        (volume("/dev/termination-log"), at("/dev/termination-log", reserved)),
        (volume("/dev/shm/x"), at("/dev/shm/x", reserved)),
        (volume("/sys/fs"), at("/sys/fs", reserved)),
        (volume("/a/../proc"), at("/a/../proc", relative)),
        (volume("a"), at("a", relative)),
        (volume(""), at("", relative)),
        (volume("/a\0b"), at("/a\0b", relative)),
        (
            volume(&format!("/{}", "a".repeat(4096))),
            at(&format!("/{}", "a".repeat(4096)), "the path is longer than Linux allows"),
        ),
        (part("subPath", "/etc"), at("/x", "error SubPath `/etc` must not be an absolute path")),
        (
            part("subPath", "a/../.."),
            at("/x", "unable to provision SubPath `a/../..`: must not contain '..'"),
        ),
        (
            part("subPathExpr", "$(UP)/x"),
            at("/x", "unable to provision SubPath `../../x`: must not contain '..'"),
        ),
        (part("subPathExpr", "$(NONE)/$(EMPTY)/$(DIR)"), at("/x", "missing value for EMPTY, NONE")),
        (
            both("/x", "/x/"),
            "volume \"claim\" at \"/x/\": something is mounted there already".to_owned(),
        ),
        (
            json!({"volumeMounts": [{"name": "none", "mountPath": "/x"}]}),
            "cannot find volume \"none\" to mount into container \"main\"".to_owned(),
        ),
        (
            json!({"terminationMessagePath": "/etc/../proc/self/mem"}),
            format!("terminationMessagePath \"/etc/../proc/self/mem\": {relative}"),
        ),
        (
            json!({"terminationMessagePath": "/dev/termination-log/x"}),
            format!("terminationMessagePath \"/dev/termination-log/x\": {reserved}"),
        ),
        (
            json!({"terminationMessagePath": "/dev/null"}),
            format!("terminationMessagePath \"/dev/null\": {reserved}"),
        ),
        (
            json!({
                "terminationMessagePath": "/x",
                "volumeMounts": [{"name": "scratch", "mountPath": "/x"}],
            }),
            "terminationMessagePath \"/x\": a volume is mounted there".to_owned(),
        ),
    ] {
        let error = planned(container, &machine.inputs()).expect_err(&expected);
        assert_eq!(error.to_string(), expected);
    }
    let many: Vec<_> =
        (0..300).map(|at| json!({"name": "scratch", "mountPath": format!("/m/{at}")})).collect();
    let error = planned(json!({"volumeMounts": many}), &machine.inputs()).expect_err("too many");
    assert!(error.to_string().ends_with("a container may have 256 mounts"), "{error}");
}

#[test]
fn without_a_root_of_its_own_nothing_is_mounted() {
    let machine = Machine::default();
    let inputs = PlanInputs { confined: false, ..machine.inputs() };
    let container = json!({
        "name": "main", "command": ["$(SOJOURN_MOUNT_SCRATCH)"],
        "args": ["$(SOJOURN_MOUNT_MEMORY)", "$(SOJOURN_MOUNT_CLAIM)"],
        "volumeMounts": [
            {"name": "scratch", "mountPath": "/x", "subPath": "part"},
            {"name": "memory", "mountPath": "/m"},
            {"name": "claim", "mountPath": "/c", "subPathExpr": "$(HOME)"},
        ],
        "env": [{"name": "HOME", "value": "x"}],
    });
    let start = start(&pod(&container), "main", 0, &inputs, &Stored::default()).expect("a plan");
    assert_eq!(start.mounts, []);
    assert_eq!(start.termination_message, None);
    assert_eq!(
        start.argv,
        [
            "/data/volumes/scratch/part",
            "/data/pods/uid-1/volumes/memory",
            // Which part is only known once the environment is.
            "$(SOJOURN_MOUNT_CLAIM)",
        ]
    );
}

proptest! {
    #[test]
    fn no_spelling_leads_elsewhere(
        text in "(/|\\.|\\.\\.|//|proc|dev|sys|shm|a|termination-log|\u{e4}){0,8}",
    ) {
        if let Ok(path) = mount::target(&text) {
            prop_assert!(path.is_absolute() && path != Path::new("/"));
            prop_assert!(only_goes_down(&path));
            let reserved = ["/proc", "/sys", "/dev"].iter().any(|at| path.starts_with(at));
            prop_assert!(!reserved || path == Path::new("/dev/shm"), "{}", path.display());
        }
        if let Ok(path) = device::target(&text) {
            prop_assert!(path.is_absolute() && only_goes_down(&path));
            let reserved = ["/proc", "/sys", "/dev/shm"].iter().any(|at| path.starts_with(at));
            prop_assert!(!reserved && path != Path::new("/dev") && path != Path::new("/"));
        }
        if let Ok(Some(path)) = mount::beneath(&text) {
            prop_assert!(path.is_relative() && only_goes_down(&path));
        }
    }
}

fn only_goes_down(path: &Path) -> bool {
    path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)))
}
