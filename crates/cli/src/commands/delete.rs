//! `sojourn delete`: deletes objects, and waits until they are gone.

use std::time::Duration;

use anyhow::anyhow;
use http::Method;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::connect::{self, ApiContext};
use super::exchange::{OBJECT, Question, reading};
use super::manifest;
use super::object::selections;
use super::request::span;
use super::resource::{Resource, Resources};
use super::table;
use crate::args::Delete;
use crate::exit::{Exit, Failure};
use crate::printer::Printer;

/// How often it is looked whether something is gone: often at first, for most go at once.
const FIRST_POLL_INTERVAL: Duration = Duration::from_millis(50);
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Also where there is no such kind, which is answered without a reason.
const NOT_FOUND: u16 = 404;
/// Whoever waits for longer is told what for.
const QUIET_TIME: Duration = Duration::from_secs(2);

/// One object that is to go.
struct Doomed {
    resource: Resource,
    /// Empty for what is in no namespace.
    namespace: String,
    name: String,
    path: String,
}

impl Doomed {
    fn new(resource: &Resource, namespace: &str, name: &str) -> Result<Self, Failure> {
        let path = resource.path(namespace, name)?;
        let namespace = if resource.namespaced { namespace.to_owned() } else { String::new() };
        Ok(Self { resource: resource.clone(), namespace, name: name.to_owned(), path })
    }

    fn named(&self) -> String {
        format!("{}/{}", self.resource.qualified(), self.name)
    }

    /// In kubectl's words.
    fn deleted(&self) -> String {
        let kind = self.resource.qualified();
        match self.namespace.as_str() {
            "" => format!("{kind} \"{}\" deleted", self.name),
            namespace => format!("{kind} \"{}\" deleted from {namespace} namespace", self.name),
        }
    }
}

pub(super) fn run(delete: Delete, printer: Printer) -> Result<(), Failure> {
    let timeout = span(&delete.timeout)?.unsigned_abs();
    connect::run(async move {
        let api_context = ApiContext::find(&delete.connection).await?;
        let resources = Resources::discover(&api_context).await?;
        let doomed = doomed(&delete, &api_context, &resources)?;
        let deleter = Deleter { api_context: &api_context, delete: &delete, printer };
        deleter.run(&doomed, timeout).await
    })
}

/// What was named, in the order in which it goes.
fn doomed(
    delete: &Delete,
    api_context: &ApiContext,
    resources: &Resources,
) -> Result<Vec<Doomed>, Failure> {
    if delete.files.filename.is_empty() {
        return named(delete, api_context, resources);
    }
    let mut doomed = Vec::new();
    let manifests = manifest::read_all(&delete.files.filename, delete.files.recursive)?;
    for manifest in manifests.iter().rev() {
        let found = resources.of_kind(&manifest.api_version, &manifest.kind);
        let Some(resource) = found else {
            // Where there is no such kind, there is no such object.
            if delete.ignore_not_found {
                continue;
            }
            let (source, kind) = (&manifest.source, &manifest.kind);
            let error = anyhow!("{source}: the API serves no {kind} in {}", manifest.api_version);
            let advice = "If that is as it should be: --ignore-not-found.";
            return Err(Failure::new(Exit::Negative, error, advice));
        };
        let namespace = match (&manifest.namespace, &delete.connection.namespace) {
            (Some(own), Some(asked)) if resource.namespaced && own != asked => {
                let error = anyhow!("{} is of namespace {own}, not {asked}", manifest.source);
                let advice = format!("Leave -n out, or say -n {own}.");
                return Err(Failure::new(Exit::Usage, error, advice));
            }
            (own, _) => own.as_deref().unwrap_or(&api_context.namespace),
        };
        doomed.push(Doomed::new(resource, namespace, &manifest.name)?);
    }
    Ok(doomed)
}

fn named(
    delete: &Delete,
    api_context: &ApiContext,
    resources: &Resources,
) -> Result<Vec<Doomed>, Failure> {
    let mut doomed = Vec::new();
    for selection in selections(&delete.objects)? {
        let resource = resources.one(&selection.word)?;
        if selection.names.is_empty() {
            let error = anyhow!("no {} is named", selection.word);
            let advice = format!("Say which: {}/NAME.", selection.word);
            return Err(Failure::new(Exit::Usage, error, advice));
        }
        for name in &selection.names {
            doomed.push(Doomed::new(resource, &api_context.namespace, name)?);
        }
    }
    Ok(doomed)
}

struct Deleter<'a> {
    api_context: &'a ApiContext,
    delete: &'a Delete,
    printer: Printer,
}

impl Deleter<'_> {
    async fn run(&self, doomed: &[Doomed], timeout: Duration) -> Result<(), Failure> {
        let (mut leaving, mut failed) = (Vec::new(), 0);
        for one in doomed {
            match self.delete(one).await {
                Ok(uid) => leaving.extend(uid.map(|uid| (one, uid))),
                Err(failure) if doomed.len() == 1 || failure.exit == Exit::Unavailable => {
                    return Err(failure);
                }
                Err(failure) => {
                    self.printer.failure(&failure);
                    failed += 1;
                }
            }
        }
        if self.delete.wait {
            let deadline = Instant::now() + timeout;
            for (one, uid) in &leaving {
                self.until_gone(one, uid, deadline).await?;
            }
        }
        if failed > 0 {
            let error = anyhow!("{failed} of {} objects were not deleted", doomed.len());
            return Err(Failure::new(Exit::Negative, error, "The others were."));
        }
        Ok(())
    }

    /// Deletes one object and says so. Its uid, if it may take a while to go.
    async fn delete(&self, one: &Doomed) -> Result<Option<String>, Failure> {
        let options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background",
        });
        let question = Question {
            method: Method::DELETE,
            path: &one.path,
            query: &[],
            accept: OBJECT,
            body: Some((OBJECT, &options)),
        };
        let answer = match self.api_context.ask(&question, self.printer).await {
            Ok(answer) => answer.body,
            Err(kube::Error::Api(status))
                if status.code == NOT_FOUND && self.delete.ignore_not_found =>
            {
                return Ok(None);
            }
            Err(error) => {
                let what = format!("cannot delete {}", one.named());
                return Err(self.api_context.failed(error, &what));
            }
        };
        let told = if self.delete.output.is_some() { one.named() } else { one.deleted() };
        table::write(&format!("{told}\n"));
        Ok(uid_of(&answer).map(str::to_owned))
    }

    /// Waits until this very object is not there any more; another one of its name may be.
    async fn until_gone(&self, one: &Doomed, uid: &str, deadline: Instant) -> Result<(), Failure> {
        let begun = Instant::now();
        let (mut interval, mut told) = (FIRST_POLL_INTERVAL, false);
        loop {
            let asked = self.api_context.ask(&reading(&one.path, &[], OBJECT), self.printer).await;
            let object = match asked {
                Ok(answer) if uid_of(&answer.body) == Some(uid) => answer.body,
                Ok(_) => return Ok(()),
                // Its kind may have gone with it.
                Err(kube::Error::Api(status)) if status.code == NOT_FOUND => return Ok(()),
                Err(kube::Error::Api(status)) if status.is_forbidden() => {
                    let named = one.named();
                    self.printer.warning(format_args!("you may not see whether {named} is gone"));
                    return Ok(());
                }
                Err(error) => {
                    let what = format!("cannot tell whether {} is gone", one.named());
                    return Err(self.api_context.failed(error, &what));
                }
            };
            let now = Instant::now();
            if now >= deadline {
                let named = one.named();
                let error = anyhow!("{named} is still there{}", holders(&object));
                let advice =
                    format!("It goes when that is done; see: sojourn get {named} -o yaml.");
                return Err(Failure::new(Exit::Negative, error, advice));
            }
            if !told && now >= begun + QUIET_TIME {
                let held = holders(&object);
                self.printer.line(format_args!("Waiting until {} is gone{held}.", one.named()));
                told = true;
            }
            tokio::time::sleep_until((now + interval).min(deadline)).await;
            interval = (interval * 2).min(MAX_POLL_INTERVAL);
        }
    }
}

/// The uid of an object, or of the one that a Status is about.
fn uid_of(answer: &Value) -> Option<&str> {
    let found = answer.pointer("/metadata/uid").or_else(|| answer.pointer("/details/uid"));
    found.and_then(Value::as_str).filter(|uid| !uid.is_empty())
}

/// What an object that was deleted waits for, as far as it says.
fn holders(object: &Value) -> String {
    let texts = |pointer: &str| -> Vec<&str> {
        let list = object.pointer(pointer).and_then(Value::as_array);
        list.into_iter().flatten().filter_map(Value::as_str).collect()
    };
    let holders = [texts("/metadata/finalizers"), texts("/spec/finalizers")].concat();
    match holders.as_slice() {
        [] => ", and takes its time to end".to_owned(),
        some => format!(", held by {}", some.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::resource::tests::resources;
    use super::*;

    #[test]
    fn it_is_said_as_kubectl_says_it() {
        let resources = resources();
        let deleted = |word: &str| {
            let resource = resources.called(word).expect("a kind");
            Doomed::new(resource, "lab", "a").expect("a path").deleted()
        };
        assert_eq!(deleted("pods"), "pod \"a\" deleted from lab namespace");
        assert_eq!(deleted("ct"), "crontab.example.com \"a\" deleted from lab namespace");
        assert_eq!(deleted("ns"), "namespace \"a\" deleted");
    }

    #[test]
    fn an_object_says_what_it_waits_for() {
        let object = json!({"metadata": {"uid": "u", "finalizers": ["a/b", "c/d"]}});
        assert_eq!(holders(&object), ", held by a/b, c/d");
        assert_eq!(holders(&json!({})), ", and takes its time to end");
        assert_eq!(uid_of(&object), Some("u"));
        assert_eq!(uid_of(&json!({"kind": "Status", "details": {"uid": "v"}})), Some("v"));
        assert_eq!(uid_of(&json!({"kind": "Status"})), None);
    }
}
