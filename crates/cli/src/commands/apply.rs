//! `sojourn apply`: a server-side apply of what files say.

use std::time::Duration;

use anyhow::anyhow;
use http::{Method, StatusCode};
use serde_json::Value;
use tokio::time::Instant;

use super::connect::{self, ApiContext};
use super::exchange::{Answer, OBJECT, Question, reading};
use super::manifest::{self, Manifest};
use super::resource::{Resource, Resources, is_ours};
use super::{object, table};
use crate::args::{Apply, DryRun};
use crate::exit::{Exit, Failure};
use crate::printer::Printer;

/// Who the server says has set what is applied.
const FIELD_MANAGER: &str = "sojourn-cli";
const CONTENT_TYPE: &str = "application/apply-patch+yaml";
/// How the server begins what it says of fields that a kind does not have.
const NO_FIT: &str = "failed to create typed patch object";
/// What it says of a Pod whose namespace has no account yet.
const NO_ACCOUNT: &str = "serviceaccount \"default\" not found";
/// How long a kind that was just defined, or the account of a new namespace, may take until it is served, and how often it is looked for.
const DEFINITION_TIMEOUT: Duration = Duration::from_secs(15);
const POLL_INTERVAL: Duration = Duration::from_millis(100);

pub(super) fn run(apply: Apply, printer: Printer) -> Result<(), Failure> {
    let manifests = manifest::read_all(&apply.files.filename, apply.files.recursive)?;
    connect::run(async move {
        let api_context = ApiContext::find(&apply.connection).await?;
        let resources = Resources::discover(&api_context).await?;
        let mut applier = Applier {
            api_context,
            resources,
            apply: &apply,
            printer,
            defined: Vec::new(),
            made: Vec::new(),
        };
        let (mut applied, mut failed, count) = (Vec::new(), 0, manifests.len());
        for manifest in &manifests {
            match applier.apply(manifest).await {
                Ok(done) => applied.extend(done),
                // Whoever is not there for one is there for none.
                Err(failure) if count == 1 || failure.exit == Exit::Unavailable => {
                    return Err(failure);
                }
                Err(failure) => {
                    printer.failure(&failure);
                    failed += 1;
                }
            }
        }
        if let Some(output) = apply.output {
            object::write(&applied, output, count == 1)?;
        }
        if failed > 0 {
            let error = anyhow!("{failed} of {count} objects were not applied");
            return Err(Failure::new(Exit::Negative, error, "The others were."));
        }
        Ok(())
    })
}

struct Applier<'a> {
    api_context: ApiContext,
    resources: Resources,
    apply: &'a Apply,
    printer: Printer,
    /// The kinds that were defined on the way: group and kind.
    defined: Vec<(String, String)>,
    /// The namespaces that were made on the way.
    made: Vec<String>,
}

impl Applier<'_> {
    /// Applies one object and says so. Gives it back if it is to be written as a whole.
    async fn apply(&mut self, manifest: &Manifest) -> Result<Option<(String, Value)>, Failure> {
        let deadline = Instant::now() + DEFINITION_TIMEOUT;
        let resource = self.resource(manifest, deadline).await?;
        let namespace = self.namespace(manifest, &resource)?;
        let path = resource.path(&namespace, &manifest.name)?;
        let named = format!("{}/{}", resource.qualified(), manifest.name);
        let before = self.before(&path).await;
        let answer = loop {
            match self.send(&path, &manifest.value).await {
                // It is listed a moment before it is served.
                Err(kube::Error::Api(status))
                    if status.code == 404
                        && self.is_just_defined(manifest)
                        && Instant::now() < deadline =>
                {
                    tokio::time::sleep(POLL_INTERVAL).await;
                }
                // The account that Pods of a new namespace run as is made a moment after it.
                Err(kube::Error::Api(status))
                    if status.code == 403
                        && status.message.contains(NO_ACCOUNT)
                        && self.made.contains(&namespace)
                        && Instant::now() < deadline =>
                {
                    tokio::time::sleep(POLL_INTERVAL).await;
                }
                Err(error) => return Err(self.refused(error, &named, manifest, &namespace)),
                Ok(answer) => break answer,
            }
        };
        self.defined.extend(definition(&answer.body));
        if manifest.api_version == "v1" && manifest.kind == "Namespace" {
            self.made.push(manifest.name.clone());
        }
        if self.apply.output.is_some() {
            return Ok(Some((named, answer.body)));
        }
        let is_dry = self.apply.dry_run == DryRun::Server;
        let outcome = outcome(before.as_ref(), &answer, is_dry);
        let dry = if is_dry { " (server dry run)" } else { "" };
        table::write(&format!("{named} {outcome}{dry}\n"));
        Ok(None)
    }

    /// The kind of an object. One that was defined on the way is waited for.
    async fn resource(
        &mut self,
        manifest: &Manifest,
        deadline: Instant,
    ) -> Result<Resource, Failure> {
        let mut is_fresh = false;
        loop {
            let found = self.resources.of_kind(&manifest.api_version, &manifest.kind);
            if let Some(found) = found {
                return Ok(found.clone());
            }
            if is_fresh && !(self.is_just_defined(manifest) && Instant::now() < deadline) {
                return Err(unknown(manifest));
            }
            if is_fresh {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
            self.resources = Resources::discover(&self.api_context).await?;
            is_fresh = true;
        }
    }

    fn is_just_defined(&self, manifest: &Manifest) -> bool {
        let group = manifest.api_version.split_once('/').map_or("", |(group, _)| group);
        self.defined.iter().any(|(of, kind)| of == group && *kind == manifest.kind)
    }

    /// Where an object belongs: its own namespace, which may not be another than the one that was asked for.
    fn namespace(&self, manifest: &Manifest, resource: &Resource) -> Result<String, Failure> {
        let own = manifest.namespace.as_deref().filter(|_| resource.namespaced);
        match (own, &self.apply.connection.namespace) {
            (Some(own), Some(asked)) if own != asked => {
                let error = anyhow!("{} is of namespace {own}, not {asked}", manifest.source);
                Err(Failure::new(Exit::Usage, error, format!("Leave -n out, or say -n {own}.")))
            }
            (Some(own), _) => Ok(own.to_owned()),
            (None, _) => Ok(self.api_context.namespace.clone()),
        }
    }

    /// The object as it is, to tell what was changed. Who may not read it is told less.
    async fn before(&self, path: &str) -> Option<Value> {
        let asked = self.api_context.ask(&reading(path, &[], OBJECT), self.printer).await;
        asked.ok().map(|answer| answer.body)
    }

    async fn send(&self, path: &str, value: &Value) -> Result<Answer, kube::Error> {
        let mut query = vec![("fieldManager", FIELD_MANAGER), ("fieldValidation", "Strict")];
        if self.apply.force_conflicts {
            query.push(("force", "true"));
        }
        if self.apply.dry_run == DryRun::Server {
            query.push(("dryRun", "All"));
        }
        let body = Some((CONTENT_TYPE, value));
        let question =
            Question { method: Method::PATCH, path, query: &query, accept: OBJECT, body };
        self.api_context.ask(&question, self.printer).await
    }

    fn refused(
        &self,
        error: kube::Error,
        named: &str,
        manifest: &Manifest,
        namespace: &str,
    ) -> Failure {
        let (code, message) = match &error {
            kube::Error::Api(status) => (status.code, status.message.clone()),
            _ => (0, String::new()),
        };
        let mut failure = self.api_context.failed(error, &format!("cannot apply {named}"));
        match code {
            409 => {
                "Leave these fields to them, or take them over: --force-conflicts."
                    .clone_into(&mut failure.advice);
            }
            404 if message.contains("namespaces \"") => {
                failure.advice = format!("Make the namespace {namespace} first.");
            }
            // What does not fit the schema is answered as if the server had failed.
            500 if message.starts_with(NO_FIT) => {
                failure.advice = format!("It is in {}.", manifest.source);
            }
            400..=422 if failure.advice.is_empty() => {
                failure.advice = format!("It is in {}.", manifest.source);
            }
            _ => {}
        }
        failure
    }
}

fn unknown(manifest: &Manifest) -> Failure {
    let Manifest { source, kind, api_version, .. } = manifest;
    let error = anyhow!("cannot apply {source}: the API serves no {kind} in {api_version}");
    let advice = if is_ours(api_version) {
        "Install Sojourn's kinds first: sojourn crds | sojourn apply -f -."
    } else {
        "Apply its CustomResourceDefinition first, or see whether the two are written right."
    };
    Failure::new(Exit::Negative, error, advice)
}

/// The kind that an object defines, if it is a definition.
fn definition(object: &Value) -> Option<(String, String)> {
    if object["kind"] != "CustomResourceDefinition" {
        return None;
    }
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    Some((text("/spec/group")?, text("/spec/names/kind")?))
}

/// What the server has done, in kubectl's words.
fn outcome(before: Option<&Value>, answer: &Answer, is_dry: bool) -> &'static str {
    if answer.status == StatusCode::CREATED {
        return "created";
    }
    match before {
        None => "serverside-applied",
        Some(before) if is_same(before, &answer.body, is_dry) => "unchanged",
        Some(_) => "configured",
    }
}

/// Whether it is the object that was there. What a dry run answers has the version of what is stored.
fn is_same(before: &Value, after: &Value, is_dry: bool) -> bool {
    if !is_dry {
        let version = |object: &Value| object.pointer("/metadata/resourceVersion").cloned();
        return version(before) == version(after);
    }
    let content = |object: &Value| {
        let mut object = object.clone();
        object::without_managers(&mut object);
        object
    };
    content(before) == content(after)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn config_map(version: &str, value: &str) -> Value {
        json!({
            "kind": "ConfigMap", "data": {"a": value},
            "metadata": {"resourceVersion": version, "managedFields": [{"time": version}]},
        })
    }

    #[test]
    fn what_was_done_is_what_the_server_answered() {
        let answer = |status, version: &str, value: &str| Answer {
            status,
            body: config_map(version, value),
        };
        let before = config_map("5", "x");
        let (ok, created) = (StatusCode::OK, StatusCode::CREATED);
        for (before, answer, is_dry, words) in [
            (None, answer(created, "6", "x"), false, "created"),
            (None, answer(created, "", "x"), true, "created"),
            (Some(&before), answer(ok, "5", "x"), false, "unchanged"),
            (Some(&before), answer(ok, "6", "y"), false, "configured"),
            (Some(&before), answer(ok, "5", "x"), true, "unchanged"),
            (Some(&before), answer(ok, "5", "y"), true, "configured"),
            (None, answer(ok, "6", "y"), false, "serverside-applied"),
        ] {
            assert_eq!(outcome(before, &answer, is_dry), words);
        }
    }

    #[test]
    fn a_definition_says_which_kind_it_defines() {
        let crd = json!({
            "kind": "CustomResourceDefinition",
            "spec": {"group": "example.com", "names": {"kind": "CronTab"}},
        });
        assert_eq!(definition(&crd), Some(("example.com".to_owned(), "CronTab".to_owned())));
        assert_eq!(definition(&config_map("1", "x")), None);
    }
}
