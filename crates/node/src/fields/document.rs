//! The table as a page for people.

use std::fmt::Write as _;

use super::{Field, Support, Values, table};

const HEAD: &str = "\
# Pod fields

What becomes of each field of a Pod's `spec` on a Sojourn node. **Honoured**: as in Kubernetes.
**Ignored**: it makes no difference here, for the reason given. **Refused**: the Pod fails, and its
status names the field and the reason; so do fields that are not in this table. `[]` stands for each
item of a list. Written by a test from the table in `crates/node/src/fields`: do not edit.

| field | |
|---|---|
";

/// The page, in Markdown.
pub fn markdown() -> String {
    let mut page = HEAD.to_owned();
    rows(table::SPEC, "spec", &mut Vec::new(), &mut page);
    page
}

/// The fields of one object. Tables that several fields share are written out for the first.
fn rows(
    fields: &'static [Field],
    path: &str,
    written: &mut Vec<(&'static [Field], String)>,
    page: &mut String,
) {
    for field in fields {
        let path = format!("{path}.{}", field.name);
        let mut text = describe(field);
        let shared = written.iter().find(|(inside, _)| std::ptr::eq(*inside, field.inside));
        if field.inside.is_empty() {
            let _ = writeln!(page, "| `{path}` | {text} |");
        } else if let Some((_, earlier)) = shared {
            let _ = write!(text, "; inside as in `{earlier}`");
            let _ = writeln!(page, "| `{path}` | {text} |");
        } else {
            written.push((field.inside, path.clone()));
            let _ = writeln!(page, "| `{path}` | {text} |");
            let each = if field.list { "[]" } else { "" };
            rows(field.inside, &format!("{path}{each}"), written, page);
        }
    }
}

fn describe(field: &Field) -> String {
    let mut text = match field.support {
        Support::Honoured => "honoured".to_owned(),
        Support::Harmless(why) => format!("ignored: {why}"),
        Support::Refused(why) => format!("refused: {why}"),
        Support::Depends { accepted, harmless, otherwise } => {
            let accepted = match accepted {
                Values::False => "`false`".to_owned(),
                Values::OneOf(names) | Values::Keys(names) => {
                    let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
                    names.join(", ")
                }
                Values::Such { words, .. } => words.to_owned(),
            };
            let then = match harmless {
                None => "honoured".to_owned(),
                Some(why) => format!("ignored ({why})"),
            };
            format!("{accepted}: {then}; else refused: {otherwise}")
        }
    };
    if let Some(why) = field.required {
        let _ = write!(text, "; refused without it: {why}");
    }
    text
}
