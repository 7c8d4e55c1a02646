//! Rust source with everything blanked that is not code.
//!
//! The checks look for a few words and attributes. In a comment or a string those mean nothing, so
//! both are replaced by spaces before the search; quotes and line breaks stay, and so does every
//! byte offset.

/// The source with the inside of comments, strings and characters blanked.
pub(super) fn code_only(source: &str) -> String {
    let mut rest = Scanner { source: source.as_bytes(), at: 0, code: Vec::new() };
    while let Some(byte) = rest.peek(0) {
        match byte {
            b'/' if rest.peek(1) == Some(b'/') => rest.line_comment(),
            b'/' if rest.peek(1) == Some(b'*') => rest.block_comment(),
            b'"' => rest.string(),
            b'\'' => rest.character_or_lifetime(),
            b'r' if rest.starts_a_word() => rest.word_that_may_open_a_raw_string(1),
            b'b' | b'c' if rest.peek(1) == Some(b'r') && rest.starts_a_word() => {
                rest.word_that_may_open_a_raw_string(2);
            }
            _ => rest.keep(1),
        }
    }
    // Whole characters are blanked or kept, and a blank is ASCII.
    String::from_utf8_lossy(&rest.code).into_owned()
}

struct Scanner<'a> {
    source: &'a [u8],
    at: usize,
    code: Vec<u8>,
}

impl Scanner<'_> {
    fn peek(&self, ahead: usize) -> Option<u8> {
        self.source.get(self.at + ahead).copied()
    }

    fn starts_a_word(&self) -> bool {
        self.at == 0 || !is_word(self.source[self.at - 1])
    }

    fn keep(&mut self, count: usize) {
        let end = (self.at + count).min(self.source.len());
        self.code.extend_from_slice(&self.source[self.at..end]);
        self.at = end;
    }

    fn blank(&mut self, count: usize) {
        let end = (self.at + count).min(self.source.len());
        let blanked = self.source[self.at..end].iter();
        self.code.extend(blanked.map(|byte| if *byte == b'\n' { b'\n' } else { b' ' }));
        self.at = end;
    }

    fn line_comment(&mut self) {
        while self.peek(0).is_some_and(|byte| byte != b'\n') {
            self.blank(1);
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0_usize;
        while self.at < self.source.len() {
            match (self.peek(0), self.peek(1)) {
                (Some(b'/'), Some(b'*')) => {
                    depth += 1;
                    self.blank(2);
                }
                (Some(b'*'), Some(b'/')) => {
                    depth -= 1;
                    self.blank(2);
                    if depth == 0 {
                        return;
                    }
                }
                _ => self.blank(1),
            }
        }
    }

    fn string(&mut self) {
        self.keep(1);
        while let Some(byte) = self.peek(0) {
            match byte {
                b'"' => return self.keep(1),
                b'\\' => self.blank(2),
                _ => self.blank(1),
            }
        }
    }

    /// At `r`, `br` or `cr`, whose length is given: the raw string it opens, or else just the word.
    fn word_that_may_open_a_raw_string(&mut self, prefix: usize) {
        let mut hashes = 0;
        while self.peek(prefix + hashes) == Some(b'#') {
            hashes += 1;
        }
        if self.peek(prefix + hashes) != Some(b'"') {
            return self.keep(prefix);
        }
        self.keep(prefix + hashes + 1);
        while let Some(byte) = self.peek(0) {
            let closes = byte == b'"' && (1..=hashes).all(|ahead| self.peek(ahead) == Some(b'#'));
            if closes {
                return self.keep(1 + hashes);
            }
            self.blank(1);
        }
    }

    /// `'x'`, `'\u{7f}'` or `'é'` is a character; `'a` in any other place is a lifetime.
    fn character_or_lifetime(&mut self) {
        self.keep(1);
        match self.peek(0) {
            Some(b'\\') => {
                self.blank(2);
                while self.peek(0).is_some_and(|byte| byte != b'\'' && byte != b'\n') {
                    self.blank(1);
                }
                self.keep(1);
            }
            Some(first) => {
                let length = utf8_length(first);
                if self.peek(length) == Some(b'\'') {
                    self.blank(length);
                    self.keep(1);
                }
            }
            None => {}
        }
    }
}

fn utf8_length(first: u8) -> usize {
    match first {
        0xc0..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xff => 4,
        _ => 1,
    }
}

/// Whether the byte can be part of an identifier.
pub(super) fn is_word(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_alphanumeric() || !byte.is_ascii()
}

#[cfg(test)]
mod tests {
    use super::code_only;

    #[test]
    fn comments_strings_and_characters_are_blanked() {
        for (source, expected) in [
            ("a // b\nc", "a     \nc"),
            ("a /* b /* c */ d */ e", "a                   e"),
            ("a /* b\nc */ d", "a     \n     d"),
            (r#"f("x // y") + 1"#, r#"f("      ") + 1"#),
            (r#"f("a\"b", c)"#, r#"f("    ", c)"#),
            (r###"r#"a"b"# c"###, r###"r#"   "# c"###),
            (r##"br"\" c"##, r##"br" " c"##),
            ("for r in x {}", "for r in x {}"),
            (r#"bar"x""#, r#"bar" ""#),
            ("'\"' 'a", "' ' 'a"),
            (r"'\'' x", r"'  ' x"),
            (r"'\u{7f}' x", r"'      ' x"),
            ("'é' x", "'  ' x"),
            ("&'a str, 'b: loop {}", "&'a str, 'b: loop {}"),
        ] {
            assert_eq!(code_only(source), expected, "{source}");
        }
    }

    #[test]
    fn what_is_never_closed_does_not_matter() {
        for source in ["\"a", "r#\"a", "/* a", "'", "'\\", "b", "\"\\"] {
            assert_eq!(code_only(source).len(), source.len(), "{source}");
        }
    }
}
