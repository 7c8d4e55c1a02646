//! What must hold when nothing changes any more: API, journals, processes and folders agree.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::ResourceExt;

use crate::journal::Journal;
use crate::observer;
use crate::processes::{self, Process};
use crate::shape::{Kind, MARK};
use crate::slot::Slot;

/// Everything that can be seen from outside at one moment.
#[derive(Debug)]
pub(crate) struct ClusterSnapshot<'a> {
    pub(crate) pods: &'a [Pod],
    pub(crate) journal: &'a Journal,
    pub(crate) processes: &'a [Process],
    /// The node's folder of Pods.
    pub(crate) folder: &'a Path,
}

impl ClusterSnapshot<'_> {
    pub(crate) fn problems(&self, slots: &[Slot]) -> Vec<String> {
        let mut problems: Vec<String> =
            slots.iter().filter_map(|slot| self.unfinished(slot)).collect();
        let mut running = BTreeSet::new();
        for pod in self.pods {
            let mark = mark(pod);
            if pod.metadata.deletion_timestamp.is_some() {
                problems.push(format!("{mark} is still being deleted"));
            }
            for status in observer::statuses(pod) {
                let name = format!("{mark}.{}", status.name);
                if let Err(problem) = self.agrees(&mark, status) {
                    problems.push(format!("{name}: {problem}"));
                }
                if status.state.as_ref().is_some_and(|state| state.running.is_some()) {
                    running.insert(name);
                }
            }
        }
        let strays = self.processes.iter().filter(|process| !running.contains(&process.mark));
        problems.extend(strays.map(|process| format!("nobody's: {process:?}")));
        problems.extend(self.orphans());
        problems
    }

    /// What a slot's Pod still has to do.
    fn unfinished(&self, slot: &Slot) -> Option<String> {
        let pod = self.pods.iter().find(|pod| pod.name_any() == slot.name);
        let Some(pod) = pod else {
            let missing = slot.asked.as_ref().filter(|asked| !asked.deleting)?;
            return Some(format!("{} is not there", missing.mark));
        };
        let Some(asked) = slot.asked.as_ref().filter(|asked| !asked.deleting) else {
            return Some(format!("{} is there", mark(pod)));
        };
        if mark(pod) != asked.mark || pod.uid() != asked.uid {
            return Some(format!("{} is there and not {}", mark(pod), asked.mark));
        }
        let (phase, wanted) = (phase(pod), asked.shape.last_phase());
        if phase != wanted {
            let kind = asked.shape.kind;
            return Some(format!("{} is {phase} and not {wanted}; {kind:?}", asked.mark));
        }
        let restarted = observer::statuses(pod).any(|status| status.restart_count > 0);
        (asked.shape.kind == Kind::Crashing && !restarted)
            .then(|| format!("{} was not restarted", asked.mark))
    }

    /// Whether a container's status, journal and processes say the same.
    fn agrees(&self, mark: &str, status: &ContainerStatus) -> Result<(), String> {
        let runs = self.journal.of(mark, &status.name);
        let name = format!("{mark}.{}", status.name);
        let first = self.processes.iter().filter(|p| p.is_first && p.mark == name).count();
        let Some((attempt, code)) = observer::last_run(status) else {
            return match runs {
                [] => Ok(()),
                _ => Err(format!("never ran; its journal: {runs:?}")),
            };
        };
        if usize::try_from(status.restart_count) != Ok(attempt) {
            return Err(format!("{} restarts, but attempt {attempt}", status.restart_count));
        }
        if runs.len() != attempt + 1 {
            return Err(format!("attempt {attempt}, but {} starts: {runs:?}", runs.len()));
        }
        let said = runs.last().and_then(|run| run.end);
        if said != code {
            return Err(format!("{code:?}, but in its journal {said:?}"));
        }
        match (code, first) {
            (Some(_), 0) | (None, 1) => Ok(()),
            _ => Err(format!("{code:?}, but {first} first processes")),
        }
    }

    /// Shims and folders without a Pod, and Pods without theirs.
    fn orphans(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let shims = processes::shims(self.folder);
        let running = self.pods.iter().filter(|pod| phase(pod) == "Running");
        let running: BTreeMap<String, String> =
            running.filter_map(|pod| Some((pod.uid()?, mark(pod)))).collect();
        for (uid, pids) in &shims {
            if pids.len() != 1 || !running.contains_key(uid) {
                problems.push(format!("{uid}, {:?}, has shims {pids:?}", running.get(uid)));
            }
        }
        let alone = running.iter().filter(|(uid, _)| !shims.contains_key(*uid));
        problems.extend(alone.map(|(uid, mark)| format!("{mark}, {uid}, has no shim")));
        let uids: BTreeSet<String> = self.pods.iter().filter_map(ResourceExt::uid).collect();
        for entry in std::fs::read_dir(self.folder).expect("the Pods' folder").flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if !uids.contains(&name) {
                problems.push(format!("the folder {name} is of no Pod"));
            }
        }
        problems
    }
}

fn mark(pod: &Pod) -> String {
    pod.labels().get(MARK).cloned().unwrap_or_default()
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}
