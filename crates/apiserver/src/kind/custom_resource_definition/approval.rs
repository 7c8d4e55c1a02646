//! Groups of the Kubernetes community need an approval, noted in an annotation.

use crate::field::{FieldError, FieldErrors, Path};
use crate::json::{Access, Object};
use crate::schema::is_absolute_url;

const ANNOTATION: &str = "api-approved.kubernetes.io";
const SEE: &str = "see https://github.com/kubernetes/enhancements/pull/1111";

#[derive(PartialEq, Eq)]
enum Approval {
    Invalid,
    Approved,
    Bypassed,
    Missing,
}

impl Approval {
    fn of(obj: &Object) -> Self {
        match annotation(obj) {
            "" => Self::Missing,
            text if text.starts_with("unapproved") => Self::Bypassed,
            text if is_absolute_url(text) => Self::Approved,
            _ => Self::Invalid,
        }
    }
}

fn annotation(obj: &Object) -> &str {
    obj.at("metadata").at("annotations").text(ANNOTATION)
}

/// Checks the annotation, unless an update leaves its state as it was.
pub(super) fn validate(new: &Object, old: Option<&Object>, errors: &mut FieldErrors) {
    let group = new.at("spec").text("group");
    let is_community = ["k8s.io", "kubernetes.io"].into_iter().any(|domain| {
        group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    });
    let state = Approval::of(new);
    if !is_community || old.is_some_and(|old| Approval::of(old) == state) {
        return;
    }
    let path = Path::new("metadata");
    let path = path.field("annotations");
    let path = path.key(ANNOTATION);
    let must = format!("protected groups must have approval annotation \"{ANNOTATION}\"");
    match state {
        Approval::Approved | Approval::Bypassed => {}
        Approval::Missing => errors.push(FieldError::required(&path, format!("{must}, {SEE}"))),
        Approval::Invalid => {
            let detail =
                format!("{must} with either a URL or a reason starting with \"unapproved\", {SEE}");
            errors.push(FieldError::invalid_text(&path, annotation(new), detail));
        }
    }
}
