//! The text grammar of label selectors.

use super::{Operator, Requirement};
use crate::field::{FieldError, Path};
use crate::name;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    End,
    Close,
    Comma,
    Not,
    DoubleEquals,
    Equals,
    Greater,
    Identifier,
    In,
    Less,
    NotEquals,
    NotIn,
    Open,
}

#[derive(Clone, Copy, Debug)]
struct Token<'t> {
    kind: Kind,
    text: &'t str,
}

impl Token<'_> {
    /// `in` and `notin` are ordinary words except where an operator stands.
    fn is_word(&self) -> bool {
        matches!(self.kind, Kind::Identifier | Kind::In | Kind::NotIn)
    }
}

pub(super) fn requirements(text: &str) -> Result<Vec<Requirement>, String> {
    let mut parser = Parser { lexer: Lexer { text, pos: 0 }, ahead: None };
    let mut all = Vec::new();
    loop {
        let token = parser.peek();
        if token.kind == Kind::End {
            return Ok(all);
        }
        if !token.is_word() && token.kind != Kind::Not {
            let found = token.text;
            return Err(format!("found '{found}', expected: !, identifier, or 'end of string'"));
        }
        let requirement = parser.requirement();
        all.push(requirement.map_err(|e| format!("unable to parse requirement: {e}"))?);
        let token = parser.next();
        match token.kind {
            Kind::End => return Ok(all),
            Kind::Comma => {
                let token = parser.peek();
                if !token.is_word() && token.kind != Kind::Not {
                    let found = token.text;
                    return Err(format!("found '{found}', expected: identifier after ','"));
                }
            }
            _ => {
                let found = token.text;
                return Err(format!("found '{found}', expected: ',' or 'end of string'"));
            }
        }
    }
}

struct Parser<'t> {
    lexer: Lexer<'t>,
    ahead: Option<Token<'t>>,
}

impl<'t> Parser<'t> {
    fn peek(&mut self) -> &Token<'t> {
        let lexer = &mut self.lexer;
        self.ahead.get_or_insert_with(|| lexer.next())
    }

    fn next(&mut self) -> Token<'t> {
        self.ahead.take().unwrap_or_else(|| self.lexer.next())
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let mut token = self.next();
        let negated = token.kind == Kind::Not;
        if negated {
            token = self.next();
        }
        if !token.is_word() {
            return Err(format!("found '{}', expected: identifier", token.text));
        }
        let key = token.text;
        let faults = name::qualified_name(key);
        if !faults.is_empty() {
            let error = FieldError::invalid_text(&Path::root(), key, faults.join("; "));
            return Err(error.to_string());
        }
        if negated {
            return Requirement::new(key, Operator::DoesNotExist, Vec::new());
        }
        if matches!(self.peek().kind, Kind::End | Kind::Comma) {
            return Requirement::new(key, Operator::Exists, Vec::new());
        }
        let operator = self.operator()?;
        let values = match operator {
            Operator::In | Operator::NotIn => self.values()?,
            _ => vec![self.exact_value()?.into()],
        };
        Requirement::new(key, operator, values)
    }

    fn operator(&mut self) -> Result<Operator, String> {
        let token = self.next();
        Ok(match token.kind {
            Kind::In => Operator::In,
            Kind::NotIn => Operator::NotIn,
            Kind::Equals => Operator::Equals,
            Kind::DoubleEquals => Operator::DoubleEquals,
            Kind::NotEquals => Operator::NotEquals,
            Kind::Greater => Operator::Greater,
            Kind::Less => Operator::Less,
            _ => {
                let found = token.text;
                return Err(format!("found '{found}', expected: in, notin, =, ==, !=, gt, lt"));
            }
        })
    }

    /// The one value after `=` and the like; nothing there is the empty value.
    fn exact_value(&mut self) -> Result<&'t str, String> {
        if matches!(self.peek().kind, Kind::End | Kind::Comma) {
            return Ok("");
        }
        let token = self.next();
        if token.is_word() {
            return Ok(token.text);
        }
        Err(format!("found '{}', expected: identifier", token.text))
    }

    /// `(a,b)`, sorted and without doubles; gaps between commas are the empty value.
    fn values(&mut self) -> Result<Vec<Box<str>>, String> {
        let open = self.next();
        if open.kind != Kind::Open {
            return Err(format!("found '{}' expected: '('", open.text));
        }
        let token = self.peek();
        if token.kind == Kind::Close {
            self.next();
            return Ok(vec!["".into()]);
        }
        if !token.is_word() && token.kind != Kind::Comma {
            let found = token.text;
            return Err(format!("found '{found}', expected: ',', ')' or identifier"));
        }
        let mut values: Vec<Box<str>> = self.value_list()?.into_iter().map(Box::from).collect();
        // The list stops only in front of a closing parenthesis.
        self.next();
        values.sort_unstable();
        values.dedup();
        Ok(values)
    }

    fn value_list(&mut self) -> Result<Vec<&'t str>, String> {
        let mut values = Vec::new();
        loop {
            let token = self.next();
            if token.is_word() {
                values.push(token.text);
                let after = self.peek();
                match after.kind {
                    Kind::Comma => {}
                    Kind::Close => return Ok(values),
                    _ => return Err(format!("found '{}', expected: ',' or ')'", after.text)),
                }
            } else if token.kind == Kind::Comma {
                if values.is_empty() {
                    values.push("");
                }
                match self.peek().kind {
                    Kind::Close => {
                        values.push("");
                        return Ok(values);
                    }
                    Kind::Comma => values.push(""),
                    _ => {}
                }
            } else {
                return Err(format!("found '{}', expected: ',', or identifier", token.text));
            }
        }
    }
}

struct Lexer<'t> {
    text: &'t str,
    pos: usize,
}

impl<'t> Lexer<'t> {
    fn next(&mut self) -> Token<'t> {
        let rest = self.text[self.pos..].trim_start_matches(is_space);
        self.pos = self.text.len() - rest.len();
        let Some(first) = rest.chars().next() else {
            return Token { kind: Kind::End, text: "" };
        };
        if first == '\0' {
            // Upstream's lexer takes a NUL for the end.
            return Token { kind: Kind::End, text: "" };
        }
        let token = if is_symbol(first) { symbol(rest) } else { word(rest) };
        self.pos += token.text.len();
        token
    }
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

fn is_symbol(c: char) -> bool {
    matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<')
}

fn symbol(rest: &str) -> Token<'_> {
    let (kind, length) = match rest.as_bytes() {
        [b'=', b'=', ..] => (Kind::DoubleEquals, 2),
        [b'!', b'=', ..] => (Kind::NotEquals, 2),
        [b'!', ..] => (Kind::Not, 1),
        [b'(', ..] => (Kind::Open, 1),
        [b')', ..] => (Kind::Close, 1),
        [b',', ..] => (Kind::Comma, 1),
        [b'>', ..] => (Kind::Greater, 1),
        [b'<', ..] => (Kind::Less, 1),
        _ => (Kind::Equals, 1),
    };
    Token { kind, text: &rest[..length] }
}

fn word(rest: &str) -> Token<'_> {
    let end = rest.find(|c| c == '\0' || is_symbol(c) || is_space(c)).unwrap_or(rest.len());
    let text = &rest[..end];
    let kind = match text {
        "in" => Kind::In,
        "notin" => Kind::NotIn,
        _ => Kind::Identifier,
    };
    Token { kind, text }
}
