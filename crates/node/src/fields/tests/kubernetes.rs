//! That no field of Kubernetes is forgotten, by the table of its Go types which the API server is
//! made from. Only the text is read: a node knows nothing of that crate.

use std::collections::HashMap;

use crate::fields::{Field, Support, table};

static TYPES: &str = include_str!("../../../../apiserver/tables/types.txt");

/// The fields of each struct of Kubernetes, as (name, type).
struct Types(HashMap<&'static str, Vec<(&'static str, &'static str)>>);

impl Types {
    fn read() -> Self {
        let mut structs = HashMap::new();
        let mut current = None;
        for line in TYPES.lines() {
            let mut words = line.split_whitespace();
            let (first, second) = (words.next(), words.next());
            match (line.strip_prefix('\t'), first, second) {
                (Some(_), Some(name), Some(kind)) => {
                    let current: &mut Vec<_> = current
                        .and_then(|name| structs.get_mut(name))
                        .expect("fields come after their struct");
                    current.push((name, kind));
                }
                (None, Some("struct"), Some(name)) => {
                    structs.insert(name, Vec::new());
                    current = Some(name);
                }
                _ => current = None,
            }
        }
        Self(structs)
    }

    /// The fields of a type with those of the types that it embeds; none of what is no struct.
    fn fields(&self, kind: &str) -> Vec<(&'static str, &'static str)> {
        let own = self.0.get(kind).into_iter().flatten();
        own.flat_map(
            |&(name, kind)| {
                if name == "-" { self.fields(kind) } else { vec![(name, kind)] }
            },
        )
        .collect()
    }

    fn compare(&self, table: &[Field], kind: &str, path: &str, wrong: &mut Vec<String>) {
        let fields = self.fields(kind);
        for field in table {
            if !fields.iter().any(|(name, _)| *name == field.name) {
                wrong.push(format!("{path}.{} is not in Kubernetes", field.name));
            }
        }
        for (name, kind) in fields {
            let path = format!("{path}.{name}");
            let rows: Vec<_> = table.iter().filter(|field| field.name == name).collect();
            let [field] = rows.as_slice() else {
                wrong.push(format!("{path} is in the table {} times", rows.len()));
                continue;
            };
            if matches!(field.support, Support::Refused(_) | Support::Harmless(_)) {
                continue;
            }
            let (list, item) = match kind.trim_start_matches('*').strip_prefix("[]") {
                Some(item) => (true, item),
                None => (false, kind.trim_start_matches('*')),
            };
            let is_struct = !self.fields(item).is_empty();
            if is_struct && field.list != list {
                wrong.push(format!("{path} is a list, or not, unlike the table"));
            }
            if is_struct || !field.inside.is_empty() {
                self.compare(field.inside, item, &path, wrong);
            }
        }
    }
}

#[test]
fn every_field_is_in_the_table() {
    let types = Types::read();
    assert!(types.fields("core.PodSpec").len() > 40, "the types were read");
    assert!(types.fields("core.Probe").contains(&("exec", "*core.ExecAction")), "embedded");
    let mut wrong = Vec::new();
    types.compare(table::SPEC, "core.PodSpec", "spec", &mut wrong);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_field_in_no_table_is_noticed() {
    let types = Types::read();
    let without: Vec<Field> =
        table::SPEC.iter().copied().filter(|field| field.name != "hostPID").collect();
    let mut wrong = Vec::new();
    types.compare(&without, "core.PodSpec", "spec", &mut wrong);
    assert_eq!(wrong, ["spec.hostPID is in the table 0 times"]);
}
