//! A place that always has a Pod, or is about to: made, waited for, deleted, made again.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, ResourceExt};
use tokio::sync::watch;

use crate::client;
use crate::observer::View;
use crate::rng::Rng;
use crate::shape::{MARK, Shape};

#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) name: String,
    run_id: String,
    made: usize,
    rng: Rng,
    /// The Pod that was asked for last.
    pub(crate) asked: Option<RequestedPod>,
}

#[derive(Debug)]
pub(crate) struct RequestedPod {
    pub(crate) mark: String,
    pub(crate) shape: Shape,
    /// Once its creation was acknowledged.
    pub(crate) uid: Option<String>,
    /// Its deletion was asked for.
    pub(crate) deleting: bool,
}

/// The server is not there any more.
#[derive(Debug)]
pub(crate) struct Gone;

impl Slot {
    pub(crate) fn new(number: usize, run_id: &str, rng: Rng) -> Self {
        let name = format!("slot-{number}");
        Self { name, run_id: run_id.to_owned(), made: 0, rng, asked: None }
    }

    /// Goes on until the server is gone.
    pub(crate) async fn churn(mut self, api: Api<Pod>, mut view: watch::Receiver<View>) -> Self {
        while self.step(&api, &mut view).await.is_ok() {}
        self
    }

    async fn step(&mut self, api: &Api<Pod>, view: &mut watch::Receiver<View>) -> Result<(), Gone> {
        let Some(asked) = &mut self.asked else { return self.create(api).await };
        let uid = asked.uid.clone().expect("it was acknowledged, or found again");
        if asked.deleting {
            view.wait_for(|view| view.gone.contains(&uid)).await.map_err(|_| Gone)?;
            self.asked = None;
            return Ok(());
        }
        // Some go at once, some when they run, some when nothing more will come of them.
        let wanted = self.rng.choose(&["", "", "Running", asked.shape.last_phase()]);
        let is_there = |pod: &Pod| {
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            [wanted, "Succeeded", "Failed"].contains(&phase.unwrap_or_default())
        };
        if !wanted.is_empty() {
            let there = |view: &View| view.pods.get(&self.name).is_some_and(is_there);
            view.wait_for(there).await.map_err(|_| Gone)?;
        }
        self.delete(api).await
    }

    async fn create(&mut self, api: &Api<Pod>) -> Result<(), Gone> {
        self.made += 1;
        let mark = format!("{}-{}", self.name, self.made);
        let shape = Shape::draw(&mut self.rng);
        let pod = shape.pod(&self.name, &mark, &self.run_id);
        let pod = serde_json::from_value(pod).expect("a Pod");
        let asked = self.asked.insert(RequestedPod { mark, shape, uid: None, deleting: false });
        let created = api.create(&PostParams::default(), &pod).await;
        asked.uid = acknowledged(created, &asked.mark)?.uid();
        Ok(())
    }

    async fn delete(&mut self, api: &Api<Pod>) -> Result<(), Gone> {
        let Some(asked) = &mut self.asked else { return Ok(()) };
        asked.deleting = true;
        let grace = self.rng.choose(&[None, None, Some(0), Some(1)]);
        let params = DeleteParams { grace_period_seconds: grace, ..DeleteParams::default() };
        let deleted = api.delete(&self.name, &params).await;
        acknowledged(deleted, &asked.mark).map(drop)
    }

    /// Settles what was left open when the server was killed; says what is wrong.
    pub(crate) fn reconcile(&mut self, listed: &[Pod]) -> Option<String> {
        let pod = listed.iter().find(|pod| pod.name_any() == self.name);
        let mark = pod.and_then(|pod| pod.labels().get(MARK));
        let uid = pod.and_then(ResourceExt::uid);
        let Some(asked) = &mut self.asked else {
            return mark.map(|mark| format!("{mark} is back, or was made by nobody"));
        };
        let is_there = mark == Some(&asked.mark);
        match &asked.uid {
            Some(known) if is_there && uid.as_ref() != Some(known) => {
                return Some(format!("{}: another Pod, {uid:?} and not {known}", asked.mark));
            }
            Some(_) if !is_there && !asked.deleting => {
                return Some(format!("{} was acknowledged, and {mark:?} is there", asked.mark));
            }
            _ => {}
        }
        if is_there {
            asked.uid = uid;
            asked.deleting = pod.is_some_and(|pod| pod.metadata.deletion_timestamp.is_some());
        } else {
            self.asked = None;
        }
        None
    }
}

/// What was answered; the server may be gone, but it may not refuse.
fn acknowledged<T>(answer: kube::Result<T>, mark: &str) -> Result<T, Gone> {
    answer.map_err(|error| {
        assert_eq!(client::refusal(&error), None, "{mark} was refused: {error}");
        Gone
    })
}
