//! The spec of a definition: group, names, versions and what each version declares.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::hoist::{Hoisted, Shared};
use super::open_api::{self, not_supported};
use super::{default_values, field_path, go_form, structural};
use crate::field::{FieldError, FieldErrors, Path};
use crate::go;
use crate::json::{Access, Object};
use crate::name;
use crate::schema::{CompileError, Node};

const MAX_SELECTABLE_FIELDS: usize = 8;
const MAX_DEPRECATION_WARNING: usize = 256;
/// Bounds the recursion of everything that walks a schema before it is compiled.
const MAX_JSON_DEPTH: usize = 256;

/// Checks everything in a spec that does not depend on what was there before.
pub(super) fn validate(spec: &Object, errors: &mut FieldErrors) {
    let path = &Path::new("spec");
    let hoisted = Hoisted::new(spec);
    group(spec.text("group"), &path.field("group"), errors);
    scope(spec, &path.field("scope"), errors);
    if spec.flag("preserveUnknownFields") && hoisted.schemas().iter().any(|(_, s)| has_default(s)) {
        let at = path.field("preserveUnknownFields");
        let detail = "must be false in order to use defaults in the schema";
        errors.push(FieldError::invalid(&at, &Value::Bool(true), detail));
    }
    let versions_path = path.field("versions");
    require_schemas(&hoisted, &versions_path, errors);
    for (index, version) in hoisted.versions.iter().enumerate() {
        validate_version(&hoisted, version, &versions_path.index(index), errors);
    }
    versions(&hoisted, &versions_path, errors);
    if let Some(first) = hoisted.versions.first() {
        // Upstream keeps the first version's name apart and checks it once more there.
        let first = first.text("name");
        if !first.is_empty() {
            dns1035(first, &path.field("version"), "", errors);
        }
    }
    required_names(spec.at("names"), &path.field("names"), errors);
    names(spec.at("names"), &path.field("names"), errors);
    shared_members(&hoisted, path, errors);
    conversion(spec.at("conversion"), &path.field("conversion"), errors);
}

fn group(group: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    if group.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    let problems = name::dns1123_subdomain(group);
    if !problems.is_empty() {
        errors.push(FieldError::invalid_text(path, group, problems.join(",")));
    } else if !group.contains('.') {
        let detail = "should be a domain with at least one dot";
        errors.push(FieldError::invalid_text(path, group, detail));
    }
}

fn scope(spec: &Object, path: &Path<'_>, errors: &mut FieldErrors) {
    match spec.text("scope") {
        "" => errors.push(FieldError::required(path, "")),
        "Cluster" | "Namespaced" => {}
        _ => errors.push(not_supported(path, spec.at("scope"), &["Cluster", "Namespaced"])),
    }
}

fn require_schemas(spec: &Hoisted<'_>, path: &Path<'_>, errors: &mut FieldErrors) {
    if spec.top(Shared::Schema).at("openAPIV3Schema").is_object() {
        return;
    }
    for (index, version) in spec.versions.iter().enumerate() {
        if !spec.of_version(Shared::Schema, version).at("openAPIV3Schema").is_object() {
            let at = path.index(index);
            let at = at.field("schema");
            errors.push(FieldError::required(&at.field("openAPIV3Schema"), ""));
        }
    }
}

fn validate_version(
    spec: &Hoisted<'_>,
    version: &Value,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    dns1035(version.text("name"), &path.field("name"), "", errors);
    deprecation(version, &path.field("deprecationWarning"), errors);
    let subresources = version.at("subresources");
    let holder = spec.of_version(Shared::Schema, version);
    let schema = holder.at("openAPIV3Schema");
    let has_status = subresources.at("status").is_object();
    if schema.is_object() {
        validate_schema(schema, has_status, &path.field("schema"), errors);
    }
    let own = spec.of_version(Shared::Subresources, version);
    scale(own.at("scale"), &path.field("subresources"), errors);
    columns(
        spec.of_version(Shared::Columns, version),
        &path.field("additionalPrinterColumns"),
        errors,
    );
    let selectable = spec.of_version(Shared::SelectableFields, version);
    if selectable.as_array().is_some_and(|fields| !fields.is_empty()) {
        let at = path.field("selectableFields");
        if schema.is_object() {
            let schema_path = path.field("schema");
            let schema_path = schema_path.field("openAPIV3Schema");
            selectable_fields(selectable, schema, &schema_path, &at, errors);
        } else {
            // Upstream says it the wrong way round, and also when all versions share a schema.
            let detail = "may only be set when `version.schema.openAPIV3Schema` is not included";
            errors.push(FieldError::invalid_text(&at, "", detail));
        }
    }
}

/// What moved to the top of the spec because all versions agree on it.
fn shared_members(spec: &Hoisted<'_>, path: &Path<'_>, errors: &mut FieldErrors) {
    let schema = spec.top(Shared::Schema).at("openAPIV3Schema");
    let has_status = spec.versions.iter().any(|v| v.at("subresources").at("status").is_object());
    if schema.is_object() {
        let at = path.field(Shared::Schema.top_name());
        validate_schema(schema, has_status, &at, errors);
    }
    let subresources = spec.top(Shared::Subresources);
    scale(subresources.at("scale"), &path.field(Shared::Subresources.top_name()), errors);
    columns(spec.top(Shared::Columns), &path.field(Shared::Columns.top_name()), errors);
    let selectable = spec.top(Shared::SelectableFields);
    if selectable.as_array().is_some_and(|fields| !fields.is_empty()) {
        let at = path.field(Shared::SelectableFields.top_name());
        if spec.top(Shared::Schema).is_null() {
            let detail = "may only be set when validations.schema is included";
            errors.push(FieldError::invalid_text(&at, "", detail));
        } else {
            let schema_path = path.field("schema");
            let schema_path = schema_path.field("openAPIV3Schema");
            selectable_fields(selectable, schema, &schema_path, &at, errors);
        }
    }
}

fn versions(spec: &Hoisted<'_>, path: &Path<'_>, errors: &mut FieldErrors) {
    let unique: BTreeSet<&str> = spec.versions.iter().map(|v| v.text("name")).collect();
    let mut refuse = |detail: &str| {
        errors.push(FieldError::invalid_raw(path, go_form::versions(spec), detail));
    };
    if unique.len() != spec.versions.len() {
        refuse("must contain unique version names");
    }
    if spec.versions.iter().filter(|v| v.flag("storage")).count() != 1 {
        refuse("must have exactly one version marked as storage version");
    }
}

/// A name in lower case, or one in mixed case that would be one in lower case.
fn dns1035(value: &str, path: &Path<'_>, preface: &str, errors: &mut FieldErrors) {
    let problems = if preface.is_empty() {
        name::dns1035_label(value)
    } else {
        name::dns1035_label(&value.to_lowercase())
    };
    if !problems.is_empty() {
        let detail = format!("{preface}{}", problems.join(","));
        errors.push(FieldError::invalid_text(path, value, detail));
    }
}

fn required_names(names: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    for member in ["plural", "singular", "kind", "listKind"] {
        if names.text(member).is_empty() {
            errors.push(FieldError::required(&path.field(member), ""));
        }
    }
}

/// Names that are given must be well formed; `status.acceptedNames` is held to this too.
pub(super) fn names(names: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    const MIXED: &str = "may have mixed case, but should otherwise match: ";
    for (member, preface) in
        [("plural", ""), ("singular", ""), ("kind", MIXED), ("listKind", MIXED)]
    {
        let value = names.text(member);
        if !value.is_empty() {
            dns1035(value, &path.field(member), preface, errors);
        }
    }
    let listed = |member: &str, errors: &mut FieldErrors| {
        let at = path.field(member);
        for (index, value) in names.list(member).iter().enumerate() {
            dns1035(value.as_str().unwrap_or_default(), &at.index(index), "", errors);
        }
    };
    listed("shortNames", errors);
    let kind = names.text("kind");
    if !kind.is_empty() && kind == names.text("listKind") {
        let detail = "kind and listKind may not be the same";
        errors.push(FieldError::invalid_text(&path.field("listKind"), kind, detail));
    }
    listed("categories", errors);
}

fn deprecation(version: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let Some(warning) = version.get("deprecationWarning").and_then(Value::as_str) else {
        return;
    };
    let mut refuse = |detail: &str| {
        let shown = go::json(version.at("deprecationWarning"));
        errors.push(FieldError::invalid_raw(path, shown, detail));
    };
    if !version.flag("deprecated") {
        refuse("can only be set for deprecated versions");
        return;
    }
    if warning.len() > MAX_DEPRECATION_WARNING {
        refuse("must be <= 256 characters long");
    }
    if warning.is_empty() {
        refuse("must not be an empty string");
    }
    if let Some(found) = UNPRINTABLE.find(warning) {
        refuse(&format!(
            "must only contain printable UTF-8 characters; non-printable character found at index \
             {}",
            found.start()
        ));
    }
}

/// What Go's `unicode.IsPrint` denies.
static UNPRINTABLE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"[^\p{L}\p{M}\p{N}\p{P}\p{S} ]").expect("the pattern is a constant")
});

fn scale(scale: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    if scale.is_null() {
        return;
    }
    for (member, required, roots, detail) in [
        ("specReplicasPath", true, &[".spec."][..], "should be a json path under .spec"),
        ("statusReplicasPath", true, &[".status."][..], "should be a json path under .status"),
        (
            "labelSelectorPath",
            false,
            &[".spec.", ".status."][..],
            "should be a json path under either .spec or .status",
        ),
    ] {
        let at = path.field("scale");
        let at = at.field(member);
        let value = scale.text(member);
        if value.is_empty() {
            if required {
                errors.push(FieldError::required(&at, ""));
            }
        } else if !value.starts_with('.') {
            errors.push(FieldError::invalid_text(&at, value, NOT_SIMPLE));
        } else if !roots.iter().any(|root| value.starts_with(root)) {
            errors.push(FieldError::invalid_text(&at, value, detail));
        }
    }
}

const NOT_SIMPLE: &str = "must be a simple json path starting with .";

fn columns(columns: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    const TYPES: &str = "boolean,date,integer,number,string";
    const FORMATS: &str = "byte,date,date-time,double,float,int32,int64,password";
    let listed = |list: &str, value: &str| list.split(',').any(|known| known == value);
    for (index, column) in columns.as_array().into_iter().flatten().enumerate() {
        let path = path.index(index);
        if column.text("name").is_empty() {
            errors.push(FieldError::required(&path.field("name"), ""));
        }
        let (kind, format) = (column.text("type"), column.text("format"));
        let one_of = format!("must be one of {TYPES}");
        if kind.is_empty() {
            errors.push(FieldError::required(&path.field("type"), one_of));
        } else if !listed(TYPES, kind) {
            errors.push(FieldError::invalid_text(&path.field("type"), kind, one_of));
        }
        if !format.is_empty() && !listed(FORMATS, format) {
            let detail = format!("must be one of {FORMATS}");
            errors.push(FieldError::invalid_text(&path.field("format"), format, detail));
        }
        let json_path = column.text("jsonPath");
        let at = path.field("JSONPath");
        if json_path.is_empty() {
            errors.push(FieldError::required(&at, ""));
        } else if !json_path.starts_with('.') {
            errors.push(FieldError::invalid_text(&at, json_path, NOT_SIMPLE));
        }
    }
}

fn selectable_fields(
    fields: &Value,
    schema: &Value,
    schema_path: &Path<'_>,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    // Upstream does not survive the lookup in a schema that it cannot read; here nothing is found.
    let unsupported = structural::unsupported(schema);
    let schema = if unsupported.is_some() { &Value::Null } else { schema };
    errors.extend(unsupported.map(|p| FieldError::invalid_text(schema_path, "", p)));
    let mut seen = BTreeSet::new();
    for (index, field) in fields.as_array().into_iter().flatten().enumerate() {
        let at = path.index(index);
        let at = at.field("jsonPath");
        let json_path = field.text("jsonPath");
        if json_path.is_empty() {
            errors.push(FieldError::required(&at, ""));
            continue;
        }
        let found = match field_path::resolve(json_path, schema, false) {
            Ok(found) => found,
            Err(problem) => {
                let detail = format!("is an invalid path: {problem}");
                errors.push(FieldError::invalid_text(&at, json_path, detail));
                continue;
            }
        };
        if found.steps.first().is_some_and(|step| step == "metadata") {
            let detail = "must not point to fields in metadata";
            errors.push(FieldError::invalid_text(&at, json_path, detail));
        }
        if !matches!(found.schema.text("type"), "string" | "boolean" | "integer") {
            let detail = "must point to a field of type string, boolean or integer. Enum string \
                          fields and strings with formats are allowed.";
            errors.push(FieldError::invalid_text(&at, json_path, detail));
        }
        if !seen.insert(found.steps) {
            errors.push(FieldError::duplicate(&at, &Value::from(json_path)));
        }
    }
    if seen.len() > MAX_SELECTABLE_FIELDS {
        errors.push(FieldError::too_many(path, seen.len(), MAX_SELECTABLE_FIELDS));
    }
}

/// Members that may stand beside `properties` at the root when `status` is a subresource, by
/// their names in Go; others would be lost when the schema of `status` is taken out.
const ALLOWED_AT_ROOT: &str = "Description Type Format Title Maximum ExclusiveMaximum Minimum \
    ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required \
    Items Properties ExternalDocs Example XPreserveUnknownFields XValidations";

fn is_allowed_at_root(member: &str) -> bool {
    let go_name = match member {
        "x-kubernetes-preserve-unknown-fields" => "XPreserveUnknownFields",
        "x-kubernetes-validations" => "XValidations",
        other => other,
    };
    ALLOWED_AT_ROOT.split(' ').any(|allowed| allowed.eq_ignore_ascii_case(go_name))
}

fn validate_schema(schema: &Value, has_status: bool, holder: &Path<'_>, errors: &mut FieldErrors) {
    let path = &holder.field("openAPIV3Schema");
    let known = errors.len();
    if !is_within(schema, MAX_JSON_DEPTH) {
        errors.push(FieldError::invalid_text(path, "", CompileError::TooDeep.to_string()));
        return;
    }
    if has_status {
        status_root(schema, path, errors);
    }
    if schema.flag("nullable") {
        let detail = "nullable cannot be true at the root";
        errors.push(FieldError::forbidden(&path.field("nullable"), detail));
    }
    let unsupported = structural::unsupported(schema);
    if unsupported.is_none() {
        let problems = structural::validate(schema, path);
        if problems.is_empty() {
            match Node::compile_for_defaults(schema) {
                Ok(node) => default_values::validate(&node, path, errors),
                Err(problem) => {
                    errors.push(FieldError::invalid_text(path, "", problem.to_string()));
                    return;
                }
            }
        }
        errors.extend(problems);
    }
    open_api::validate(schema, open_api::Context::ROOT, path, errors);
    if let (Some(problem), true) = (unsupported, errors.len() == known) {
        errors.push(FieldError::invalid_text(path, "", problem));
    }
}

fn has_default(schema: &Value) -> bool {
    !schema.at("default").is_null() || structural::children(schema).any(has_default)
}

fn is_within(value: &Value, depth: usize) -> bool {
    match value {
        Value::Array(items) => depth > 0 && items.iter().all(|v| is_within(v, depth - 1)),
        Value::Object(members) => depth > 0 && members.values().all(|v| is_within(v, depth - 1)),
        _ => true,
    }
}

fn status_root(schema: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let schema_type = schema.text("type");
    let odd_type = !schema_type.is_empty() && schema_type != "object";
    // Upstream stops at the first member it refuses, and these come before the type.
    let before_type = ["id", "$schema", "$ref"].iter().any(|m| !schema.text(m).is_empty());
    if odd_type && !before_type {
        let detail = "only \"object\" is allowed as the type at the root of the schema if the \
                      status subresource is enabled";
        errors.push(FieldError::invalid_text(&path.field("type"), schema_type, detail));
        return;
    }
    let mut members = schema.as_object().into_iter().flatten();
    if members.any(|(member, value)| !value.is_null() && !is_allowed_at_root(member)) {
        let detail = format!(
            "only [{ALLOWED_AT_ROOT}] fields are allowed at the root of the schema if the status \
             subresource is enabled"
        );
        errors.push(FieldError::invalid_raw(path, go_form::schema(schema), detail));
    }
}

/// Only conversion that changes nothing but `apiVersion` exists here.
fn conversion(conversion: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    if conversion.is_null() {
        return;
    }
    let at = path.field("strategy");
    match conversion.text("strategy") {
        "" => errors.push(FieldError::required(&at, "")),
        "None" => {}
        "Webhook" => {
            let detail = "this server does not call conversion webhooks; use None and keep the \
                          versions' schemas compatible";
            errors.push(FieldError::forbidden(&at, detail));
            return;
        }
        _ => errors.push(not_supported(&at, conversion.at("strategy"), &["None", "Webhook"])),
    }
    let webhook = conversion.at("webhook");
    let detail = "should not be set when strategy is not set to Webhook";
    if !webhook.at("clientConfig").is_null() {
        errors.push(FieldError::forbidden(&path.field("webhookClientConfig"), detail));
    }
    if !webhook.list("conversionReviewVersions").is_empty() {
        errors.push(FieldError::forbidden(&path.field("conversionReviewVersions"), detail));
    }
}
