//! Validation rules of custom resources (`x-kubernetes-validations`), written in the Common
//! Expression Language.
//!
//! Rules are compiled when their definition is created: parsed, checked against the types of the
//! schema, and refused if they could cost too much. By the first object of a kind they are compiled
//! again, and kept ([`lazy`]) as a plan that is carried out on objects without copying them, within a
//! budget. An evaluation that fails for any
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
mod lazy;
mod lexer;
mod library;
mod literals;
mod macros;
mod operators;
mod parser;
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

pub(crate) use self::lazy::LazyRules;
use crate::field::{FieldError, FieldErrors, Path};
use crate::warning::Warnings;

/// Only what is used of it takes memory.
const COMPILER_STACK_BYTES: usize = 64 << 20;

/// The compiled rules of one version of a custom resource.
#[derive(Debug, Default)]
pub(crate) struct Rules(Option<Box<rules::Compiled>>);

impl Rules {
    /// Compiles all rules of a structural schema (the `openAPIV3Schema` of one version), which is
    /// found at `path` within its definition.
    pub(crate) fn compile(schema: &Value, path: &Path<'_>) -> Result<Self, FieldErrors> {
        if !rules::has_rules(schema) {
            return Ok(Self::default());
        }
        // Compilation walks trees recursively, several times over. It is rare, and a thread of its
        // own has stack to spare for the deepest expression that is accepted.
        let compiled = std::thread::scope(|scope| {
            std::thread::Builder::new()
                .stack_size(COMPILER_STACK_BYTES)
                .spawn_scoped(scope, || rules::compile(schema, path))
                .map_err(|error| error.to_string())
                .and_then(|thread| thread.join().map_err(|_| "the compiler failed".to_owned()))
        });
        match compiled {
            Ok(compiled) => Ok(Self(Some(Box::new(compiled?)))),
            Err(problem) => Err(FieldError::internal(path, problem).into()),
        }
    }

    /// Applies the rules to an object that satisfies its schema. Failures in parts that the update
    /// leaves as they were become warnings.
    pub(crate) fn validate(
        &self,
        new: &Value,
        old: Option<&Value>,
        errors: &mut FieldErrors,
        warnings: &mut Warnings,
    ) {
        if let Some(compiled) = &self.0 {
            validate::validate(compiled, new, old, errors, warnings);
        }
    }
}
