//! Only descriptors 0 to 2, and nothing of ours to be got at by them.

use std::io::ErrorKind;
use std::os::fd::AsRawFd;

use rustix::fs::{Mode, OFlags};

use crate::pod::{Pod, TestFolder, is_root};
use crate::skip;

/// Prints the descriptors that a shell has. A pattern would open one more.
pub(crate) const OPEN_DESCRIPTORS: &str =
    "i=0; while [ $i -lt 256 ]; do [ -e /proc/$$/fd/$i ] && echo $i; i=$((i + 1)); done; true";

#[tokio::test]
async fn none_is_inherited() {
    // A descriptor of the node's that somebody forgot to mark.
    let file = std::fs::File::open("/etc/passwd").expect("every machine has it");
    rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty()).expect("it is ours");
    let mut pod = Pod::launch().await;
    drop(file);
    assert_eq!(pod.run(OPEN_DESCRIPTORS).await.text, "0\n1\n2");
    // The shim's own may be counted, but not got.
    let get = "i=0; while [ $i -lt 256 ]; do \
               { readlink /proc/1/fd/$i || : </proc/1/fd/$i; } 2>/dev/null && echo $i; \
               i=$((i + 1)); done; true";
    assert_eq!(pod.run(get).await.text, "");
    pod.end().await;
}

/// A container may run our program (as `/proc/self/exe`), and keep hold of its file, which may
/// well belong to its own user.
#[tokio::test]
async fn our_program_cannot_be_written_to() {
    let test_folder = TestFolder::new();
    // A copy that nobody else runs: what runs cannot be written to for that alone.
    let program = test_folder.path().join("program");
    std::fs::copy(env!("CARGO_BIN_EXE_sojourn"), &program).expect("a copy");
    let pod = Pod::launch_as(&program, |_| {}).await;
    let exe = format!("/proc/{}/exe", shim(&pod));
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let held = match rustix::fs::open(exe, flags, Mode::empty()) {
        Ok(held) => held,
        // Even to us, the shim of an ordinary user shows it only where that has tracing rights.
        Err(error) if !is_root() => {
            return skip::left_to_another_run(format_args!("only root gets hold of it: {error}"));
        }
        Err(error) => panic!("{error}"),
    };
    pod.end().await;
    let path = format!("/proc/self/fd/{}", held.as_raw_fd());
    let opened = std::fs::OpenOptions::new().write(true).open(path);
    assert_eq!(opened.expect_err("it is protected").kind(), ErrorKind::ReadOnlyFilesystem);
    std::fs::OpenOptions::new().write(true).open(program).expect("by its own path it is ours");
}

/// The shim's number, as we see it.
fn shim(pod: &Pod) -> u32 {
    let folder = pod.folder.path().to_str().expect("a plain path");
    let pids = std::fs::read_dir("/proc").expect("/proc").flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_shim = |pid: &u32| {
        let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&arguments).contains(folder)
    };
    let found: Vec<u32> = pids.filter(is_shim).collect();
    assert_eq!(found.len(), 1, "one shim");
    found[0]
}
