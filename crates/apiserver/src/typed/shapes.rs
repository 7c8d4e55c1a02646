//! The shapes of the built-in kinds: list types and patch strategies, from the table's notes.
//!
//! Upstream derives the shapes for apply from the OpenAPI schemas, those for strategic merge from
//! the Go tags; both stand in the notes.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::shape::{self, ListKind, PatchStrategy, Shape, ShapeId, Shapes};
use crate::typed::table::{Node, Omit, Opaque, Struct, TypeId, TypeTable, note};

/// The shapes of all types, with the shape of each type where nothing overrides it.
#[derive(Debug)]
pub(crate) struct ShapeIndex {
    shapes: Shapes,
    of_type: Vec<ShapeId>,
}

impl TypeTable {
    /// The arena in which [`Self::shape`] points.
    pub(crate) fn shapes(&self) -> &Shapes {
        &self.shape_index().shapes
    }

    pub(crate) fn shape(&self, ty: TypeId) -> ShapeId {
        self.shape_index().of_type[usize::from(ty.0)]
    }

    fn shape_index(&self) -> &ShapeIndex {
        self.shape_index.get_or_init(|| build(self))
    }
}

fn build(table: &TypeTable) -> ShapeIndex {
    let mut shapes = Shapes::default();
    // Types refer to each other in circles, so that every type gets its place first.
    let of_type = (0..table.len()).map(|_| shapes.reserve()).collect();
    let mut index = ShapeIndex { shapes, of_type };
    for position in 0..table.len() {
        let ty = TypeId(u16::try_from(position).expect("ids are 16 bits"));
        let shape = index.plain(table, ty);
        index.shapes.set(index.of_type[position], shape);
    }
    index
}

impl ShapeIndex {
    /// The shape of a type by itself.
    fn plain(&mut self, table: &TypeTable, ty: TypeId) -> Shape {
        match table.node(ty) {
            Node::Struct(body) => self.structure(table, body, note(body.notes, "map")),
            Node::Pointer(target) => self.plain(table, *target),
            Node::List { item, .. } => Shape::List { item: self.of(*item), kind: ListKind::Atomic },
            Node::Map { value } => {
                Shape::Map { fields: BTreeMap::new(), rest: Some(self.of(*value)), atomic: false }
            }
            Node::Opaque { codec, .. } => match codec {
                Opaque::Time
                | Opaque::MicroTime
                | Opaque::Quantity
                | Opaque::IntOrString
                | Opaque::RawExtension => Shape::Scalar,
                Opaque::Raw
                | Opaque::Fields
                | Opaque::SchemaOrBool
                | Opaque::SchemaOrArray
                | Opaque::SchemaOrStrings => Shape::Any,
            },
            Node::String
            | Node::Bool
            | Node::Int32
            | Node::Int64
            | Node::Float64
            | Node::Bytes
            | Node::Alias(_)
            | Node::Unread => Shape::Scalar,
        }
    }

    fn of(&self, ty: TypeId) -> ShapeId {
        self.of_type[usize::from(ty.0)]
    }

    fn structure(&mut self, table: &TypeTable, body: &Struct, map_type: Option<&str>) -> Shape {
        let mut fields = BTreeMap::new();
        for field in &body.fields {
            let shape = self.field(table, field.ty, field.notes);
            let default = note(field.notes, "default")
                .and_then(|default| serde_json::from_str::<Value>(default).ok());
            // What Go always writes, and structs that it leaves out only when they are empty.
            let by_value = matches!(table.node(field.ty), Node::Struct(_));
            let always_present = match field.omit {
                Omit::Never => true,
                Omit::Empty => by_value,
                _ => false,
            };
            let patch = patch_strategy(field.notes);
            fields.insert(
                Box::from(field.name),
                shape::Field { shape, default, always_present, patch },
            );
        }
        // An object about which nothing is declared may hold anything.
        let rest = fields.is_empty().then(|| self.shapes.push(Shape::Any));
        Shape::Map { fields, rest, atomic: map_type == Some("atomic") }
    }

    /// The shape of a field: that of its type, unless the field says otherwise.
    fn field(&mut self, table: &TypeTable, ty: TypeId, notes: &'static str) -> ShapeId {
        let map_type = note(notes, "map");
        let target = match table.node(ty) {
            Node::Pointer(target) => *target,
            _ => ty,
        };
        let shape = match table.node(target) {
            Node::List { item, .. } => {
                Shape::List { item: self.item(table, *item, notes), kind: list_kind(notes) }
            }
            Node::Map { value } if map_type.is_some() || note(notes, "itemlist").is_some() => {
                Shape::Map {
                    fields: BTreeMap::new(),
                    rest: Some(self.item(table, *value, notes)),
                    atomic: map_type == Some("atomic"),
                }
            }
            Node::Struct(body) if map_type.is_some() => self.structure(table, body, map_type),
            _ => return self.of(target),
        };
        self.shapes.push(shape)
    }

    /// The shape of the items of a list or map; a list within may have a type of its own.
    fn item(&mut self, table: &TypeTable, ty: TypeId, notes: &'static str) -> ShapeId {
        match (table.node(ty), note(notes, "itemlist")) {
            (Node::List { item, .. }, Some("set")) => {
                let item = self.of(*item);
                self.shapes.push(Shape::List { item, kind: ListKind::Set })
            }
            _ => self.of(ty),
        }
    }
}

fn list_kind(notes: &'static str) -> ListKind {
    match note(notes, "list") {
        Some("set") => ListKind::Set,
        Some("map") => {
            let keys = note(notes, "keys").unwrap_or_default();
            ListKind::Map(keys.split(',').map(Box::from).collect())
        }
        Some(_) => ListKind::Atomic,
        // Without a list type, the patch strategy decides.
        None => {
            let patch = patch_strategy(notes);
            match patch.merge_key {
                Some(key) if patch.merge => ListKind::Map(vec![key]),
                None if patch.merge => ListKind::Set,
                _ => ListKind::Atomic,
            }
        }
    }
}

fn patch_strategy(notes: &'static str) -> PatchStrategy {
    let strategies = note(notes, "patch").unwrap_or_default();
    PatchStrategy {
        merge: strategies.split(',').any(|strategy| strategy == "merge"),
        retain_keys: strategies.split(',').any(|strategy| strategy == "retainKeys"),
        merge_key: note(notes, "patchkey").map(Box::from),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::typed::table;

    /// The field at a dotted path, and the shape it has; lists and maps are looked into.
    fn field(kind: &str, path: &str) -> shape::Field {
        let table = table();
        let shapes = table.shapes();
        let mut at = table.shape(table.named(kind).expect(kind));
        let mut found = None;
        for name in path.split('.') {
            at = loop {
                match shapes.get(at) {
                    Shape::List { item, .. } => at = *item,
                    Shape::Map { fields, rest: Some(rest), .. } if fields.is_empty() => at = *rest,
                    Shape::Map { fields, .. } => {
                        let field = &fields[name];
                        found = Some(field.clone());
                        break field.shape;
                    }
                    other => panic!("{name} in {other:?}"),
                }
            };
        }
        found.expect("a path has a field")
    }

    fn shape_of(kind: &str, path: &str) -> &'static Shape {
        table().shapes().get(field(kind, path).shape)
    }

    fn keys(shape: &Shape) -> &[Box<str>] {
        match shape {
            Shape::List { kind: ListKind::Map(keys), .. } => keys,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn lists_are_maps_sets_or_atomic() {
        assert_eq!(keys(shape_of("core.Pod", "spec.containers")), [Box::from("name")]);
        assert_eq!(
            keys(shape_of("core.Pod", "spec.containers.ports")),
            [Box::from("containerPort"), Box::from("protocol")]
        );
        assert!(matches!(
            shape_of("core.Pod", "metadata.finalizers"),
            Shape::List { kind: ListKind::Set, .. }
        ));
        assert!(matches!(
            shape_of("core.Pod", "spec.containers.args"),
            Shape::List { kind: ListKind::Atomic, .. }
        ));
        let protocol = field("core.Pod", "spec.containers.ports.protocol");
        assert_eq!(protocol.default, Some(json!("TCP")));
    }

    #[test]
    fn objects_are_granular_or_atomic() {
        let atomic = |kind, path| matches!(shape_of(kind, path), Shape::Map { atomic: true, .. });
        assert!(atomic("core.Service", "spec.selector"));
        assert!(atomic("core.Pod", "spec.nodeSelector"));
        assert!(!atomic("core.Pod", "metadata.labels"));
        assert!(!atomic("core.ConfigMap", "data"));
        let table = table();
        let reference = table.shape(table.named("meta.OwnerReference").expect("there"));
        assert!(matches!(table.shapes().get(reference), Shape::Map { atomic: true, .. }));
    }

    #[test]
    fn structs_by_value_are_always_present() {
        assert!(field("core.Pod", "spec").always_present);
        assert!(field("core.Pod", "spec.containers.resources").always_present);
        assert!(!field("core.Pod", "spec.containers.livenessProbe").always_present);
        assert!(!field("core.Pod", "spec.nodeSelector").always_present);
    }

    #[test]
    fn patch_strategies_come_from_the_tags() {
        let containers = field("core.Pod", "spec.containers").patch;
        assert!(containers.merge && !containers.retain_keys);
        assert_eq!(containers.merge_key.as_deref(), Some("name"));
        let volumes = field("core.Pod", "spec.volumes").patch;
        assert!(volumes.merge && volumes.retain_keys);
        assert_eq!(field("core.Pod", "spec.containers.args").patch, PatchStrategy::default());
    }

    #[test]
    fn schemas_are_a_shape_that_contains_itself() {
        let spec = "spec.versions.schema.openAPIV3Schema";
        let nested = format!("{spec}.properties.properties.type");
        assert!(matches!(
            shape_of("apiextensions.CustomResourceDefinition", &nested),
            Shape::Scalar
        ));
        let default = format!("{spec}.default");
        assert!(matches!(shape_of("apiextensions.CustomResourceDefinition", &default), Shape::Any));
    }
}
