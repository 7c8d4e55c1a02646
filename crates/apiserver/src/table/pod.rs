//! How a Pod is printed. Its status column is what people look at first, and has many sources.

use std::borrow::Cow;

use jiff::Timestamp;
use serde_json::Value;

use super::age::{self, Age};
use super::builtin::{age, name};
use super::cells::Cells;
use crate::json::{Access, Object};

/// What kubectl needs to leave out Pods that are over.
pub(super) fn conditions(obj: &Object) -> Option<&'static str> {
    match obj.at("status").text("phase") {
        "Succeeded" => Some(
            r#"[{"type":"Completed","status":"True","reason":"Succeeded","message":"The pod has completed successfully."}]"#,
        ),
        "Failed" => Some(
            r#"[{"type":"Completed","status":"True","reason":"Failed","message":"The pod failed."}]"#,
        ),
        _ => None,
    }
}

pub(super) fn cells(obj: &Object, now: Timestamp, cells: &mut Cells<'_>) {
    let (spec, status) = (obj.at("spec"), obj.at("status"));
    let summary = Summary::of(obj);
    cells.text(name(obj));
    cells.text(format_args!("{}/{}", summary.ready, summary.total));
    cells.text(&summary.reason);
    match summary.restarts.latest {
        Some(_) if summary.restarts.count != 0 => cells.text(format_args!(
            "{} ({} ago)",
            summary.restarts.count,
            Age::of(summary.restarts.latest, now)
        )),
        _ => cells.text(summary.restarts.count),
    }
    cells.text(age(obj, now));
    let ip = status.list("podIPs").first().map_or("", |ip| ip.text("ip"));
    cells.text_or(ip, "<none>");
    cells.text_or(spec.text("nodeName"), "<none>");
    cells.text_or(status.text("nominatedNodeName"), "<none>");
    let gates = spec.list("readinessGates");
    if gates.is_empty() {
        cells.text("<none>");
    } else {
        let open = |gate: &&Value| condition(status, gate.text("conditionType")) == Some("True");
        let passed = gates.iter().filter(open).count();
        cells.text(format_args!("{passed}/{}", gates.len()));
    }
}

struct Summary<'a> {
    reason: Cow<'a, str>,
    ready: usize,
    total: usize,
    restarts: Restarts,
}

#[derive(Clone, Copy, Default)]
struct Restarts {
    count: i64,
    latest: Option<Timestamp>,
}

impl Restarts {
    fn add(&mut self, container: &Value) {
        self.count = self.count.saturating_add(container.int("restartCount").unwrap_or(0));
        let terminated = container.at("lastState").at("terminated");
        self.latest = self.latest.max(age::parse(terminated.text("finishedAt")));
    }
}

impl<'a> Summary<'a> {
    fn of(obj: &'a Object) -> Self {
        let (spec, status) = (obj.at("spec"), obj.at("status"));
        let init_containers = spec.list("initContainers");
        let sidecars = init_containers.iter().filter(|c| is_sidecar(c)).count();
        let mut summary = Self {
            reason: Cow::Borrowed(match status.text("reason") {
                "" => status.text("phase"),
                reason => reason,
            }),
            ready: 0,
            total: spec.list("containers").len() + sidecars,
            restarts: Restarts::default(),
        };
        let is_gated =
            |c: &Value| c.text("type") == "PodScheduled" && c.text("reason") == "SchedulingGated";
        if status.list("conditions").iter().any(is_gated) {
            summary.reason = Cow::Borrowed("SchedulingGated");
        }
        let mut sidecar_restarts = Restarts::default();
        let initializing = summary.initialize(status, init_containers, &mut sidecar_restarts);
        if !initializing || condition(status, "Initialized") == Some("True") {
            summary.restarts = sidecar_restarts;
            summary.run(status);
        }
        if !obj.at("metadata").at("deletionTimestamp").is_null() {
            if status.text("reason") == "NodeLost" {
                summary.reason = Cow::Borrowed("Unknown");
            } else if !matches!(status.text("phase"), "Succeeded" | "Failed") {
                summary.reason = Cow::Borrowed("Terminating");
            }
        }
        summary
    }

    /// Goes through the init containers up to the first that is not over; whether there is one.
    fn initialize(
        &mut self,
        status: &'a Value,
        specs: &[Value],
        sidecar_restarts: &mut Restarts,
    ) -> bool {
        for (i, container) in status.list("initContainerStatuses").iter().enumerate() {
            let spec = specs.iter().rfind(|spec| spec.text("name") == container.text("name"));
            let is_sidecar = spec.is_some_and(is_sidecar);
            self.restarts.add(container);
            if is_sidecar {
                sidecar_restarts.add(container);
            }
            let state = container.at("state");
            let terminated = state.at("terminated");
            if terminated.is_object() && exit_code(terminated) == 0 {
                continue;
            }
            if is_sidecar && container.flag("started") {
                self.ready += usize::from(container.flag("ready"));
                continue;
            }
            let waiting_for = state.at("waiting").text("reason");
            self.reason = Cow::Owned(if terminated.is_object() {
                format!("Init:{}", termination(terminated))
            } else if !waiting_for.is_empty() && waiting_for != "PodInitializing" {
                format!("Init:{waiting_for}")
            } else {
                format!("Init:{i}/{}", specs.len())
            });
            return true;
        }
        false
    }

    /// Goes through the containers, the last first: what the first one says is shown.
    fn run(&mut self, status: &'a Value) {
        let mut running = false;
        let mut failure = None;
        for container in status.list("containerStatuses").iter().rev() {
            self.restarts.add(container);
            let state = container.at("state");
            let waiting_for = state.at("waiting").text("reason");
            let terminated = state.at("terminated");
            if !waiting_for.is_empty() {
                self.reason = Cow::Borrowed(waiting_for);
            } else if terminated.is_object() {
                self.reason = termination(terminated);
                if exit_code(terminated) != 0 {
                    failure = Some(self.reason.clone());
                }
            } else if container.flag("ready") && state.at("running").is_object() {
                running = true;
                self.ready += 1;
            }
        }
        if self.reason != "Completed" {
            return;
        }
        // Some container is done; that says nothing of the others.
        if running && condition(status, "Ready") == Some("True") {
            self.reason = Cow::Borrowed("Running");
        } else if let Some(failure) = failure {
            self.reason = failure;
        } else if running {
            self.reason = Cow::Borrowed("NotReady");
        }
    }
}

fn is_sidecar(init_container: &Value) -> bool {
    init_container.text("restartPolicy") == "Always"
}

fn exit_code(terminated: &Value) -> i64 {
    terminated.int("exitCode").unwrap_or(0)
}

fn termination(terminated: &Value) -> Cow<'_, str> {
    match (terminated.text("reason"), terminated.int("signal").unwrap_or(0)) {
        ("", 0) => Cow::Owned(format!("ExitCode:{}", exit_code(terminated))),
        ("", signal) => Cow::Owned(format!("Signal:{signal}")),
        (reason, _) => Cow::Borrowed(reason),
    }
}

/// The status of the first condition of a type.
fn condition<'a>(status: &'a Value, kind: &str) -> Option<&'a str> {
    let condition = status.list("conditions").iter().find(|c| c.text("type") == kind)?;
    Some(condition.text("status"))
}
