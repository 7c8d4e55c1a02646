//! A resource in one of its versions: what the verbs ask of it, answered for built-in and custom
//! kinds alike.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::apply;
use crate::cel;
use crate::engine::Shared;
use crate::field::{FieldError, FieldErrorKind, FieldErrors, Path};
use crate::json::{Access, Object, into_object, normalize_numbers};
use crate::kind::custom_resource_definition::schemas;
use crate::meta::{self, NameCheck};
use crate::name;
use crate::patch::PatchType;
use crate::selector::field::Selectable;
use crate::selector::{FieldSelector, SelectorError};
use crate::shape::{ShapeId, Shapes};
use crate::status::{ApiError, GroupResource};
use crate::store::{Draft, StoredObject};
use crate::table::{self, Printer};
use crate::typed;
use crate::verb::delete::{Propagation, finalizers_for};
use crate::warning::Warnings;

use super::builtin::Builtin;
use super::custom::{self, Custom, CustomVersion};
use super::{Resource, Rules, Version};

/// Events are removed this long after they were last written.
const EVENT_TTL_SECS: i64 = 3_600;
/// Namespaces that cannot be deleted.
const UNDELETABLE_NAMESPACES: [&str; 3] = ["default", "kube-system", "kube-public"];

#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    pub(crate) resource: Arc<Resource>,
    pub(crate) index: usize,
}

/// What validation found.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) errors: FieldErrors,
    pub(crate) warnings: Warnings,
}

/// The two kinds of rules, with the version already chosen.
enum VersionRules<'a> {
    Builtin(&'static Builtin),
    Custom(&'a CustomVersion),
}

impl Endpoint {
    pub(crate) fn version(&self) -> &Version {
        &self.resource.versions[self.index]
    }

    fn rules(&self) -> VersionRules<'_> {
        match &self.resource.rules {
            Rules::Builtin(builtin) => VersionRules::Builtin(builtin),
            Rules::Custom(custom) => VersionRules::Custom(&custom.versions[self.index]),
        }
    }

    pub(crate) fn custom(&self) -> Option<&CustomVersion> {
        match self.rules() {
            VersionRules::Custom(version) => Some(version),
            VersionRules::Builtin(_) => None,
        }
    }

    fn is(&self, kind: &str) -> bool {
        matches!(self.rules(), VersionRules::Builtin(b) if b.kind == kind)
    }

    // --- Reading bodies

    /// Types, prunes and defaults a body. Unknown fields are removed and named in `strict`.
    pub(crate) fn decode(
        &self,
        mut value: Value,
        strict: &mut Vec<String>,
    ) -> Result<Object, ApiError> {
        self.check_kind(&value)?;
        if value.is_null() {
            value = Value::Object(Object::new());
        }
        match self.rules() {
            VersionRules::Builtin(builtin) => {
                // An empty `managedFields` list is dropped by decoding, but it asks to reset them.
                let forgets =
                    value.at("metadata").at("managedFields").as_array().is_some_and(Vec::is_empty);
                let version = self.version();
                let ty = typed::table().lookup(&version.api_version, builtin.kind);
                let ty = ty.ok_or_else(|| ApiError::internal("the kind has no type table"))?;
                typed::decode(ty, &mut value, strict)
                    .map_err(|e| e.answer(|e| self.undecodable(e)))?;
                let mut object = into_object(value);
                self.set_type_meta(&mut object);
                builtin.rules.default(&mut object);
                if forgets {
                    let metadata = crate::json::object_mut(&mut object, "metadata");
                    metadata.insert("managedFields".to_owned(), Value::Array(Vec::new()));
                }
                Ok(object)
            }
            VersionRules::Custom(custom) => {
                if let Some(metadata) = value.get_mut("metadata") {
                    typed::decode_object_meta(metadata, strict)
                        .map_err(|e| e.answer(|e| self.undecodable(e)))?;
                }
                let mut unknown = Vec::new();
                custom.schema.prune(&mut value, Some(&mut unknown));
                custom
                    .schema
                    .coerce_embedded(&mut value, Some(&mut unknown))
                    .map_err(|e| self.undecodable(&e))?;
                strict.extend(unknown.into_iter().map(|path| format!("unknown field \"{path}\"")));
                custom.schema.default(&mut value)?;
                normalize_numbers(&mut value);
                Ok(into_object(value))
            }
        }
    }

    /// Completes the outcome of an apply. A custom kind's nulls are what the client said, and are
    /// left for validation to find.
    pub(crate) fn decode_applied(&self, value: Value) -> Result<Object, ApiError> {
        let VersionRules::Custom(custom) = self.rules() else {
            return self.decode(value, &mut Vec::new());
        };
        let mut value = value;
        if let Some(metadata) = value.get_mut("metadata") {
            typed::decode_object_meta(metadata, &mut Vec::new())
                .map_err(|e| e.answer(|e| self.undecodable(e)))?;
        }
        custom.schema.default(&mut value)?;
        Ok(into_object(value))
    }

    fn set_type_meta(&self, object: &mut Object) {
        object.insert("apiVersion".to_owned(), Value::from(&*self.version().api_version));
        object.insert("kind".to_owned(), Value::from(&*self.resource.kind));
    }

    fn undecodable(&self, why: &dyn std::fmt::Display) -> ApiError {
        let kind = &self.resource.kind;
        let version = &self.version().name;
        ApiError::bad_request(format!(
            "{kind} in version \"{version}\" cannot be handled as a {kind}: {why}"
        ))
    }

    /// The body must say that it is of this kind and version; built-in kinds may leave it out.
    pub(crate) fn check_kind(&self, value: &Value) -> Result<(), ApiError> {
        let expected = &*self.version().api_version;
        let (api_version, kind) = (value.text("apiVersion"), value.text("kind"));
        let VersionRules::Builtin(builtin) = self.rules() else {
            // Another kind is found by validation, as upstream finds it.
            if kind.is_empty() {
                let why = format!("Object 'Kind' is missing in '{value}'");
                return Err(ApiError::bad_request(why));
            }
            if api_version == expected {
                return Ok(());
            }
            return Err(ApiError::bad_request(format!(
                "the API version in the data ({api_version}) does not match the expected API \
                 version ({expected})"
            )));
        };
        let api_version = if api_version.is_empty() { expected } else { api_version };
        let kind = if kind.is_empty() { builtin.kind } else { kind };
        if (api_version, kind) == (expected, builtin.kind) {
            return Ok(());
        }
        let version = api_version.rsplit_once('/').map_or(api_version, |(_, version)| version);
        let why = if typed::table().lookup(api_version, kind).is_some() {
            let to = internal_name(builtin.group);
            format!("converting ({version}.{kind}) to ({to}.{}): unknown conversion", builtin.kind)
        } else {
            format!(
                "no kind \"{kind}\" is registered for version \"{api_version}\" in scheme \
                 \"pkg/runtime/scheme.go:111\""
            )
        };
        Err(ApiError::bad_request(format!(
            "{kind} in version \"{version}\" cannot be handled as a {}: {why}",
            builtin.kind
        )))
    }

    /// A custom object must say that it is of its kind.
    fn validate_kind(&self, object: &Object, errors: &mut FieldErrors) {
        let kind = object.text("kind");
        if *kind != *self.resource.kind {
            let why = format!("must be {}", self.resource.kind);
            errors.push(FieldError::invalid_text(&Path::new("kind"), kind, why));
        }
    }

    // --- The life of an object

    pub(crate) fn has_generation(&self) -> bool {
        match self.rules() {
            VersionRules::Builtin(builtin) => builtin.generation,
            VersionRules::Custom(_) => true,
        }
    }

    /// Whether an update changes what `metadata.generation` counts.
    pub(crate) fn bumps_generation(&self, new: &Object, old: &Object) -> bool {
        let counts_status = self.custom().is_some_and(|c| !c.status);
        let counted = |key: &str| match key {
            "metadata" | "apiVersion" | "kind" => false,
            "status" => counts_status,
            _ => true,
        };
        new.iter().any(|(k, v)| counted(k) && old.get(k) != Some(v))
            || old.keys().any(|k| counted(k) && !new.contains_key(k))
    }

    pub(crate) fn prepare_create(
        &self,
        object: &mut Object,
        engine: &Shared,
    ) -> Result<(), ApiError> {
        match self.rules() {
            VersionRules::Builtin(builtin) => {
                // Namespaces carry their name, which may just have been generated, as a label.
                builtin.rules.default(object);
                self.allocate(engine, object, None)?;
                builtin.rules.prepare_create(object);
            }
            VersionRules::Custom(custom) if custom.status => custom::drop_status(object),
            VersionRules::Custom(_) => {}
        }
        Ok(())
    }

    pub(crate) fn prepare_update(
        &self,
        new: &mut Object,
        old: &Object,
        engine: &Shared,
    ) -> Result<(), ApiError> {
        match self.rules() {
            VersionRules::Builtin(builtin) => {
                self.allocate(engine, new, Some(old))?;
                builtin.rules.prepare_update(new, old);
            }
            VersionRules::Custom(custom) if custom.status => {
                crate::kind::set_or_remove(new, "status", old.get("status").cloned());
            }
            VersionRules::Custom(_) => {}
        }
        Ok(())
    }

    fn allocate(
        &self,
        engine: &Shared,
        object: &mut Object,
        old: Option<&Object>,
    ) -> Result<(), ApiError> {
        engine
            .allocate(&self.resource.kind, object, old)
            .map_err(|errors| self.invalid(object, object.at("metadata").text("name"), &errors))
    }

    pub(crate) fn prepare_status_update(&self, new: &mut Object, old: &Object) {
        match self.rules() {
            VersionRules::Builtin(builtin) => builtin.rules.prepare_status_update(new, old),
            VersionRules::Custom(_) => {
                let status = new.remove("status");
                let managed = new.at("metadata").get("managedFields").cloned();
                let version = new.at("metadata").get("resourceVersion").cloned();
                *new = old.clone();
                crate::kind::set_or_remove(new, "status", status);
                let metadata = crate::json::object_mut(new, "metadata");
                crate::kind::set_or_remove(metadata, "managedFields", managed);
                crate::kind::set_or_remove(metadata, "resourceVersion", version);
            }
        }
    }

    fn name_check(&self) -> NameCheck {
        match self.rules() {
            VersionRules::Builtin(builtin) => builtin.name,
            VersionRules::Custom(_) => name::dns1123_subdomain,
        }
    }

    pub(crate) fn validate(&self, object: &mut Object, found: &mut Findings) {
        meta::validate(object, self.resource.namespaced, self.name_check(), &mut found.errors);
        match self.rules() {
            VersionRules::Builtin(builtin) => {
                if !self.is("CustomResourceDefinition") {
                    meta::validate_finalizer_names(object, &mut found.errors);
                }
                builtin.rules.validate(object, &mut found.errors);
                self.compile_rules(object, None, &mut found.errors);
            }
            VersionRules::Custom(custom) => {
                self.validate_kind(object, &mut found.errors);
                // Lent as a value and taken back: a copy would be the largest cost of a create.
                let value = Value::Object(std::mem::take(object));
                custom.check(&value, None, found);
                *object = into_object(value);
            }
        }
    }

    /// A definition whose rules do not compile is refused: rules that cannot be run protect nothing.
    fn compile_rules(&self, definition: &Object, old: Option<&Object>, errors: &mut FieldErrors) {
        if !self.is("CustomResourceDefinition") || !errors.is_empty() {
            return;
        }
        let before: Vec<&Value> =
            old.into_iter().flat_map(schemas).map(|(_, schema)| schema).collect();
        for (path, schema) in schemas(definition) {
            if before.contains(&schema) {
                continue;
            }
            if let Err(refused) = cel::Rules::compile(schema, &Path::new(&path)) {
                errors.extend(refused);
            }
        }
    }

    /// The rules of a kind that is only answered: it has no metadata to speak of.
    pub(crate) fn validate_review(&self, object: &Object, errors: &mut FieldErrors) {
        if let VersionRules::Builtin(builtin) = self.rules() {
            builtin.rules.validate(object, errors);
        }
    }

    pub(crate) fn validate_update(&self, new: &Object, old: &Object, found: &mut Findings) {
        match self.rules() {
            VersionRules::Builtin(builtin) => {
                if !self.is("CustomResourceDefinition") {
                    meta::validate_finalizer_names(new, &mut found.errors);
                }
                builtin.rules.validate_update(new, old, &mut found.errors);
                self.compile_rules(new, Some(old), &mut found.errors);
            }
            VersionRules::Custom(custom) => {
                self.validate_kind(new, &mut found.errors);
                let (new, old) = (Value::Object(new.clone()), Value::Object(old.clone()));
                custom.check(&new, Some(&old), found);
            }
        }
    }

    pub(crate) fn validate_status_update(&self, new: &Object, old: &Object, found: &mut Findings) {
        match self.rules() {
            VersionRules::Builtin(builtin) => {
                builtin.rules.validate_status_update(new, old, &mut found.errors);
            }
            VersionRules::Custom(custom) => custom.check_status(new, old, found),
        }
    }

    pub(crate) fn warnings(&self, new: &Object, old: Option<&Object>) -> Warnings {
        match self.rules() {
            VersionRules::Builtin(builtin) => builtin.rules.warnings(new, old),
            VersionRules::Custom(_) => Warnings::default(),
        }
    }

    pub(crate) fn unconditional_update(&self) -> bool {
        matches!(self.rules(), VersionRules::Builtin(b) if b.unconditional_update)
    }

    pub(crate) fn create_on_update(&self) -> bool {
        matches!(self.rules(), VersionRules::Builtin(b) if b.create_on_update)
    }

    // --- Deletion

    pub(crate) fn delete_returns_object(&self) -> bool {
        matches!(self.rules(), VersionRules::Builtin(b) if b.delete_returns_object)
    }

    pub(crate) fn check_delete(&self, current: &StoredObject) -> Result<(), ApiError> {
        if self.is("Namespace") && UNDELETABLE_NAMESPACES.contains(&current.name()) {
            let of = GroupResource { group: "", resource: "namespaces" };
            return Err(ApiError::forbidden(
                of,
                current.name(),
                "this namespace may not be deleted",
            ));
        }
        Ok(())
    }

    /// The finalizers that remain when a deletion begins.
    pub(crate) fn deletion_finalizers(
        &self,
        object: &Object,
        asked: Option<Propagation>,
    ) -> Vec<String> {
        if self.is("Event") {
            return finalizers_for(object, Some(Propagation::Background), false);
        }
        let mut finalizers = finalizers_for(object, asked, self.orphans_by_default());
        if self.is("CustomResourceDefinition") && !meta::is_deleting(object) {
            finalizers.push(crate::background::crd::CLEANUP_FINALIZER.to_owned());
        }
        finalizers
    }

    pub(crate) fn orphans_by_default(&self) -> bool {
        matches!(self.rules(), VersionRules::Builtin(b) if b.orphans_by_default)
    }

    /// What an object that nobody filled in shows.
    pub(crate) fn zero(&self) -> Option<&Value> {
        self.resource.zero.as_ref()
    }

    /// Whether a deletion is always first marked, even when it needs no time.
    pub(crate) fn is_graceful(&self) -> bool {
        self.is("Pod")
    }

    /// Only Pods end gracefully: their node needs time.
    pub(crate) fn grace_seconds(&self, object: &Object, asked: Option<i64>) -> i64 {
        if !self.is("Pod") {
            return 0;
        }
        let spec = object.at("spec");
        let asked = asked.or_else(|| spec.int("terminationGracePeriodSeconds")).unwrap_or(30);
        // A Pod that no node runs, or that has ended, needs no grace.
        let phase = object.at("status").text("phase");
        if spec.text("nodeName").is_empty() || matches!(phase, "Failed" | "Succeeded") {
            return 0;
        }
        if asked < 0 { 1 } else { asked }
    }

    /// Whether finalizers in `spec` (of a Namespace) keep an object that is being deleted.
    pub(crate) fn has_spec_finalizers(&self, object: &Object) -> bool {
        self.is("Namespace") && !object.at("spec").list("finalizers").is_empty()
    }

    /// Whether an object without finalizers that is being deleted may be removed.
    pub(crate) fn may_be_removed(&self, object: &Object) -> bool {
        !self.has_spec_finalizers(object)
    }

    /// Whether the start of a deletion counts as a change of what is wanted.
    pub(crate) fn deletion_bumps_generation(&self) -> bool {
        !self.is("CustomResourceDefinition")
    }

    /// The 422 for an object of this kind.
    pub(crate) fn invalid(&self, object: &Object, name: &str, errors: &FieldErrors) -> ApiError {
        let mut error = match self.rules() {
            // A view's objects are validated as what they are stored as.
            VersionRules::Builtin(Builtin { view: Some(view), kind, .. }) => {
                ApiError::invalid(view.group, kind, name, errors)
            }
            VersionRules::Builtin(builtin) => {
                ApiError::invalid(builtin.group, builtin.kind, name, errors)
            }
            VersionRules::Custom(_) => {
                ApiError::invalid(&self.resource.group, object.text("kind"), name, errors)
            }
        };
        if errors.omitted() > 0 {
            error.message.push_str(&format!("; {} more errors are not listed", errors.omitted()));
        }
        error
    }

    /// Namespaces show no grace period.
    pub(crate) fn shows_grace_period(&self) -> bool {
        !self.is("Namespace")
    }

    pub(crate) fn set_terminating(&self, object: &mut Object) {
        if self.is("Namespace") {
            let status = crate::json::object_mut(object, "status");
            status.insert("phase".to_owned(), Value::from("Terminating"));
        }
    }

    // --- Storage

    /// Serialises an object for the store, in the storage version.
    pub(crate) fn draft(&self, mut object: Object, engine: &Shared) -> Draft {
        let fields = self.index_fields(&object);
        if let VersionRules::Builtin(Builtin { view: Some(view), .. }) = self.rules() {
            (view.to_storage)(&mut object);
        }
        if let Rules::Custom(custom) = &self.resource.rules
            && let Some(schema) =
                custom.storage_schema.as_ref().filter(|_| !self.same_schema(custom))
        {
            let mut value = Value::Object(object);
            schema.prune(&mut value, None);
            object = into_object(value);
        }
        let draft = Draft::new(&object, &self.resource.storage_header, fields);
        if self.is("Event") {
            return draft.expiring_at(engine.clock.now().as_second() + EVENT_TTL_SECS);
        }
        draft
    }

    fn index_fields(&self, object: &Object) -> Box<[Box<str>]> {
        match self.rules() {
            VersionRules::Builtin(builtin) => {
                let rules = builtin.rules;
                let fields = rules.indexed_fields().iter();
                fields.map(|f| rules.selectable_field(object, f).as_ref().into()).collect()
            }
            VersionRules::Custom(custom) if custom.selectable.is_empty() => Box::new([]),
            VersionRules::Custom(custom) => {
                custom.selectable_values(&Value::Object(object.clone()))
            }
        }
    }

    /// What the index should say of an object that was read back from disk.
    pub(crate) fn reindexed(&self, stored: &StoredObject) -> Box<[Box<str>]> {
        self.index_fields(&self.to_object(stored))
    }

    /// Whether the stored text can be served as it is, but for its header.
    pub(crate) fn serves_as_stored(&self, stored: &StoredObject) -> bool {
        match &self.resource.rules {
            Rules::Builtin(builtin) => builtin.view.is_none(),
            Rules::Custom(custom) => {
                stored.version >= custom.schema_since
                    && (self.same_schema(custom) || stored.has_header(&self.version().header))
            }
        }
    }

    /// Whether this version declares what the stored version declares.
    fn same_schema(&self, custom: &Custom) -> bool {
        let stored = custom.storage_schema.as_ref();
        stored.is_some_and(|stored| Arc::ptr_eq(stored, &custom.versions[self.index].schema))
    }

    /// The object in this version.
    pub(crate) fn to_object(&self, stored: &StoredObject) -> Object {
        let mut object = stored.to_value();
        match self.rules() {
            VersionRules::Builtin(Builtin { view: Some(view), .. }) => {
                (view.from_storage)(&mut object);
            }
            VersionRules::Builtin(_) => {}
            VersionRules::Custom(custom) => {
                if !self.serves_as_stored(stored) {
                    let mut value = Value::Object(object);
                    self.apply_new_defaults(stored, &mut value);
                    custom.schema.prune(&mut value, None);
                    object = into_object(value);
                }
            }
        }
        self.set_type_meta(&mut object);
        object
    }

    /// What Go calls an object of this kind inside the server.
    pub(crate) fn go_type(&self) -> String {
        match self.rules() {
            VersionRules::Builtin(builtin) => {
                format!("*{}.{}", internal_name(builtin.group), builtin.kind)
            }
            VersionRules::Custom(_) => "*unstructured.Unstructured".to_owned(),
        }
    }

    /// Fills in defaults that the stored version declared after the object was written.
    fn apply_new_defaults(&self, stored: &StoredObject, value: &mut Value) {
        if let Rules::Custom(custom) = &self.resource.rules
            && stored.version < custom.schema_since
            && let Some(schema) = &custom.storage_schema
        {
            schema.prune(value, None);
            if let Err(error) = schema.default(value) {
                tracing::debug!(%error, "an old object is read without all of its new defaults");
            }
        }
    }

    /// Built-in lists leave out `apiVersion` and `kind` of their items.
    pub(crate) fn bare_items(&self) -> bool {
        matches!(self.rules(), VersionRules::Builtin(_))
    }

    /// A bookmark of a built-in kind shows the members that its Go type always writes.
    pub(crate) fn shape_bookmark(&self, object: &mut Value) {
        if let VersionRules::Builtin(builtin) = self.rules()
            && let Some(ty) = typed::table().lookup(&self.version().api_version, builtin.kind)
            && let Err(error) = typed::decode(ty, object, &mut Vec::new())
        {
            tracing::error!(%error, "a bookmark does not decode");
        }
    }

    // --- Selection and printing

    pub(crate) fn selectable_fields(&self) -> Vec<Box<str>> {
        match self.rules() {
            VersionRules::Builtin(builtin) => {
                builtin.rules.selectable_fields().iter().map(|f| (*f).into()).collect()
            }
            VersionRules::Custom(custom) => custom.selectable.clone(),
        }
    }

    pub(crate) fn check_field_selector(
        &self,
        selector: &FieldSelector,
    ) -> Result<(), SelectorError> {
        match self.rules() {
            VersionRules::Builtin(builtin) => {
                let fields = builtin.rules.selectable_fields();
                selector.check(&Selectable::builtin(builtin.group, builtin.kind, fields))
            }
            VersionRules::Custom(custom) => {
                let fields: Vec<&str> = custom.selectable.iter().map(AsRef::as_ref).collect();
                selector.check(&Selectable::custom(&fields, self.resource.namespaced))
            }
        }
    }

    pub(crate) fn printer(&self) -> &Printer {
        match self.rules() {
            VersionRules::Builtin(builtin) => table::printer(builtin.group, builtin.kind),
            VersionRules::Custom(custom) => &custom.printer,
        }
    }

    // --- Patches and field ownership

    pub(crate) fn patch_types(&self) -> &'static [PatchType] {
        match self.resource.rules {
            Rules::Builtin(_) => &PatchType::BUILT_IN,
            Rules::Custom(_) => &PatchType::CUSTOM,
        }
    }

    pub(crate) fn shapes(&self) -> (&Shapes, ShapeId) {
        match self.rules() {
            VersionRules::Builtin(builtin) => {
                let table = typed::table();
                let ty = table
                    .lookup(&self.version().api_version, builtin.kind)
                    .expect("every built-in kind has a type table");
                (table.shapes(), table.shape(ty))
            }
            VersionRules::Custom(custom) => custom.schema.shapes(),
        }
    }

    pub(crate) fn apply_request<'a>(
        &'a self,
        manager: &'a str,
        subresource: &'a str,
        now: Timestamp,
    ) -> apply::Request<'a> {
        let (shapes, root) = self.shapes();
        apply::Request {
            shapes,
            root,
            api_version: &self.version().api_version,
            kind: &self.resource.kind,
            served: &self.resource.api_versions,
            manager,
            subresource,
            now,
            reset_fields: self.reset_fields(subresource),
        }
    }

    /// Fields that a write to this subresource cannot change, so that nobody comes to own them.
    fn reset_fields(&self, subresource: &str) -> &'static [&'static str] {
        let custom = self.custom().is_some();
        match subresource {
            "status" if custom => &["metadata", "spec"],
            "status" if self.is("Pod") => {
                &["spec", "metadata.deletionTimestamp", "metadata.ownerReferences"]
            }
            "status" => &["spec"],
            _ if self.version().status => &["status"],
            _ => &[],
        }
    }
}

/// The Go package of a group's internal types.
fn internal_name(group: &str) -> &str {
    match group.split('.').next().unwrap_or_default() {
        "" => "core",
        first => first,
    }
}

impl CustomVersion {
    fn check(&self, new: &Value, old: Option<&Value>, found: &mut Findings) {
        self.schema.validate(new, old, &mut found.errors);
        // Rules may assume what the schema promises.
        if !self.rules.is_empty() && !blocks_rules(found) {
            self.rules.validate(new, old, &mut found.errors, &mut found.warnings);
        }
    }

    fn check_status(&self, new: &Object, old: &Object, found: &mut Findings) {
        let (new, old) = (Value::Object(new.clone()), Value::Object(old.clone()));
        self.schema.validate_status(&new, &old, &mut found.errors);
        if !self.rules.is_empty() && !blocks_rules(found) {
            self.rules.validate(&new, Some(&old), &mut found.errors, &mut found.warnings);
        }
    }
}

/// Whether the object is too broken for its rules to be run; that is an error of its own.
fn blocks_rules(found: &mut Findings) -> bool {
    let blocks = |error: &FieldError| {
        matches!(
            error.kind,
            FieldErrorKind::NotSupported
                | FieldErrorKind::Required
                | FieldErrorKind::TooLong
                | FieldErrorKind::TooMany
                | FieldErrorKind::TypeInvalid
        )
    };
    let blocked = found.errors.iter().any(blocks);
    if blocked {
        let why = "some validation rules were not checked because the object was invalid; \
                   correct the existing errors to complete validation";
        found.errors.push(FieldError::invalid(&Path::root(), &Value::Null, why));
    }
    blocked
}
