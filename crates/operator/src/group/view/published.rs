//! What a machine's status says: enough to tell whether it says the same now.

use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use sojourn_api::group::status::MachineStatus;
use sojourn_api::name::group::condition::OF_MACHINES;

/// A status, as its digest, and its conditions, as what later ones depend on.
#[derive(Debug, Default)]
pub(crate) struct Published {
    digest: u64,
    conditions: Box<[ConditionSince]>,
    /// The inputs that led to this very status when it was last computed. A large group has
    /// thousands of machines to which nothing happens whenever something happens to one.
    inputs: AtomicU64,
}

/// The inputs are no part of what is published.
impl PartialEq for Published {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest && self.conditions == other.conditions
    }
}

/// One condition: since when it is as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ConditionSince {
    second: i64,
    kind: &'static str,
    holds: bool,
}

impl Published {
    pub(super) fn of(status: Option<&MachineStatus>) -> Self {
        let Some(status) = status else { return Self::default() };
        let known = |one: &Condition| {
            let kind = OF_MACHINES.into_iter().find(|kind| *kind == one.type_)?;
            let second = one.last_transition_time.0.as_second();
            Some(ConditionSince { second, kind, holds: one.status == "True" })
        };
        let conditions = status.conditions.iter().filter_map(known).collect();
        Self { digest: digest(status), conditions, inputs: AtomicU64::default() }
    }

    /// Whether these inputs are known to lead to this status.
    pub(crate) fn derives_from(&self, inputs: StatusInputs) -> bool {
        self.inputs.load(Ordering::Relaxed) == inputs.0
    }

    /// These inputs lead to this status.
    pub(crate) fn record_inputs(&self, inputs: StatusInputs) {
        self.inputs.store(inputs.0, Ordering::Relaxed);
    }

    /// Whether a status says something else.
    pub(crate) fn differs(&self, status: &MachineStatus) -> bool {
        self.digest != digest(status)
    }

    /// The conditions, without their words.
    pub(crate) fn conditions(&self) -> Vec<Condition> {
        let told = self.conditions.iter().map(|one| Condition {
            type_: one.kind.to_owned(),
            status: if one.holds { "True" } else { "False" }.to_owned(),
            reason: String::new(),
            message: String::new(),
            last_transition_time: Time(Timestamp::from_second(one.second).unwrap_or_default()),
            observed_generation: None,
        });
        told.collect()
    }
}

/// A digest of what a status is written from, beside the object itself, what it remembers and the
/// time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StatusInputs(u64);

impl StatusInputs {
    pub(crate) fn of(inputs: &impl Hash) -> Self {
        let mut hasher = DefaultHasher::new();
        inputs.hash(&mut hasher);
        // Zero stands for none.
        Self(hasher.finish().max(1))
    }

    /// These with one more, cheaply, as it is computed for every machine of a large group.
    pub(crate) fn with(self, fact: u8) -> Self {
        let spread = (u64::from(fact) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self((self.0 ^ spread).max(1))
    }
}

/// The same for equal statuses of this process; zero stands for none.
fn digest(status: &MachineStatus) -> u64 {
    struct Digest(DefaultHasher);

    impl io::Write for Digest {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.write(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    let mut digest = Digest(DefaultHasher::new());
    // A status has no maps with keys that are no texts, and hashing does not fail.
    let _ = serde_json::to_writer(&mut digest, status);
    digest.0.finish().max(1)
}
