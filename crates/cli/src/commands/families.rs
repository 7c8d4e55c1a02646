//! `sojourn families`: what this program can manage, for people and for scripts that walk the families.

use serde_json::{Value, json};
use sojourn_api::family::{FAMILIES, Family, KindNames};

use super::table;
use crate::args::{Families, Output};
use crate::exit::Failure;

pub(super) fn run(asked: &Families) -> Result<(), Failure> {
    match asked.output {
        Output::Json => table::json(&all()),
        Output::Yaml => table::yaml(&all()),
        Output::Name => {
            FAMILIES.iter().for_each(|family| table::write(&format!("{}\n", family.name)));
            Ok(())
        }
        Output::Table => {
            let rows: Vec<_> = FAMILIES.iter().map(row).collect();
            table::table(&["FAMILY", "API GROUP", "CONFIGURATION", "KINDS"], &rows);
            Ok(())
        }
    }
}

fn row(family: &Family) -> Vec<String> {
    let kinds: Vec<_> = family.kinds().into_iter().map(|kind| kind.kind).collect();
    let texts = [family.name, family.api_group, family.config.key].map(str::to_owned);
    texts.into_iter().chain([kinds.join(", ")]).collect()
}

fn all() -> Value {
    FAMILIES.iter().map(one).collect()
}

fn one(family: &Family) -> Value {
    let kind = |names: KindNames| {
        json!({
            "kind": names.kind, "plural": names.plural, "shortNames": names.short,
            "namespaced": names.namespaced,
        })
    };
    json!({
        "name": family.name, "apiGroup": family.api_group, "configKey": family.config.key,
        "kinds": family.kinds().into_iter().map(kind).collect::<Vec<_>>(),
    })
}
