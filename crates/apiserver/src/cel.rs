//! Validation rules of custom resources (`x-kubernetes-validations`), written in the Common
//! Expression Language.
//!
//! Rules are compiled once, when their definition is created: parsed, checked against the types of
//! the schema, and refused if they could cost too much. What compiles is kept as a plan that is
//! carried out on objects without copying them, within a budget. An evaluation that fails for any
//! reason is a validation failure; nothing is ever accepted because of an error.
//!
//! The stages, in order: [`lexer`], [`parser`] with [`macros`], [`check`] with [`typing`] and
//! [`functions`], [`literals`], [`plan`], [`estimate`]; then, per object, [`validate`] with [`eval`].

mod ast;
mod charge;
mod check;
mod convert;
mod escape;
mod estimate;
mod eval;
mod field_path;
mod format;
mod functions;
mod lexer;
mod library;
mod literals;
mod macros;
mod numbers;
mod operators;
mod parser;
mod pattern;
mod plan;
mod rules;
mod schema;
mod source;
mod time;
mod typing;
mod validate;
mod value;

#[cfg(test)]
mod tests;

use serde_json::Value;

use crate::field::{FieldError, Path};

/// The compiled rules of one version of a custom resource.
#[derive(Debug, Default)]
pub(crate) struct Rules(Option<Box<rules::Compiled>>);

impl Rules {
    /// Compiles all rules of a structural schema (the `openAPIV3Schema` of one version), which is
    /// found at `path` within its definition.
    pub(crate) fn compile(schema: &Value, path: &Path<'_>) -> Result<Self, Vec<FieldError>> {
        if !rules::has_rules(schema) {
            return Ok(Self::default());
        }
        Ok(Self(Some(Box::new(rules::compile(schema, path)?))))
    }

    /// Whether there is nothing to validate.
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Applies the rules to an object that satisfies its schema. Failures in parts that the update
    /// leaves as they were become warnings.
    pub(crate) fn validate(
        &self,
        new: &Value,
        old: Option<&Value>,
        errors: &mut Vec<FieldError>,
        warnings: &mut Vec<String>,
    ) {
        if let Some(compiled) = &self.0 {
            validate::validate(compiled, new, old, errors, warnings);
        }
    }
}
