//! The table of types: Go types as data, read once from text.
//!
//! Everything that is kept is either an index or a slice of the embedded text, so that the whole
//! table costs a few hundred kilobytes. What only OpenAPI and apply need of a field stays unread
//! until they ask ([`Field::notes`]).

use std::collections::HashMap;
use std::sync::{LazyLock, OnceLock};

use crate::typed::shapes::ShapeIndex;

static TEXT: &str = include_str!("../../tables/types.txt");

static TABLE: LazyLock<TypeTable> = LazyLock::new(|| TypeTable::parse(TEXT));

/// The table of Kubernetes' built-in kinds.
pub(crate) fn table() -> &'static TypeTable {
    &TABLE
}

/// A type of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct TypeId(pub(super) u16);

#[derive(Debug, Default)]
pub(crate) struct TypeTable {
    types: Vec<Type>,
    /// By the way the table writes a type: `core.PodSpec`, `[]string`, `*int32`.
    ids: HashMap<&'static str, TypeId>,
    /// Kind to the API versions that have it.
    kinds: HashMap<&'static str, Vec<(&'static str, TypeId)>>,
    packages: HashMap<&'static str, Package>,
    pub(super) shape_index: OnceLock<ShapeIndex>,
}

#[derive(Debug)]
struct Package {
    go: &'static str,
    model: &'static str,
}

#[derive(Debug)]
pub(super) struct Type {
    /// The way the table writes this type.
    pub(super) name: &'static str,
    pub(super) node: Node,
}

#[derive(Debug)]
pub(super) enum Node {
    /// Named by a field, but its own line has not been read: never in a finished table.
    Unread,
    String,
    Bool,
    Int32,
    Int64,
    Float64,
    Bytes,
    Pointer(TypeId),
    /// `message`: on the wire this list is a message of its own, with the items as field 1.
    List {
        item: TypeId,
        message: bool,
    },
    Map {
        value: TypeId,
    },
    Struct(Struct),
    Opaque {
        codec: Opaque,
        schema: &'static str,
    },
    /// A name for another type.
    Alias(TypeId),
}

/// Go types that encode themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opaque {
    Time,
    MicroTime,
    Quantity,
    IntOrString,
    /// Any JSON, kept as it came.
    Raw,
    /// Any JSON object, kept as it came.
    Fields,
    RawExtension,
    SchemaOrBool,
    SchemaOrArray,
    SchemaOrStrings,
}

#[derive(Debug, Default)]
pub(super) struct Struct {
    /// Every member of the JSON object, those of embedded structs included, sorted by name.
    pub(super) fields: Vec<Field>,
    /// Indices of the fields that are written even when they are zero.
    pub(super) always: Vec<u16>,
    /// The fields as declared: OpenAPI and protobuf look here.
    pub(super) declared: Vec<Declared>,
    pub(super) notes: &'static str,
}

#[derive(Debug, Clone)]
pub(super) struct Declared {
    /// `-` for an embedded struct, whose members are members of this one in JSON.
    pub(super) name: &'static str,
    pub(super) ty: TypeId,
    /// The protobuf field number, 0 if there is none.
    pub(super) number: u32,
    pub(super) omit: Omit,
    pub(super) notes: &'static str,
}

#[derive(Debug, Clone)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) ty: TypeId,
    pub(super) omit: Omit,
    /// The embedded structs through which the field is reached; Go names them in type errors.
    pub(super) via: Vec<&'static str>,
    pub(super) notes: &'static str,
}

/// When a field is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Omit {
    Never,
    /// `omitempty`: zero scalars, null pointers, lists and maps without items; never structs.
    Empty,
    /// `omitzero`: structs too.
    Zero,
}

impl TypeTable {
    /// The type of a kind.
    pub(crate) fn lookup(&self, api_version: &str, kind: &str) -> Option<TypeId> {
        let versions = self.kinds.get(kind)?;
        versions.iter().find(|(version, _)| *version == api_version).map(|(_, id)| *id)
    }

    /// A type by its name in the table: `meta.ObjectMeta`.
    pub(crate) fn named(&self, name: &str) -> Option<TypeId> {
        self.ids.get(name).copied()
    }

    pub(super) fn object_meta(&self) -> TypeId {
        self.named("meta.ObjectMeta").expect("every kind has metadata")
    }

    pub(super) fn len(&self) -> usize {
        self.types.len()
    }

    pub(super) fn get(&self, id: TypeId) -> &Type {
        &self.types[usize::from(id.0)]
    }

    /// The node of a type, looking through names.
    pub(super) fn node(&self, id: TypeId) -> &Node {
        let mut node = &self.get(id).node;
        while let Node::Alias(target) = node {
            node = &self.get(*target).node;
        }
        node
    }

    /// The type as Go prints it: `[]v1.Container`.
    pub(super) fn go_name(&self, id: TypeId) -> String {
        let mut name = self.get(id).name;
        let mut printed = String::new();
        loop {
            if let Some(rest) = name.strip_prefix('*') {
                printed.push('*');
                name = rest;
            } else if let Some(rest) = name.strip_prefix("[]") {
                printed.push_str("[]");
                name = rest;
            } else if let Some((key, rest)) =
                name.strip_prefix("map[").and_then(|rest| rest.split_once(']'))
            {
                printed.push_str("map[");
                printed.push_str(&self.go_identifier(key));
                printed.push(']');
                name = rest;
            } else {
                printed.push_str(&self.go_identifier(name));
                return printed;
            }
        }
    }

    fn go_identifier(&self, name: &str) -> String {
        match name.split_once('.') {
            Some((package, bare)) => match self.packages.get(package) {
                Some(package) => format!("{}.{bare}", package.go),
                None => name.to_owned(),
            },
            None if name == "bytes" => "[]uint8".to_owned(),
            None => name.to_owned(),
        }
    }

    /// The name of a type's OpenAPI definition: `io.k8s.api.core.v1.PodSpec`.
    pub(super) fn model_name(&self, id: TypeId) -> Option<String> {
        let (package, bare) = self.get(id).name.split_once('.')?;
        Some(format!("{}.{bare}", self.packages.get(package)?.model))
    }

    /// The generated table is part of the program: a line that cannot be read is a bug in the
    /// generator, which the tests of this module would show.
    fn parse(text: &'static str) -> Self {
        let mut table = Self::default();
        let mut open: Option<(TypeId, Struct)> = None;
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            if let Some(field) = line.strip_prefix('\t') {
                let declared = table.declared(field);
                if let Some((_, body)) = &mut open {
                    body.declared.push(declared);
                }
                continue;
            }
            table.close(open.take());
            let (what, rest) = split_word(line);
            let (name, rest) = split_word(rest);
            match what {
                "package" => {
                    let (go, model) = split_word(rest);
                    table.packages.insert(name, Package { go, model });
                }
                "name" => {
                    let (of, notes) = split_word(rest);
                    let target = table.intern(of);
                    let node = match table.get(target).node {
                        Node::List { item, .. } if notes == "message" => {
                            Node::List { item, message: true }
                        }
                        _ => Node::Alias(target),
                    };
                    table.define(name, node);
                }
                "opaque" => {
                    let codec = opaque(name).expect("the generator and this list agree");
                    let schema = rest.strip_prefix("schema=").unwrap_or(rest);
                    table.define(name, Node::Opaque { codec, schema });
                }
                "struct" => {
                    let id = table.intern(name);
                    if let Some(versions) = note(rest, "kind") {
                        let kind = name.split_once('.').map_or(name, |(_, bare)| bare);
                        let known = table.kinds.entry(kind).or_default();
                        known.extend(versions.split(',').map(|version| (version, id)));
                        // Options and Status belong to every group, and to one of their own.
                        if name.starts_with("meta.") {
                            known.push(("meta.k8s.io/v1", id));
                        }
                    }
                    open = Some((id, Struct { notes: rest, ..Struct::default() }));
                }
                _ => {}
            }
        }
        table.close(open);
        table.flatten();
        table
    }

    fn declared(&mut self, line: &'static str) -> Declared {
        let (name, rest) = split_word(line);
        let (expression, mut notes) = split_word(rest);
        let mut omit = Omit::Never;
        loop {
            let (word, rest) = split_word(notes);
            omit = match word {
                "omitempty" => Omit::Empty,
                "omitzero" => Omit::Zero,
                _ => break,
            };
            notes = rest;
        }
        let number = note(notes, "pb").and_then(|number| number.parse().ok()).unwrap_or(0);
        Declared { name, ty: self.intern(expression), number, omit, notes }
    }

    fn close(&mut self, open: Option<(TypeId, Struct)>) {
        if let Some((id, body)) = open {
            self.types[usize::from(id.0)].node = Node::Struct(body);
        }
    }

    fn define(&mut self, name: &'static str, node: Node) {
        let id = self.intern(name);
        self.types[usize::from(id.0)].node = node;
    }

    /// The id of a type by the way it is written; unnamed types are defined by that alone.
    fn intern(&mut self, name: &'static str) -> TypeId {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        let node = match name {
            "string" => Node::String,
            "bool" => Node::Bool,
            "int" | "int32" => Node::Int32,
            "int64" => Node::Int64,
            "float64" => Node::Float64,
            "bytes" => Node::Bytes,
            _ => {
                if let Some(rest) = name.strip_prefix('*') {
                    Node::Pointer(self.intern(rest))
                } else if let Some(rest) = name.strip_prefix("[]") {
                    Node::List { item: self.intern(rest), message: false }
                } else if name.starts_with("map[") {
                    let (_, rest) = name.split_once(']').expect("a map has a key");
                    Node::Map { value: self.intern(rest) }
                } else {
                    Node::Unread
                }
            }
        };
        let id = TypeId(u16::try_from(self.types.len()).expect("fewer than 65536 types"));
        self.types.push(Type { name, node });
        self.ids.insert(name, id);
        id
    }

    /// Works out the JSON members of every struct, now that all structs are known.
    fn flatten(&mut self) {
        for index in 0..self.types.len() {
            let Node::Struct(body) = &self.types[index].node else {
                continue;
            };
            let mut fields = Vec::with_capacity(body.declared.len());
            self.collect(body, &[], &mut fields);
            fields.sort_unstable_by_key(|field| field.name);
            let always = (0u16..)
                .zip(&fields)
                .filter(|(_, field)| self.is_always_written(field))
                .map(|(position, _)| position)
                .collect();
            if let Node::Struct(body) = &mut self.types[index].node {
                body.fields = fields;
                body.always = always;
            }
        }
    }

    fn collect(&self, body: &Struct, via: &[&'static str], fields: &mut Vec<Field>) {
        for declared in &body.declared {
            if declared.name != "-" {
                fields.push(Field {
                    name: declared.name,
                    ty: declared.ty,
                    omit: declared.omit,
                    via: via.to_vec(),
                    notes: declared.notes,
                });
            } else if let Node::Struct(embedded) = self.node(declared.ty) {
                let name = self.get(declared.ty).name;
                let bare = name.split_once('.').map_or(name, |(_, bare)| bare);
                self.collect(embedded, &[via, &[bare]].concat(), fields);
            }
        }
    }

    fn is_always_written(&self, field: &Field) -> bool {
        match field.omit {
            Omit::Never => true,
            Omit::Empty => matches!(self.node(field.ty), Node::Struct(_) | Node::Opaque { .. }),
            Omit::Zero => false,
        }
    }
}

fn opaque(name: &str) -> Option<Opaque> {
    Some(match name {
        "meta.Time" => Opaque::Time,
        "meta.MicroTime" => Opaque::MicroTime,
        "meta.FieldsV1" => Opaque::Fields,
        "resource.Quantity" => Opaque::Quantity,
        "intstr.IntOrString" => Opaque::IntOrString,
        "runtime.RawExtension" => Opaque::RawExtension,
        "apiextensions.JSON" => Opaque::Raw,
        "apiextensions.JSONSchemaPropsOrBool" => Opaque::SchemaOrBool,
        "apiextensions.JSONSchemaPropsOrArray" => Opaque::SchemaOrArray,
        "apiextensions.JSONSchemaPropsOrStringArray" => Opaque::SchemaOrStrings,
        _ => return None,
    })
}

fn split_word(text: &'static str) -> (&'static str, &'static str) {
    text.split_once(' ').unwrap_or((text, ""))
}

/// The value of `key=value` among a line's notes. A default may contain spaces, so it stands last
/// and reaches to the end of the line.
pub(super) fn note(notes: &'static str, key: &str) -> Option<&'static str> {
    let mut rest = notes;
    while !rest.is_empty() {
        if let Some((name, value)) = rest.split_once('=')
            && name == key
        {
            let to_end = matches!(key, "default" | "also");
            return Some(if to_end { value } else { split_word(value).0 });
        }
        rest = split_word(rest).1;
    }
    None
}

/// Whether a bare word stands among a line's notes.
pub(super) fn has_note(notes: &str, word: &str) -> bool {
    notes.split(' ').any(|note| note == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_is_read() {
        let table = table();
        assert!(table.len() > 400);
        for entry in &table.types {
            assert!(!matches!(entry.node, Node::Unread), "{} has no line of its own", entry.name);
        }
        let lines = TEXT.lines().filter(|line| line.starts_with('\t')).count();
        let declared: usize = table
            .types
            .iter()
            .map(|entry| match &entry.node {
                Node::Struct(body) => body.declared.len(),
                _ => 0,
            })
            .sum();
        assert_eq!(declared, lines);
    }

    #[test]
    fn kinds_are_found_by_version() {
        let table = table();
        let name = |version, kind| table.lookup(version, kind).map(|id| table.get(id).name);
        assert_eq!(name("v1", "Pod"), Some("core.Pod"));
        assert_eq!(name("v1", "Event"), Some("core.Event"));
        assert_eq!(name("events.k8s.io/v1", "Event"), Some("events.Event"));
        assert_eq!(name("batch/v1", "JobList"), Some("batch.JobList"));
        assert_eq!(name("meta.k8s.io/v1", "DeleteOptions"), Some("meta.DeleteOptions"));
        assert_eq!(name("v1", "DeleteOptions"), Some("meta.DeleteOptions"));
        assert_eq!(name("v2", "Pod"), None);
        assert_eq!(name("v1", "PodSpec"), None);
    }

    #[test]
    fn go_names_are_as_go_prints_them() {
        let table = table();
        let go = |name: &str| table.go_name(table.named(name).expect(name));
        assert_eq!(go("core.RestartPolicy"), "v1.RestartPolicy");
        assert_eq!(go("[]core.Container"), "[]v1.Container");
        assert_eq!(go("map[string]bytes"), "map[string][]uint8");
        assert_eq!(go("types.UID"), "types.UID");
        assert_eq!(
            go("map[core.ResourceName]resource.Quantity"),
            "map[v1.ResourceName]resource.Quantity"
        );
    }

    #[test]
    fn embedded_members_are_members() {
        let table = table();
        let Node::Struct(volume) = table.node(table.named("core.Volume").expect("there")) else {
            panic!("a struct")
        };
        let field = volume.fields.iter().find(|field| field.name == "emptyDir").expect("there");
        assert_eq!(field.via, ["VolumeSource"]);
        assert!(volume.fields.is_sorted_by_key(|field| field.name));
    }

    #[test]
    fn notes_are_found() {
        let notes = r#"pb=2 enum=A,B required list=map default={"a b":1}"#;
        assert_eq!(note(notes, "enum"), Some("A,B"));
        assert_eq!(note(notes, "default"), Some(r#"{"a b":1}"#));
        assert_eq!(note(notes, "keys"), None);
        assert!(has_note(notes, "required"));
        assert!(!has_note(notes, "list"));
    }
}
