//! A Node's conditions: what is short, and whether Pods can run.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::NodeCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::capacity::FreeResources;
use crate::cgroup::Enforced;

/// Memory is short below this.
const MEMORY_LOW: u64 = 100 << 20;
/// Disk is short below this part of all of it, within these bounds. A kubelet has no upper one: it would
/// want 200 GiB of a laptop's 2 TiB, and has images to keep; here Pods bring none.
const DISK_LOW_PART: u64 = 10;
const MIN_DISK_LOW: u64 = 1 << 30;
const MAX_DISK_LOW: u64 = 5 << 30;
/// Processes are short when less than this part of what the machine can have is left.
const PIDS_LOW_PART: u64 = 20;

/// How long there must be enough before a shortage counts as over: as of a kubelet. Without it a
/// Pod that is evicted would come straight back.
const RECOVERY_TIME: SignedDuration = SignedDuration::from_mins(5);

/// What is short at present.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Pressure {
    pub memory: bool,
    pub disk: bool,
    pub pids: bool,
}

/// Shortages over time: they begin at once and end when it has been calm for a while.
#[derive(Debug, Default)]
pub(super) struct Pressures {
    memory: Gauge,
    disk: Gauge,
    pids: Gauge,
}

#[derive(Debug, Default)]
struct Gauge {
    short: bool,
    enough_since: Option<Timestamp>,
}

impl Gauge {
    fn observe(&mut self, low: bool, now: Timestamp) -> bool {
        if low {
            *self = Self { short: true, enough_since: None };
        } else if self.short {
            let since = *self.enough_since.get_or_insert(now);
            // A clock that was set back starts the wait again, not for ever.
            let calm = now.duration_since(since);
            if calm.is_negative() {
                self.enough_since = Some(now);
            }
            self.short = calm < RECOVERY_TIME;
        }
        self.short
    }
}

impl Pressures {
    pub(super) fn observe(&mut self, reading: &FreeResources, now: Timestamp) -> Pressure {
        let disk_low = (reading.disk_total / DISK_LOW_PART).clamp(MIN_DISK_LOW, MAX_DISK_LOW);
        // Of a disk that is hardly larger than the bound, half is enough.
        let disk_low = disk_low.min(reading.disk_total / 2);
        let free = reading.process_limit.saturating_sub(reading.processes);
        Pressure {
            memory: self.memory.observe(reading.memory_available < MEMORY_LOW, now),
            disk: self.disk.observe(reading.disk_available < disk_low, now),
            pids: self.pids.observe(free < reading.process_limit / PIDS_LOW_PART, now),
        }
    }
}

/// Whether this node takes and runs Pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Readiness {
    Ready,
    /// In words, why not.
    NotReady(String),
}

/// How Pods are kept apart from the machine, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Confined {
    pub confined: bool,
    pub how: String,
}

/// Whether each Pod has a network of its own, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Isolated {
    pub isolated: bool,
    pub reason: &'static str,
    pub how: String,
}

/// Everything that the conditions are made from.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConditionInputs<'a> {
    pub(super) readiness: &'a Readiness,
    pub(super) pressure: Pressure,
    pub(super) confined: &'a Confined,
    pub(super) network: &'a Isolated,
    pub(super) enforced: &'a Enforced,
}

/// The conditions that are ours, `Ready` last as of a kubelet. A condition that says what it said
/// in `before` keeps its time of transition.
pub(super) fn conditions(
    standing: ConditionInputs<'_>,
    before: &[NodeCondition],
    now: Timestamp,
) -> Vec<NodeCondition> {
    let ConditionInputs { readiness, pressure, confined, network, enforced } = standing;
    let (limits, all) = limits_reason(enforced);
    let ready = match readiness {
        Readiness::Ready => ("Ready", true, "KubeletReady", "kubelet is posting ready status"),
        Readiness::NotReady(why) => ("Ready", false, "KubeletNotReady", why.as_str()),
    };
    [
        if pressure.memory {
            (
                "MemoryPressure",
                true,
                "KubeletHasInsufficientMemory",
                "kubelet has insufficient memory available",
            )
        } else {
            (
                "MemoryPressure",
                false,
                "KubeletHasSufficientMemory",
                "kubelet has sufficient memory available",
            )
        },
        if pressure.disk {
            ("DiskPressure", true, "KubeletHasDiskPressure", "kubelet has disk pressure")
        } else {
            ("DiskPressure", false, "KubeletHasNoDiskPressure", "kubelet has no disk pressure")
        },
        if pressure.pids {
            (
                "PIDPressure",
                true,
                "KubeletHasInsufficientPID",
                "kubelet has insufficient PID available",
            )
        } else {
            (
                "PIDPressure",
                false,
                "KubeletHasSufficientPID",
                "kubelet has sufficient PID available",
            )
        },
        (
            "SojournConfined",
            confined.confined,
            if confined.confined { "Confined" } else { "Unconfined" },
            confined.how.as_str(),
        ),
        ("SojournNetworkIsolated", network.isolated, network.reason, network.how.as_str()),
        ("SojournLimitsEnforced", all, limits, enforced.how.as_str()),
        ready,
    ]
    .map(|(kind, holds, reason, message)| {
        let status = if holds { "True" } else { "False" };
        let transition = before
            .iter()
            .find(|old| old.type_ == kind && old.status == status)
            .and_then(|old| old.last_transition_time.clone())
            .unwrap_or(Time(now));
        NodeCondition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            last_heartbeat_time: Some(Time(now)),
            last_transition_time: Some(transition),
        }
    })
    .into()
}

const fn limits_reason(enforced: &Enforced) -> (&'static str, bool) {
    match (enforced.memory, enforced.cpu, enforced.pids) {
        (true, true, true) => ("AllLimitsEnforced", true),
        (false, false, false) => ("NoLimitsEnforced", false),
        _ => ("SomeLimitsEnforced", false),
    }
}

/// What a kubelet calls it when a condition becomes what it is: the reasons of its Events.
pub(super) fn transitions(before: &[NodeCondition], now: &[NodeCondition]) -> Vec<&'static str> {
    let changed = |one: &&NodeCondition| {
        !before.iter().any(|old| old.type_ == one.type_ && old.status == one.status)
    };
    now.iter()
        .filter(changed)
        .filter_map(|one| match (one.type_.as_str(), one.status.as_str()) {
            ("MemoryPressure", "True") => Some("NodeHasInsufficientMemory"),
            ("MemoryPressure", _) => Some("NodeHasSufficientMemory"),
            ("DiskPressure", "True") => Some("NodeHasDiskPressure"),
            ("DiskPressure", _) => Some("NodeHasNoDiskPressure"),
            ("PIDPressure", "True") => Some("NodeHasInsufficientPID"),
            ("PIDPressure", _) => Some("NodeHasSufficientPID"),
            ("Ready", "True") => Some("NodeReady"),
            ("Ready", _) => Some("NodeNotReady"),
            _ => None,
        })
        .collect()
}

/// Whether `there` already says all of `wanted`, heartbeats aside.
pub(super) fn say_the_same(wanted: &[NodeCondition], there: &[NodeCondition]) -> bool {
    wanted.iter().all(|want| {
        there.iter().any(|has| {
            has.type_ == want.type_
                && has.status == want.status
                && has.reason == want.reason
                && has.message == want.message
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GI: u64 = 1 << 30;
    const FINE: FreeResources = FreeResources {
        memory_available: GI,
        disk_available: 50 * GI,
        disk_total: 100 * GI,
        processes: 100,
        process_limit: 32_768,
    };

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    #[test]
    fn what_is_short() {
        let none = Pressure::default();
        let memory = Pressure { memory: true, ..none };
        let disk = Pressure { disk: true, ..none };
        let pids = Pressure { pids: true, ..none };
        let cases = [
            ("enough", FINE, none),
            ("just enough memory", FreeResources { memory_available: 100 << 20, ..FINE }, none),
            ("little memory", FreeResources { memory_available: (100 << 20) - 1, ..FINE }, memory),
            (
                "a tenth of the disk",
                FreeResources { disk_total: 40 * GI, disk_available: 4 * GI, ..FINE },
                none,
            ),
            (
                "less of the disk",
                FreeResources { disk_total: 40 * GI, disk_available: 4 * GI - 1, ..FINE },
                disk,
            ),
            ("5 GiB of a large disk", FreeResources { disk_available: 5 * GI, ..FINE }, none),
            ("less of a large disk", FreeResources { disk_available: 5 * GI - 1, ..FINE }, disk),
            (
                "a small disk must have 1 GiB left",
                FreeResources { disk_total: 4 * GI, disk_available: GI - 1, ..FINE },
                disk,
            ),
            (
                "a very small disk must have half left",
                FreeResources { disk_total: GI, disk_available: GI / 2, ..FINE },
                none,
            ),
            ("no disk", FreeResources { disk_total: 0, disk_available: 0, ..FINE }, none),
            ("many processes", FreeResources { processes: 31_131, ..FINE }, pids),
            ("almost many", FreeResources { processes: 31_130, ..FINE }, none),
            ("more than there can be", FreeResources { processes: 99_999, ..FINE }, pids),
        ];
        for (name, reading, want) in cases {
            assert_eq!(Pressures::default().observe(&reading, at(0)), want, "{name}");
        }
    }

    #[test]
    fn a_shortage_ends_after_five_calm_minutes() {
        let low = FreeResources { memory_available: 0, ..FINE };
        let mut pressures = Pressures::default();
        for (second, reading, want) in [
            (0, &FINE, false),
            (10, &low, true),
            (20, &FINE, true),
            (319, &FINE, true),
            (320, &FINE, false),
            (330, &low, true),
            (340, &FINE, true),
            (600, &low, true),
            (610, &FINE, true),
            (700, &FINE, true),
            // The clock is set back.
            (0, &FINE, true),
            (299, &FINE, true),
            (300, &FINE, false),
        ] {
            assert_eq!(pressures.observe(reading, at(second)).memory, want, "at {second} s");
        }
    }

    #[test]
    fn conditions_keep_their_transition_until_they_change() {
        let enforced =
            Enforced { memory: true, cpu: true, pids: false, how: "some words".to_owned() };
        let confined = Confined { confined: true, how: "other words".to_owned() };
        let network =
            Isolated { isolated: true, reason: "OwnNetwork", how: "further words".to_owned() };
        let stopped = Readiness::NotReady("node is shutting down".to_owned());
        let standing = |readiness, disk| ConditionInputs {
            readiness,
            pressure: Pressure { disk, ..Pressure::default() },
            confined: &confined,
            network: &network,
            enforced: &enforced,
        };
        let lines = |conditions: &[NodeCondition]| -> Vec<String> {
            let moment = |time: &Option<Time>| time.as_ref().unwrap().0.as_second() - 1_800_000_000;
            conditions
                .iter()
                .map(|one| {
                    format!(
                        "{} {} {} {} {}",
                        one.type_,
                        one.status,
                        one.reason.as_deref().unwrap(),
                        moment(&one.last_heartbeat_time),
                        moment(&one.last_transition_time),
                    )
                })
                .collect()
        };
        let first = conditions(standing(&Readiness::Ready, false), &[], at(1));
        assert_eq!(
            lines(&first),
            [
                "MemoryPressure False KubeletHasSufficientMemory 1 1",
                "DiskPressure False KubeletHasNoDiskPressure 1 1",
                "PIDPressure False KubeletHasSufficientPID 1 1",
                "SojournConfined True Confined 1 1",
                "SojournNetworkIsolated True OwnNetwork 1 1",
                "SojournLimitsEnforced False SomeLimitsEnforced 1 1",
                "Ready True KubeletReady 1 1",
            ]
        );
        let second = conditions(standing(&stopped, true), &first, at(9));
        assert_eq!(
            lines(&second),
            [
                "MemoryPressure False KubeletHasSufficientMemory 9 1",
                "DiskPressure True KubeletHasDiskPressure 9 9",
                "PIDPressure False KubeletHasSufficientPID 9 1",
                "SojournConfined True Confined 9 1",
                "SojournNetworkIsolated True OwnNetwork 9 1",
                "SojournLimitsEnforced False SomeLimitsEnforced 9 1",
                "Ready False KubeletNotReady 9 9",
            ]
        );
        assert_eq!(transitions(&first, &second), ["NodeHasDiskPressure", "NodeNotReady"]);
        assert_eq!(
            transitions(&[], &first),
            [
                "NodeHasSufficientMemory",
                "NodeHasNoDiskPressure",
                "NodeHasSufficientPID",
                "NodeReady"
            ]
        );
        assert!(!say_the_same(&second, &first) && say_the_same(&first, &first));
        let mut unknown = first.clone();
        unknown[6].status = "Unknown".to_owned();
        assert!(!say_the_same(&first, &unknown), "the node controller's word is corrected");
        let mut more = first.clone();
        more.push(NodeCondition { type_: "NetworkUnavailable".into(), ..first[0].clone() });
        assert!(say_the_same(&first, &more), "others' conditions are theirs");
    }
}
