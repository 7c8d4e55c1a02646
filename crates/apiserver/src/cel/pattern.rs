//! Regular expressions in Go's syntax.
//!
//! Both engines descend from RE2, but differ in details that patterns rely on: `\d`, `\w`, `\s` and
//! `\b` are ASCII in Go, and brackets within a bracket expression are plain characters there.

use regex::{Regex, RegexBuilder};

use super::eval::Fault;

/// Go refuses to repeat more often.
const MAX_REPEAT: u32 = 1000;

/// Longer than the longest `:^name:` of a named class.
const MAX_CLASS_NAME_BYTES: usize = 16;

/// Longer patterns make larger programs than are compiled.
const MAX_PATTERN_BYTES: usize = 512 << 10;
/// Each takes kilobytes before the size of the program is known.
const MAX_UNICODE_CLASSES: usize = 1_000;

/// Compiled programs larger than this are refused.
const MAX_PROGRAM_BYTES: usize = 16 << 20;

pub(super) fn compile(pattern: &str) -> Result<Regex, Fault> {
    let wrong = |what: &str| Fault::new(format!("error parsing regexp: {what}: `{pattern}`"));
    let translated = translate(pattern).map_err(wrong)?;
    let classes = translated.matches(r"\p").chain(translated.matches(r"\P")).count();
    if translated.len() > MAX_PATTERN_BYTES || classes > MAX_UNICODE_CLASSES {
        return Err(wrong("expression too large"));
    }
    RegexBuilder::new(&translated).size_limit(MAX_PROGRAM_BYTES).build().map_err(
        |error| match error {
            regex::Error::CompiledTooBig(_) => wrong("expression too large"),
            _ => wrong(&first_problem(pattern)),
        },
    )
}

/// The commonest mistake in Go's words; any other is just a bad pattern.
fn first_problem(pattern: &str) -> String {
    let mut open = 0_i32;
    let mut escaped = false;
    for c in pattern.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '(' => open += 1,
            ')' => open -= 1,
            _ => {}
        }
    }
    match open {
        1.. => "missing closing )".to_owned(),
        0 => "invalid syntax".to_owned(),
        _ => "unexpected )".to_owned(),
    }
}

fn translate(pattern: &str) -> Result<String, &'static str> {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut chars = pattern.chars().peekable();
    let mut after_repeat = false;
    while let Some(c) = chars.next() {
        let mut is_repeat = false;
        match c {
            '\\' => match chars.next().ok_or("trailing backslash at end of expression")? {
                'd' => out.push_str("[0-9]"),
                'D' => out.push_str("[^0-9]"),
                'w' => out.push_str("[0-9A-Za-z_]"),
                'W' => out.push_str("[^0-9A-Za-z_]"),
                's' => out.push_str(r"[\t\n\f\r ]"),
                'S' => out.push_str(r"[^\t\n\f\r ]"),
                'b' => out.push_str(r"(?-u:\b)"),
                'B' => out.push_str(r"(?-u:\B)"),
                'Q' => {
                    let mut quoted = String::new();
                    while let Some(c) = chars.next() {
                        if c == '\\' && chars.peek() == Some(&'E') {
                            chars.next();
                            break;
                        }
                        quoted.push(c);
                    }
                    out.push_str(&regex::escape(&quoted));
                }
                digit @ '0'..='7' => octal(digit, &mut chars, &mut out)?,
                'C' => return Err("invalid escape sequence"),
                other => escape(other, &mut out)?,
            },
            '[' => bracket(&mut chars, &mut out)?,
            '*' | '+' | '?' => {
                // A `?` right after a repetition makes it lazy; anything else is one too many.
                if after_repeat && c != '?' {
                    return Err("invalid nested repetition operator");
                }
                is_repeat = !after_repeat;
                out.push(c);
            }
            '{' => {
                // What is no digit ends it; the brace or whatever else ended it included.
                let mut ended = false;
                let rest: String = chars
                    .clone()
                    .take_while(|c| {
                        let taken = !ended;
                        ended |= *c != ',' && !c.is_ascii_digit();
                        taken
                    })
                    .collect();
                match repeat(&rest)? {
                    Some(length) if after_repeat && length > 0 => {
                        return Err("invalid nested repetition operator");
                    }
                    Some(length) => {
                        out.push('{');
                        for _ in 0..length {
                            out.extend(chars.next());
                        }
                        is_repeat = true;
                    }
                    None => out.push_str(r"\{"),
                }
            }
            '}' => out.push_str(r"\}"),
            other => out.push(other),
        }
        after_repeat = is_repeat;
    }
    Ok(out)
}

fn escape(c: char, out: &mut String) -> Result<(), &'static str> {
    let known = c.is_ascii_punctuation() || "AzafnrtvxpP".contains(c);
    if !known {
        return Err("invalid escape sequence");
    }
    // `\<` and `\>` are word boundaries here but plain characters in Go.
    if c.is_ascii_punctuation() && !regex_syntax_meta(c) {
        out.push(c);
    } else {
        out.push('\\');
        out.push(c);
    }
    Ok(())
}

fn regex_syntax_meta(c: char) -> bool {
    r"\.+*?()|[]{}^$#&-~".contains(c)
}

fn octal(
    first: char,
    chars: &mut std::iter::Peekable<std::str::Chars<'_>>,
    out: &mut String,
) -> Result<(), &'static str> {
    // A lone digit from 1 on would be a back reference, which there are none of.
    if first != '0' && !chars.peek().is_some_and(|c| ('0'..='7').contains(c)) {
        return Err("invalid escape sequence");
    }
    let mut code = first.to_digit(8).unwrap_or_default();
    for _ in 0..2 {
        match chars.peek().and_then(|c| c.to_digit(8)) {
            Some(digit) => {
                code = code * 8 + digit;
                chars.next();
            }
            None => break,
        }
    }
    out.push_str(&format!(r"\x{{{code:x}}}"));
    Ok(())
}

/// A bracket expression after its opening bracket.
fn bracket(
    chars: &mut std::iter::Peekable<std::str::Chars<'_>>,
    out: &mut String,
) -> Result<(), &'static str> {
    out.push('[');
    if chars.next_if_eq(&'^').is_some() {
        out.push('^');
    }
    let mut is_first = true;
    // Whether the last thing was a single character, from which a range may go on.
    let mut may_range = false;
    loop {
        let c = chars.next().ok_or("missing closing ]")?;
        let is_range = may_range && c == '-' && chars.peek().is_some_and(|next| *next != ']');
        may_range = false;
        match c {
            ']' if !is_first => break,
            '-' if is_range => {
                out.push('-');
                // The end of the range is a plain character, whatever it is.
                match chars.next().ok_or("missing closing ]")? {
                    '\\' => class_escape(chars, out)?,
                    end => plain(end, out),
                }
            }
            '\\' => {
                let is_class = chars.peek().is_some_and(|c| "dDwWsSpP".contains(*c));
                class_escape(chars, out)?;
                may_range = !is_class;
            }
            '[' if chars.peek() == Some(&':') => {
                let rest: String =
                    chars.clone().take(MAX_CLASS_NAME_BYTES).take_while(|c| *c != ']').collect();
                if rest.len() > 2 && rest.ends_with(':') {
                    out.push('[');
                    out.push_str(&rest);
                    out.push(']');
                    for _ in 0..=rest.chars().count() {
                        chars.next();
                    }
                } else {
                    plain('[', out);
                }
            }
            c => {
                plain(c, out);
                may_range = true;
            }
        }
        is_first = false;
    }
    out.push(']');
    Ok(())
}

/// A character of a bracket expression that stands for itself.
fn plain(c: char, out: &mut String) {
    if c.is_ascii_punctuation() && regex_syntax_meta(c) {
        out.push('\\');
    }
    out.push(c);
}

/// An escape within a bracket expression, after its backslash.
fn class_escape(
    chars: &mut std::iter::Peekable<std::str::Chars<'_>>,
    out: &mut String,
) -> Result<(), &'static str> {
    match chars.next().ok_or("trailing backslash at end of expression")? {
        'd' => out.push_str("0-9"),
        'D' => out.push_str("[^0-9]"),
        'w' => out.push_str("0-9A-Za-z_"),
        'W' => out.push_str("[^0-9A-Za-z_]"),
        's' => out.push_str(r"\t\n\f\r "),
        'S' => out.push_str(r"[^\t\n\f\r ]"),
        digit @ '0'..='7' => octal(digit, chars, out)?,
        c if c.is_ascii_punctuation() => plain(c, out),
        c => escape(c, out)?,
    }
    Ok(())
}

/// The length of `3,5}` if it is a repetition, counting the brace.
fn repeat(rest: &str) -> Result<Option<usize>, &'static str> {
    let Some(inner) = rest.strip_suffix('}') else { return Ok(None) };
    let (least, most) = match inner.split_once(',') {
        None => (inner, inner),
        Some((least, "")) => (least, least),
        Some(bounds) => bounds,
    };
    let number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !number(least) || !number(most) {
        return Ok(None);
    }
    for bound in [least, most] {
        if bound.parse::<u32>().map_or(true, |bound| bound > MAX_REPEAT) {
            return Err("invalid repeat count");
        }
    }
    Ok(Some(inner.len() + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_go() {
        for (pattern, text, expected) in [
            (r"^\d+$", "42", true),
            (r"^\d+$", "\u{0664}", false),
            (r"^\w$", "é", false),
            (r"^[\w.-]+$", "a.b-c_1", true),
            (r"^[[:alpha:]]+$", "abc", true),
            (r"^[[]$", "[", true),
            (r"^[a&&b]+$", "a&b", true),
            (r"^.$", "é", true),
            (r"a{,2}", "a{,2}", true),
            (r"^a{2}$", "aa", true),
            (r"\Qa.b\E", "a.b", true),
            (r"\Qa.b\E", "axb", false),
            (r"\bfoo\b", "a foo b", true),
            (r"^[^\d]$", "x", true),
            (r"(?i)^ABC$", "abc", true),
            (r"^\x41\101$", "AA", true),
            (r"^[+--]$", ",", true),
        ] {
            assert_eq!(compile(pattern).unwrap().is_match(text), expected, "{pattern}");
        }
        for wrong in ["(", "a**", "[a", r"\1", "a{1001}", r"\y", "(?<=a)b", "a)", "\\"] {
            assert!(compile(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn braces_take_time_in_proportion_to_their_number() {
        let braces = |count| "{".repeat(count);
        crate::growth::assert_in_proportion(10_000, braces, |braces| {
            assert_eq!(translate(&braces).unwrap().len(), 2 * braces.len());
        });
    }
}
