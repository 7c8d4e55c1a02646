//! What a Pod must not reach, one test for each.

use std::io::Write;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;
use std::process::{Command, Stdio};

use sojourn_node::shim::protocol::{Mount, Source, Start};

use crate::pod::{FOREIGN_UID, Pod, TestFolder, give, is_root, mount, part};
use crate::skip;

/// Every script must fail, and say nothing of what is to be kept.
async fn all_fail(pod: &mut Pod, scripts: &[&str]) {
    for script in scripts {
        let outcome = pod.run(script).await;
        assert_ne!(outcome.code, 0, "{script}: {outcome:?}");
        assert!(!outcome.text.contains("SECRET"), "{script}: {outcome:?}");
    }
}

#[tokio::test]
async fn the_data_folder() {
    let mut pod = Pod::launch().await;
    let data = pod.folder.path().display().to_string();
    let scripts = [format!("ls {data}"), format!("cat {data}/shim.json"), format!("cd {data}")];
    all_fail(&mut pod, &scripts.each_ref().map(String::as_str)).await;
    pod.end().await;
}

#[tokio::test]
async fn the_data_folder_in_a_visible_one() {
    let test_folder = TestFolder::new();
    let data = test_folder.path().join("visible/data");
    std::fs::create_dir_all(&data).expect("a folder");
    std::fs::write(data.join("secret"), "SECRET").expect("a file");
    std::fs::write(test_folder.path().join("visible/public"), "public").expect("a file");
    std::fs::write(test_folder.path().join("visible/key"), "SECRET").expect("a file");
    symlink("visible/data", test_folder.path().join("link")).expect("a link");
    let (visible, link) = (test_folder.path().join("visible"), test_folder.path().join("link"));
    let mut pod = Pod::launch_with(|shim_config| {
        shim_config.exposed = vec![visible.clone()];
        // By another name, as a user may well give it.
        shim_config.hidden = vec![link, visible.join("key"), visible.join("missing")];
    })
    .await;
    let visible = visible.display();
    let outcome = pod.run(&format!("cat {visible}/public; ls -A {visible}/data | wc -l")).await;
    assert_eq!(outcome.text, "public0");
    assert_eq!(pod.run(&format!("cat {visible}/key")).await.text, "");
    let scripts = [
        format!("cat {visible}/data/secret"),
        format!("umount {visible}/data"),
        format!("touch {visible}/data/x"),
        format!("touch {visible}/x"),
        format!("rmdir {visible}/data"),
    ];
    all_fail(&mut pod, &scripts.each_ref().map(String::as_str)).await;
    pod.end().await;
}

/// Somebody exposes a folder by a link to it.
#[tokio::test]
async fn the_data_folder_behind_a_link() {
    let test_folder = TestFolder::new();
    let data = test_folder.path().join("real/data");
    std::fs::create_dir_all(&data).expect("a folder");
    std::fs::write(data.join("secret"), "SECRET").expect("a file");
    let link = test_folder.path().join("link");
    symlink("real", &link).expect("a link");
    let mut pod = Pod::launch_with(|shim_config| {
        shim_config.exposed = vec![link.clone()];
        shim_config.hidden = vec![data];
    })
    .await;
    let link = link.display();
    assert_eq!(pod.run(&format!("ls {link}; ls -A {link}/data")).await.text, "data");
    all_fail(&mut pod, &[&format!("cat {link}/data/secret")]).await;
    pod.end().await;
}

#[tokio::test]
async fn homes_and_other_folders_of_the_machine() {
    let mut pod = Pod::launch().await;
    for folder in ["/root", "/home", "/mnt", "/media", "/srv", "/var/lib", "/var/log"] {
        let listed = pod.run(&format!("ls -A {folder}")).await;
        let expected = if folder == "/home" { "pod" } else { "" };
        assert_eq!((listed.code, listed.text.as_str()), (0, expected), "{folder}");
    }
    all_fail(&mut pod, &["ls /boot", "ls /lost+found", "ls /run/systemd"]).await;
    pod.end().await;
}

#[tokio::test]
async fn another_pods_volume() {
    let mut other = Pod::launch().await;
    let volume = other.test_folder().volume("volume");
    let written = other.run_with(vec![mount("/data", &volume)], "echo SECRET >/data/secret").await;
    assert_eq!(written.code, 0, "{written:?}");
    let mut pod = Pod::launch().await;
    let volume = volume.display();
    let scripts = [format!("cat {volume}/secret"), "cat /data/secret".to_owned()];
    all_fail(&mut pod, &scripts.each_ref().map(String::as_str)).await;
    other.end().await;
    pod.end().await;
}

/// Pods of two namespaces do not share a user: even what they see in common is not shared.
#[tokio::test]
async fn files_of_another_namespace() {
    if !is_root() {
        return skip::left_to_another_run("only root can give each namespace a user");
    }
    let test_folder = TestFolder::new();
    let shared = test_folder.path().join("shared");
    std::fs::create_dir(&shared).expect("a folder");
    std::fs::write(shared.join("secret"), "SECRET").expect("a file");
    give(&shared.join("secret"));
    std::os::unix::fs::chown(shared.join("secret"), Some(FOREIGN_UID), Some(FOREIGN_UID))
        .expect("we are root");
    let mut pod = Pod::launch_with(|shim_config| shim_config.exposed = vec![shared.clone()]).await;
    let path = shared.display();
    let scripts = [format!("cat {path}/secret"), format!("chmod 777 {path}/secret")];
    all_fail(&mut pod, &scripts.each_ref().map(String::as_str)).await;
    pod.end().await;
}

#[tokio::test]
async fn the_shadow_file() {
    let mut pod = Pod::launch().await;
    all_fail(&mut pod, &["cat /etc/shadow", "cat /etc/gshadow", "cat /proc/1/root/etc/shadow"])
        .await;
    pod.end().await;
}

/// The process that reads termination messages has more rights than the container.
#[tokio::test]
async fn the_shadow_file_by_termination_message() {
    let mut pod = Pod::launch().await;
    for target in ["/dev/termination-log", "/tmp/words", "/words"] {
        let words = pod.test_folder().path().join("words");
        std::fs::write(&words, "").expect("a file");
        give(&words);
        let script = format!(
            "rm -f {target}; mv {target} /tmp/away; ln -sf /etc/shadow {target}; \
             ln -f /etc/shadow {target}; echo honest >{target}; exit 1"
        );
        let start = Start {
            mounts: vec![mount(target, &words)],
            termination_message: Some(words),
            ..pod.shell(&script)
        };
        let outcome = pod.finish(start).await;
        assert_eq!(outcome.message.trim(), "honest", "{target}: {outcome:?}");
    }
    pod.end().await;
}

#[tokio::test]
async fn a_foreign_process() {
    let marker = format!("9{:08}", std::process::id());
    let mut foreign = Command::new("sleep").arg(&marker).spawn().expect("it runs");
    let mut other = Pod::launch().await;
    let also = other.shell(&format!("exec sleep {marker}"));
    other.handle.start(also).await.expect("it starts");
    let mut pod = Pod::launch().await;
    let seen = pod.run("cat /proc/[0-9]*/cmdline | tr '\\0' ' '").await.text;
    assert!(seen.contains("sh -c") && !seen.contains(&format!("sleep {marker}")), "{seen}");
    // Whoever these numbers are here, it is not the foreign process: at most there is nobody.
    let number = foreign.id();
    pod.run(&format!("kill -9 {number}; kill -9 -1; kill -9 -{number}")).await;
    assert!(foreign.try_wait().expect("it is ours").is_none(), "it lives");
    foreign.kill().expect("it is ours");
    foreign.wait().expect("it is ours");
    let alive = other.run("cat /proc/[0-9]*/cmdline | tr '\\0' ' '").await.text;
    assert!(alive.contains(&format!("sleep {marker}")), "{alive}");
    other.end().await;
    pod.end().await;
}

/// The shim is in the Pod's PID namespace and sees the whole machine.
#[tokio::test]
async fn the_shim() {
    let mut pod = Pod::launch().await;
    let scripts = [
        "ls /proc/1/root/",
        "ls /proc/1/cwd/",
        "cd /proc/1/root",
        "cat /proc/1/exe",
        "cat /proc/1/environ",
        "cat /proc/1/maps",
        "head -c 1 /proc/1/mem",
        "readlink /proc/1/fd/0",
        "ls /proc/1/map_files/",
        "readlink /proc/1/ns/mnt",
        "nsenter -t 1 -m true",
        "nsenter -t 1 -U true",
        "echo x >/proc/1/mem",
        "echo 1000 >/proc/1/oom_score_adj",
        "cat /proc/1/mountinfo",
        "cat /proc/1/cmdline",
        "cat /proc/1/cgroup",
        "prlimit --pid 1 --nofile=0:0",
        "prlimit --pid 1 --cpu=1:1",
        "prlimit --pid 1 --fsize=0:0",
        "taskset -p 1 1",
        "renice -n 19 -p 1",
        "renice -n 19 -g 1",
        "ionice -c 3 -p 1",
        "chrt -i -p 0 1",
    ];
    all_fail(&mut pod, &scripts).await;
    if Path::new("/usr/bin/strace").exists() {
        all_fail(&mut pod, &["strace -p 1 -o /dev/null"]).await;
    }
    // It survives what a Pod may send it.
    for signal in ["KILL", "STOP", "TERM", "HUP", "INT", "QUIT", "SEGV", "USR1", "PIPE", "ABRT"] {
        pod.run(&format!("kill -{signal} 1")).await;
    }
    assert_eq!(pod.run("echo alive").await.text, "alive");
    pod.end().await;
}

/// Mounts are named by the folders of the host that they show: the data folder, the uids of Pods
/// and claims. The shim sees the whole machine's.
#[tokio::test]
async fn the_mount_table_and_the_data_path() {
    let mut pod = Pod::launch().await;
    let volume = pod.test_folder().volume("volume");
    let memory = pod.test_folder().volume("memory");
    let source = Source::Memory { path: memory, beneath: None, create: false, bytes: 1 << 20 };
    let mounts = || {
        vec![
            mount("/data", &volume),
            part("/part", &volume, "part", true),
            Mount { target: "/memory".into(), source: source.clone(), read_only: false },
        ]
    };
    let table = "cat /proc/mounts /proc/self/mountinfo /proc/[0-9]*/mountinfo \
                 /proc/[0-9]*/mountstats /proc/thread-self/mounts | wc -l";
    let outcome = pod.run_with(mounts(), table).await;
    assert_eq!(outcome.text, "0", "nothing is listed");
    let test_folder =
        pod.test_folder().path().file_name().expect("a name").to_str().expect("text").to_owned();
    let (start, rest) = test_folder.split_at(8);
    // Not in its own arguments, where it would be found.
    let search = format!(
        "name={start}; name=${{name}}{rest}; echo x >/data/x; exec 9</data/x; \
         {{ cat /proc/[0-9]*/cmdline /proc/[0-9]*/cgroup /proc/[0-9]*/maps /proc/[0-9]*/stat \
         /proc/[0-9]*/uid_map /proc/locks /proc/keys /proc/key-users /etc/passwd /etc/group; \
         ls -l /proc/[0-9]*/fd /proc/[0-9]*/cwd /proc/[0-9]*/root /proc/[0-9]*/ns; ls -R /sys/fs/cgroup; \
         }} 2>/dev/null | tr '\\0' ' ' | grep -v \"name={start}\" | grep -c $name"
    );
    let outcome = pod.run_with(mounts(), &search).await;
    assert_eq!(outcome.text, "0", "the data folder is nowhere named");
    // What it has is mounted all the same.
    let used = "touch /data/y /part/y /memory/y && ls -d /data/y /part/y /memory/y | wc -l; pwd";
    assert_eq!(pod.run_with(mounts(), used).await.text, "3\n/");
    pod.end().await;
}

/// The names in it are the uids of Pods. A container knows its own group, and by it its limits.
#[tokio::test]
async fn the_tree_of_control_groups() {
    let trees = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"].map(Path::new);
    let tree = trees.into_iter().find(|tree| tree.join("cgroup.procs").exists());
    let Some(tree) = tree.filter(|_| is_root()) else {
        return skip::left_to_another_run("only root makes control groups, where there are any");
    };
    let ours = tree.join(format!("sojourn-confine-{}", std::process::id()));
    let (own, other) = (ours.join("own-uid"), ours.join("other-uid"));
    for folder in [&ours, &own, &other] {
        std::fs::create_dir(folder).expect("we are root");
    }
    let mut pod = Pod::launch().await;
    let script = "cat /proc/self/cgroup; ls -R /sys/fs/cgroup; \
                  find /sys/fs/cgroup -name cgroup.procs | xargs cat | wc -l; \
                  echo $$ 2>/dev/null >$(find /sys/fs/cgroup -name cgroup.procs) || echo kept";
    let start = Start { cgroups: vec![own.join("cgroup.procs")], ..pod.shell(script) };
    let outcome = pod.finish(start).await;
    pod.end().await;
    for folder in [&own, &other, &ours] {
        std::fs::remove_dir(folder).expect("nobody is in it");
    }
    let seen = outcome.text;
    for hidden in ["own-uid", "other-uid", "sojourn-confine"] {
        assert!(!seen.contains(hidden), "{hidden}: {seen}");
    }
    assert!(seen.contains("cgroup.procs"), "its own group is there: {seen}");
    assert!(seen.ends_with("kept"), "and can only be read: {seen}");
}

#[tokio::test]
async fn the_systems_folders() {
    let mut pod = Pod::launch().await;
    let scripts = [
        "touch /usr/x",
        "touch /etc/x",
        "echo x >>/etc/passwd",
        "echo x >>/etc/hosts",
        "rm /bin/sh",
        "mv /usr/bin/env /usr/bin/env2",
        "chmod 777 /etc",
        "chmod 666 /dev/null",
        "touch /dev/x",
        "rm /dev/null",
        "touch /sys/x",
        "mkdir /sys/fs/cgroup/x",
        "echo 0 >/proc/sys/kernel/randomize_va_space",
        "echo h >/proc/sysrq-trigger",
        "echo 1 >/proc/sys/vm/drop_caches",
        "cat /proc/kcore",
        "dmesg -c",
    ];
    all_fail(&mut pod, &scripts).await;
    pod.end().await;
}

#[tokio::test]
async fn the_machines_devices_and_mounts() {
    let mut pod = Pod::launch().await;
    let scripts = [
        "mknod /tmp/disk b 8 0",
        "mknod /home/pod/mem c 1 1",
        "mount -t tmpfs none /mnt",
        "mount -t proc none /mnt",
        "mount --bind / /mnt",
        "mount -o remount,rw /usr",
        "mount -o remount,bind,rw /etc",
        "umount /proc",
        "umount -l /etc",
        "umount -l /dev/null",
        "unshare -m true",
        "unshare -p true",
        "unshare -n true",
        "chroot / true",
        "hostname other",
        "date -s 2000-01-01",
        "ls /dev/sda /dev/vda /dev/mem /dev/kmsg",
    ];
    all_fail(&mut pod, &scripts).await;
    assert_eq!(pod.run("echo x >/dev/null && head -c 4 /dev/zero | wc -c").await.text, "4");
    pod.end().await;
}

/// In a user namespace of its own it would be root once more.
#[tokio::test]
async fn another_user_namespace() {
    let mut pod = Pod::launch().await;
    let scripts = [
        "unshare -U true",
        "unshare -Ur true",
        "unshare -Urm mount -o remount,rw,bind /usr",
        "unshare -Urm umount /etc/passwd",
        "unshare -Urmp --fork mount -t proc none /mnt",
        "unshare -Urn true",
    ];
    all_fail(&mut pod, &scripts).await;
    pod.end().await;
}

/// They are of users and sessions, whatever the namespace.
#[tokio::test]
async fn keyrings_of_whoever_started_us() {
    if !Path::new("/usr/bin/perl").exists() {
        return skip::whole("nothing here can ask for a keyring");
    }
    let call = if cfg!(target_arch = "x86_64") { 250 } else { 219 };
    // The session's, which is number -3.
    let ask = format!("syscall({call}, 0, -3, 1) >= 0 or die \"$!\\n\"");
    let ours = Command::new("perl").args(["-e", &ask]).status().expect("it runs");
    let mut pod = Pod::launch().await;
    let outcome = pod.run(&format!("perl -e '{ask}'")).await;
    assert_ne!(outcome.code, 0, "we: {ours:?}");
    assert_eq!(outcome.text, "Function not implemented");
    pod.end().await;
}

#[tokio::test]
async fn other_users_by_setuid_programs() {
    let mut pod = Pod::launch().await;
    all_fail(&mut pod, &["su -c id root </dev/null", "sudo -n id"]).await;
    if is_root() {
        let volume = pod.test_folder().volume("volume");
        let program = volume.join("id");
        std::fs::copy("/usr/bin/id", &program).expect("a file");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o6755))
            .expect("it is ours");
        let outcome = pod.run_with(vec![mount("/data", &volume)], "/data/id -u; id -u").await;
        let (with, without) = outcome.text.split_once('\n').expect("two lines");
        assert_eq!(with, without, "a program of root's makes nobody root");
    }
    let mounts = pod.mounts().await;
    let with_setuid: Vec<_> =
        mounts.iter().filter(|(_, flags)| !flags.contains("nosuid")).collect();
    assert!(with_setuid.is_empty(), "every mount is nosuid: {with_setuid:?}");
    pod.end().await;
}

#[tokio::test]
async fn all_of_the_machines_memory() {
    let mut pod = Pod::launch().await;
    let sizes = pod.run("stat -f -c '%b %S' / /dev/shm").await.text;
    assert_eq!(sizes, "16384 4096\n16384 4096", "64 MiB each");
    let filled = pod.run("head -c 80m /dev/zero >/fill").await;
    assert_ne!(filled.code, 0);
    assert!(filled.text.contains("No space left on device"), "{filled:?}");
    let many = "i=0; while [ $i -lt 20000 ]; do : >/run/$i || exit 1; i=$((i + 1)); done";
    let filled = pod.run(many).await;
    assert_ne!(filled.code, 0, "files are bounded as well");
    pod.end().await;
}

/// Such sockets have no file that could be hidden: they belong to the network, which is shared.
#[tokio::test]
async fn abstract_sockets_of_the_machine() {
    if !Path::new("/usr/bin/perl").exists() {
        return skip::whole("nothing here can connect to such a socket");
    }
    let name = format!("sojourn-{}", std::process::id());
    let connect = format!(
        "use Socket; socket(my $s, PF_UNIX, SOCK_STREAM, 0) or die; \
         connect($s, pack_sockaddr_un(\"\\0{name}\")) or die \"$!\\n\"; print \"connected\\n\";"
    );
    let address = SocketAddr::from_abstract_name(name.as_bytes()).expect("a name");
    let _listener = UnixListener::bind_addr(&address).expect("it is free");
    let mut ours = Command::new("perl");
    ours.stdin(Stdio::piped()).stdout(Stdio::null());
    let mut ours = ours.spawn().expect("it runs");
    ours.stdin.take().expect("a pipe").write_all(connect.as_bytes()).expect("it reads");
    assert!(ours.wait().expect("it is ours").success(), "we can");
    // Such sockets belong to a network.
    let mut pod = Pod::launch().await;
    let script = format!("perl -e '{connect}'");
    let outcome = pod.run(&script).await;
    assert_eq!((outcome.code != 0, outcome.text.trim()), (true, "Connection refused"));
    pod.end().await;
}
