//! The text of an expression, and what the compiler has to say about places in it.

/// Reports beyond this many are counted, not shown.
const MAX_SHOWN: usize = 100;

/// Lines longer than this are not quoted in a report.
const MAX_SNIPPET_BYTES: usize = 16_384;

/// What is wrong, and at which byte of the source (`None`: nowhere in particular).
#[derive(Clone, Debug)]
pub(super) struct Issue {
    pub(super) at: Option<usize>,
    pub(super) message: String,
}

/// The problems found in one expression.
#[derive(Debug, Default)]
pub(super) struct Issues(Vec<Issue>);

impl Issues {
    pub(super) fn push(&mut self, at: usize, message: impl Into<String>) {
        self.0.push(Issue { at: Some(at), message: message.into() });
    }

    /// A problem with the expression as a whole.
    pub(super) fn push_general(&mut self, message: impl Into<String>) {
        self.0.push(Issue { at: None, message: message.into() });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All reports in order of place, each followed by the quoted line and a mark under the place.
    pub(super) fn render(&self, source: &str) -> String {
        let mut located: Vec<(i64, usize, &Issue)> = self
            .0
            .iter()
            .take(MAX_SHOWN)
            .map(|issue| match issue.at {
                Some(at) => {
                    let (line, column) = line_and_column(source, at);
                    (i64::try_from(line).unwrap_or(i64::MAX), column, issue)
                }
                None => (-1, 0, issue),
            })
            .collect();
        located.sort_by_key(|&(line, column, _)| (line, column));
        let mut text = String::new();
        for (line, column, issue) in located {
            if !text.is_empty() {
                text.push('\n');
            }
            let shown_column = if issue.at.is_some() { column + 1 } else { 0 };
            text.push_str(&format!("ERROR: <input>:{line}:{shown_column}: {}", issue.message));
            if issue.at.is_some() {
                quote_line(&mut text, source, line, column);
            }
        }
        if self.0.len() > MAX_SHOWN {
            text.push_str(&format!("\n{} more errors were truncated", self.0.len() - MAX_SHOWN));
        }
        text
    }
}

/// One-based line and zero-based column, in characters, of a byte of the source.
fn line_and_column(source: &str, at: usize) -> (usize, usize) {
    let before = source.get(..at).unwrap_or(source);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = before.bytes().filter(|&b| b == b'\n').count() + 1;
    (line, before[line_start..].chars().count())
}

fn quote_line(text: &mut String, source: &str, line: i64, column: usize) {
    let index = usize::try_from(line - 1).unwrap_or_default();
    let Some(snippet) = source.split('\n').nth(index).filter(|s| s.len() <= MAX_SNIPPET_BYTES)
    else {
        return;
    };
    let snippet = snippet.replace('\t', " ");
    text.push_str("\n | ");
    text.push_str(&snippet);
    text.push_str("\n | ");
    let mut chars = snippet.chars();
    for c in chars.by_ref().take(column) {
        text.push(if c.is_ascii() { '.' } else { '\u{ff0e}' });
    }
    text.push(if chars.next().is_none_or(|c| c.is_ascii()) { '^' } else { '\u{ff3e}' });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_quote_the_line_and_mark_the_place() {
        let mut issues = Issues::default();
        let source = "self.é == 1 &&\n\tself.b";
        issues.push(source.find(".b").unwrap(), "undefined field 'b'");
        issues.push(source.find("==").unwrap(), "no overload");
        assert_eq!(
            issues.render(source),
            "ERROR: <input>:1:8: no overload\n | self.é == 1 &&\n | .....\u{ff0e}.^\n\
             ERROR: <input>:2:6: undefined field 'b'\n |  self.b\n | .....^"
        );
    }

    #[test]
    fn a_report_without_a_place_quotes_nothing() {
        let mut issues = Issues::default();
        issues.push_general("max recursion depth exceeded");
        assert_eq!(issues.render("1"), "ERROR: <input>:-1:0: max recursion depth exceeded");
    }
}
