//! The lists and maps of every built-in kind, as the generated table of types has them.

use std::collections::{HashMap, HashSet, VecDeque};

use serde_json::{Map, Value, json};

static TEXT: &str = include_str!("../../../tables/types.txt");

/// The table, as far as bodies are made from it.
#[derive(Debug, Default)]
pub(crate) struct Table {
    structs: HashMap<&'static str, Vec<Field>>,
    aliases: HashMap<&'static str, &'static str>,
}

#[derive(Debug, Clone)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) ty: &'static str,
    required: bool,
    first_of_enum: Option<&'static str>,
}

/// A list or map field of a kind.
#[derive(Debug, Clone)]
pub(crate) struct ListField {
    /// The members that lead to it, with the type of each; a list is entered at its first element.
    pub(crate) steps: Vec<Field>,
}

impl ListField {
    /// `spec.containers.ports`
    pub(crate) fn path(&self) -> String {
        let names: Vec<&str> = self.steps.iter().map(|field| field.name).collect();
        names.join(".")
    }

    /// A JSON pointer to the first element: `/spec/containers/0/ports/0`.
    pub(crate) fn pointer(&self, table: &Table) -> String {
        let step = |field: &Field| {
            let first = match table.bare(field.ty) {
                list if list.starts_with("[]") => "/0",
                map if map.starts_with("map[") => "/a",
                _ => "",
            };
            format!("/{}{first}", field.name)
        };
        self.steps.iter().map(step).collect()
    }
}

impl Table {
    pub(crate) fn read() -> Self {
        let mut table = Self::default();
        let mut open = "";
        for line in TEXT.lines() {
            let mut words = line.trim_start().split(' ');
            let (first, second) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
            if line.starts_with('\t') {
                let rest: Vec<&str> = words.collect();
                let enumeration = rest.iter().find_map(|note| note.strip_prefix("enum="));
                let fields = table.structs.entry(open).or_default();
                fields.push(Field {
                    name: first,
                    ty: second,
                    required: rest.contains(&"required"),
                    first_of_enum: enumeration.and_then(|values| values.split(',').next()),
                });
                continue;
            }
            match first {
                "struct" => {
                    open = second;
                    table.structs.entry(open).or_default();
                }
                "name" => {
                    table.aliases.insert(second, words.next().unwrap_or(""));
                }
                _ => {}
            }
        }
        table
    }

    /// The type without the pointers and names around it.
    pub(crate) fn bare(&self, ty: &'static str) -> &'static str {
        let ty = ty.trim_start_matches('*');
        match self.aliases.get(ty) {
            Some(of) => self.bare(of),
            None => ty,
        }
    }

    /// Every list and map of a kind, those that are near first. Of a type that is in several places, or
    /// was seen before, each member is visited once.
    pub(crate) fn places(
        &self,
        root: &'static str,
        seen: &mut HashSet<(&'static str, &'static str)>,
    ) -> Vec<ListField> {
        let mut found = Vec::new();
        let mut next: VecDeque<(&'static str, Vec<Field>)> = VecDeque::from([(root, Vec::new())]);
        while let Some((ty, steps)) = next.pop_front() {
            for field in self.structs.get(ty).into_iter().flatten() {
                if field.name == "-" {
                    if field.ty != "meta.TypeMeta" {
                        next.push_back((field.ty, steps.clone()));
                    }
                    continue;
                }
                if !seen.insert((ty, field.name)) {
                    continue;
                }
                let steps: Vec<Field> = steps.iter().chain([field]).cloned().collect();
                let bare = self.bare(field.ty);
                let item = element(bare);
                if item.is_some() {
                    found.push(ListField { steps: steps.clone() });
                }
                let below = item.map_or(bare, |item| self.bare(item));
                if self.structs.contains_key(below) {
                    next.push_back((below, steps));
                }
            }
        }
        found
    }

    /// A small value of a type; two with different numbers differ wherever they can.
    pub(crate) fn sample(
        &self,
        field: &Field,
        ty: &'static str,
        number: usize,
        depth: usize,
    ) -> Value {
        let ty = self.bare(ty);
        match ty {
            "string" => text(field, number),
            "bool" => json!(true),
            "int" | "int32" | "int64" | "intstr.IntOrString" => json!(1 + number % 60_000),
            "float64" => json!(1.5),
            "bytes" => json!("YQ=="),
            "resource.Quantity" => json!("1"),
            "meta.Time" => json!("2024-01-01T00:00:00Z"),
            "meta.MicroTime" => json!("2024-01-01T00:00:00.000000Z"),
            "meta.FieldsV1" => json!({format!("f:a{number}"): {}}),
            _ if element(ty).is_some() => {
                let item = element(ty).expect("it has elements");
                match ty.starts_with("map[") {
                    true => {
                        json!({format!("a{number}"): self.sample(field, item, number, depth + 1)})
                    }
                    false => json!([self.sample(field, item, number, depth + 1)]),
                }
            }
            _ => self.sample_struct(ty, number, depth),
        }
    }

    /// Required members, or all plain ones where none is required.
    fn sample_struct(&self, ty: &'static str, number: usize, depth: usize) -> Value {
        let fields = self.structs.get(ty).map_or(&[][..], Vec::as_slice);
        let any_required = fields.iter().any(|field| field.required);
        let mut members = Map::new();
        for field in fields.iter().filter(|field| field.name != "-" && depth < 4) {
            let bare = self.bare(field.ty);
            let plain = !self.structs.contains_key(bare) && element(bare).is_none();
            let wanted = if any_required { field.required } else { plain };
            let always = ["name", "key", "operator", "protocol", "image"].contains(&field.name);
            if wanted || (plain && always) {
                members
                    .insert(field.name.to_owned(), self.sample(field, field.ty, number, depth + 1));
            }
        }
        Value::Object(members)
    }
}

/// The type of the elements of a list or map.
pub(crate) fn element(ty: &'static str) -> Option<&'static str> {
    let of_map = || ty.strip_prefix("map[").and_then(|rest| rest.split_once(']')).map(|(_, of)| of);
    ty.strip_prefix("[]").or_else(of_map)
}

fn text(field: &Field, number: usize) -> Value {
    if let Some(value) = field.first_of_enum {
        return json!(value);
    }
    json!(match field.name {
        "apiVersion" => "v1".to_owned(),
        "operation" => "Update".to_owned(),
        "fieldsType" => "FieldsV1".to_owned(),
        "mountPath" | "devicePath" => format!("/a{number}"),
        "ip" | "hostIP" | "address" =>
            format!("10.{}.{}.{}", number >> 16 & 255, number >> 8 & 255, number & 255),
        "finalizers" | "conditionType" => format!("a.b/c{number}"),
        "podCIDRs" | "loadBalancerSourceRanges" => format!("10.{}.0.0/16", number & 255),
        _ => format!("a{number}"),
    })
}

/// The kinds that are objects: the type, API version and kind of each.
pub(crate) fn kinds() -> Vec<(&'static str, &'static str, &'static str)> {
    let structs = TEXT.lines().filter_map(|line| line.strip_prefix("struct "));
    structs
        .filter_map(|line| {
            let (ty, notes) = line.split_once(' ')?;
            let api_version = notes.strip_prefix("kind=")?;
            let (_, kind) = ty.split_once('.')?;
            (!api_version.contains(',') && !kind.ends_with("List")).then_some((
                ty,
                api_version,
                kind,
            ))
        })
        .collect()
}
