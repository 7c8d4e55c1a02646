//! `sojourn config` and `sojourn crds`: what is in force, and what a cluster needs to know us.

use std::collections::BTreeMap;

use anyhow::Context as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use serde_json::{Value, json};
use sojourn_api::config::{Setting, effective};
use sojourn_api::install;
use sojourn_api::name::shared;

use super::connect::{self, ApiContext};
use super::table;
use crate::args::{Config, Output};
use crate::exit::{Exit, Failure};

pub(super) fn config(config: Config) -> Result<(), Failure> {
    connect::run(async move {
        let api_context = ApiContext::find(&config.connection).await?;
        let api: Api<ConfigMap> = Api::namespaced(api_context.client.clone(), shared::NAMESPACE);
        let found = api
            .get_opt(shared::CONFIG_MAP)
            .await
            .map_err(|error| api_context.failed(error, "cannot read the configuration"))?;
        let data: BTreeMap<_, _> = found.and_then(|map| map.data).unwrap_or_default();
        let settings = effective(&data).map_err(|problems| {
            let advice = "The controllers keep the last good values until it is mended.";
            Failure::new(Exit::Negative, problems, advice)
        })?;
        show(&settings, config.output)
    })
}

fn show(settings: &[Setting], output: Output) -> Result<(), Failure> {
    let value = || {
        let one = |s: &Setting| json!({"key": s.key, "option": s.option, "value": s.value, "from": s.origin.to_string()});
        Value::Array(settings.iter().map(one).collect())
    };
    match output {
        Output::Json => table::json(&value()),
        Output::Yaml => table::yaml(&value()),
        Output::Name => {
            settings.iter().for_each(|one| table::write(&format!("{}\n", one.option)));
            Ok(())
        }
        Output::Table => {
            let row = |s: &Setting| {
                vec![s.key.to_owned(), s.option.clone(), s.origin.to_string(), s.value.clone()]
            };
            let rows: Vec<_> = settings.iter().map(row).collect();
            table::table(&["KEY", "OPTION", "FROM", "VALUE"], &rows);
            Ok(())
        }
    }
}

pub(super) fn crds() -> Result<(), Failure> {
    let bug = |error| Failure::new(Exit::Bug, error, "Please report it.");
    let value =
        |object: &dyn erased::Object| object.value().context("cannot write it").map_err(bug);
    let mut documents = vec![value(&install::namespace())?, value(&install::account())?];
    for definition in sojourn_api::crds() {
        documents.push(value(&definition)?);
    }
    for role in sojourn_api::roles() {
        documents.push(value(&role)?);
    }
    let rights: [&dyn erased::Object; 3] =
        [&install::binding(), &sojourn_api::operator_role(), &install::own_binding()];
    for object in rights {
        documents.push(value(object)?);
    }
    for document in &documents {
        table::write("---\n");
        table::yaml(document)?;
    }
    Ok(())
}

/// Objects of any kind in one list.
mod erased {
    use serde::Serialize;
    use serde_json::Value;

    pub(super) trait Object {
        fn value(&self) -> serde_json::Result<Value>;
    }

    impl<T: Serialize> Object for T {
        fn value(&self) -> serde_json::Result<Value> {
            serde_json::to_value(self)
        }
    }
}
