//! Rules of a definition that was accepted, compiled when the first object is checked against them.
//!
//! A server that starts has all its definitions to read, and most of their kinds are written to much later, if
//! ever: compilation is the largest part of serving a definition, and its result of what a definition takes.

use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::{Rules, rules};
use crate::field::{FieldErrors, Path};
use crate::warning::Warnings;

#[derive(Debug)]
pub(crate) struct LazyRules {
    /// The `openAPIV3Schema` of one version.
    schema: Arc<Value>,
    is_empty: bool,
    compiled: OnceLock<Result<Rules, FieldErrors>>,
}

impl LazyRules {
    pub(crate) fn new(schema: Arc<Value>) -> Self {
        let is_empty = !rules::has_rules(&schema);
        Self { schema, is_empty, compiled: OnceLock::new() }
    }

    /// Whether there is nothing to validate.
    pub(crate) const fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// As [`Rules::validate`]. Rules that do not compile, though they did when their definition was accepted,
    /// refuse every object: what cannot be run protects nothing.
    pub(crate) fn validate(
        &self,
        new: &Value,
        old: Option<&Value>,
        errors: &mut FieldErrors,
        warnings: &mut Warnings,
    ) {
        match self.compiled.get_or_init(|| Rules::compile(&self.schema, &Path::root())) {
            Ok(rules) => rules.validate(new, old, errors, warnings),
            Err(refused) => errors.extend(refused.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn problems(rules: &LazyRules, object: &Value) -> Vec<String> {
        let (mut errors, mut warnings) = (FieldErrors::new(), Warnings::default());
        rules.validate(object, None, &mut errors, &mut warnings);
        errors.iter().map(ToString::to_string).collect()
    }

    fn with_rule(rule: &str) -> LazyRules {
        LazyRules::new(Arc::new(json!({
            "type": "object",
            "properties": {"size": {"type": "integer"}},
            "x-kubernetes-validations": [{"rule": rule, "message": "too small"}],
        })))
    }

    #[test]
    fn rules_are_compiled_by_the_first_object_and_hold_for_all() {
        let rules = with_rule("self.size > 2");
        assert!(!rules.is_empty());
        assert!(rules.compiled.get().is_none());
        for _ in 0..2 {
            let problems = problems(&rules, &json!({"size": 1}));
            assert!(matches!(&problems[..], [one] if one.contains("too small")), "{problems:?}");
            assert!(matches!(rules.compiled.get(), Some(Ok(_))));
        }
        assert_eq!(problems(&rules, &json!({"size": 3})), [""; 0]);
    }

    #[test]
    fn rules_that_do_not_compile_refuse_every_object() {
        let rules = with_rule("self.weight > 2");
        for size in [1, 3] {
            let problems = problems(&rules, &json!({"size": size}));
            assert!(matches!(&problems[..], [one] if one.contains("weight")), "{problems:?}");
        }
    }

    #[test]
    fn a_schema_without_rules_has_nothing_to_compile() {
        let rules = LazyRules::new(Arc::new(json!({"type": "object"})));
        assert!(rules.is_empty());
        assert_eq!(problems(&rules, &json!({})), [""; 0]);
    }
}
