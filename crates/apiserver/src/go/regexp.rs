//! Regular expressions in Go's syntax, matched by Rust's `regex` crate.
//!
//! `pattern` in a schema and `matches` in CEL are RE2 as Go reads it. The two engines agree on meaning but not on every
//! spelling: in Go `\d` is ASCII, `[a[]` and a lone `{` are literals, `\Q…\E` quotes, two groups
//! may share a name. So a pattern is read by Go's grammar, refused with Go's words, and written
//! out again in a spelling that means the same to the `regex` crate.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use regex::Regex;

/// Why a pattern is not one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("error parsing regexp: {problem}: `{fragment}`")]
pub(crate) struct PatternError {
    problem: &'static str,
    fragment: String,
}

impl PatternError {
    fn new(problem: &'static str, fragment: &str) -> Self {
        Self { problem, fragment: fragment.to_owned() }
    }
}

/// Compiled patterns are shared: the same ones recur in many schemas and across versions.
/// Past this many the cache starts anew, so that schemas that come and go cannot fill memory.
const MAX_CACHED_PATTERNS: usize = 4096;
/// A program larger than this is refused. Go has a limit of the same order.
const MAX_PROGRAM_BYTES: usize = 4 << 20;
const MAX_REPEAT: u32 = 1000;
/// Longer patterns make larger programs than are compiled.
const MAX_PATTERN_BYTES: usize = 512 << 10;
const MAX_UNICODE_CLASSES: usize = 1_000;
const TOO_LARGE: &str = "expression too large";

static CACHE: LazyLock<Mutex<HashMap<String, Arc<Regex>>>> = LazyLock::new(Mutex::default);

/// The compiled pattern.
pub(crate) fn compile(pattern: &str) -> Result<Regex, PatternError> {
    let translated = Translator::new(pattern).run()?;
    if translated.len() > MAX_PATTERN_BYTES {
        return Err(PatternError::new(TOO_LARGE, pattern));
    }
    regex::RegexBuilder::new(&translated)
        .size_limit(MAX_PROGRAM_BYTES)
        .build()
        .map_err(|_| PatternError::new(TOO_LARGE, pattern))
}

/// The same, from the cache if it was seen before.
pub(crate) fn cached(pattern: &str) -> Result<Arc<Regex>, PatternError> {
    let cache = || CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = cache().get(pattern) {
        return Ok(Arc::clone(found));
    }
    let compiled = Arc::new(compile(pattern)?);
    let mut cache = cache();
    if cache.len() >= MAX_CACHED_PATTERNS {
        cache.clear();
    }
    cache.insert(pattern.to_owned(), Arc::clone(&compiled));
    Ok(compiled)
}

/// One open group, or the whole expression.
struct Group {
    /// Whether there is something before the cursor that a repetition could apply to.
    operand: bool,
    /// The largest product of nested repetition counts in the last operand, and in the group.
    last_repeat: u32,
    most_repeat: u32,
}

impl Group {
    const fn new() -> Self {
        Self { operand: false, last_repeat: 1, most_repeat: 1 }
    }
}

struct Translator<'p> {
    whole: &'p str,
    rest: &'p str,
    out: String,
    groups: Vec<Group>,
    /// Whether no `:]` follows: looked for once.
    no_more_posix: bool,
    unicode_classes: usize,
    /// Unicode classes that were found to exist.
    known_classes: HashSet<String>,
}

impl<'p> Translator<'p> {
    fn new(whole: &'p str) -> Self {
        let out = String::with_capacity(whole.len() + 16);
        Self {
            whole,
            rest: whole,
            out,
            groups: vec![Group::new()],
            no_more_posix: false,
            unicode_classes: 0,
            known_classes: HashSet::new(),
        }
    }

    fn run(mut self) -> Result<String, PatternError> {
        // Where the repetition that has just been read began; stacking another is an error.
        let mut last_repetition: Option<&'p str> = None;
        while let Some(c) = self.rest.chars().next() {
            let before = self.rest;
            let mut repetition = None;
            match c {
                '(' if before.starts_with("(?") => self.perl_group()?,
                '(' => {
                    self.advance(1);
                    self.open_group("(?:");
                }
                ')' => self.close_group()?,
                '|' => {
                    self.advance(1);
                    self.out.push('|');
                    if let Some(group) = self.groups.last_mut() {
                        group.operand = false;
                        group.most_repeat = group.most_repeat.max(group.last_repeat);
                    }
                }
                '*' | '+' | '?' => {
                    self.advance(1);
                    self.out.push(c);
                    self.repeat(before, last_repetition, None)?;
                    repetition = Some(before);
                }
                '{' => {
                    if let Some((min, max, length)) = repetition_bounds(before) {
                        self.advance(length);
                        let bad =
                            min > MAX_REPEAT || max.is_some_and(|m| m > MAX_REPEAT || m < min);
                        if bad {
                            let shown = &before[..length];
                            return Err(PatternError::new("invalid repeat count", shown));
                        }
                        self.out.push_str(&before[..length]);
                        self.repeat(before, last_repetition, Some((min, max)))?;
                        repetition = Some(before);
                    } else {
                        self.advance(1);
                        self.literal('{');
                    }
                }
                '[' => self.class()?,
                '\\' => self.escape()?,
                '^' | '$' | '.' => {
                    self.advance(1);
                    self.out.push(c);
                    self.operand();
                }
                c => {
                    self.advance(c.len_utf8());
                    self.literal(c);
                }
            }
            last_repetition = repetition;
        }
        if self.groups.len() > 1 {
            return Err(PatternError::new("missing closing )", self.whole));
        }
        Ok(self.out)
    }

    fn advance(&mut self, bytes: usize) {
        self.rest = &self.rest[bytes..];
    }

    fn operand(&mut self) {
        if let Some(group) = self.groups.last_mut() {
            group.operand = true;
            group.most_repeat = group.most_repeat.max(group.last_repeat);
            group.last_repeat = 1;
        }
    }

    fn literal(&mut self, c: char) {
        push_literal(&mut self.out, c);
        self.operand();
    }

    fn open_group(&mut self, spelled: &str) {
        self.out.push_str(spelled);
        self.groups.push(Group::new());
    }

    fn close_group(&mut self) -> Result<(), PatternError> {
        self.advance(1);
        let closed = self.groups.pop().filter(|_| !self.groups.is_empty());
        let Some(closed) = closed else {
            return Err(PatternError::new("unexpected )", self.whole));
        };
        self.out.push(')');
        self.operand();
        if let Some(group) = self.groups.last_mut() {
            group.last_repeat = closed.most_repeat.max(closed.last_repeat);
        }
        Ok(())
    }

    /// Checks the repetition that has just been copied, and takes a lazy `?` after it.
    fn repeat(
        &mut self,
        before: &str,
        last_repetition: Option<&str>,
        bounds: Option<(u32, Option<u32>)>,
    ) -> Result<(), PatternError> {
        if self.rest.starts_with('?') {
            self.advance(1);
            self.out.push('?');
        }
        if let Some(last) = last_repetition {
            let shown = &last[..last.len() - self.rest.len()];
            return Err(PatternError::new("invalid nested repetition operator", shown));
        }
        let shown = &before[..before.len() - self.rest.len()];
        let Some(group) = self.groups.last_mut().filter(|g| g.operand) else {
            return Err(PatternError::new("missing argument to repetition operator", shown));
        };
        if let Some((min, max)) = bounds {
            let count = max.unwrap_or(min);
            group.last_repeat = match count {
                0 => 1,
                count => group.last_repeat.saturating_mul(count),
            };
            if group.last_repeat > MAX_REPEAT {
                return Err(PatternError::new("invalid repeat count", shown));
            }
        }
        Ok(())
    }

    /// `(?:`, `(?P<name>`, `(?<name>`, `(?flags)` and `(?flags:`.
    fn perl_group(&mut self) -> Result<(), PatternError> {
        let start = self.rest;
        let name_at = ["(?P<", "(?<"].into_iter().find(|p| start.starts_with(p)).map(str::len);
        if let Some(name_at) = name_at {
            let Some(end) = start.find('>') else {
                return Err(PatternError::new("invalid named capture", start));
            };
            let name = &start[name_at..end];
            let word = |c: char| c == '_' || c.is_ascii_alphanumeric();
            if name.is_empty() || !name.chars().all(word) {
                return Err(PatternError::new("invalid named capture", &start[..=end]));
            }
            self.advance(end + 1);
            self.open_group("(?:");
            return Ok(());
        }
        let (mut negative, mut saw_flag) = (false, false);
        for (at, c) in start.char_indices().skip(2) {
            let next = at + c.len_utf8();
            match c {
                'i' | 'm' | 's' | 'U' => saw_flag = true,
                '-' if !negative => (negative, saw_flag) = (true, false),
                ':' if !negative || saw_flag => {
                    self.advance(next);
                    self.open_group(&start[..next]);
                    return Ok(());
                }
                ')' if !negative || saw_flag => {
                    self.advance(next);
                    // `(?)` sets nothing, and the other engine does not know it.
                    if at > 2 {
                        self.out.push_str(&start[..next]);
                    }
                    return Ok(());
                }
                _ => return Err(PatternError::new(BAD_PERL, &start[..next])),
            }
        }
        Err(PatternError::new(BAD_PERL, start))
    }

    fn escape(&mut self) -> Result<(), PatternError> {
        let start = self.rest;
        match start.chars().nth(1) {
            Some(c @ ('A' | 'z')) => {
                self.advance(2);
                self.out.extend(['\\', c]);
            }
            Some(c @ ('b' | 'B')) => {
                self.advance(2);
                self.out.push_str(if c == 'b' { r"(?-u:\b)" } else { r"(?-u:\B)" });
            }
            Some('Q') => {
                let (quoted, rest) = start[2..].split_once(r"\E").unwrap_or((&start[2..], ""));
                quoted.chars().for_each(|c| push_literal(&mut self.out, c));
                self.rest = rest;
                if quoted.is_empty() {
                    return Ok(());
                }
            }
            Some('p' | 'P') => {
                let (class, length) = self.unicode_class(start)?;
                self.advance(length);
                self.out.push_str(&class);
            }
            Some(c) if perl_class(c).is_some() => {
                self.advance(2);
                let (negated, members) = perl_class(c).unwrap_or_default();
                self.out.push_str(if negated { "[^" } else { "[" });
                self.out.push_str(members);
                self.out.push(']');
            }
            _ => {
                let (c, length) = escaped_char(start)?;
                self.advance(length);
                push_literal(&mut self.out, c);
            }
        }
        self.operand();
        Ok(())
    }

    fn class(&mut self) -> Result<(), PatternError> {
        let start = self.rest;
        self.advance(1);
        self.out.push('[');
        if self.rest.starts_with('^') {
            self.advance(1);
            self.out.push('^');
        }
        let mut first = true;
        while first || !self.rest.starts_with(']') {
            first = false;
            if self.class_set()? {
                continue;
            }
            let range = self.rest;
            let low = self.class_char(start)?;
            let mut high = low;
            if self.rest.len() >= 2
                && self.rest.starts_with('-')
                && !self.rest[1..].starts_with(']')
            {
                self.advance(1);
                high = self.class_char(start)?;
                if high < low {
                    let shown = &range[..range.len() - self.rest.len()];
                    return Err(PatternError::new(BAD_RANGE, shown));
                }
            }
            let (low, high) = (u32::from(low), u32::from(high));
            self.out.push_str(&format!("\\x{{{low:x}}}-\\x{{{high:x}}}"));
        }
        self.advance(1);
        self.out.push(']');
        self.operand();
        Ok(())
    }

    /// A named set inside a class: `[:alpha:]`, `\pL`, `\d`.
    fn class_set(&mut self) -> Result<bool, PatternError> {
        let start = self.rest;
        if let Some(inside) = start.strip_prefix("[:") {
            let end = if self.no_more_posix { None } else { inside.find(":]") };
            self.no_more_posix = end.is_none();
            if let Some(end) = end {
                let named = &start[..end + 4];
                let name = named[2..named.len() - 2].trim_start_matches('^');
                if !POSIX_CLASSES.contains(&name) || named[2..].starts_with("^^") {
                    return Err(PatternError::new(BAD_RANGE, named));
                }
                self.out.push_str(named);
                self.advance(named.len());
                return Ok(true);
            }
            return Ok(false);
        }
        if start.starts_with(r"\p") || start.starts_with(r"\P") {
            let (class, length) = self.unicode_class(start)?;
            self.out.push_str(&class);
            self.advance(length);
            return Ok(true);
        }
        let letter = start.strip_prefix('\\').and_then(|s| s.chars().next());
        let Some((negated, members)) = letter.and_then(perl_class) else {
            return Ok(false);
        };
        if negated {
            self.out.push_str("[^");
        }
        self.out.push_str(members);
        if negated {
            self.out.push(']');
        }
        self.advance(2);
        Ok(true)
    }

    /// `\pL`, `\p{Greek}`, `\P{^Lu}`: the same for the other engine, and how long it was. Each takes
    /// kilobytes to compile before the size of the program is known, so there may not be very many.
    fn unicode_class(&mut self, start: &str) -> Result<(String, usize), PatternError> {
        let (class, length) = spelled_class(start)?;
        self.unicode_classes += 1;
        if self.unicode_classes > MAX_UNICODE_CLASSES {
            return Err(PatternError::new(TOO_LARGE, self.whole));
        }
        if !self.known_classes.contains(&class) {
            if Regex::new(&class).is_err() {
                return Err(PatternError::new(BAD_RANGE, &start[..length]));
            }
            self.known_classes.insert(class.clone());
        }
        Ok((class, length))
    }

    fn class_char(&mut self, class: &str) -> Result<char, PatternError> {
        let (c, length) = match self.rest.chars().next() {
            None => return Err(PatternError::new("missing closing ]", class)),
            Some('\\') => escaped_char(self.rest)?,
            Some(c) => (c, c.len_utf8()),
        };
        self.advance(length);
        Ok(c)
    }
}

const BAD_PERL: &str = "invalid or unsupported Perl syntax";
const BAD_RANGE: &str = "invalid character class range";
const BAD_ESCAPE: &str = "invalid escape sequence";

const POSIX_CLASSES: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
    "space", "upper", "word", "xdigit",
];

fn push_literal(out: &mut String, c: char) {
    if regex_syntax_meta(c) {
        out.push('\\');
    }
    out.push(c);
}

const fn regex_syntax_meta(c: char) -> bool {
    matches!(
        c,
        '\\' | '.'
            | '+'
            | '*'
            | '?'
            | '('
            | ')'
            | '|'
            | '['
            | ']'
            | '{'
            | '}'
            | '^'
            | '$'
            | '#'
            | '&'
            | '-'
            | '~'
    )
}

/// `\d`, `\s`, `\w` and their negations: whether negated, and the ASCII members.
fn perl_class(letter: char) -> Option<(bool, &'static str)> {
    let members = match letter.to_ascii_lowercase() {
        'd' => "0-9",
        's' => r"\t\n\x0C\r\x20",
        'w' => "0-9A-Za-z_",
        _ => return None,
    };
    Some((letter.is_ascii_uppercase(), members))
}

/// A Unicode class as the other engine spells it, whether it exists or not, and how long it was.
fn spelled_class(start: &str) -> Result<(String, usize), PatternError> {
    let mut negated = start.starts_with(r"\P");
    let (name, length) = match start[2..].chars().next() {
        None => return Err(PatternError::new(BAD_RANGE, start)),
        Some('{') => {
            let Some(end) = start.find('}') else {
                return Err(PatternError::new(BAD_RANGE, start));
            };
            (&start[3..end], end + 1)
        }
        Some(c) => (&start[2..2 + c.len_utf8()], 2 + c.len_utf8()),
    };
    let bare = name.strip_prefix('^').unwrap_or(name);
    negated ^= bare.len() != name.len();
    let class = format!("\\{}{{{bare}}}", if negated { 'P' } else { 'p' });
    let known = bare.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !bare.is_empty();
    if !known {
        return Err(PatternError::new(BAD_RANGE, &start[..length]));
    }
    Ok((class, length))
}

/// One escaped character, and how long its spelling was.
fn escaped_char(start: &str) -> Result<(char, usize), PatternError> {
    let Some(c) = start[1..].chars().next() else {
        return Err(PatternError::new("trailing backslash at end of expression", ""));
    };
    let bad = |length: usize| PatternError::new(BAD_ESCAPE, &start[..length.min(start.len())]);
    let plain = |c: char| Ok((c, 2));
    match c {
        '0'..='7' => {
            let digits: String =
                start[1..].chars().take_while(|d| ('0'..='7').contains(d)).collect();
            // A single digit other than zero would be a back-reference, which RE2 has not.
            if c != '0' && digits.len() == 1 {
                return Err(bad(2));
            }
            let digits = &digits[..digits.len().min(3)];
            let code = u32::from_str_radix(digits, 8).unwrap_or_default();
            Ok((char::from_u32(code).unwrap_or_default(), 1 + digits.len()))
        }
        'x' => escaped_hex(start),
        'a' => plain('\u{7}'),
        'f' => plain('\u{c}'),
        'n' => plain('\n'),
        'r' => plain('\r'),
        't' => plain('\t'),
        'v' => plain('\u{b}'),
        c if c.is_ascii() && !c.is_ascii_alphanumeric() => plain(c),
        c => Err(bad(1 + c.len_utf8())),
    }
}

/// `\x7F` and `\x{10FFFF}`.
fn escaped_hex(start: &str) -> Result<(char, usize), PatternError> {
    let bad = |length: usize| {
        let length = (0..=length.min(start.len())).rev().find(|l| start.is_char_boundary(*l));
        PatternError::new(BAD_ESCAPE, &start[..length.unwrap_or_default()])
    };
    let digits = &start[2..];
    let Some(braced) = digits.strip_prefix('{') else {
        let Some(pair) = digits.get(..2) else {
            return Err(bad(start.len()));
        };
        let code = u32::from_str_radix(pair, 16).ok().filter(|_| !pair.starts_with('+'));
        return code.and_then(char::from_u32).map(|c| (c, 4)).ok_or_else(|| bad(4));
    };
    let mut code = 0_u32;
    for (at, c) in braced.char_indices() {
        match c.to_digit(16) {
            Some(digit) => {
                code = code.saturating_mul(16).saturating_add(digit);
                if code > 0x0010_FFFF {
                    return Err(bad(3 + at + 1));
                }
            }
            None if c == '}' && at > 0 => {
                let found = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
                return Ok((found, 3 + at + 1));
            }
            None => return Err(bad(3 + at + c.len_utf8())),
        }
    }
    Err(bad(start.len()))
}

/// `{n}`, `{n,}` or `{n,m}` at the start of the text: the bounds, and how long it was.
fn repetition_bounds(start: &str) -> Option<(u32, Option<u32>, usize)> {
    let inner = start.strip_prefix('{')?;
    let end = inner.find(|c: char| c != ',' && !c.is_ascii_digit())?;
    if !inner[end..].starts_with('}') {
        return None;
    }
    let (min, max) = match inner[..end].split_once(',') {
        None => {
            let count = repetition_count(&inner[..end])?;
            (count, Some(count))
        }
        Some((min, "")) => (repetition_count(min)?, None),
        Some((min, max)) => (repetition_count(min)?, Some(repetition_count(max)?)),
    };
    Some((min, max, end + 2))
}

fn repetition_count(digits: &str) -> Option<u32> {
    let leading_zero = digits.len() > 1 && digits.starts_with('0');
    if digits.is_empty() || leading_zero || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some(digits.parse().unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_what_go_means() {
        let cases = [
            (r"^\d+$", "12", true),
            (r"^\d+$", "١٢", false),
            (r"^\w+$", "é", false),
            (r"^\W$", "é", true),
            (r"^[^\W]$", "é", false),
            (r"^a{,3}$", "a{,3}", true),
            (r"^[a[]+$", "a[", true),
            ("^{$", "{", true),
            ("^[]a]+$", "]a", true),
            (r"^\Qa.b\E+$", "a.bb", true),
            (r"^\Qa.b\E$", "axb", false),
            (r"^\101$", "A", true),
            (r"^(?<n>a)(?P<n>b)$", "ab", true),
            ("^[&&--~~]+$", "&~", true),
            ("^[a-z-9]+$", "a-9", true),
            ("^*a", "a", true),
            (r"^\x{41}\x42$", "AB", true),
            (r"^[[:^alpha:]]$", "1", true),
            (r"\bfoo\b", "a foo b", true),
            (r"^.$", "\n", false),
            (r"^(?s).$", "\n", true),
            (r"^\s$", "\u{a0}", false),
            (r"^a$", "a\n", false),
        ];
        for (pattern, text, matches) in cases {
            let compiled = compile(pattern).unwrap_or_else(|e| panic!("{pattern}: {e}"));
            assert_eq!(compiled.is_match(text), matches, "{pattern} on {text:?}");
        }
    }

    #[test]
    fn refuses_in_gos_words() {
        let cases = [
            ("(a", "missing closing ): `(a`"),
            ("a)", "unexpected ): `a)`"),
            ("a**", "invalid nested repetition operator: `**`"),
            ("x{2}{3}", "invalid nested repetition operator: `{2}{3}`"),
            ("*", "missing argument to repetition operator: `*`"),
            ("a|*", "missing argument to repetition operator: `*`"),
            ("a{1001}", "invalid repeat count: `{1001}`"),
            ("a{2,1}", "invalid repeat count: `{2,1}`"),
            ("(?:a{500}){500}", "invalid repeat count: `{500}`"),
            ("[a", "missing closing ]: `[a`"),
            ("[z-a]", "invalid character class range: `z-a`"),
            ("[[:foo:]]", "invalid character class range: `[:foo:]`"),
            (r"[a-\d]", r"invalid escape sequence: `\d`"),
            (r"\pX", r"invalid character class range: `\pX`"),
            (r"\8", r"invalid escape sequence: `\8`"),
            (r"\Z", r"invalid escape sequence: `\Z`"),
            (r"\u0041", r"invalid escape sequence: `\u`"),
            (r"\x{110000}", r"invalid escape sequence: `\x{110000`"),
            ("a\\", "trailing backslash at end of expression: ``"),
            ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
            ("(?i", "invalid or unsupported Perl syntax: `(?i`"),
            ("(?x)a", "invalid or unsupported Perl syntax: `(?x`"),
            ("(?P=n)", "invalid or unsupported Perl syntax: `(?P`"),
            ("(?P<>a)", "invalid named capture: `(?P<>`"),
            ("(?<=a)b", "invalid named capture: `(?<=a)b`"),
        ];
        for (pattern, problem) in cases {
            let error = compile(pattern).expect_err(pattern).to_string();
            assert_eq!(error, format!("error parsing regexp: {problem}"));
        }
    }

    proptest::proptest! {
        #[test]
        fn nothing_panics(pattern in r"[\[\](){}|*+?\\^$.a-cpPQE0-9:<>=,é-]{0,24}") {
            let _ = compile(&pattern);
        }
    }

    #[test]
    fn braces_take_time_in_proportion_to_their_number() {
        let braces = |count| "{".repeat(count);
        crate::growth::assert_in_proportion(50_000, braces, |braces| {
            assert_eq!(Translator::new(&braces).run().unwrap().len(), 2 * braces.len());
        });
    }
}
