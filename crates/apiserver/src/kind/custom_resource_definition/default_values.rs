//! Defaults must be values that the schema itself would take.

use serde_json::{Map, Value};

use crate::field::{FieldError, FieldErrors, Path};
use crate::go;
use crate::schema::Node;

/// Checks all defaults in a structural schema.
pub(super) fn validate(root: &Node, path: &Path<'_>, errors: &mut FieldErrors) {
    let resource = Resource { node: root, steps: None };
    walk(root, &resource, false, path, errors);
}

/// The resource that a default is part of, and the way from there to it.
struct Resource<'a> {
    node: &'a Node,
    steps: Option<&'a Step<'a>>,
}

struct Step<'a> {
    before: Option<&'a Self>,
    /// A member, or an item of a list.
    name: Option<&'a str>,
}

impl Resource<'_> {
    /// An object of that resource that holds nothing but the default.
    fn around(&self, default: &Value) -> Value {
        let mut value = default.clone();
        let mut step = self.steps;
        while let Some(inner) = step {
            value = match inner.name {
                Some(name) => Value::Object(Map::from_iter([(name.to_owned(), value)])),
                None => Value::Array(vec![value]),
            };
            step = inner.before;
        }
        if let Some(members) = value.as_object_mut() {
            members.entry("kind").or_insert_with(|| "Validation".into());
            members.entry("apiVersion").or_insert_with(|| "validation/v1".into());
        }
        value
    }
}

fn walk(
    node: &Node,
    resource: &Resource<'_>,
    inside_meta: bool,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let own = Resource { node, steps: None };
    let (resource, inside_meta) =
        if node.is_resource() { (&own, false) } else { (resource, inside_meta) };
    if let Some(default) = node.default_value() {
        let at = path.field("default");
        if inside_meta {
            check_in_metadata(node, default, resource, &at, errors);
        } else {
            check(node, default, &at, errors);
        }
    }
    if let Some(item) = node.item() {
        let step = Step { before: resource.steps, name: None };
        let inner = Resource { node: resource.node, steps: Some(&step) };
        walk(item, &inner, inside_meta, &path.field("items"), errors);
    }
    let properties = path.field("properties");
    for (name, property) in node.declared() {
        let of_resource = node.is_resource() && matches!(name, "metadata" | "apiVersion" | "kind");
        let step = Step { before: resource.steps, name: Some(name) };
        let inner = Resource { node: resource.node, steps: Some(&step) };
        walk(property, &inner, inside_meta || of_resource, &properties.key(name), errors);
    }
}

fn check(node: &Node, default: &Value, at: &Path<'_>, errors: &mut FieldErrors) {
    let mut pruned = default.clone();
    node.prune_value(&mut pruned);
    if &pruned != default {
        let detail = "must not have unknown fields";
        errors.push(FieldError::invalid_raw(at, go::shown(default), detail));
    }
    let mut coerced = default.clone();
    if let Err(error) = node.coerce_value(&mut coerced, at) {
        errors.push(error);
        return;
    }
    let known = errors.len();
    node.validate_resources(&coerced, at, errors);
    if errors.len() == known {
        node.validate_value(&coerced, at, errors);
    }
}

/// A default inside an embedded resource's metadata or type must make a valid resource.
fn check_in_metadata(
    node: &Node,
    default: &Value,
    resource: &Resource<'_>,
    at: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let mut object = resource.around(default);
    let refuse = |problem: &str| {
        let detail = format!("must result in valid metadata: {problem}");
        FieldError::invalid_raw(at, go::shown(default), detail)
    };
    if let Err(error) = resource.node.coerce_value(&mut object, &Path::root()) {
        errors.push(refuse(&error.to_string()));
        return;
    }
    let mut problems = FieldErrors::new();
    resource.node.validate_resources(&object, &Path::root(), &mut problems);
    match &problems[..] {
        [] => node.validate_value(default, at, errors),
        [one] => errors.push(refuse(&one.to_string())),
        many => {
            let texts: Vec<String> = many.iter().map(ToString::to_string).collect();
            errors.push(refuse(&format!("[{}]", texts.join(", "))));
        }
    }
}
