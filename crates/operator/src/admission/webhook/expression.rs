//! Expressions by which a cluster finds out whether it has to ask.

/// One for each annotation: it is not as it was.
pub(in crate::admission) fn any_changes<'a>(
    annotations: impl IntoIterator<Item = &'a str>,
) -> Vec<String> {
    let mut names: Vec<_> = annotations.into_iter().collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().map(changes).collect()
}

fn changes(annotation: &str) -> String {
    let of = |object: &str| {
        let all = format!("{object}.metadata.annotations");
        format!(
            "({object} != null && has({all}) && '{annotation}' in {all} ? {all}['{annotation}'] : '')"
        )
    };
    format!("{} != {}", of("object"), of("oldObject"))
}

/// The finalizer was there and is no longer.
pub(in crate::admission) fn removes_finalizer(finalizer: &str) -> String {
    format!(
        "(oldObject != null && {} && !{})",
        keeps("oldObject", finalizer),
        keeps("object", finalizer)
    )
}

/// The finalizer was not there and is now.
pub(in crate::admission) fn gains(finalizer: &str) -> String {
    format!(
        "(oldObject != null && {} && !{})",
        keeps("object", finalizer),
        keeps("oldObject", finalizer)
    )
}

/// The object is deleted while it has the finalizer, or loses it.
pub(in crate::admission) fn loses(finalizer: &str) -> String {
    let (new, old) = (keeps("object", finalizer), keeps("oldObject", finalizer));
    format!("oldObject != null && {old} && (object == null || !{new})")
}

fn keeps(object: &str, finalizer: &str) -> String {
    let all = format!("{object}.metadata.finalizers");
    format!("(has({all}) && '{finalizer}' in {all})")
}

/// A part of the spec was there and is not as it was.
pub(in crate::admission) fn loosens(part: &str) -> String {
    let (new, old) = (format!("object.spec.{part}"), format!("oldObject.spec.{part}"));
    format!("(oldObject != null && has({old}) && (!has({new}) || {new} != {old}))")
}

/// A part of the spec is there and is not as it was.
pub(in crate::admission) fn sets(part: &str) -> String {
    let (new, old) = (format!("object.spec.{part}"), format!("oldObject.spec.{part}"));
    format!("(has({new}) && (oldObject == null || !has({old}) || {new} != {old}))")
}

/// A part of the object, which may be missing, is not as it was.
pub(in crate::admission) fn differs(path: &str) -> String {
    let (new, old) = (format!("object.{path}"), format!("oldObject.{path}"));
    format!("(oldObject != null && (has({new}) != has({old}) || (has({new}) && {new} != {old})))")
}
