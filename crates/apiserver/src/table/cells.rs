//! Writing the cells of a row as JSON.

use std::fmt::{self, Display, Write as _};

/// The cells of one row, written one after the other.
pub(super) struct Cells<'b> {
    out: &'b mut Vec<u8>,
    first: bool,
}

impl<'b> Cells<'b> {
    pub(super) fn new(out: &'b mut Vec<u8>) -> Self {
        Self { out, first: true }
    }

    fn separate(&mut self) {
        if !std::mem::take(&mut self.first) {
            self.out.push(b',');
        }
    }

    /// A string cell.
    pub(super) fn text(&mut self, text: impl Display) {
        self.separate();
        string(text, self.out);
    }

    /// A string cell, or what stands for nothing.
    pub(super) fn text_or(&mut self, text: &str, otherwise: &str) {
        self.text(if text.is_empty() { otherwise } else { text });
    }

    /// A string cell of several texts.
    pub(super) fn joined<T: Display>(
        &mut self,
        texts: impl IntoIterator<Item = T>,
        separator: &str,
    ) {
        self.separate();
        self.out.push(b'"');
        let mut escaped = Escaped(self.out);
        for (i, text) in texts.into_iter().enumerate() {
            let separator = if i > 0 { separator } else { "" };
            write!(escaped, "{separator}{text}").expect("memory can be written to");
        }
        self.out.push(b'"');
    }

    /// A cell that is no string: a number, a boolean, or `null`.
    pub(super) fn literal(&mut self, json: impl Display) {
        self.separate();
        self.out.extend_from_slice(json.to_string().as_bytes());
    }

    pub(super) fn count(&mut self, count: usize) {
        self.literal(count);
    }

    pub(super) fn null(&mut self) {
        self.literal("null");
    }
}

/// Writes a JSON string.
pub(super) fn string(text: impl Display, out: &mut Vec<u8>) {
    out.push(b'"');
    write!(Escaped(out), "{text}").expect("memory can be written to");
    out.push(b'"');
}

/// Escapes what is written to it for the inside of a JSON string.
struct Escaped<'b>(&'b mut Vec<u8>);

impl fmt::Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut plain_from = 0;
        for (i, byte) in text.bytes().enumerate() {
            if byte >= 0x20 && byte != b'"' && byte != b'\\' {
                continue;
            }
            self.0.extend_from_slice(&text.as_bytes()[plain_from..i]);
            plain_from = i + 1;
            match byte {
                b'"' | b'\\' => self.0.extend_from_slice(&[b'\\', byte]),
                b'\n' => self.0.extend_from_slice(b"\\n"),
                b'\t' => self.0.extend_from_slice(b"\\t"),
                _ => self.0.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            }
        }
        self.0.extend_from_slice(&text.as_bytes()[plain_from..]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn cells_are_json() {
        let mut out = b"[".to_vec();
        let mut cells = Cells::new(&mut out);
        cells.text("a\"b");
        cells.count(3);
        cells.joined(["x", "y\n"], ", ");
        cells.joined([""; 0], ",");
        cells.null();
        cells.text_or("", "<none>");
        out.push(b']');
        let value: Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(value, json!(["a\"b", 3, "x, y\n", "", null, "<none>"]));
    }

    proptest! {
        #[test]
        fn every_text_survives(text in any::<String>()) {
            let mut out = Vec::new();
            string(&text, &mut out);
            prop_assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
        }
    }
}
