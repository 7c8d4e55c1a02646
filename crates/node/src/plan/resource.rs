//! What Pods ask of a machine: quantities as Kubernetes writes them, and their sums as its
//! scheduler counts them.
//!
//! An API server has checked every quantity before it comes here. One that still makes no sense
//! counts as more than any machine has: such a Pod waits, it does not slip through.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

const CPU: &str = "cpu";
const MEMORY: &str = "memory";
const EPHEMERAL_STORAGE: &str = "ephemeral-storage";

/// Significant digits that are read of a quantity: more than a `u64` can hold, and few enough that
/// shifting by the largest binary suffix stays within 128 bits.
const SIGNIFICANT_DIGITS: u32 = 20;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not an amount: write a number and perhaps a suffix, as in 500m, 2, 128Mi, 1e9"
)]
pub(crate) struct QuantityError {
    text: String,
}

/// Thousandths, rounded up: what `cpu` is counted in. Saturates.
pub(crate) fn milli(text: &str) -> Result<u64, QuantityError> {
    scaled(text, 3).ok_or_else(|| QuantityError { text: text.to_owned() })
}

/// Whole units, rounded up: bytes of memory and disk. Saturates.
pub(crate) fn whole(text: &str) -> Result<u64, QuantityError> {
    scaled(text, 0).ok_or_else(|| QuantityError { text: text.to_owned() })
}

/// What a Pod or container asks for; nothing counts as 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Requests {
    pub milli_cpu: u64,
    pub memory: u64,
    pub ephemeral_storage: u64,
}

impl Requests {
    #[must_use]
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            milli_cpu: self.milli_cpu.saturating_add(other.milli_cpu),
            memory: self.memory.saturating_add(other.memory),
            ephemeral_storage: self.ephemeral_storage.saturating_add(other.ephemeral_storage),
        }
    }

    /// The larger of each.
    #[must_use]
    pub(crate) fn max(self, other: Self) -> Self {
        Self {
            milli_cpu: self.milli_cpu.max(other.milli_cpu),
            memory: self.memory.max(other.memory),
            ephemeral_storage: self.ephemeral_storage.max(other.ephemeral_storage),
        }
    }

    fn of(amounts: Option<&BTreeMap<String, Quantity>>) -> Self {
        let limits = Limits::of(amounts);
        Self {
            milli_cpu: limits.milli_cpu.unwrap_or(0),
            memory: limits.memory.unwrap_or(0),
            ephemeral_storage: limits.ephemeral_storage.unwrap_or(0),
        }
    }
}

/// What a Pod or container may use at most; `None` is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    pub milli_cpu: Option<u64>,
    pub memory: Option<u64>,
    pub ephemeral_storage: Option<u64>,
}

impl Limits {
    fn of(amounts: Option<&BTreeMap<String, Quantity>>) -> Self {
        let read = |name: &str, parse: fn(&str) -> Result<u64, QuantityError>| {
            let quantity = amounts?.get(name)?;
            Some(parse(&quantity.0).unwrap_or(u64::MAX))
        };
        Self {
            milli_cpu: read(CPU, milli),
            memory: read(MEMORY, whole),
            ephemeral_storage: read(EPHEMERAL_STORAGE, whole),
        }
    }

    /// Kubernetes takes a limit of 0 for none.
    fn effective(self) -> Self {
        self.each(|limit| limit.filter(|amount| *amount > 0))
    }

    fn each(self, change: impl Fn(Option<u64>) -> Option<u64>) -> Self {
        Self {
            milli_cpu: change(self.milli_cpu),
            memory: change(self.memory),
            ephemeral_storage: change(self.ephemeral_storage),
        }
    }

    fn combine(self, other: Self, with: impl Fn(Option<u64>, Option<u64>) -> Option<u64>) -> Self {
        Self {
            milli_cpu: with(self.milli_cpu, other.milli_cpu),
            memory: with(self.memory, other.memory),
            ephemeral_storage: with(self.ephemeral_storage, other.ephemeral_storage),
        }
    }
}

pub(crate) fn container_requests(container: &Container) -> Requests {
    Requests::of(container.resources.as_ref().and_then(|r| r.requests.as_ref()))
}

pub(crate) fn container_limits(container: &Container) -> Limits {
    Limits::of(container.resources.as_ref().and_then(|r| r.limits.as_ref())).effective()
}

/// What the whole Pod asks for: its containers together, or what an init container needs while it
/// runs if that is more; sidecars count in both; the Pod's own figures replace the sum.
pub(crate) fn requests(spec: &PodSpec) -> Requests {
    let mut sum = Requests::default();
    for container in &spec.containers {
        sum = sum.plus(container_requests(container));
    }
    let mut sidecars = Requests::default();
    let mut starting = Requests::default();
    for container in spec.init_containers.iter().flatten() {
        let own = container_requests(container);
        let meanwhile = own.plus(sidecars);
        if is_sidecar(container) {
            sum = sum.plus(own);
            sidecars = meanwhile;
        }
        starting = starting.max(meanwhile);
    }
    let mut total = sum.max(starting);
    let pod = Limits::of(pod_level(spec).and_then(|r| r.requests.as_ref()));
    total.milli_cpu = pod.milli_cpu.unwrap_or(total.milli_cpu);
    total.memory = pod.memory.unwrap_or(total.memory);
    total.plus(Requests::of(spec.overhead.as_ref()))
}

/// What the whole Pod may use. Of each resource there is such a limit only if every container has
/// one, or the Pod itself.
pub(crate) fn limits(spec: &PodSpec) -> Limits {
    let sum = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?));
    let larger = |a: Option<u64>, b: Option<u64>| Some(a?.max(b?));
    let none_used = Limits { milli_cpu: Some(0), memory: Some(0), ephemeral_storage: Some(0) };

    let mut total = none_used;
    for container in &spec.containers {
        total = total.combine(container_limits(container), sum);
    }
    let mut sidecars = none_used;
    let mut starting = none_used;
    for container in spec.init_containers.iter().flatten() {
        let own = container_limits(container);
        let meanwhile = own.combine(sidecars, sum);
        if is_sidecar(container) {
            total = total.combine(own, sum);
            sidecars = meanwhile;
        }
        starting = starting.combine(meanwhile, larger);
    }
    total = total.combine(starting, larger);
    let pod = pod_limits(spec);
    let overhead = Requests::of(spec.overhead.as_ref());
    let overhead = Limits {
        milli_cpu: Some(overhead.milli_cpu),
        memory: Some(overhead.memory),
        ephemeral_storage: Some(overhead.ephemeral_storage),
    };
    // A Pod without containers has no limit, rather than a limit of nothing.
    pod.combine(total, Option::or).effective().combine(overhead, sum)
}

/// The limits that a Pod states for itself (`spec.resources`): cpu and memory only.
pub(super) fn pod_limits(spec: &PodSpec) -> Limits {
    let limits = Limits::of(pod_level(spec).and_then(|r| r.limits.as_ref()));
    Limits { ephemeral_storage: None, ..limits.effective() }
}

fn pod_level(spec: &PodSpec) -> Option<&ResourceRequirements> {
    spec.resources.as_ref()
}

fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

/// `⌈text × 10^scale⌉`, or `None` if it is no amount.
fn scaled(text: &str, scale: i32) -> Option<u64> {
    let text = text.strip_prefix('+').unwrap_or(text);
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let (binary, decimal) = exponents(suffix)?;

    let mut digits = Digits::default();
    whole.bytes().for_each(|digit| digits.push(digit, false));
    fraction.bytes().for_each(|digit| digits.push(digit, true));
    Some(digits.times(binary, i64::from(decimal) + i64::from(scale)))
}

/// A suffix as powers of two and of ten.
fn exponents(suffix: &str) -> Option<(u32, i32)> {
    Some(match suffix {
        "" => (0, 0),
        "n" => (0, -9),
        "u" => (0, -6),
        "m" => (0, -3),
        "k" => (0, 3),
        "M" => (0, 6),
        "G" => (0, 9),
        "T" => (0, 12),
        "P" => (0, 15),
        "E" => (0, 18),
        "Ki" => (10, 0),
        "Mi" => (20, 0),
        "Gi" => (30, 0),
        "Ti" => (40, 0),
        "Pi" => (50, 0),
        "Ei" => (60, 0),
        _ => (0, suffix.strip_prefix(['e', 'E'])?.parse().ok()?),
    })
}

/// `value × 10^exponent`, and whether something smaller was left out.
#[derive(Default)]
struct Digits {
    value: u128,
    kept: u32,
    exponent: i64,
    more: bool,
}

impl Digits {
    fn push(&mut self, digit: u8, after_point: bool) {
        let digit = u128::from(digit - b'0');
        if self.kept < SIGNIFICANT_DIGITS {
            self.value = self.value * 10 + digit;
            self.kept += u32::from(self.value > 0);
            self.exponent -= i64::from(after_point);
        } else {
            self.more |= digit > 0;
            self.exponent += i64::from(!after_point);
        }
    }

    fn times(&self, binary: u32, decimal: i64) -> u64 {
        if self.value == 0 {
            return 0;
        }
        let value = self.value << binary;
        let exponent = self.exponent + decimal;
        let power =
            u32::try_from(exponent.unsigned_abs()).ok().and_then(|power| 10u128.checked_pow(power));
        let amount = match power {
            Some(power) if exponent >= 0 => value.checked_mul(power),
            None if exponent >= 0 => None,
            Some(power) => {
                let rest = self.more || !value.is_multiple_of(power);
                Some(value / power + u128::from(rest))
            }
            // Less than one of the unit, and not nothing.
            None => Some(1),
        };
        amount.and_then(|amount| u64::try_from(amount).ok()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests;
