//! Volumes: what is mounted stays beneath its folder, and where it is mounted in the root.

use std::os::unix::fs::{MetadataExt, symlink};

use crate::pod::{Pod, TestFolder, UID, device, is_root, mount, part, read_only};

#[tokio::test]
async fn a_part_of_a_volume() {
    let mut pod = Pod::launch().await;
    let volume = pod.test_folder().volume("volume");
    std::fs::create_dir_all(volume.join("a/b")).expect("a folder");
    std::fs::write(volume.join("a/b/file"), "text").expect("a file");
    // As the files of a ConfigMap are.
    symlink("a/b", volume.join("..data")).expect("a link");
    symlink("..data/file", volume.join("file")).expect("a link");
    for (beneath, script) in [
        ("a/b", "cat /data/file"),
        ("a/b/file", "cat /data"),
        ("file", "cat /data"),
        ("..data", "cat /data/file"),
        ("./a//b/", "cat /data/file"),
    ] {
        let outcome = pod.run_with(vec![part("/data", &volume, beneath, false)], script).await;
        assert_eq!(outcome.text, "text", "{beneath}");
    }
    let refused = pod.refusal(vec![part("/data", &volume, "missing", false)]).await;
    assert_eq!(refused, "missing of the volume at /data is missing");
    pod.end().await;
}

#[tokio::test]
async fn links_out_of_a_volume() {
    let test_folder = TestFolder::new();
    let outside = test_folder.path().join("outside");
    std::fs::create_dir(&outside).expect("a folder");
    std::fs::write(outside.join("file"), "SECRET").expect("a file");
    let mut pod = Pod::launch().await;
    let volume = pod.test_folder().volume("volume");
    let up = pod
        .test_folder()
        .path()
        .join("volume/../../")
        .join(test_folder.path().file_name().expect("a name"));
    for (name, to) in [
        ("absolute", outside.clone()),
        ("etc", "/etc".into()),
        ("up", "../../..".into()),
        ("back", up.join("outside")),
        ("root", "/".into()),
        ("shim", "/proc/self/root".into()),
        ("loop", "loop".into()),
    ] {
        symlink(to, volume.join(name)).expect("a link");
    }
    for beneath in
        ["absolute", "absolute/file", "etc/shadow", "up", "back/file", "root", "shim/etc", "loop"]
    {
        for create in [false, true] {
            let refused = pod.refusal(vec![part("/data", &volume, beneath, create)]).await;
            let expected = format!("{beneath} of the volume at /data leads out of it");
            assert_eq!(refused, expected);
        }
    }
    for beneath in ["..", "a/../..", "/etc"] {
        let refused = pod.refusal(vec![part("/data", &volume, beneath, true)]).await;
        assert_eq!(refused, format!("{beneath} of the volume at /data leads out of it"));
    }
    for beneath in ["absolute/new", "absolute/new/deeper"] {
        pod.refusal(vec![part("/data", &volume, beneath, true)]).await;
    }
    assert_eq!(std::fs::read_dir(&outside).expect("a folder").count(), 1, "nothing was made there");
    pod.end().await;
}

#[tokio::test]
async fn a_missing_part_is_made_for_the_pod() {
    let mut pod = Pod::launch().await;
    let volume = pod.test_folder().volume("volume");
    let script = "touch /data/file && stat -c %u:%g /data && id -u";
    let outcome = pod.run_with(vec![part("/data", &volume, "new/part", true)], script).await;
    assert_eq!(outcome.code, 0, "{outcome:?}");
    for made in ["new", "new/part"] {
        let about = std::fs::metadata(volume.join(made)).expect("it was made");
        let owner = if is_root() { UID } else { rustix::process::geteuid().as_raw() };
        assert_eq!((about.uid(), about.mode() & 0o777), (owner, 0o755), "{made}");
    }
    assert!(volume.join("new/part/file").exists());
    pod.end().await;
}

#[tokio::test]
async fn what_is_neither_file_nor_folder() {
    let mut pod = Pod::launch().await;
    let volume = pod.test_folder().volume("volume");
    let made = pod.run_with(vec![mount("/data", &volume)], "mkfifo /data/fifo").await;
    assert_eq!(made.code, 0, "{made:?}");
    let refused = pod.refusal(vec![part("/x", &volume, "fifo", false)]).await;
    assert_eq!(refused, "what is to be mounted at /x is neither a file nor a folder");
    pod.end().await;
}

#[tokio::test]
async fn a_volume_in_a_volume() {
    let mut pod = Pod::launch().await;
    let (outer, inner) = (pod.test_folder().volume("outer"), pod.test_folder().volume("inner"));
    std::fs::write(inner.join("file"), "inner").expect("a file");
    // Given in the wrong order; what is missing is made in the outer volume.
    let both = || vec![mount("/data/a/sub", &inner), mount("/data", &outer)];
    let outcome = pod.run_with(both(), "cat /data/a/sub/file; touch /data/mine").await;
    assert_eq!(outcome.text, "inner");
    assert!(outer.join("a/sub").is_dir() && outer.join("mine").exists());
    assert!(!outer.join("a/sub/file").exists());
    if is_root() {
        assert_eq!(std::fs::metadata(outer.join("a")).expect("it was made").uid(), UID);
    }
    // A read-only one is left as it is.
    let fresh = pod.test_folder().volume("fresh");
    std::fs::write(fresh.join("key"), "value").expect("a file");
    let both = vec![read_only("/data", &fresh), mount("/data/sub", &inner)];
    let script = "cat /data/key /data/sub/file; touch /data/x 2>/dev/null || echo denied";
    assert_eq!(pod.run_with(both, script).await.text, "valueinnerdenied");
    assert!(!fresh.join("sub").exists());
    pod.end().await;
}

/// A container leaves links in a volume at the place of another, and is started again.
#[tokio::test]
async fn hostile_links_in_the_way() {
    let test_folder = TestFolder::new();
    let outside = test_folder.path().join("outside");
    std::fs::create_dir(&outside).expect("a folder");
    let mut pod = Pod::launch().await;
    let (outer, inner) = (pod.test_folder().volume("outer"), pod.test_folder().volume("inner"));
    for (name, to) in [
        ("etc", "/etc".into()),
        ("proc", "/proc".into()),
        ("dev", "/dev".into()),
        ("outside", outside.clone()),
        ("old", "/proc/self/root".into()),
        ("up", "../..".into()),
    ] {
        symlink(to, outer.join(name)).expect("a link");
        for target in [format!("/data/{name}"), format!("/data/{name}/sub")] {
            let mounts = vec![mount("/data", &outer), mount(&target, &inner)];
            let refused = pod.refusal(mounts).await;
            let expected =
                format!("nothing can be mounted at {target}: /data/{name} is there, and is a link");
            assert_eq!(refused, expected);
        }
    }
    std::fs::write(outer.join("file"), "").expect("a file");
    let refused = pod.refusal(vec![mount("/data", &outer), mount("/data/file", &inner)]).await;
    assert_eq!(refused, "nothing can be mounted at /data/file: /data/file is there, and is a file");
    assert_eq!(std::fs::read_dir(&outside).expect("a folder").count(), 0);
    // Where the volume is read-only, the link is not followed but covered.
    let mounts = vec![read_only("/data", &outer), mount("/data/etc", &inner)];
    let outcome = pod.run_with(mounts, "touch /data/etc/mine && ls /data/etc").await;
    assert_eq!(outcome.text, "mine");
    assert!(!outer.join("etc/mine").exists() && inner.join("mine").exists());
    pod.end().await;
}

#[tokio::test]
async fn places_that_are_the_systems() {
    let mut pod = Pod::launch().await;
    let volume = pod.test_folder().volume("volume");
    for target in ["/", "/proc", "/proc/self", "/dev", "/dev/null", "/dev/x", "/sys", "/sys/fs"] {
        let refused = pod.refusal(vec![mount(target, &volume)]).await;
        assert_eq!(refused, format!("nothing can be mounted at {target}: the system needs it"));
    }
    let refused = pod.refusal(vec![mount("/data/../proc", &volume)]).await;
    assert_eq!(refused, "the mount path /data/../proc must be absolute and go without `..`");
    let outcome =
        pod.run_with(vec![mount("/dev/shm", &volume)], "touch /dev/shm/x && ls /dev/shm").await;
    assert_eq!(outcome.text, "x");
    pod.end().await;
}

#[tokio::test]
async fn a_device_is_a_file_in_its_place() {
    let mut pod = Pod::launch().await;
    let image = pod.test_folder().volume("claim").join("disk.img");
    std::fs::write(&image, "contents").expect("a file");
    if is_root() {
        std::os::unix::fs::chown(&image, Some(UID), Some(UID)).expect("it is ours");
    }
    for target in ["/dev/xvda", "/dev/mapper/disk", "/srv/deep/disk"] {
        let script = format!("cat {target}; touch {target}.more 2>/dev/null && echo more");
        let outcome = pod.run_with(vec![device(target, &image)], &script).await;
        let expected = if target.starts_with("/dev") { "contents" } else { "contentsmore" };
        assert_eq!(outcome.text, expected, "{target}");
    }
    let script = "printf C > /dev/xvda; rm /dev/xvda 2>/dev/null || echo kept";
    let outcome = pod.run_with(vec![device("/dev/xvda", &image)], script).await;
    assert_eq!(outcome.text, "kept");
    assert_eq!(std::fs::read_to_string(&image).expect("a file"), "C");
    pod.end().await;
}

#[tokio::test]
async fn what_is_no_file_is_no_device() {
    let test_folder = TestFolder::new();
    let outside = test_folder.path().join("outside");
    std::fs::write(&outside, "SECRET").expect("a file");
    let mut pod = Pod::launch().await;
    let claim = pod.test_folder().volume("claim");
    symlink(&outside, claim.join("link")).expect("a link");
    std::fs::create_dir(claim.join("folder")).expect("a folder");
    rustix::fs::mkfifoat(rustix::fs::CWD, claim.join("pipe"), rustix::fs::Mode::RWXU)
        .expect("a pipe");
    for (name, expected) in [
        ("link", "what is to be mounted at /dev/xvda is neither a file nor a folder"),
        ("pipe", "what is to be mounted at /dev/xvda is neither a file nor a folder"),
        ("folder", "what is to be the device /dev/xvda is not a file"),
    ] {
        let refused = pod.refusal(vec![device("/dev/xvda", &claim.join(name))]).await;
        assert_eq!(refused, expected, "{name}");
    }
    let image = claim.join("disk.img");
    std::fs::write(&image, "").expect("a file");
    for target in ["/dev/null", "/dev/pts/0", "/dev/shm/x", "/dev", "/proc/x", "/sys/x"] {
        let refused = pod.refusal(vec![device(target, &image)]).await;
        assert_eq!(refused, format!("nothing can be mounted at {target}: the system needs it"));
    }
    // A Pod's own link on the way to the device is not followed.
    let volume = pod.test_folder().volume("volume");
    symlink("/dev", volume.join("dev")).expect("a link");
    let refused =
        pod.refusal(vec![mount("/data", &volume), device("/data/dev/null", &image)]).await;
    let expected = "nothing can be mounted at /data/dev/null: /data/dev is there, and is a link";
    assert_eq!(refused, expected);
    assert_eq!(std::fs::read_to_string(&outside).expect("a file"), "SECRET");
    pod.end().await;
}

#[tokio::test]
async fn a_folder_with_too_many_entries() {
    let test_folder = TestFolder::new();
    let crowded = test_folder.path().join("crowded");
    std::fs::create_dir(&crowded).expect("a folder");
    for index in 0..2049 {
        std::fs::write(crowded.join(index.to_string()), "").expect("a file");
    }
    let mut pod = Pod::launch_with(|shim_config| shim_config.exposed = vec![crowded.clone()]).await;
    let volume = pod.test_folder().volume("volume");
    let target = crowded.join("new");
    let refused = pod.refusal(vec![mount(target.to_str().expect("a path"), &volume)]).await;
    let expected = format!(
        "nothing can be mounted at {}: {} has more than 2048 entries to be shown beside it",
        target.display(),
        crowded.display()
    );
    assert_eq!(refused, expected);
    pod.end().await;
}

#[tokio::test]
async fn read_only_volumes() {
    let mut pod = Pod::launch().await;
    let volume = pod.test_folder().volume("volume");
    let script = "touch /data/x 2>&1 | grep -o 'Read-only file system'";
    let outcome = pod.run_with(vec![read_only("/data", &volume)], script).await;
    assert_eq!(outcome.text, "Read-only file system");
    pod.end().await;
}
