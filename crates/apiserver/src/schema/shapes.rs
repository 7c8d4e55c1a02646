//! How values of a schema are composed, for server-side apply.

use std::collections::BTreeMap;

use super::{Additional, Node, Type, Types};
use crate::shape::{Field, ListKind, PatchStrategy, Shape, ShapeId, Shapes};

/// The shapes of a whole resource.
pub(super) fn build(root: &Node) -> (Shapes, ShapeId) {
    let mut shapes = Shapes::default();
    let scalar = shapes.push(Shape::Scalar);
    let any = shapes.push(Shape::Any);
    let metadata = metadata_shape(&mut shapes);
    let root_shape = Builder { shapes: &mut shapes, scalar, any, metadata }.shape(root);
    (shapes, root_shape)
}

/// The shape of object metadata. It is the same for every kind; custom kinds get it from here,
/// built-in kinds from the generated type tables.
fn metadata_shape(shapes: &mut Shapes) -> ShapeId {
    let scalar = shapes.push(Shape::Scalar);
    let any = shapes.push(Shape::Any);
    let text_map =
        shapes.push(Shape::Map { fields: BTreeMap::new(), rest: Some(scalar), atomic: false });
    let finalizers = shapes.push(Shape::List { item: scalar, kind: ListKind::Set });
    let owner_names = ["apiVersion", "blockOwnerDeletion", "controller", "kind", "name", "uid"];
    let owner = shapes.push(Shape::Map {
        fields: owner_names.map(|name| (name.into(), field(scalar))).into(),
        rest: None,
        atomic: true,
    });
    let owners = shapes.push(Shape::List { item: owner, kind: ListKind::Map(vec!["uid".into()]) });
    let managed = shapes.push(Shape::List { item: any, kind: ListKind::Atomic });
    let mut fields: BTreeMap<Box<str>, Field> = [
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "generateName",
        "generation",
        "name",
        "namespace",
        "resourceVersion",
        "selfLink",
        "uid",
    ]
    .map(|name| (name.into(), field(scalar)))
    .into();
    fields.insert("annotations".into(), field(text_map));
    fields.insert("labels".into(), field(text_map));
    fields.insert("finalizers".into(), field(finalizers));
    fields.insert("ownerReferences".into(), field(owners));
    fields.insert("managedFields".into(), field(managed));
    shapes.push(Shape::Map { fields, rest: None, atomic: false })
}

fn field(shape: ShapeId) -> Field {
    Field { shape, default: None, always_present: false, patch: PatchStrategy::default() }
}

struct Builder<'s> {
    shapes: &'s mut Shapes,
    scalar: ShapeId,
    any: ShapeId,
    metadata: ShapeId,
}

impl Builder<'_> {
    fn shape(&mut self, node: &Node) -> ShapeId {
        match node.types {
            Types::One(Type::Array) => {
                let item = node.items.as_deref().map_or(self.any, |item| self.shape(item));
                let kind = node.list.clone().unwrap_or(ListKind::Atomic);
                self.shapes.push(Shape::List { item, kind })
            }
            Types::One(Type::Object) => self.object(node),
            Types::Any if !node.properties.is_empty() => self.object(node),
            Types::Any => self.any,
            Types::One(_) | Types::IntOrString => self.scalar,
        }
    }

    fn object(&mut self, node: &Node) -> ShapeId {
        let mut fields = BTreeMap::new();
        for (name, property) in &node.properties {
            let shape = self.shape(property);
            let default = property.default.clone();
            fields.insert(name.clone(), Field { default, ..field(shape) });
        }
        if node.embedded {
            fields.insert("apiVersion".into(), field(self.scalar));
            fields.insert("kind".into(), field(self.scalar));
            fields.insert("metadata".into(), field(self.metadata));
        }
        let rest = match &node.additional {
            Additional::Schema(schema) => Some(self.shape(schema)),
            Additional::Allowed => Some(self.any),
            _ if node.preserve_unknown => Some(self.any),
            Additional::Undeclared | Additional::Denied => None,
        };
        self.shapes.push(Shape::Map { fields, rest, atomic: node.atomic_map })
    }
}
