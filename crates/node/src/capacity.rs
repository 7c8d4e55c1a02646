//! What the machine has, what of it Pods may have, what is left of it now, and what it is called.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::NodeSystemInfo;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::cgroup;

/// The Kubernetes release whose kubelet we stand in for.
const KUBELET_VERSION: &str = "v1.36.3-sojourn";

/// Kept for the rest of the machine: this part of memory and disk, within bounds.
const RESERVED_PART: u64 = 20;
const RESERVED_MEMORY: (u64, u64) = (100 << 20, 1 << 30);
const RESERVED_DISK: (u64, u64) = (1 << 30, 20 << 30);
/// Thousandths of a processor kept for the rest of the machine.
const RESERVED_MILLI_CPU: u64 = 100;

#[derive(Debug, thiserror::Error)]
pub enum CapacityError {
    #[error("cannot find out which processors may be used")]
    Processors(#[source] io::Error),
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} does not say {what}", path.display())]
    Missing { path: PathBuf, what: &'static str },
    #[error("cannot find out how large the disk of {} is", path.display())]
    Disk { path: PathBuf, source: io::Error },
}

/// An amount of everything that Pods share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Resources {
    pub milli_cpu: u64,
    pub memory: u64,
    pub ephemeral_storage: u64,
    pub pods: u32,
}

impl Resources {
    /// What the machine has: not more than we ourselves are allowed of it.
    pub(crate) fn measure(data: &Path, pods: u32) -> Result<Self, CapacityError> {
        let affinity = rustix::thread::sched_getaffinity(None)
            .map_err(|error| CapacityError::Processors(error.into()))?;
        let processors = u64::from(affinity.count()) * 1000;
        let total = Memory::read()?.total;
        Ok(Self {
            milli_cpu: cgroup::own_milli_cpu().map_or(processors, |quota| quota.min(processors)),
            memory: cgroup::own_memory_limit().map_or(total, |limit| limit.min(total)),
            ephemeral_storage: Disk::of(data)?.total,
            pods,
        })
    }

    /// What Pods may have of it: all but a reserve, but never less than half.
    #[must_use]
    pub(crate) fn allocatable(&self) -> Self {
        let keep = |amount: u64, (least, most): (u64, u64)| {
            amount - (amount / RESERVED_PART).clamp(least, most).min(amount / 2)
        };
        Self {
            milli_cpu: self.milli_cpu - RESERVED_MILLI_CPU.min(self.milli_cpu / 2),
            memory: keep(self.memory, RESERVED_MEMORY),
            ephemeral_storage: keep(self.ephemeral_storage, RESERVED_DISK),
            pods: self.pods,
        }
    }

    /// As a Node's status says it.
    pub(crate) fn quantities(&self) -> BTreeMap<String, Quantity> {
        let cpu = if self.milli_cpu.is_multiple_of(1000) {
            (self.milli_cpu / 1000).to_string()
        } else {
            format!("{}m", self.milli_cpu)
        };
        [
            ("cpu", cpu),
            ("memory", bytes(self.memory)),
            ("ephemeral-storage", bytes(self.ephemeral_storage)),
            ("pods", self.pods.to_string()),
        ]
        .map(|(name, text)| (name.to_owned(), Quantity(text)))
        .into()
    }
}

/// Whole kibibytes with the largest suffix that divides them: the form that API servers keep.
fn bytes(amount: u64) -> String {
    let mut amount = amount / 1024;
    let mut suffixes = ["Ki", "Mi", "Gi", "Ti", "Pi"].into_iter();
    let mut suffix = suffixes.next().unwrap_or_default();
    while amount > 0 && amount.is_multiple_of(1024) {
        let Some(next) = suffixes.next() else { break };
        (amount, suffix) = (amount / 1024, next);
    }
    if amount == 0 { "0".to_owned() } else { format!("{amount}{suffix}") }
}

/// What is left of the machine at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FreeResources {
    pub memory_available: u64,
    pub disk_available: u64,
    pub disk_total: u64,
    pub processes: u64,
    pub process_limit: u64,
}

impl FreeResources {
    pub(crate) fn take(data: &Path) -> Result<Self, CapacityError> {
        let disk = Disk::of(data)?;
        Ok(Self {
            memory_available: Memory::read()?.available,
            disk_available: disk.available,
            disk_total: disk.total,
            processes: processes()?,
            process_limit: cgroup::process_limit(),
        })
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Memory {
    total: u64,
    available: u64,
}

impl Memory {
    const FILE: &str = "/proc/meminfo";

    fn read() -> Result<Self, CapacityError> {
        let text = read(Self::FILE)?;
        let path = || PathBuf::from(Self::FILE);
        let total = kibibytes(&text, "MemTotal")
            .ok_or_else(|| CapacityError::Missing { path: path(), what: "MemTotal" })?;
        let available = kibibytes(&text, "MemAvailable")
            .ok_or_else(|| CapacityError::Missing { path: path(), what: "MemAvailable" })?;
        Ok(Self { total, available })
    }
}

/// A line `Name:   123 kB` in bytes.
fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

struct Disk {
    total: u64,
    available: u64,
}

impl Disk {
    fn of(path: &Path) -> Result<Self, CapacityError> {
        let found = rustix::fs::statvfs(path)
            .map_err(|error| CapacityError::Disk { path: path.to_owned(), source: error.into() })?;
        Ok(Self {
            total: found.f_blocks.saturating_mul(found.f_frsize),
            available: found.f_bavail.saturating_mul(found.f_frsize),
        })
    }
}

/// How many processes and threads there are: the number behind the slash in `0.1 0.2 0.3 1/234 99`.
fn processes() -> Result<u64, CapacityError> {
    const FILE: &str = "/proc/loadavg";
    let text = read(FILE)?;
    text.split_whitespace()
        .nth(3)
        .and_then(|word| word.split_once('/')?.1.parse().ok())
        .ok_or_else(|| CapacityError::Missing { path: FILE.into(), what: "how many tasks run" })
}

fn read(path: &str) -> Result<String, CapacityError> {
    fs::read_to_string(path).map_err(|source| CapacityError::Read { path: path.into(), source })
}

/// What the machine is called, and what runs on it. What it does not say is left empty.
pub(crate) fn system_info() -> NodeSystemInfo {
    let name = rustix::system::uname();
    let text = |path: &str| {
        fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default()
    };
    let first = |paths: [&str; 2]| {
        paths.map(text).into_iter().find(|found| !found.is_empty()).unwrap_or_default()
    };
    let machine_id = first(["/etc/machine-id", "/var/lib/dbus/machine-id"]);
    let system_uuid = text("/sys/class/dmi/id/product_uuid").to_lowercase();
    let os_release = first(["/etc/os-release", "/usr/lib/os-release"]);
    NodeSystemInfo {
        architecture: architecture(std::env::consts::ARCH).to_owned(),
        boot_id: text("/proc/sys/kernel/random/boot_id"),
        container_runtime_version: format!("sojourn://{}", env!("CARGO_PKG_VERSION")),
        kernel_version: name.release().to_string_lossy().into_owned(),
        // Deprecated, but an API server of today still wants the field.
        kube_proxy_version: String::new(),
        kubelet_version: KUBELET_VERSION.to_owned(),
        // Only root may read the board's number; the machine's own stands in, as in a kubelet.
        system_uuid: if system_uuid.is_empty() { machine_id.clone() } else { system_uuid },
        machine_id,
        operating_system: "linux".to_owned(),
        os_image: pretty_name(&os_release).unwrap_or_else(|| "Linux".to_owned()),
        swap: None,
    }
}

/// As Kubernetes, which is written in Go, calls it.
fn architecture(rust: &str) -> &str {
    match rust {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        "powerpc64" => "ppc64le",
        other => other,
    }
}

/// `PRETTY_NAME` of an os-release file, whose values are quoted as in a shell.
fn pretty_name(os_release: &str) -> Option<String> {
    let value = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?.trim();
    let quoted = |mark: char| value.strip_prefix(mark)?.strip_suffix(mark);
    let plain = quoted('"').or_else(|| quoted('\'')).unwrap_or(value);
    (!plain.is_empty()).then(|| plain.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GI: u64 = 1 << 30;
    const MI: u64 = 1 << 20;

    #[test]
    fn a_reserve_within_bounds_is_kept() {
        let cases = [
            // what, milli_cpu, memory, disk → the same of which Pods may have
            ("tiny", (100, 64 * MI, GI), (50, 32 * MI, GI / 2)),
            ("small", (2000, 2 * GI, 10 * GI), (1900, 2 * GI - 2 * GI / 20, 9 * GI)),
            ("large", (64_000, 256 * GI, 4096 * GI), (63_900, 255 * GI, 4076 * GI)),
            ("nothing", (0, 0, 0), (0, 0, 0)),
        ];
        for (name, (milli_cpu, memory, ephemeral_storage), want) in cases {
            let all = Resources { milli_cpu, memory, ephemeral_storage, pods: 7 };
            let some = all.allocatable();
            assert_eq!((some.milli_cpu, some.memory, some.ephemeral_storage), want, "{name}");
            assert_eq!(some.pods, 7);
        }
    }

    #[test]
    fn quantities_are_written_as_a_kubelet_writes_them() {
        let written = |milli_cpu| {
            let all = Resources { milli_cpu, memory: 3 * MI + 1, ephemeral_storage: GI, pods: 110 };
            let mut text: Vec<String> = Vec::new();
            for (name, Quantity(amount)) in all.quantities() {
                text.push(format!("{name}={amount}"));
            }
            text.join(" ")
        };
        assert_eq!(written(2000), "cpu=2 ephemeral-storage=1Gi memory=3Mi pods=110");
        assert_eq!(written(1900), "cpu=1900m ephemeral-storage=1Gi memory=3Mi pods=110");
        for (amount, want) in
            [(0, "0"), (1023, "0"), (1024, "1Ki"), (1025 << 10, "1025Ki"), (1 << 60, "1024Pi")]
        {
            assert_eq!(bytes(amount), want);
        }
    }

    #[test]
    fn files_of_the_system_are_read() {
        let meminfo = "MemTotal:       24684100 kB\nMemFree: 1 kB\nMemAvailable:     12 kB\n";
        for (name, want) in [
            ("MemTotal", Some(24_684_100 * 1024)),
            ("MemAvailable", Some(12 * 1024)),
            ("Mem", None),
            ("SwapTotal", None),
        ] {
            assert_eq!(kibibytes(meminfo, name), want, "{name}");
        }
        for (text, want) in [
            ("ID=x\nPRETTY_NAME=\"Some Linux 12\"\n", Some("Some Linux 12")),
            ("PRETTY_NAME='Some Linux'\n", Some("Some Linux")),
            ("PRETTY_NAME=Plain\n", Some("Plain")),
            ("PRETTY_NAME=\"\"\n", None),
            ("NAME=x\n", None),
        ] {
            assert_eq!(pretty_name(text).as_deref(), want, "{text}");
        }
    }

    #[test]
    fn this_machine_has_something() {
        let all = Resources::measure(Path::new("/"), 110).unwrap();
        assert!(all.milli_cpu >= 10 && all.memory > 64 * MI && all.ephemeral_storage > 0);
        let now = FreeResources::take(Path::new("/")).unwrap();
        assert!(now.memory_available > 0 && now.disk_available <= now.disk_total);
        assert!(now.processes > 0 && now.processes < now.process_limit);
        let info = system_info();
        assert!(!info.boot_id.is_empty() && !info.kernel_version.is_empty());
        assert!(FreeResources::take(Path::new("/does/not/exist")).is_err());
    }
}
