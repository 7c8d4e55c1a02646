//! The text of an object, as it is kept in memory.
//!
//! About half of a small object is `managedFields`, which is the same for thousands of objects that
//! one program wrote. Those parts are interned: kept once for all objects, and put back when the text
//! is read.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use memchr::memmem::Finder;

/// What stands before a part that others may have as well. Inside of a text its quotes would be
/// escaped, so it is a member's name wherever it is found.
const FIELDS_PREFIX: &[u8] = br#""fieldsV1":{"#;
static FIELDS_FINDER: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(FIELDS_PREFIX));
/// Shorter parts are not interned.
const MIN_INTERNED_BYTES: usize = 96;

/// A text without its interned parts.
#[derive(Debug)]
pub(super) struct InternedText {
    own: Box<[u8]>,
    shared: Box<[InternedPart]>,
}

/// An interned part, and where it belongs.
#[derive(Debug, Clone)]
struct InternedPart {
    /// It comes before this byte of what is left.
    at: u32,
    text: Arc<[u8]>,
}

impl InternedText {
    pub(super) fn of(whole: &[u8]) -> Self {
        let mut own = Vec::with_capacity(whole.len());
        let mut shared = Vec::new();
        let mut done = 0;
        while let Some(found) = FIELDS_FINDER.find(&whole[done..]) {
            // The brace is part of what is shared.
            let begin = done + found + FIELDS_PREFIX.len() - 1;
            let Some(length) = length_of_object(&whole[begin..]) else { break };
            own.extend_from_slice(&whole[done..begin]);
            let part = &whole[begin..begin + length];
            match u32::try_from(own.len()) {
                Ok(at) if length >= MIN_INTERNED_BYTES => {
                    shared.push(InternedPart { at, text: intern(part) });
                }
                _ => own.extend_from_slice(part),
            }
            done = begin + length;
        }
        own.extend_from_slice(&whole[done..]);
        Self { own: own.into_boxed_slice(), shared: shared.into_boxed_slice() }
    }

    /// How long the whole is.
    pub(super) fn len(&self) -> usize {
        self.own.len() + self.shared.iter().map(|part| part.text.len()).sum::<usize>()
    }

    /// What nobody shares, which begins as the whole does.
    pub(super) fn own(&self) -> &[u8] {
        &self.own
    }

    /// Appends the whole from this byte on, before which nothing is shared.
    pub(super) fn write_from(&self, start: usize, out: &mut Vec<u8>) {
        let mut done = start;
        for part in &self.shared {
            let at = usize::try_from(part.at).unwrap_or(usize::MAX);
            out.extend_from_slice(&self.own[done..at]);
            out.extend_from_slice(&part.text);
            done = at;
        }
        out.extend_from_slice(&self.own[done..]);
    }

    pub(super) fn whole(&self) -> Cow<'_, [u8]> {
        if self.shared.is_empty() {
            return Cow::Borrowed(&self.own);
        }
        let mut whole = Vec::with_capacity(self.len());
        self.write_from(0, &mut whole);
        Cow::Owned(whole)
    }

    /// The same with other bytes in place of some, before which nothing is shared.
    pub(super) fn replacing(&self, range: std::ops::Range<usize>, with: &[u8]) -> Self {
        let own = [&self.own[..range.start], with, &self.own[range.end..]].concat();
        let moved = |part: &InternedPart| {
            let at = usize::try_from(part.at).unwrap_or(usize::MAX) + with.len() - range.len();
            InternedPart { at: u32::try_from(at).unwrap_or(u32::MAX), text: part.text.clone() }
        };
        let shared = self.shared.iter().map(moved).collect();
        Self { own: own.into_boxed_slice(), shared }
    }
}

impl Clone for InternedText {
    fn clone(&self) -> Self {
        Self { own: self.own.clone(), shared: self.shared.clone() }
    }
}

/// The length of the object that a text begins with.
fn length_of_object(text: &[u8]) -> Option<usize> {
    let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
    for (index, byte) in text.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'{' if !quoted => depth += 1,
            b'}' if !quoted => {
                depth -= 1;
                if depth == 0 {
                    return Some(index + 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// Every interned part.
#[derive(Debug, Default)]
struct InternPool {
    parts: HashSet<Arc<[u8]>>,
    /// With so many parts, those that no text refers to any more are removed.
    sweep_at: usize,
}

/// The pool is never swept for fewer than this.
const MIN_SWEPT_PARTS: usize = 4096;

impl InternPool {
    fn intern(&mut self, part: &[u8]) -> Arc<[u8]> {
        if let Some(there) = self.parts.get(part) {
            return there.clone();
        }
        if self.parts.len() >= self.sweep_at.max(MIN_SWEPT_PARTS) {
            self.parts.retain(|part| Arc::strong_count(part) > 1);
            self.sweep_at = self.parts.len() * 2;
        }
        let part: Arc<[u8]> = part.into();
        self.parts.insert(part.clone());
        part
    }
}

/// The shared copy of a part. The pool is global: all stores share it.
fn intern(part: &[u8]) -> Arc<[u8]> {
    static INTERN_POOL: LazyLock<Mutex<InternPool>> = LazyLock::new(Mutex::default);
    INTERN_POOL.lock().unwrap_or_else(PoisonError::into_inner).intern(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(name: &str) -> String {
        format!(
            r#"{{"f:spec":{{"f:{name}":{{}},"v:\"}}{{\\\"":{{}},"f:{}":{{}}}}}}"#,
            "x".repeat(90)
        )
    }

    fn object(name: &str, who: &str) -> String {
        let (a, b) = (fields("a"), fields(who));
        format!(
            r#"{{"kind":"K","metadata":{{"name":"{name}","managedFields":[{{"fieldsV1":{a},"manager":"a"}},{{"fieldsV1":{b}}}]}}}}"#
        )
    }

    #[test]
    fn a_text_comes_back_as_it_was() {
        let short = r#"{"fieldsV1":{"f:data":{}},"data":"\"fieldsV1\":{"}"#;
        let broken = r#"{"fieldsV1":{"f:data":{}"#;
        for whole in [&object("x", "b"), "", "{}", short, broken] {
            let text = InternedText::of(whole.as_bytes());
            assert_eq!(text.whole(), whole.as_bytes(), "{whole}");
            assert_eq!(text.len(), whole.len());
        }
        assert!(
            InternedText::of(short.as_bytes()).shared.is_empty(),
            "what is short is not shared"
        );
    }

    #[test]
    fn equal_parts_are_kept_once() {
        let texts = ["x", "y"].map(|name| InternedText::of(object(name, "b").as_bytes()));
        assert!(texts.iter().all(|text| text.shared.len() == 2));
        for part in 0..2 {
            let [x, y] = texts.each_ref().map(|text| &text.shared[part].text);
            assert!(Arc::ptr_eq(x, y), "part {part}");
        }
        assert!(texts[0].own.len() < 120, "{}", String::from_utf8_lossy(&texts[0].own));
    }

    #[test]
    fn bytes_before_the_first_shared_part_can_be_replaced() {
        let whole = object("x", "b");
        let at = whole.find("\"x\"").expect("the name");
        for name in ["\"y\"", "\"longer\"", ""] {
            let replaced =
                InternedText::of(whole.as_bytes()).replacing(at..at + 3, name.as_bytes());
            assert_eq!(replaced.whole(), whole.replacen("\"x\"", name, 1).as_bytes());
        }
        let mut body = Vec::new();
        InternedText::of(whole.as_bytes()).write_from(9, &mut body);
        assert_eq!(body, whole.as_bytes()[9..]);
    }

    #[test]
    fn parts_without_references_are_removed() {
        let mut pool = InternPool::default();
        let kept = pool.intern(b"kept");
        for number in 0..10 * MIN_SWEPT_PARTS {
            pool.intern(number.to_string().as_bytes());
        }
        assert!(pool.parts.len() <= MIN_SWEPT_PARTS, "{}", pool.parts.len());
        assert!(Arc::ptr_eq(&kept, &pool.intern(b"kept")));
    }
}
