//! One case, step by step, in a namespace of its own.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::case::{self, Case, Expectations, Logs, Step, Took};
use crate::case_cluster::CaseCluster;
use crate::expectation::{Expected, holds, unmet};
use crate::kubectl::Command;
use crate::observer::{self, Observer, latest};
use crate::survivors;

/// How long anything may take: a back-off and some more, on a machine that is busy.
const STEP_TIMEOUT: Duration = Duration::from_secs(75);
/// Between asking again for what nobody announces.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

type StepResult = Result<(), String>;

pub(crate) struct Run<'a> {
    case_cluster: &'a CaseCluster,
    namespace: &'a str,
    observers: BTreeMap<String, Observer>,
    /// When something was last changed.
    changed: Instant,
}

impl<'a> Run<'a> {
    /// Runs a case; what went wrong, in words.
    pub(crate) async fn case(case_cluster: &'a CaseCluster, case: &'a Case) -> StepResult {
        let mut run = Self {
            case_cluster,
            namespace: &case.name,
            observers: BTreeMap::new(),
            changed: Instant::now(),
        };
        let outcome = run.all(case).await;
        let problem = match &outcome {
            Ok(()) => Ok(()),
            Err(problem) => Err(format!("{problem}{}", run.circumstances().await)),
        };
        let namespaces: Api<Namespace> = Api::all(case_cluster.client.clone());
        // What a case leaves behind must not hold up the others; that it goes is no concern here.
        let _ = namespaces.delete(&case.name, &DeleteParams::default()).await;
        problem
    }

    async fn all(&mut self, case: &Case) -> StepResult {
        self.make_namespace().await?;
        self.observe("pods").await;
        self.create(&case.objects, &case.pods).await?;
        for (number, step) in case.steps.iter().enumerate() {
            self.step(step).await.map_err(|e| format!("  step {}: {e}", number + 1))?;
        }
        Ok(())
    }

    async fn make_namespace(&self) -> StepResult {
        let namespaces: Api<Namespace> = Api::all(self.case_cluster.client.clone());
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(self.namespace.to_owned());
        let made = namespaces.create(&PostParams::default(), &namespace).await;
        made.map_err(|e| format!("  no namespace: {e}"))?;
        let accounts: Api<ServiceAccount> =
            Api::namespaced(self.case_cluster.client.clone(), self.namespace);
        // Pods are refused before it is there.
        self.patiently("the default ServiceAccount", async || {
            accounts.get_opt("default").await.ok().flatten().map(|_| ())
        })
        .await
    }

    fn step<'b>(&'b mut self, step: &'b Step) -> Pin<Box<dyn Future<Output = StepResult> + 'b>> {
        Box::pin(async move {
            match step {
                Step::Until(expected) => self.until(expected).await,
                Step::Went(expected) => self.went(expected),
                Step::Never(expected) => self.never(expected),
                Step::Gone(objects) => self.gone(objects).await,
                Step::Logs(logs) => self.logs(logs).await,
                Step::Event(event) => self.event(event).await,
                Step::Unsaid(unsaid) => self.unsaid(unsaid).await,
                Step::Delete(delete) => self.delete(delete).await,
                Step::Patch(patch) => self.patch(patch).await,
                Step::Create(created) => self.create(&created.objects, &created.pods).await,
                Step::Kubectl(kubectl) => self.kubectl(kubectl).await,
                Step::Processes(processes) => self.processes(processes).await,
                Step::Took(took) => self.took(*took),
            }
        })
    }

    async fn until(&mut self, expected: &Expectations) -> StepResult {
        for (object, expected) in expected {
            let (collection, name) = split(object);
            let observer = self.observe(collection).await;
            let mut last = format!("    {object} is not there\n");
            let seen = observer.until(|seen| match unmet(latest(seen, name)?, expected) {
                None => Some(()),
                Some(words) => {
                    last = words;
                    None
                }
            });
            if !matches!(timeout(STEP_TIMEOUT, seen).await, Ok(Some(()))) {
                return Err(format!("{object} is still not so after {STEP_TIMEOUT:?}:\n{last}"));
            }
        }
        Ok(())
    }

    fn went(&self, expected: &BTreeMap<String, Vec<Expected>>) -> StepResult {
        for (object, expected) in expected {
            let states = self.states(object);
            let mut left = states.iter();
            for (number, expected) in expected.iter().enumerate() {
                if !left.any(|state| unmet(state, expected).is_none()) {
                    let states: String =
                        states.iter().map(|state| format!("    {}\n", state["status"])).collect();
                    let number = number + 1;
                    return Err(format!("{object} never went through state {number}:\n{states}"));
                }
            }
        }
        Ok(())
    }

    fn never(&self, expected: &Expectations) -> StepResult {
        for (object, expected) in expected {
            let found = self.states(object).into_iter().find(|s| unmet(s, expected).is_none());
            if let Some(state) = found {
                return Err(format!("{object} was so:\n    {}\n", state["status"]));
            }
        }
        Ok(())
    }

    fn states(&self, object: &str) -> Vec<Value> {
        let (collection, name) = split(object);
        self.observers.get(collection).map(|o| o.states(name)).unwrap_or_default()
    }

    async fn gone(&mut self, objects: &[String]) -> StepResult {
        for object in objects {
            let (collection, name) = split(object);
            let gone = self.observe(collection).await.until(|seen| {
                seen.iter().rfind(|seen| seen.name == name).filter(|seen| seen.is_gone).map(|_| ())
            });
            if !matches!(timeout(STEP_TIMEOUT, gone).await, Ok(Some(()))) {
                return Err(format!("{object} is still there after {STEP_TIMEOUT:?}\n"));
            }
        }
        Ok(())
    }

    async fn logs(&self, logs: &Logs) -> StepResult {
        let mut path = format!("/api/v1/namespaces/{}/pods/{}/log?", self.namespace, logs.of);
        if let Some(container) = &logs.container {
            path.push_str(&format!("container={container}&"));
        }
        path.push_str(logs.query.as_deref().unwrap_or_default());
        let mut last = String::new();
        let found = self
            .patiently("logs", async || {
                let request = http::Request::get(&path).body(Vec::new()).expect("a request");
                last = match self.case_cluster.client.request_text(request).await {
                    Ok(text) => text,
                    Err(error) => error.to_string(),
                };
                holds(Some(&json!(last)), &logs.are).then_some(())
            })
            .await;
        found.map_err(|_| {
            let end = last.len().saturating_sub(2000);
            let end = last.char_indices().map(|(at, _)| at).find(|at| *at >= end).unwrap_or(0);
            format!("the logs are {:?}, not {}\n", &last[end..], logs.are)
        })
    }

    async fn event(&mut self, wanted: &case::Event) -> StepResult {
        let (_, name) = split(&wanted.about);
        let found = self.observe("events").await.until(|seen| {
            let about = |event: &Value| event["involvedObject"]["name"] == *name;
            let said =
                seen.iter().map(|seen| &seen.object).filter(|event| about(event)).any(|event| {
                    event["reason"] == *wanted.reason
                        && holds(Some(&event["message"]), &wanted.message)
                });
            said.then_some(())
        });
        match timeout(STEP_TIMEOUT, found).await {
            Ok(Some(())) => Ok(()),
            _ => Err(format!("no Event {} about {}\n", wanted.reason, wanted.about)),
        }
    }

    async fn unsaid(&self, unwanted: &case::Unsaid) -> StepResult {
        let (_, name) = split(&unwanted.about);
        let events = self.api("events").list(&ListParams::default()).await;
        let events = events.map_err(|e| format!("no Events: {e}\n"))?;
        let said = events.iter().map(|event| &event.data).find(|event| {
            event["involvedObject"]["name"] == *name && event["reason"] == *unwanted.reason
        });
        said.map_or(Ok(()), |event| Err(format!("there is an Event: {}\n", event["message"])))
    }

    async fn delete(&mut self, delete: &case::Delete) -> StepResult {
        let (collection, name) = split(&delete.object);
        let params = DeleteParams { grace_period_seconds: delete.grace, ..DeleteParams::default() };
        let params = match collection {
            // As kubectl does: a Job's Pods go with it.
            "jobs" => DeleteParams::background(),
            _ => params,
        };
        self.changed = Instant::now();
        let deleted = self.api(collection).delete(name, &params).await;
        deleted.map(|_| ()).map_err(|e| format!("{} cannot be deleted: {e}\n", delete.object))
    }

    async fn patch(&mut self, patch: &case::Patch) -> StepResult {
        let (collection, name) = split(&patch.object);
        self.changed = Instant::now();
        let params = PatchParams::default();
        let patched = self.api(collection).patch(name, &params, &Patch::Merge(&patch.with)).await;
        patched.map(|_| ()).map_err(|e| format!("{} cannot be patched: {e}\n", patch.object))
    }

    async fn create(&mut self, objects: &[Value], pods: &BTreeMap<String, Value>) -> StepResult {
        self.changed = Instant::now();
        let pods = pods.iter().map(|(name, short)| case::pod(name, short));
        for mut object in objects.iter().cloned().chain(pods) {
            if let Some(spec) = object.pointer_mut("/spec/template/spec") {
                case::lengthen(spec);
            }
            let kind = object["kind"].as_str().unwrap_or_default();
            let collection = format!("{}s", kind.to_lowercase());
            let read: DynamicObject =
                serde_json::from_value(object).map_err(|e| format!("no object: {e}\n"))?;
            let created = self.api(&collection).create(&PostParams::default(), &read).await;
            created.map_err(|e| format!("{} cannot be created: {e}\n", read.name_any()))?;
        }
        Ok(())
    }

    async fn kubectl(&mut self, kubectl: &case::Kubectl) -> StepResult {
        let program = self.case_cluster.kubectl.as_ref().ok_or("there is no kubectl\n")?;
        let command =
            Command::start(program, &self.case_cluster.kubeconfig, self.namespace, &kubectl.run);
        if let Some(first) = kubectl.prints.first().filter(|_| !kubectl.during.is_empty()) {
            command.printed(first, STEP_TIMEOUT).await?;
        }
        self.changed = Instant::now();
        for step in &kubectl.during {
            self.step(step).await?;
        }
        if !kubectl.endless {
            let succeeded = command.ended(STEP_TIMEOUT).await?;
            if succeeded == kubectl.fails {
                return Err(format!("succeeded: {succeeded}\n{}", command.shown()));
            }
        }
        for pattern in &kubectl.prints {
            command.printed(pattern, STEP_TIMEOUT).await?;
        }
        Ok(())
    }

    async fn processes(&self, wanted: &case::Processes) -> StepResult {
        let mut last = Vec::new();
        let found = self
            .patiently("processes", async || {
                last = survivors::with(&wanted.with);
                (last.len() == wanted.are).then_some(())
            })
            .await;
        found.map_err(|_| format!("{} processes, not {}: {last:?}\n", last.len(), wanted.are))
    }

    fn took(&self, took: Took) -> StepResult {
        let seconds = self.changed.elapsed();
        let in_time = took.at_most.is_none_or(|most| seconds <= Duration::from_secs(most));
        if seconds >= Duration::from_secs(took.at_least) && in_time {
            return Ok(());
        }
        Err(format!("it took {seconds:?}, not {took:?}\n"))
    }

    async fn observe(&mut self, collection: &str) -> &Observer {
        if !self.observers.contains_key(collection) {
            let observer = Observer::start(self.api(collection)).await;
            self.observers.insert(collection.to_owned(), observer);
        }
        &self.observers[collection]
    }

    fn api(&self, collection: &str) -> Api<DynamicObject> {
        observer::api(&self.case_cluster.client, self.namespace, collection)
    }

    async fn patiently(&self, what: &str, mut ask: impl AsyncFnMut() -> Option<()>) -> StepResult {
        let asking = async {
            while ask().await.is_none() {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        };
        timeout(STEP_TIMEOUT, asking)
            .await
            .map_err(|_| format!("{what}: not after {STEP_TIMEOUT:?}\n"))
    }

    /// What somebody who looks for the cause wants to see.
    async fn circumstances(&mut self) -> String {
        let mut text = String::new();
        for (collection, observer) in &self.observers {
            for object in observer.present() {
                let name = &object["metadata"]["name"];
                text.push_str(&format!("    {collection} {name}: {}\n", object["status"]));
            }
        }
        let events = self.api("events").list(&ListParams::default()).await;
        for event in events.into_iter().flatten() {
            let event = event.data;
            text.push_str(&format!("    event {}: {}\n", event["reason"], event["message"]));
        }
        text
    }
}

/// `collection/name`.
fn split(object: &str) -> (&str, &str) {
    object.split_once('/').unwrap_or_else(|| panic!("{object}: say collection/name"))
}
