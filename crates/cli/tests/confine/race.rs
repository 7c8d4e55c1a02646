//! Containers that start while somebody swaps what they are about to mount for a link out of it.
//!
//! A container either starts with what is its own or is refused; it never gets what a link leads
//! to, and nothing is made there.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::fs::{CWD, RenameFlags};
use sojourn_node::shim::handle::CommandError;
use sojourn_node::shim::protocol::{Mount, Start};

use crate::pod::{Pod, TestFolder, device, give, mount, part};

/// Containers of each race.
const CONTAINERS: usize = 32;
/// Swaps that a race must have seen to have been one.
const SWAPS: usize = 64;

/// A race: what is swapped for a link, where that leads, and what a container mounts meanwhile.
struct Race {
    name: &'static str,
    /// In the volume.
    swapped: &'static str,
    /// Outside of it: a folder or a file.
    leads_to: &'static str,
    mounts: fn(volume: &Path) -> Vec<Mount>,
}

const RACES: [Race; 5] = [
    Race {
        name: "the part itself",
        swapped: "a",
        leads_to: "folder",
        mounts: |volume| vec![part("/data", volume, "a", false)],
    },
    Race {
        name: "a folder on the way to the part",
        swapped: "a",
        leads_to: "folder",
        mounts: |volume| vec![part("/data", volume, "a/inner", true)],
    },
    Race {
        name: "a folder in which a part is made",
        swapped: "a",
        leads_to: "folder",
        mounts: |volume| vec![part("/data", volume, "a/new/deep", true)],
    },
    Race {
        name: "the place of another volume",
        swapped: "a",
        leads_to: "folder",
        mounts: |volume| vec![mount("/outer", volume), part("/outer/a/inner", volume, "b", true)],
    },
    Race {
        name: "the image of a device",
        swapped: "image",
        leads_to: "file",
        mounts: |volume| vec![device("/dev/xvda", &volume.join("image"))],
    },
];

/// Swaps two names until it is dropped.
struct Swapper {
    stop: Arc<AtomicBool>,
    swaps: Arc<AtomicUsize>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Swapper {
    fn start(one: PathBuf, other: PathBuf) -> Self {
        let (stop, swaps) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let thread = std::thread::spawn({
            let (stop, swaps) = (stop.clone(), swaps.clone());
            move || {
                while !stop.load(Ordering::Relaxed) {
                    rustix::fs::renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE)
                        .expect("both are ours");
                    swaps.fetch_add(1, Ordering::Relaxed);
                    std::thread::yield_now();
                }
            }
        });
        Self { stop, swaps, thread: Some(thread) }
    }
}

impl Drop for Swapper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(std::thread::JoinHandle::join);
        assert!(std::thread::panicking() || ended.is_some_and(|ended| ended.is_ok()));
    }
}

/// Everything in a tree, with what files hold.
fn contents(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(contents(&path));
            found.push((path, String::new()));
        } else {
            let text = std::fs::read_to_string(&path).expect("a file");
            found.push((path, text));
        }
    }
    found.sort();
    found
}

async fn run(race: &Race) {
    let outside = TestFolder::new();
    std::fs::create_dir_all(outside.path().join("folder/inner")).expect("a folder");
    for file in ["folder/file", "folder/inner/file", "file"] {
        std::fs::write(outside.path().join(file), "SECRET").expect("a file");
    }
    let mut pod = Pod::launch().await;
    let volume = pod.test_folder().volume("volume");
    for folder in ["a", "a/inner", "b"] {
        std::fs::create_dir_all(volume.join(folder)).expect("a folder");
        give(&volume.join(folder));
    }
    std::fs::write(volume.join("image"), "own").expect("a file");
    give(&volume.join("image"));
    let link = volume.join("link");
    std::os::unix::fs::symlink(outside.path().join(race.leads_to), &link).expect("a link");
    let before = contents(outside.path());

    let swapper = Swapper::start(volume.join(race.swapped), link);
    let script = "for at in /data /outer /outer/a /outer/a/inner; do \
                  cat $at/file $at/inner/file; echo x >$at/made; done; \
                  cat /dev/xvda; echo x >/dev/xvda; true";
    let (mut started, mut refused) = (0, 0);
    for _ in 0..CONTAINERS {
        let start = Start { mounts: (race.mounts)(&volume), ..pod.shell(script) };
        match pod.try_finish(start).await {
            Ok(outcome) => {
                started += 1;
                assert!(!outcome.text.contains("SECRET"), "{}: {outcome:?}", race.name);
            }
            Err(CommandError::Refused { .. }) => refused += 1,
            Err(error) => panic!("{}: {error}", race.name),
        }
    }
    let swaps = swapper.swaps.load(Ordering::Relaxed);
    drop(swapper);
    assert_eq!(contents(outside.path()), before, "{}: nothing changed outside", race.name);
    assert_eq!(started + refused, CONTAINERS);
    assert!(swaps >= SWAPS, "{}: {swaps} swaps are no race", race.name);
    pod.end().await;
}

#[tokio::test]
async fn a_link_that_comes_and_goes_leads_nowhere() {
    for race in &RACES {
        run(race).await;
    }
}
