//! The options of a write: `dryRun`, `fieldManager`, `fieldValidation`, `force`.

use serde_json::json;

use crate::field::{FieldError, FieldErrors, Path};
use crate::request::Query;
use crate::status::ApiError;

const MAX_FIELD_MANAGER_CHARS: usize = 128;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

#[derive(Debug, Clone)]
pub(crate) struct WriteOptions {
    pub(crate) dry_run: bool,
    /// Empty when the client named none.
    pub(crate) field_manager: String,
    pub(crate) validation: FieldValidation,
    pub(crate) force: Option<bool>,
}

impl WriteOptions {
    /// Reads and checks the options; `kind` is upstream's name for them, such as `CreateOptions`.
    pub(crate) fn parse(query: &Query, kind: &str) -> Result<Self, ApiError> {
        let mut errors = FieldErrors::new();
        let dry_run = dry_run(query.all("dryRun"), &mut errors);
        let field_manager = query.text("fieldManager").to_owned();
        let path = Path::new("fieldManager");
        if field_manager.len() > MAX_FIELD_MANAGER_CHARS {
            errors.push(FieldError::too_long(&path, MAX_FIELD_MANAGER_CHARS));
        }
        if let Some((at, c)) = field_manager.char_indices().find(|(_, c)| c.is_control()) {
            let why = format!("invalid character U+{:04X} (at position {at})", c as u32);
            errors.push(FieldError::invalid(&path, &json!(field_manager), why));
        }
        let validation = match query.text("fieldValidation") {
            "" | "Warn" => FieldValidation::Warn,
            "Strict" => FieldValidation::Strict,
            "Ignore" => FieldValidation::Ignore,
            other => {
                errors.push(FieldError::not_supported(
                    &Path::new("fieldValidation"),
                    &json!(other),
                    &["", "Ignore", "Strict", "Warn"],
                ));
                FieldValidation::Warn
            }
        };
        if errors.is_empty() {
            Ok(Self { dry_run, field_manager, validation, force: query.flag("force") })
        } else {
            Err(ApiError::invalid("meta.k8s.io", kind, "", &errors))
        }
    }

    /// The manager's name, or what the client calls itself.
    pub(crate) fn manager(&self, headers: &http::HeaderMap) -> String {
        if self.field_manager.is_empty() {
            crate::request::user_agent_manager(headers)
        } else {
            self.field_manager.clone()
        }
    }
}

/// `dryRun=All`, or nothing.
pub(super) fn dry_run<'a>(values: impl Iterator<Item = &'a str>, errors: &mut FieldErrors) -> bool {
    let values: Vec<&str> = values.collect();
    if values.is_empty() {
        return false;
    }
    if values.iter().any(|v| *v != "All") {
        let all = json!(values);
        errors.push(FieldError::not_supported(&Path::new("dryRun"), &all, &["All"]));
    }
    true
}
