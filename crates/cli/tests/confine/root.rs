//! The private root: what is there, and that nothing of it shows on the machine.

use std::path::Path;

use sojourn_node::shim::protocol::{Mount, Source, Start};

use crate::pod::{Pod, TestFolder, mount, read_only, until};
use crate::skip;

fn mounts_of_the_machine() -> Vec<String> {
    let text = std::fs::read_to_string("/proc/self/mountinfo").expect("/proc");
    text.lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn programs_run_as_they_do_elsewhere() {
    let mut pod = Pod::launch().await;
    for (script, expected) in [
        ("ls /", "bin dev etc home lib lib64 media mnt opt proc root run sbin srv sys tmp usr var"),
        ("ls /var", "cache lib lock log run spool tmp"),
        ("ls /dev", "fd full null ptmx pts random shm stderr stdin stdout tty urandom zero"),
        ("readlink /var/run", "/run"),
        ("touch /made /run/made /var/lib/made /tmp/made /var/tmp/also ~/made && echo yes", "yes"),
        ("ls /tmp", "also made"),
        ("echo $((1 + 1)) | cat >/dev/stdout", "2"),
        ("head -c 3 /dev/urandom | wc -c", "3"),
        ("touch /dev/shm/x && echo yes", "yes"),
        ("test -r /proc/meminfo && echo yes", "yes"),
        ("(echo a & echo b & wait) | sort", "a b"),
    ] {
        let outcome = pod.run(&format!("{{ {script}; }} | xargs")).await;
        let machine_has = |name: &str| Path::new("/").join(name).exists();
        // Machines differ in what they have at the top.
        let known = |name: &&str| script != "ls /" || expected.contains(*name);
        let seen: Vec<&str> = outcome.text.split(' ').filter(known).collect();
        let wanted: Vec<&str> = expected
            .split(' ')
            .filter(|name| script != "ls /" || !name.starts_with("lib") || machine_has(name))
            .collect();
        assert_eq!(seen, wanted, "{script}: {outcome:?}");
    }
    pod.end().await;
}

/// The C library starts threads by a call that containers do not have, and then by another.
#[tokio::test]
async fn threads_run() {
    let python = Path::new("/usr/bin/python3");
    if !python.exists() {
        return skip::whole(format_args!("{} is not here", python.display()));
    }
    let mut pod = Pod::launch().await;
    let script =
        "import threading as t; a = t.Thread(target=lambda: print(42)); a.start(); a.join()";
    let outcome = pod.run(&format!("/usr/bin/python3 -c '{script}'")).await;
    assert_eq!(outcome.text, "42");
    pod.end().await;
}

#[tokio::test]
async fn nothing_shows_on_the_machine() {
    let before = mounts_of_the_machine();
    let pod = Pod::launch().await;
    let volume = pod.test_folder().volume("volume");
    let memory = pod.test_folder().volume("memory");
    let source =
        Source::Memory { path: memory.clone(), beneath: None, create: false, bytes: 1 << 20 };
    let mounts = vec![
        mount("/usr/share/sojourn-test/deep", &volume),
        Mount { target: "/memory".into(), source, read_only: false },
    ];
    let script = "echo x >/usr/share/sojourn-test/deep/file && echo x >/memory/file && \
                  touch ~/ready && exec sleep 1000";
    let start = Start { mounts, ..pod.shell(script) };
    pod.handle.start(start).await.expect("it starts");
    let ready = pod.folder.home().join("ready");
    until("the container wrote to its volumes", || ready.exists()).await;
    assert_eq!(mounts_of_the_machine(), before);
    assert!(!Path::new("/usr/share/sojourn-test").exists());
    assert!(volume.join("file").exists(), "what a Pod writes to a volume is in the volume");
    assert_eq!(std::fs::read_dir(&memory).expect("a folder").count(), 0);
    assert_eq!(std::fs::read_dir(pod.folder.root()).expect("a folder").count(), 0);
    pod.end().await;
    assert_eq!(mounts_of_the_machine(), before);
}

#[tokio::test]
async fn a_mirrored_folder_keeps_what_it_had() {
    let mut pod = Pod::launch().await;
    let volume = pod.test_folder().volume("volume");
    let file = pod.test_folder().path().join("file");
    std::fs::write(&file, "from a volume").expect("a file");
    let entries = |path: &str| std::fs::read_dir(path).expect("a folder").count();
    let mounts = vec![
        read_only("/etc/sojourn/deep/file", &file),
        mount("/usr/local/sojourn", &volume),
        read_only("/etc/sojourn.conf", &file),
        // There is a link on many machines.
        read_only("/etc/resolv.conf", &file),
        read_only("/etc/hosts", &file),
    ];
    let script = "cat /etc/sojourn/deep/file; echo; cat /etc/resolv.conf; echo; cat /etc/hosts; echo; \
                  ls -A /etc | wc -l; ls -A /usr/local | wc -l; test -d /etc/ssl; \
                  touch /etc/x /etc/sojourn/x /usr/local/x /etc/sojourn/deep/file 2>/dev/null; \
                  touch /usr/local/sojourn/x && ls /usr/local/sojourn";
    let outcome = pod.run_with(mounts, script).await;
    let resolver = usize::from(std::fs::symlink_metadata("/etc/resolv.conf").is_err());
    let expected = format!(
        "from a volume\nfrom a volume\nfrom a volume\n{}\n{}\nx",
        entries("/etc") + 2 + resolver,
        entries("/usr/local") + 1
    );
    assert_eq!(outcome.text, expected);
    let denied = pod.run("touch /etc/x").await;
    assert_ne!(denied.code, 0);
    pod.end().await;
}

#[tokio::test]
async fn a_read_only_root() {
    let mut pod = Pod::launch().await;
    let volume = pod.test_folder().volume("volume");
    let script = "for path in / /run /var/lib /root /home /dev /made/up; do \
                  touch $path/x 2>/dev/null && echo $path; done; touch /data/x /tmp/x ~/x && echo ok";
    let start = Start {
        read_only_root: true,
        mounts: vec![mount("/data", &volume), read_only("/made/up", &volume)],
        ..pod.shell(script)
    };
    assert_eq!(pod.finish(start).await.text, "ok");
    pod.end().await;
}

#[tokio::test]
async fn exposed_folders_are_read_only_down_to_the_last_mount() {
    let test_folder = TestFolder::new();
    let exposed = test_folder.path().join("exposed");
    std::fs::create_dir_all(exposed.join("inner")).expect("a folder");
    std::fs::write(exposed.join("file"), "text").expect("a file");
    let mut pod = Pod::launch_with(|shim_config| shim_config.exposed = vec![exposed.clone()]).await;
    let path = exposed.display();
    let script =
        format!("cat {path}/file; echo; touch {path}/x {path}/inner/x 2>&1 | grep -c Read");
    assert_eq!(pod.run(&script).await.text, "text\n2");
    // Folders of the system have mounts in them on many machines: `/sys` on all.
    let is_systems = |at: &str| {
        let folders = ["/sys", "/usr", "/etc", "/opt", "/nix", "/snap"];
        folders.iter().any(|folder| at == *folder || at.starts_with(&format!("{folder}/")))
    };
    let mounts = pod.mounts().await;
    let mut systems = mounts.iter().filter(|(at, _)| is_systems(at));
    assert!(systems.clone().count() > 3, "{mounts:?}");
    assert!(systems.all(|(_, flags)| flags.starts_with("ro")), "{mounts:?}");
    pod.end().await;
}

#[tokio::test]
async fn what_is_exposed_must_be_there() {
    let mut pod =
        Pod::launch_with(|shim_config| shim_config.exposed = vec!["/no/such".into()]).await;
    let refused = pod.refusal(Vec::new()).await;
    assert_eq!(refused, "cannot open /no/such: No such file or directory (os error 2)");
    pod.end().await;
}

#[tokio::test]
async fn memory_is_shared_by_containers_and_bounded() {
    let mut pod = Pod::launch().await;
    let folder = pod.test_folder().volume("memory");
    let memory = |target: &str, beneath: Option<&str>| {
        let beneath = beneath.map(Into::into);
        let source = Source::Memory { path: folder.clone(), beneath, create: true, bytes: 1 << 20 };
        vec![Mount { target: target.into(), source, read_only: false }]
    };
    let first = pod.run_with(memory("/one", None), "echo shared >/one/file; mkdir /one/d").await;
    assert_eq!(first.code, 0, "{first:?}");
    let second =
        pod.run_with(memory("/two", None), "cat /two/file; head -c 2m /dev/zero >/two/x").await;
    assert!(second.text.starts_with("shared\n") && second.code != 0, "{second:?}");
    let third = pod.run_with(memory("/three", Some("new/part")), "touch /three/x; ls /three").await;
    assert_eq!(third.text, "x");
    let size = pod.run_with(memory("/four", None), "stat -f -c '%b %S' /four").await;
    assert_eq!(size.text, "256 4096");
    assert_eq!(std::fs::read_dir(&folder).expect("a folder").count(), 0, "nothing on disk");
    pod.end().await;
}
