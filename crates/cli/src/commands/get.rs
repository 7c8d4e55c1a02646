//! `sojourn get`: objects of any kind, in the server's own tables or as they are.

mod watch;

use anyhow::anyhow;
use serde_json::Value;

use super::connect::{self, ApiContext, PAGE_SIZE};
use super::exchange::{OBJECT, TABLE, reading};
use super::object::{self, Selection, selections};
use super::resource::{Resource, Resources};
use super::server_table::{Layout, ServerTable};
use super::table;
use crate::args::{Get, ListOutput, ObjectOutput};
use crate::exit::{Exit, Failure};
use crate::printer::Printer;

/// One kind, and which of its objects: some by their names, or all that fit.
struct Wanted {
    resource: Resource,
    names: Vec<String>,
}

/// Who asks, for what.
struct Lookup<'a> {
    api_context: &'a ApiContext,
    get: &'a Get,
    printer: Printer,
}

pub(super) fn run(get: Get, printer: Printer) -> Result<(), Failure> {
    let selections = selections(&get.objects)?;
    connect::run(async move {
        let api_context = ApiContext::find(&get.connection).await?;
        let resources = Resources::discover(&api_context).await?;
        let wanted = wanted(&selections, &resources)?;
        check(&get, &wanted)?;
        let lookup = Lookup { api_context: &api_context, get: &get, printer };
        if get.watch {
            let [one] = wanted.as_slice() else {
                let error = anyhow!("only one kind can be watched at a time");
                return Err(Failure::new(Exit::Usage, error, "Watch the others beside it."));
            };
            return watch::watch(&lookup, one).await;
        }
        match get.output {
            ListOutput::Table | ListOutput::Wide => lookup.tables(&wanted).await,
            ListOutput::Json => lookup.objects(&wanted, ObjectOutput::Json).await,
            ListOutput::Yaml => lookup.objects(&wanted, ObjectOutput::Yaml).await,
            ListOutput::Name => lookup.objects(&wanted, ObjectOutput::Name).await,
        }
    })
}

fn wanted(selections: &[Selection], resources: &Resources) -> Result<Vec<Wanted>, Failure> {
    let mut wanted = Vec::new();
    for Selection { word, names } in selections {
        for resource in resources.meant(word)? {
            wanted.push(Wanted { resource: resource.clone(), names: names.clone() });
        }
    }
    Ok(wanted)
}

fn check(get: &Get, wanted: &[Wanted]) -> Result<(), Failure> {
    let named = wanted.iter().find_map(|one| Some((one, one.names.first()?)));
    let Some((one, name)) = named else { return Ok(()) };
    let usage = |problem: String, advice: &str| {
        Err(Failure::new(Exit::Usage, anyhow!("{problem}"), advice.to_owned()))
    };
    if get.all_namespaces && one.resource.namespaced {
        let problem = format!("{name} may be in any namespace");
        return usage(problem, "Say in which: -n NAMESPACE instead of -A.");
    }
    if get.selector.is_some() {
        return usage(format!("{name} is named already"), "Leave the name or -l out.");
    }
    Ok(())
}

impl Lookup<'_> {
    /// Nothing for all namespaces.
    fn namespace(&self) -> Option<&str> {
        (!self.get.all_namespaces).then_some(self.api_context.namespace.as_str())
    }

    fn layout(&self, resource: &Resource, kinds: bool) -> Layout {
        Layout {
            wide: self.get.output == ListOutput::Wide,
            namespaces: self.get.all_namespaces && resource.namespaced,
            kinds,
        }
    }

    fn failed(&self, error: kube::Error, resource: &Resource, name: Option<&str>) -> Failure {
        let what = match name {
            Some(name) => format!("cannot get {}/{name}", resource.qualified()),
            None => format!("cannot list {}", resource.qualified_plural()),
        };
        self.api_context.failed(error, &what)
    }

    /// Every page of a list, or every named object. What is not there is said, and the rest is shown.
    async fn read(
        &self,
        wanted: &Wanted,
        accept: &str,
        missing: &mut usize,
        mut take: impl FnMut(Value),
    ) -> Result<(), Failure> {
        if wanted.names.is_empty() {
            return self.read_list(&wanted.resource, accept, take).await;
        }
        for name in &wanted.names {
            let path = wanted.resource.path(&self.api_context.namespace, name)?;
            match self.api_context.ask(&reading(&path, &[], accept), self.printer).await {
                Ok(answer) => take(answer.body),
                Err(error) => {
                    let is_missing =
                        matches!(&error, kube::Error::Api(status) if status.is_not_found());
                    let failure = self.failed(error, &wanted.resource, Some(name));
                    if !is_missing || wanted.names.len() == 1 {
                        return Err(failure);
                    }
                    self.printer.failure(&failure);
                    *missing += 1;
                }
            }
        }
        Ok(())
    }

    /// Every page of a list; the version that it is of.
    async fn read_list(
        &self,
        resource: &Resource,
        accept: &str,
        mut take: impl FnMut(Value),
    ) -> Result<(), Failure> {
        let path = resource.collection_path(self.namespace())?;
        let limit = PAGE_SIZE.to_string();
        let mut next: Option<String> = None;
        loop {
            let mut query = vec![("limit", limit.as_str())];
            query.extend(self.get.selector.iter().map(|labels| ("labelSelector", labels.as_str())));
            query.extend(next.iter().map(|token| ("continue", token.as_str())));
            let answer = self.api_context.ask(&reading(&path, &query, accept), self.printer).await;
            let page = answer.map_err(|error| self.failed(error, resource, None))?.body;
            let token = page.pointer("/metadata/continue").and_then(Value::as_str);
            next = token.filter(|token| !token.is_empty()).map(str::to_owned);
            take(page);
            if next.is_none() {
                return Ok(());
            }
        }
    }

    async fn tables(&self, all: &[Wanted]) -> Result<(), Failure> {
        let kinds = all.len() > 1;
        let (mut shown, mut missing) = (false, 0);
        for wanted in all {
            let layout = self.layout(&wanted.resource, kinds);
            let mut table = ServerTable::new(&wanted.resource, layout);
            self.read(wanted, TABLE, &mut missing, |page| table.add(&page)).await?;
            if table.is_empty() {
                continue;
            }
            if shown {
                table::write("\n");
            }
            table.print();
            shown = true;
        }
        if !shown && missing == 0 {
            self.nothing(all);
        }
        found(missing)
    }

    async fn objects(&self, all: &[Wanted], output: ObjectOutput) -> Result<(), Failure> {
        let (mut objects, mut missing) = (Vec::new(), 0);
        for wanted in all {
            let resource = &wanted.resource;
            self.read(wanted, OBJECT, &mut missing, |page| {
                objects.extend(items(page).into_iter().map(|mut object| {
                    resource.complete(&mut object);
                    let name = object["metadata"]["name"].as_str().unwrap_or_default();
                    (format!("{}/{name}", resource.qualified()), object)
                }));
            })
            .await?;
        }
        let single = matches!(all, [one] if one.names.len() == 1);
        object::write(&objects, output, single)?;
        found(missing)
    }

    /// There is no table to show.
    fn nothing(&self, all: &[Wanted]) {
        let place = match self.namespace() {
            Some(namespace) if all.iter().any(|one| one.resource.namespaced) => {
                format!(" in {namespace} namespace.")
            }
            _ => String::new(),
        };
        self.printer.line(format_args!("No resources found{place}"));
    }
}

/// What is in a list, or the object itself.
fn items(mut page: Value) -> Vec<Value> {
    match page.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) => items,
        _ => vec![page],
    }
}

fn found(missing: usize) -> Result<(), Failure> {
    if missing == 0 {
        return Ok(());
    }
    let error = anyhow!("{missing} of those that were named are not there");
    Err(Failure::new(Exit::Negative, error, ""))
}
