//! Parsing of paths.

use serde_json::Value;

use super::{Comparison, Filter, JsonPathError, Slice, Step, Test};

/// Filters and unions are parsed recursively; nobody nests them more than once.
const MAX_DEPTH: usize = 16;

pub(super) fn path(path: &str) -> Result<Vec<Step>, JsonPathError> {
    action(path, 0)
}

/// Parses the inside of one pair of braces.
fn action(text: &str, depth: usize) -> Result<Vec<Step>, JsonPathError> {
    if depth > MAX_DEPTH {
        return Err(JsonPathError::TooDeep);
    }
    let mut parser = Parser { text, pos: 0, depth, steps: Vec::new() };
    parser.run()?;
    Ok(parser.steps)
}

struct Parser<'t> {
    text: &'t str,
    pos: usize,
    depth: usize,
    steps: Vec<Step>,
}

impl<'t> Parser<'t> {
    fn run(&mut self) -> Result<(), JsonPathError> {
        while self.pos < self.text.len() {
            if self.rest().starts_with("[?(") {
                self.filter()?;
                continue;
            }
            if self.rest().starts_with("..") {
                self.recursive()?;
                continue;
            }
            let begin = self.pos;
            let Some(c) = self.next() else { break };
            match c {
                '\r' | '\n' => return Err(JsonPathError::UnclosedAction),
                ' ' | '@' | '$' => {}
                // Ends the template's action; what follows would be literal text or further
                // actions, which no column shows.
                '}' => return self.remaining_template(),
                '[' => self.array()?,
                '"' | '\'' => self.quote(begin, c)?,
                '.' => self.field(),
                '+' | '-' => self.number(begin)?,
                c if c.is_numeric() => self.number(begin)?,
                c if c == '_' || c.is_alphabetic() => self.identifier(begin),
                c => return Err(JsonPathError::UnrecognizedCharacter(c)),
            }
        }
        Ok(())
    }

    fn rest(&self) -> &'t str {
        &self.text[self.pos..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.pos += c.len_utf8();
        Some(c)
    }

    /// Moves to the first character that ends a name and returns what was passed.
    fn until_terminator(&mut self, begin: usize) -> &'t str {
        while let Some(c) = self.peek() {
            if is_terminator(c) {
                break;
            }
            self.pos += c.len_utf8();
        }
        &self.text[begin..self.pos]
    }

    /// What follows a `}`: further actions must be well-formed, and the last is closed by the brace
    /// that the template adds after the path.
    fn remaining_template(&mut self) -> Result<(), JsonPathError> {
        let Some(open) = self.rest().find('{') else {
            self.pos = self.text.len();
            return Ok(());
        };
        let inside = &self.rest()[open + 1..];
        self.pos = self.text.len();
        action(inside, self.depth + 1).map(drop)
    }

    fn field(&mut self) {
        let begin = self.pos;
        while let Some(c) = self.peek() {
            if c == '\\' {
                self.pos += 1;
                self.next();
            } else if is_terminator(c) {
                break;
            } else {
                self.pos += c.len_utf8();
            }
        }
        let name = &self.text[begin..self.pos];
        self.steps.push(match name {
            "*" => Step::Wildcard,
            name if name.contains('\\') => Step::Field(name.replace('\\', "").into()),
            name => Step::Field(name.into()),
        });
    }

    fn recursive(&mut self) -> Result<(), JsonPathError> {
        if self.steps.last() == Some(&Step::Recursive) {
            return Err(JsonPathError::MultipleRecursiveDescent);
        }
        self.pos += 2;
        self.steps.push(Step::Recursive);
        if self.peek().is_some_and(|c| c == '_' || c.is_alphanumeric()) {
            self.field();
        }
        Ok(())
    }

    fn identifier(&mut self, begin: usize) {
        let word = self.until_terminator(begin);
        self.steps.push(match word {
            "true" => Step::Literal(Value::Bool(true)),
            "false" => Step::Literal(Value::Bool(false)),
            _ => Step::Identifier,
        });
    }

    fn number(&mut self, begin: usize) -> Result<(), JsonPathError> {
        while self.peek().is_some_and(|c| c == '.' || c.is_numeric()) {
            self.next();
        }
        let digits = &self.text[begin..self.pos];
        let value = match (digits.parse::<i64>(), digits.parse::<f64>()) {
            (Ok(int), _) => Value::from(int),
            (_, Ok(float)) => Value::from(float),
            _ => return Err(JsonPathError::Number(digits.to_owned())),
        };
        self.steps.push(Step::Literal(value));
        Ok(())
    }

    /// After the opening bracket: an index, a slice, a quoted key, or several of them.
    fn array(&mut self) -> Result<(), JsonPathError> {
        let end = self
            .rest()
            .find([']', '\n'])
            .filter(|end| self.rest()[*end..].starts_with(']'))
            .ok_or(JsonPathError::UnterminatedArray)?;
        let inside = &self.rest()[..end];
        self.pos += end + 1;
        if inside.contains(',') {
            let branches = inside
                .split(',')
                .map(|part| action(&format!("[{}]", part.trim_matches(' ')), self.depth + 1))
                .collect::<Result<_, _>>()?;
            self.steps.push(Step::Union(branches));
            return Ok(());
        }
        let key = inside.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
        if let Some(key) = key.filter(|key| !key.contains('\'')) {
            self.steps.extend(action(&format!(".{key}"), self.depth + 1)?);
            return Ok(());
        }
        let inside = if inside == "*" { ":" } else { inside };
        self.steps.push(Step::Slice(slice(inside)?));
        Ok(())
    }

    fn filter(&mut self) -> Result<(), JsonPathError> {
        self.pos += "[?(".len();
        let begin = self.pos;
        let mut quote = None;
        let mut quote_closed = false;
        loop {
            match self.next() {
                None | Some('\n') => return Err(JsonPathError::UnterminatedFilter),
                Some(c @ ('"' | '\'')) => match quote {
                    None => quote = Some(c),
                    Some(open) if open == c && !self.is_escaped() => quote_closed = true,
                    Some(_) => {}
                },
                Some(')') if quote.is_some() == quote_closed => break,
                Some(_) => {}
            }
        }
        let inside = &self.text[begin..self.pos - 1];
        if self.next() != Some(']') {
            return Err(JsonPathError::UnclosedFilter);
        }
        let depth = self.depth + 1;
        let filter = match split_comparison(inside) {
            None => Filter { left: action(inside, depth)?, test: Test::Exists },
            Some((left, operator, right)) => {
                let left = action(left, depth)?;
                let right = action(right, depth)?;
                let test = match operator {
                    "<" => Test::Compare(Comparison::Less, right),
                    "<=" => Test::Compare(Comparison::LessOrEqual, right),
                    "==" => Test::Compare(Comparison::Equal, right),
                    "!=" => Test::Compare(Comparison::NotEqual, right),
                    ">=" => Test::Compare(Comparison::GreaterOrEqual, right),
                    ">" => Test::Compare(Comparison::Greater, right),
                    _ => Test::Unknown,
                };
                Filter { left, test }
            }
        };
        self.steps.push(Step::Filter(Box::new(filter)));
        Ok(())
    }

    fn quote(&mut self, begin: usize, quote: char) -> Result<(), JsonPathError> {
        loop {
            match self.next() {
                None | Some('\n') => return Err(JsonPathError::UnterminatedQuote),
                Some(c) if c == quote && !self.is_escaped() => break,
                Some(_) => {}
            }
        }
        let quoted = &self.text[begin..self.pos];
        let text = unquote(&quoted[1..quoted.len() - 1], quote)
            .ok_or_else(|| JsonPathError::Quote(quoted.to_owned()))?;
        self.steps.push(Step::Literal(Value::String(text)));
        Ok(())
    }

    /// Whether a backslash stands before the (one-byte) character just read.
    fn is_escaped(&self) -> bool {
        self.pos >= 2 && self.text.as_bytes()[self.pos - 2] == b'\\'
    }
}

fn is_terminator(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}')
}

/// Splits `@.a == 1` at its operator. The operator takes what it can, but leaves a right side.
fn split_comparison(text: &str) -> Option<(&str, &str, &str)> {
    let is_operator = |c: char| matches!(c, '!' | '<' | '>' | '=');
    let begin = text.find(is_operator).filter(|begin| *begin > 0)?;
    let length = text[begin..].find(|c| !is_operator(c)).unwrap_or(text.len() - begin);
    let end = (begin + length).min(text.len().saturating_sub(1));
    (end > begin).then(|| (&text[..begin], &text[begin..end], &text[end..]))
}

/// `start:end:step`, each part optional.
fn slice(text: &str) -> Result<Slice, JsonPathError> {
    let bad = || JsonPathError::ArrayIndex(text.to_owned());
    let mut parts = [None; 3];
    let mut count = 0;
    for part in text.split(':') {
        let digits = part.strip_prefix('-').unwrap_or(part);
        if count == 3 || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(bad());
        }
        if !part.is_empty() {
            let number = part.parse::<i64>();
            parts[count] =
                Some(number.map_err(|_| JsonPathError::ArrayIndexNumber(part.to_owned()))?);
        }
        count += 1;
    }
    let [start, mut end, step] = parts;
    let end_derived = count == 1;
    if end_derived {
        end = Some(start.unwrap_or(0).saturating_add(1));
    }
    Ok(Slice { start, end, end_derived, step })
}

/// Resolves the escapes of a Go string literal.
fn unquote(text: &str, quote: char) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c == quote {
            return None;
        }
        if c != '\\' {
            out.push(c);
            continue;
        }
        let escaped = chars.next()?;
        let mut code = |first: Option<char>, count: usize, radix: u32| {
            let mut code = first.map_or(Some(0), |c| c.to_digit(radix))?;
            for _ in 0..count {
                code = code.checked_mul(radix)?.checked_add(chars.next()?.to_digit(radix)?)?;
            }
            Some(code)
        };
        out.push(match escaped {
            'a' => '\u{7}',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            '\\' => '\\',
            c if c == quote => c,
            'u' => char::from_u32(code(None, 4, 16)?)?,
            'U' => char::from_u32(code(None, 8, 16)?)?,
            'x' => byte(code(None, 2, 16)?)?,
            '0'..='7' => byte(code(Some(escaped), 2, 8)?)?,
            _ => return None,
        });
    }
    Some(out)
}

/// A byte given by number. Beyond ASCII it would be part of no valid text, so it matches nothing.
fn byte(code: u32) -> Option<char> {
    let byte = u8::try_from(code).ok()?;
    Some(if byte.is_ascii() { char::from(byte) } else { char::REPLACEMENT_CHARACTER })
}
