mod environment;
mod fixture;
mod mounts;

use serde_json::json;

use super::*;
use fixture::{Machine, Stored, pod};

#[test]
fn a_container_is_planned_whole() {
    let machine = Machine::default();
    let pod = pod(&json!({
        "name": "main",
        "command": ["server", "--name=$(NAME)"],
        "args": ["$(SOJOURN_PORT_HTTP)", "$$(NAME)", "$(UNKNOWN)", "$(PATH)", ""],
        "workingDir": "/srv//app/",
        "env": [{"name": "NAME", "value": "value"}],
        "securityContext": {"readOnlyRootFilesystem": true},
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }));
    let procs = [PathBuf::from("/sys/fs/cgroup/x/cgroup.procs")];
    let inputs = PlanInputs {
        cgroups: &procs,
        oom_events: Some(Path::new("/sys/fs/cgroup/x/memory.events")),
        memory_limit: Some(1 << 20),
        ..machine.inputs()
    };
    let start = start(&pod, "main", 3, &inputs, &Stored::default()).expect("a plan");
    assert_eq!(start.container, "main");
    assert_eq!(start.attempt, 3);
    assert_eq!(
        start.argv,
        ["server", "--name=value", "20001", "$(NAME)", "$(UNKNOWN)", "$(PATH)", ""]
    );
    assert_eq!(start.working_dir, Some(PathBuf::from("/srv/app")));
    assert!(start.read_only_root);
    assert!(start.message_from_log);
    assert_eq!(start.cgroups, procs);
    assert_eq!(start.oom_events, Some(PathBuf::from("/sys/fs/cgroup/x/memory.events")));
    assert_eq!(start.memory_limit, Some(1 << 20));
    let message = PathBuf::from("/data/pods/uid-1/termination/main.3");
    assert_eq!(start.termination_message, Some(message));
}

#[test]
fn init_containers_are_planned_too() {
    let mut pod = pod(&json!({"name": "main", "command": ["a"]}));
    let init = serde_json::from_value(json!({"name": "init", "command": ["b"]})).expect("valid");
    pod.spec.as_mut().expect("a spec").init_containers = Some(vec![init]);
    let machine = Machine::default();
    let start = start(&pod, "init", 0, &machine.inputs(), &Stored::default()).expect("a plan");
    assert_eq!(start.argv, ["b"]);
    assert_eq!(start.working_dir, None);
    assert!(!start.read_only_root && !start.message_from_log);
}

#[test]
fn what_cannot_run_says_so() {
    let long = "x".repeat(MAX_STRING_BYTES);
    let many = vec!["x".repeat(100_000); 11];
    for (container, expected) in [
        (json!({}), "images cannot be pulled here; give the container a command".to_owned()),
        (
            json!({"command": []}),
            "images cannot be pulled here; give the container a command".to_owned(),
        ),
        (
            json!({"command": ["a"], "workingDir": "srv"}),
            "workingDir \"srv\" is not an absolute path".to_owned(),
        ),
        (
            json!({"command": ["a"], "workingDir": "/srv/../etc"}),
            "workingDir \"/srv/../etc\" is not an absolute path".to_owned(),
        ),
        (
            json!({"command": ["a", "b\0c"]}),
            "argument 1 of the command: it contains a NUL, which no argument can".to_owned(),
        ),
        (
            json!({"command": ["a"], "args": [long]}),
            "argument 1 of the command: it is longer than 131071 bytes once its references are \
             replaced"
                .to_owned(),
        ),
        (
            json!({"command": many}),
            "command and environment are larger than 1048576 bytes together".to_owned(),
        ),
    ] {
        let mut container = container;
        container["name"] = json!("main");
        let machine = Machine::default();
        let error = start(&pod(&container), "main", 0, &machine.inputs(), &Stored::default())
            .expect_err(&expected);
        assert_eq!(error.to_string(), expected);
    }
    let machine = Machine::default();
    let pod = pod(&json!({"name": "main", "command": ["a"]}));
    let error = start(&pod, "other", 0, &machine.inputs(), &Stored::default());
    assert_eq!(error, Err(PlanError::NoSuchContainer("other".to_owned())));
    let nothing = start(&Pod::default(), "a", 0, &machine.inputs(), &Stored::default());
    assert_eq!(nothing, Err(PlanError::NoSuchContainer("a".to_owned())));
}

#[test]
fn host_names_are_cut_as_a_kubelet_cuts_them() {
    let long = format!("{}-{}", "a".repeat(62), "b".repeat(10));
    for (name, hostname, overriding, expected) in [
        ("web-0", None, None, "web-0".to_owned()),
        ("web-0", Some("other"), None, "other".to_owned()),
        ("web-0", Some(""), None, "web-0".to_owned()),
        ("web-0", Some("other"), Some("over.ride"), "over.ride".to_owned()),
        (long.as_str(), None, None, "a".repeat(62)),
        (&"c".repeat(253), None, None, "c".repeat(63)),
        (&"c".repeat(63), None, None, "c".repeat(63)),
        (&"\u{e4}".repeat(40), None, None, "\u{e4}".repeat(31)),
    ] {
        let mut pod = pod(&json!({"name": "main"}));
        pod.metadata.name = Some(name.to_owned());
        let spec = pod.spec.as_mut().expect("a spec");
        spec.hostname = hostname.map(str::to_owned);
        spec.hostname_override = overriding.map(str::to_owned);
        assert_eq!(super::hostname(&pod), expected, "{name}");
    }
}
