//! Pods that stay from the beginning to the end: whoever runs them, nothing of them may change.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde_json::Value;

use crate::observer;
use crate::processes::Process;
use crate::rng::Rng;
use crate::shape::{Kind, Shape};

const KINDS: [Kind; 4] = [Kind::Long, Kind::Stubborn, Kind::ForkingLong, Kind::Long];

#[derive(Debug)]
pub(crate) struct LongLivedPod {
    pub(crate) mark: String,
    pub(crate) pod: Value,
    /// As it was when it ran for the first time.
    known: Option<KnownState>,
}

#[derive(Debug, PartialEq)]
struct KnownState {
    uid: Option<String>,
    status: Value,
    first: Vec<Process>,
}

pub(crate) fn all(run_id: &str, rng: &mut Rng) -> Vec<LongLivedPod> {
    let numbered = KINDS.into_iter().enumerate();
    numbered
        .map(|(number, kind)| {
            let mark = format!("stayer-{number}");
            let pod = Shape::of(kind, rng).pod(&mark, &mark, run_id);
            LongLivedPod { mark, pod, known: None }
        })
        .collect()
}

impl LongLivedPod {
    /// Remembers it; nothing if it does not run yet.
    pub(crate) fn remember(&mut self, pod: &Pod, processes: &[Process]) -> bool {
        let known = self.observe(pod, processes);
        let runs = observer::statuses(pod).any(|status| status.started == Some(true));
        if runs && known.first.len() == 1 {
            self.known = Some(known);
        }
        self.known.is_some()
    }

    /// What is not as it was.
    pub(crate) fn problem(&self, pod: Option<&Pod>, processes: &[Process]) -> Option<String> {
        let now = pod.map(|pod| self.observe(pod, processes));
        (now != self.known).then(|| format!("{} was {:?}\nand is {now:?}", self.mark, self.known))
    }

    /// The same by its process alone, while there is nobody to ask.
    pub(crate) fn problem_outside(&self, processes: &[Process]) -> Option<String> {
        let (now, known) = (self.first(processes), self.known.as_ref()?);
        (now != known.first).then(|| format!("{} was {:?} and is {now:?}", self.mark, known.first))
    }

    fn observe(&self, pod: &Pod, processes: &[Process]) -> KnownState {
        let status = serde_json::to_value(&pod.status).expect("a status");
        KnownState { uid: pod.uid(), status, first: self.first(processes) }
    }

    fn first(&self, processes: &[Process]) -> Vec<Process> {
        let mark = format!("{}.main-0", self.mark);
        processes.iter().filter(|p| p.is_first && p.mark == mark).cloned().collect()
    }
}
