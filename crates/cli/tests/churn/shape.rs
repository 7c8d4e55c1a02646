//! What the Pods of the test do. Every container writes into its journal that it starts and, before
//! it ends by itself, with which code.

use serde_json::{Value, json};

use crate::rng::Rng;

/// The claim that the journals are in.
pub(crate) const CLAIM: &str = "journal";
/// The label that tells Pods of one name apart.
pub(crate) const MARK: &str = "mark";
/// In the environment of every process of a test.
pub(crate) const RUN_ID_VARIABLE: &str = "CHURN_WORLD";
/// Whose process it is: `MARK.CONTAINER`.
pub(crate) const MARK_VARIABLE: &str = "CHURN_MARK";
/// Only in the environment of what a container's first process has started.
pub(crate) const ROLE_VARIABLE: &str = "CHURN_ROLE";

/// How every container begins. `n` counts its runs from 1.
const PRELUDE: &str = r#"
f=/journal/$CHURN_MARK
read -r id < /proc/sys/kernel/random/uuid
echo "start $id" >> "$f"
n=0; while read -r what _; do [ "$what" = start ] && n=$((n + 1)); done < "$f"
say() { echo "end $id $1" >> "$f"; }
end() { say "$1"; exit "$1"; }
nap() { CHURN_ROLE=child sleep "$1"; }
rest() { CHURN_ROLE=child sleep 100000 & wait; }
"#;

/// The highest exit code that is chosen.
const HIGHEST_CODE: u64 = 200;
const SIGNALS: [u8; 6] = [1, 3, 6, 9, 11, 15];

#[derive(Debug, Clone)]
pub(crate) struct Shape {
    pub(crate) kind: Kind,
    /// The code that it ends with, or that its codes are counted from.
    code: u64,
    /// How long it lives, where it ends by itself.
    life_ms: u64,
    grace: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Ends with its code.
    Short,
    /// Ends by a signal of its own.
    Signal(u8),
    /// Runs until it is asked to end.
    Long,
    /// Runs until it is killed.
    Stubborn,
    /// Fails twice, then succeeds.
    Flaky,
    /// Ends again and again.
    Crashing,
    /// Ends, but its children do not.
    Forking,
    /// Runs on, and so do children that left its session.
    ForkingLong,
    /// Two init containers and one that ends.
    Initialized,
    /// Its init container fails.
    InitFails,
    /// One container ends, the other does not.
    Pair,
}

const KINDS: [Kind; 10] = [
    Kind::Short,
    Kind::Long,
    Kind::Stubborn,
    Kind::Flaky,
    Kind::Crashing,
    Kind::Forking,
    Kind::ForkingLong,
    Kind::Initialized,
    Kind::InitFails,
    Kind::Pair,
];

impl Shape {
    pub(crate) fn draw(rng: &mut Rng) -> Self {
        let kind = match rng.below(6) {
            0 => Kind::Signal(rng.choose(&SIGNALS)),
            1 => Kind::Short,
            _ => rng.choose(&KINDS),
        };
        Self::of(kind, rng)
    }

    pub(crate) fn of(kind: Kind, rng: &mut Rng) -> Self {
        Self {
            kind,
            code: rng.below(HIGHEST_CODE + 1),
            life_ms: rng.below(1200),
            grace: 1 + rng.below(2),
        }
    }

    /// The phase in which it comes to rest.
    pub(crate) fn last_phase(&self) -> &'static str {
        match self.kind {
            Kind::Short | Kind::Forking if self.code == 0 => "Succeeded",
            Kind::Flaky | Kind::Initialized => "Succeeded",
            Kind::Short | Kind::Forking | Kind::Signal(_) | Kind::InitFails => "Failed",
            Kind::Long | Kind::Stubborn | Kind::Crashing | Kind::ForkingLong | Kind::Pair => {
                "Running"
            }
        }
    }

    /// The Pod: `mark` tells it from all others, `run_id` the test from others.
    pub(crate) fn pod(&self, name: &str, mark: &str, run_id: &str) -> Value {
        let container = |name: &str, script: &str| {
            json!({
                "name": name,
                "image": "none",
                "command": ["/bin/sh", "-c", format!("{PRELUDE}{script}")],
                "env": [
                    {"name": RUN_ID_VARIABLE, "value": run_id},
                    {"name": MARK_VARIABLE, "value": format!("{mark}.{name}")},
                ],
                "volumeMounts": [{"name": "journal", "mountPath": "/journal"}],
            })
        };
        let (code, life) = (
            self.code,
            format!("{:.3}", std::time::Duration::from_millis(self.life_ms).as_secs_f64()),
        );
        let long = format!("trap 'end {code}' TERM; rest");
        let short = format!("nap {life}; end {code}");
        let stray = "(CHURN_ROLE=stray setsid sh -c \"trap '' TERM; sleep 100000\" &)\n";
        let (policy, init, main) = match self.kind {
            Kind::Short => ("Never", vec![], vec![short]),
            Kind::Signal(signal) => {
                // In commands of containers, two of them stand for one.
                let own = "$$$$";
                let code = 128 + u16::from(signal);
                let end = format!("nap {life}; say {code}; kill -{signal} {own}");
                ("Never", vec![], vec![end])
            }
            Kind::Long => ("Always", vec![], vec![long]),
            Kind::Stubborn => ("Always", vec![], vec!["trap '' TERM; rest".to_owned()]),
            Kind::Flaky => {
                let end = format!("nap {life}; [ $n -gt 2 ] && end 0; end $(({code} + n))");
                ("OnFailure", vec![], vec![end])
            }
            Kind::Crashing => ("Always", vec![], vec![format!("nap {life}; end $(({code} + n))")]),
            Kind::Forking => ("Never", vec![], vec![format!("{stray}{short}")]),
            Kind::ForkingLong => ("Always", vec![], vec![format!("{stray}{long}")]),
            Kind::Initialized => {
                let init = format!("nap {life}; end 0");
                ("Never", vec![init.clone(), init], vec!["end 0".to_owned()])
            }
            Kind::InitFails => {
                let init = format!("nap {life}; end {}", 1 + code);
                ("Never", vec!["end 0".to_owned(), init], vec![short])
            }
            Kind::Pair => ("Never", vec![], vec![short, long]),
        };
        let named = |prefix: &str, scripts: Vec<String>| -> Vec<Value> {
            let numbered = scripts.iter().enumerate();
            numbered
                .map(|(number, script)| container(&format!("{prefix}-{number}"), script))
                .collect()
        };
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {MARK: mark}},
            "spec": {
                "restartPolicy": policy,
                "terminationGracePeriodSeconds": self.grace,
                "automountServiceAccountToken": false,
                "volumes": [{"name": "journal", "persistentVolumeClaim": {"claimName": CLAIM}}],
                "initContainers": named("init", init),
                "containers": named("main", main),
            },
        })
    }
}
