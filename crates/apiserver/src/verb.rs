//! The verbs: one file each, all on the same [`Call`].

pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod list;
mod options;
pub(crate) mod patch;
pub(crate) mod read;
pub(crate) mod update;
pub(crate) mod watch;

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::HeaderMap;
use jiff::Timestamp;
use serde_json::{Value, json};

pub(crate) use options::{FieldValidation, WriteOptions};

use crate::apply;
use crate::auth::identity::Identity;
use crate::body;
use crate::engine::Shared;
use crate::json::{Access, Object};
use crate::media;
use crate::patch::PatchError;
use crate::registry::Endpoint;
use crate::request::{Query, ResourcePath};
use crate::status::{ApiError, GroupResource};
use crate::store::WriteError;
use crate::warning::Warnings;

/// One authorised request for a resource.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) engine: Arc<Shared>,
    pub(crate) endpoint: Endpoint,
    pub(crate) path: ResourcePath,
    pub(crate) query: Query,
    pub(crate) headers: HeaderMap,
    pub(crate) identity: Identity,
    warnings: Mutex<Warnings>,
}

/// How deep an object may be nested, its `managedFields` included. What is stored must be read
/// again, and JSON readers take 127 levels; lists and watches add two.
const MAX_DEPTH: usize = 120;

impl Call {
    pub(crate) fn new(
        engine: Arc<Shared>,
        endpoint: Endpoint,
        path: ResourcePath,
        query: Query,
        headers: HeaderMap,
        identity: Identity,
    ) -> Self {
        Self { engine, endpoint, path, query, headers, identity, warnings: Mutex::default() }
    }

    /// The same request, for a body that is written while it is sent.
    pub(crate) fn for_stream(&self) -> Self {
        Self::new(
            self.engine.clone(),
            self.endpoint.clone(),
            self.path.clone(),
            Query::default(),
            HeaderMap::new(),
            self.identity.clone(),
        )
    }

    pub(crate) fn of(&self) -> GroupResource<'_> {
        self.endpoint.resource.of()
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.engine.clock.now()
    }

    /// The store key of the object that the path names.
    pub(crate) fn key(&self) -> Arc<str> {
        crate::store::key(self.namespace(), &self.path.name)
    }

    /// The namespace of the objects; none for kinds that have none (a Namespace itself).
    pub(crate) fn namespace(&self) -> &str {
        if self.endpoint.resource.namespaced { &self.path.namespace } else { "" }
    }

    /// Where upstream would keep the object; its precondition errors name the place.
    pub(crate) fn registry_key(&self) -> String {
        let resource = &self.endpoint.resource;
        let group = if self.endpoint.custom().is_some() {
            format!("{}/", resource.group)
        } else {
            String::new()
        };
        format!("/registry/{group}{}/{}", resource.plural, self.key())
    }

    pub(crate) fn not_found(&self) -> ApiError {
        ApiError::not_found(self.of(), &self.path.name)
    }

    pub(crate) fn warn(&self, text: impl Into<String>) {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).push(text);
    }

    pub(crate) fn take_warnings(&self) -> Vec<String> {
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *warnings).into_texts()
    }

    /// Reads a request body as an object of this endpoint's kind: parsed, typed, defaulted.
    pub(crate) fn decode_body(
        &self,
        bytes: &Bytes,
        validation: FieldValidation,
    ) -> Result<Object, ApiError> {
        let kind = &self.endpoint.resource.kind;
        let parsed = media::read(&self.headers, bytes, kind)?;
        if self.endpoint.custom().is_some() && parsed.value.text("kind").is_empty() {
            let text = format!("Object 'Kind' is missing in '{}'", parsed.value);
            let why = body::ParseError::Yaml(text);
            return Err(ApiError::bad_request(body::unrecognized(kind, &why, bytes)));
        }
        self.decode_value(parsed.value, parsed.duplicates, validation)
    }

    /// The same for a value that was made here, by a patch.
    pub(crate) fn decode_value(
        &self,
        value: Value,
        mut duplicates: Vec<String>,
        validation: FieldValidation,
    ) -> Result<Object, ApiError> {
        let mut unknown = Vec::new();
        let object = self.endpoint.decode(value, &mut unknown)?;
        let strict = if self.endpoint.custom().is_some() {
            duplicates.append(&mut unknown);
            duplicates
        } else {
            body::strict_errors(duplicates, unknown)
        };
        self.report_strict(strict, validation)?;
        Ok(object)
    }

    /// Refuses what could not be read again once it is stored.
    pub(crate) fn check_depth(&self, object: &Object) -> Result<(), ApiError> {
        if crate::json::is_deeper_than(MAX_DEPTH, object) {
            let why = format!("the object is nested too deeply: more than {MAX_DEPTH} levels");
            return Err(ApiError::bad_request(why));
        }
        Ok(())
    }

    pub(crate) fn report_strict(
        &self,
        strict: Vec<String>,
        validation: FieldValidation,
    ) -> Result<(), ApiError> {
        match validation {
            FieldValidation::Ignore => Ok(()),
            FieldValidation::Warn => {
                for text in strict {
                    self.warn(text);
                }
                Ok(())
            }
            FieldValidation::Strict if strict.is_empty() => Ok(()),
            FieldValidation::Strict => {
                let version = self.endpoint.version();
                let texts = strict.join(", ");
                Err(ApiError::bad_request(format!(
                    "{} in version \"{}\" cannot be handled as a {}: strict decoding error: {texts}",
                    self.endpoint.resource.kind, version.name, self.endpoint.resource.kind,
                )))
            }
        }
    }
}

impl Call {
    /// What a failed apply says to the client.
    pub(crate) fn apply_error(&self, error: &apply::ApplyError) -> ApiError {
        match error {
            apply::ApplyError::Conflicts(conflicts) => {
                let cause = |c: &apply::Conflict| {
                    let reason = apply::CONFLICT_REASON;
                    json!({"reason": reason, "message": c.message, "field": c.field})
                };
                let causes = conflicts.causes.iter().map(cause).collect();
                ApiError::new(http::StatusCode::CONFLICT, "Conflict", error.to_string())
                    .with_causes(causes)
            }
            apply::ApplyError::BadRequest(_) => ApiError::bad_request(error.to_string()),
            apply::ApplyError::Invalid(_) => ApiError::unexplained(error.to_string()),
        }
    }

    /// What a failed patch says to the client.
    pub(crate) fn patch_error(&self, error: &PatchError) -> ApiError {
        let text = error.to_string();
        match error {
            PatchError::BadRequest(_) => ApiError::bad_request(text),
            PatchError::TooLarge(_) => ApiError::too_large(text),
            PatchError::Rejected { reason } => {
                tracing::debug!(reason, "a patch was rejected");
                ApiError::new(http::StatusCode::UNPROCESSABLE_ENTITY, "Invalid", text)
                    .with_details(json!({}))
            }
            PatchError::Failed(_) => ApiError::unexplained(text),
        }
    }
}

/// What a failed write says to the client.
pub(crate) fn write_error(error: &WriteError) -> ApiError {
    match error {
        WriteError::Changed(_) => ApiError::internal("the object changed while it was written"),
        WriteError::Busy => ApiError::too_many_requests(
            "too many writes are waiting for the disk, please try again later",
            1,
        ),
        WriteError::Commit(crate::store::CommitError::Full) => ApiError::new(
            http::StatusCode::INSUFFICIENT_STORAGE,
            "InsufficientStorage",
            "the disk of the data directory is full: free some space, or delete objects; reads \
             and deletes go on",
        ),
        WriteError::Commit(error) => ApiError::new(
            http::StatusCode::INTERNAL_SERVER_ERROR,
            "InternalError",
            format!(
                "{error}; the write did not take place, reads go on: see that the disk of the data \
                 directory works and is not mounted read-only"
            ),
        ),
        WriteError::Closed => ApiError::unavailable("the server is shutting down"),
    }
}
