//! When an indexed Job has succeeded before all its Pods have.

use serde_json::Value;

use super::super::grammar::{Errors, non_negative};
use super::index_list;
use crate::field::{FieldError, Path};
use crate::json::Access;

const MAX_RULES: usize = 20;
const MAX_INDEX_LIST_BYTES: usize = 64 * 1024;

pub(super) fn validate(errors: &mut Errors, path: &Path<'_>, spec: &Value) {
    let rules = spec.at("successPolicy").list("rules");
    let at = path.field("rules");
    if rules.is_empty() {
        let detail = "at least one rules must be specified when the successPolicy is specified";
        errors.push(FieldError::required(&at, detail));
    }
    if rules.len() > MAX_RULES {
        errors.push(FieldError::too_many(&at, rules.len(), MAX_RULES));
    }
    let completions = spec.int("completions").unwrap_or_default();
    for (i, rule) in rules.iter().enumerate() {
        validate_rule(errors, &at.index(i), rule, completions);
    }
}

fn validate_rule(errors: &mut Errors, path: &Path<'_>, rule: &Value, completions: i64) {
    let (indexes, count) = (rule.at("succeededIndexes").as_str(), rule.int("succeededCount"));
    if indexes.is_none() && count.is_none() {
        let detail = "at least one of succeededCount or succeededIndexes must be specified";
        errors.push(FieldError::required(path, detail));
    }
    let mut listed = 0;
    if let Some(indexes) = indexes {
        let at = path.field("succeededIndexes");
        if indexes.len() > MAX_INDEX_LIST_BYTES {
            errors.push(FieldError::too_long(&at, MAX_INDEX_LIST_BYTES));
        }
        match index_list::count(indexes, completions) {
            Ok(count) => listed = count,
            Err(error) => {
                let detail = format!("error parsing succeededIndexes: {error}");
                errors.push(FieldError::invalid_text(&at, indexes, detail));
            }
        }
    }
    let Some(count) = count else { return };
    let at = path.field("succeededCount");
    non_negative(errors, &at, Some(count));
    if count > completions {
        let detail = format!(
            "must be less than or equal to {completions} (the number of specified completions)"
        );
        errors.push(FieldError::invalid(&at, &count.into(), detail));
    }
    if indexes.is_some() && count > listed {
        let detail = format!(
            "must be less than or equal to {listed} (the number of indexes in the specified \
             succeededIndexes field)"
        );
        errors.push(FieldError::invalid(&at, &count.into(), detail));
    }
}
