use super::*;

const NONE: Controllers = Controllers { memory: false, cpu: false, pids: false };

fn hierarchy(version: Version, mount: &str, own: &str, controllers: Controllers) -> Hierarchy {
    Hierarchy { version, mount: mount.into(), own: own.into(), controllers }
}

#[test]
fn hierarchies_of_real_machines() {
    let v1_memory = Controllers { memory: true, ..NONE };
    let v1_cpu = Controllers { cpu: true, ..NONE };
    let v1_pids = Controllers { pids: true, ..NONE };
    let cases: [(&str, &str, &str, Vec<Hierarchy>); 5] = [
        (
            "hybrid",
            "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
             32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n\
             34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset\n\
             35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
             36 31 0:33 / /sys/fs/cgroup/pids rw,relatime shared:9 - cgroup cgroup rw,pids\n\
             37 31 0:34 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n\
             38 31 0:35 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
            "9:name=systemd:/x\n8:pids:/\n4:memory:/a/b\n2:cpu,cpuacct:/c\n0::/u\n",
            vec![
                hierarchy(
                    Version::One,
                    "/sys/fs/cgroup/cpu,cpuacct",
                    "/sys/fs/cgroup/cpu,cpuacct/c",
                    v1_cpu,
                ),
                hierarchy(
                    Version::One,
                    "/sys/fs/cgroup/memory",
                    "/sys/fs/cgroup/memory/a/b",
                    v1_memory,
                ),
                hierarchy(Version::One, "/sys/fs/cgroup/pids", "/sys/fs/cgroup/pids", v1_pids),
                hierarchy(Version::Two, "/sys/fs/cgroup/unified", "/sys/fs/cgroup/unified/u", NONE),
            ],
        ),
        (
            "version 2 only",
            "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n",
            "0::/user.slice/user-1000.slice/session-3.scope\n",
            vec![hierarchy(
                Version::Two,
                "/sys/fs/cgroup",
                "/sys/fs/cgroup/user.slice/user-1000.slice/session-3.scope",
                NONE,
            )],
        ),
        (
            "a container without a cgroup namespace sees its own part, bound",
            "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
            "4:memory:/docker/abc/inner\n",
            vec![hierarchy(
                Version::One,
                "/sys/fs/cgroup/memory",
                "/sys/fs/cgroup/memory/inner",
                v1_memory,
            )],
        ),
        (
            "a group outside of the namespace, a mount with a blank, and the same one twice",
            "30 23 0:26 / /mnt/c\\040g rw - cgroup2 cgroup2 rw\n\
             31 23 0:26 / /elsewhere rw - cgroup2 cgroup2 rw\n",
            "0::/../outside\n",
            vec![hierarchy(Version::Two, "/mnt/c g", "/mnt/c g", NONE)],
        ),
        ("nonsense", "\n - \nx - cgroup\n1 2 3 4 5 - cgroup2\n", ":::\n\n0:", vec![]),
    ];
    for (name, mountinfo, groups, want) in cases {
        assert_eq!(hierarchies(mountinfo, groups), want, "{name}");
    }
}

#[test]
fn words_say_what_is_missing_and_why() {
    let tree = |version, controllers| Tree { version, base: "/b".into(), controllers };
    let all = Controllers { memory: true, cpu: true, pids: true };
    let cases = [
        (
            vec![tree(Version::Two, all)],
            vec!["irrelevant".to_owned()],
            "memory: cgroup v2; cpu: cgroup v2; number of processes: cgroup v2",
        ),
        (
            vec![
                tree(Version::One, Controllers { memory: true, ..NONE }),
                tree(Version::Two, Controllers { cpu: true, ..NONE }),
            ],
            vec![],
            "memory: cgroup v1; cpu: cgroup v2; number of processes: not limited (no control \
             group with that controller is mounted)",
        ),
        (
            vec![],
            vec!["it is read-only".to_owned()],
            "memory: sampled, and killed when over its limit; cpu: not limited; number of \
             processes: not limited (it is read-only)",
        ),
    ];
    for (trees, reasons, want) in cases {
        assert_eq!(summary(&trees, &reasons).how, want);
    }
}

/// Folders that look like groups: what our own limits are, and where groups go, is only reading.
#[test]
fn groups_go_beneath_every_limit_that_we_are_under() {
    let folder = std::env::temp_dir().join(format!("sojourn-cgroup-place-{}", std::process::id()));
    let own = folder.join("slice/service");
    fs::create_dir_all(&own).unwrap();
    let hierarchy = Hierarchy {
        version: Version::Two,
        mount: folder.clone(),
        own: own.clone(),
        controllers: NONE,
    };
    let write = |group: &str, file: &str, text: &str| {
        fs::write(folder.join(group).join(file), text).unwrap();
    };
    for group in ["slice", "slice/service"] {
        write(group, "memory.max", "max\n");
        write(group, "cpu.max", "max 100000\n");
        write(group, "pids.max", "max\n");
    }
    assert_eq!(hierarchy.parents(true), [folder.clone(), own.clone()]);
    assert_eq!(hierarchy.parents(false), std::slice::from_ref(&own));

    write("slice", "cpu.max", "150000 100000\n");
    assert_eq!(hierarchy.parents(true), [folder.join("slice"), own.clone()]);
    assert_eq!(milli_cpu(&folder.join("slice")), Some(1500));

    write("slice/service", "memory.max", "1048576\n");
    assert_eq!(hierarchy.parents(true), std::slice::from_ref(&own));
    assert_eq!(memory_limit(&own), Some(1 << 20));

    write("slice", "memory.limit_in_bytes", "9223372036854771712\n");
    write("slice", "memory.max", "max\n");
    assert_eq!(memory_limit(&folder.join("slice")), None);
    fs::remove_dir_all(folder).unwrap();
}

/// Version 2 with controllers, as files: what is written where. The kernel's own checks are not
/// part of this.
#[test]
fn version_two_is_handed_down_level_by_level() {
    let folder = std::env::temp_dir().join(format!("sojourn-cgroup-two-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("cgroup.controllers"), "cpuset cpu io memory pids\n").unwrap();
    fs::write(folder.join("cgroup.subtree_control"), "cpu memory pids\n").unwrap();
    let (controllers, refused) = v2::enable_controllers(&folder).unwrap();
    assert_eq!(controllers, Controllers { memory: true, cpu: true, pids: true });
    assert!(refused.is_none());

    fs::write(folder.join("cgroup.subtree_control"), "memory\n").unwrap();
    fs::write(folder.join("cgroup.controllers"), "memory\n").unwrap();
    let (controllers, _) = v2::enable_controllers(&folder).unwrap();
    assert_eq!(controllers, Controllers { memory: true, ..NONE });
    fs::remove_dir_all(folder).unwrap();
}
