//! Label selectors, from their text (`a=b,c in (d,e),!f`) and from the API type.

mod parse;
#[cfg(test)]
mod tests;

use std::fmt;

use serde_json::Value;

use super::SelectorError;
use crate::field::{FieldError, FieldErrors, Path};
use crate::go;
use crate::json::Access;
#[cfg(test)]
use crate::json::Object;
use crate::name;

/// A conjunction of requirements on labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LabelSelector {
    /// By key; `None` selects nothing at all.
    requirements: Option<Vec<Requirement>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: Box<str>,
    operator: Operator,
    values: Vec<Box<str>>,
    /// What the value is compared with for [`Operator::Greater`] and [`Operator::Less`].
    bound: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    In,
    NotIn,
    Equals,
    DoubleEquals,
    NotEquals,
    Greater,
    Less,
    Exists,
    DoesNotExist,
}

impl LabelSelector {
    /// Selects every object.
    pub(crate) const fn everything() -> Self {
        Self { requirements: Some(Vec::new()) }
    }

    /// Parses the text of a `labelSelector` query parameter.
    pub(crate) fn parse(text: &str) -> Result<Self, SelectorError> {
        parse::requirements(text).map(Self::of).map_err(SelectorError)
    }

    /// Reads a `metav1.LabelSelector`. An absent one selects nothing, an empty one everything.
    pub(crate) fn from_api(selector: &Value) -> Result<Self, SelectorError> {
        if !selector.is_object() {
            return Ok(Self { requirements: None });
        }
        let mut requirements = Vec::new();
        let checked = |key: &str, operator, values| {
            Requirement::new(key, operator, values).map_err(SelectorError)
        };
        for (key, value) in selector.entries("matchLabels") {
            let values = vec![value.as_str().unwrap_or_default().into()];
            requirements.push(checked(key, Operator::Equals, values)?);
        }
        for expression in selector.list("matchExpressions") {
            let operator = match expression.text("operator") {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => {
                    return Err(SelectorError(format!(
                        "{} is not a valid label selector operator",
                        go::quote(other)
                    )));
                }
            };
            let values = expression.list("values").iter();
            let values = values.filter_map(Value::as_str).map(Box::from).collect();
            requirements.push(checked(expression.text("key"), operator, values)?);
        }
        Ok(Self::of(requirements))
    }

    fn of(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Self { requirements: Some(requirements) }
    }

    /// Whether every object is selected.
    pub(crate) fn is_everything(&self) -> bool {
        self.requirements.as_ref().is_some_and(Vec::is_empty)
    }

    /// Whether an object with these labels is selected; `None` is an object without labels.
    #[cfg(test)]
    pub(crate) fn matches(&self, labels: Option<&Object>) -> bool {
        self.matches_by(|key| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str))
    }

    /// Whether an object whose labels are read by `get` is selected.
    pub(crate) fn matches_by<'o>(&self, get: impl Fn(&str) -> Option<&'o str>) -> bool {
        self.requirements.as_ref().is_some_and(|all| all.iter().all(|r| r.matches(get(&r.key))))
    }
}

impl Requirement {
    /// Checks what the grammar leaves open; the fault is worded as upstream words it.
    fn new(key: &str, operator: Operator, values: Vec<Box<str>>) -> Result<Self, String> {
        let root = Path::root();
        let key_path = root.field("key");
        let values_path = root.field("values");
        let mut errors = Vec::new();
        let faults = name::qualified_name(key);
        if !faults.is_empty() {
            errors.push(FieldError::invalid_text(&key_path, key, faults.join("; ")));
        }
        let shown = || {
            let quoted: Vec<String> = values.iter().map(|v| go::quote(v)).collect();
            format!("[{}]", quoted.join(","))
        };
        let mut bound = 0;
        let mut refuse_values = |detail: &str| {
            errors.push(FieldError::invalid_raw(&values_path, shown(), detail));
        };
        match operator {
            Operator::In | Operator::NotIn if values.is_empty() => {
                refuse_values("for 'in', 'notin' operators, values set can't be empty");
            }
            Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
                refuse_values("values set must be empty for exists and does not exist");
            }
            Operator::Greater | Operator::Less => {
                for (i, value) in values.iter().enumerate() {
                    match value.parse() {
                        Ok(number) => bound = number,
                        Err(_) => errors.push(FieldError::invalid_text(
                            &values_path.index(i),
                            value,
                            "for 'Gt', 'Lt' operators, the value must be an integer",
                        )),
                    }
                }
            }
            _ => {}
        }
        for (i, value) in values.iter().enumerate() {
            let faults = name::label_value(value);
            if !faults.is_empty() {
                let item = values_path.index(i);
                errors.push(FieldError::invalid_text(&item.key(key), value, faults.join("; ")));
            }
        }
        match errors.as_slice() {
            [] => Ok(Self { key: key.into(), operator, values, bound }),
            [one] => Err(one.to_string()),
            several => {
                let texts: Vec<String> = several.iter().map(ToString::to_string).collect();
                Err(format!("[{}]", texts.join(", ")))
            }
        }
    }

    fn matches(&self, label: Option<&str>) -> bool {
        let listed = |label: &str| self.values.iter().any(|value| **value == *label);
        match self.operator {
            Operator::In | Operator::Equals | Operator::DoubleEquals => label.is_some_and(listed),
            Operator::NotIn | Operator::NotEquals => !label.is_some_and(listed),
            Operator::Exists => label.is_some(),
            Operator::DoesNotExist => label.is_none(),
            Operator::Greater => number(label).is_some_and(|n| n > self.bound),
            Operator::Less => number(label).is_some_and(|n| n < self.bound),
        }
    }
}

fn number(label: Option<&str>) -> Option<i64> {
    label?.parse().ok()
}

/// As the text form of a selector; values are sorted.
impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, requirement) in self.requirements.iter().flatten().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            write!(f, "{requirement}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        let (before, after) = match self.operator {
            Operator::Exists => return f.write_str(key),
            Operator::DoesNotExist => return write!(f, "!{key}"),
            Operator::Equals => ("=", ""),
            Operator::DoubleEquals => ("==", ""),
            Operator::NotEquals => ("!=", ""),
            Operator::Greater => (">", ""),
            Operator::Less => ("<", ""),
            Operator::In => (" in (", ")"),
            Operator::NotIn => (" notin (", ")"),
        };
        let mut values = self.values.clone();
        values.sort_unstable();
        write!(f, "{key}{before}{}{after}", values.join(","))
    }
}

/// How strictly a `metav1.LabelSelector` in an object is checked.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Leniency {
    /// Values that are no label values stay allowed where they are already stored.
    pub(crate) any_value: bool,
    /// Reviews may carry operators of a newer release.
    pub(crate) any_operator: bool,
}

/// Checks a `metav1.LabelSelector` in an object.
pub(crate) fn validate(
    selector: &Value,
    leniency: Leniency,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let labels = path.field("matchLabels");
    for (key, value) in selector.entries("matchLabels") {
        for fault in name::qualified_name(key) {
            errors.push(FieldError::invalid_text(&labels, key, fault));
        }
        let value = value.as_str().unwrap_or_default();
        for fault in name::label_value(value) {
            errors.push(FieldError::invalid_text(&labels, value, fault));
        }
    }
    let expressions = path.field("matchExpressions");
    for (i, expression) in selector.list("matchExpressions").iter().enumerate() {
        validate_requirement(expression, leniency, &expressions.index(i), errors);
    }
}

/// Checks one `metav1.LabelSelectorRequirement`.
pub(crate) fn validate_requirement(
    requirement: &Value,
    leniency: Leniency,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let values_path = path.field("values");
    validate_operator(requirement, leniency, path, errors);
    let key = requirement.text("key");
    for fault in name::qualified_name(key) {
        errors.push(FieldError::invalid_text(&path.field("key"), key, fault));
    }
    if leniency.any_value {
        return;
    }
    for (i, value) in requirement.list("values").iter().enumerate() {
        let value = value.as_str().unwrap_or_default();
        for fault in name::label_value(value) {
            errors.push(FieldError::invalid_text(&values_path.index(i), value, fault));
        }
    }
}

/// What label and field requirements have in common: the operator says whether there are values.
pub(crate) fn validate_operator(
    requirement: &Value,
    leniency: Leniency,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let values_path = path.field("values");
    let has_values = !requirement.list("values").is_empty();
    match requirement.text("operator") {
        "In" | "NotIn" if has_values => {}
        "In" | "NotIn" => errors.push(FieldError::required(
            &values_path,
            "must be specified when `operator` is 'In' or 'NotIn'",
        )),
        "Exists" | "DoesNotExist" if !has_values => {}
        "Exists" | "DoesNotExist" => errors.push(FieldError::forbidden(
            &values_path,
            "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        )),
        operator if !leniency.any_operator => errors.push(FieldError::invalid_text(
            &path.field("operator"),
            operator,
            "not a valid selector operator",
        )),
        _ => {}
    }
}
