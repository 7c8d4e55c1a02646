//! Reads an expression into a syntax tree, expanding macros on the way.
//!
//! Syntax errors are worded as the reference parser words them, for the mistakes people make.

use super::ast::{Call, Element, Entry, Expr, ExprKind, Literal, NodeId, Tree};
use super::escape;
use super::lexer::{self, Lexeme, Token};
use super::macros::{self, Expansion};
use super::source::Issues;

/// Longer expressions are refused unread.
const MAX_CODE_POINTS: usize = 100_000;

/// How deeply brackets, calls and conditionals may nest.
const MAX_NESTING: usize = 250;

/// How deep the tree may be once macros are expanded; everything that walks it recurses.
const MAX_DEPTH: usize = 400;

/// Some macros copy their operand, so nesting them doubles the tree each time.
const MAX_NODES: usize = 100_000;

const OPERAND: &str = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, \
                       NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";

/// The rest of the source makes no sense any more; the report is already made.
#[derive(Debug)]
pub(super) struct Abandoned;

type Parsed = Result<Expr, Abandoned>;

pub(super) fn parse(source: &str) -> Result<Tree, Issues> {
    let mut issues = Issues::default();
    let size = source.chars().count();
    if size > MAX_CODE_POINTS {
        issues.push_general(format!(
            "expression code point size exceeds limit: size: {size}, limit {MAX_CODE_POINTS}"
        ));
        return Err(issues);
    }
    let lexemes = lexer::tokens(source, &mut issues);
    let mut parser =
        Parser { lexemes, next: 0, issues, places: Vec::new(), depths: Vec::new(), nesting: 0 };
    match parser.whole() {
        Ok(root) if parser.issues.is_empty() => Ok(Tree { root, places: parser.places }),
        _ => Err(parser.issues),
    }
}

pub(super) struct Parser<'s> {
    lexemes: Vec<Lexeme<'s>>,
    next: usize,
    issues: Issues,
    places: Vec<usize>,
    depths: Vec<usize>,
    nesting: usize,
}

impl<'s> Parser<'s> {
    fn whole(&mut self) -> Parsed {
        let root = self.expr()?;
        let rest = self.peek();
        if rest.token == Token::End {
            return Ok(root);
        }
        let word = if self.peek_after().token == Token::End { "extraneous" } else { "mismatched" };
        self.syntax_error(rest.at, &format!("{word} input '{}' expecting <EOF>", rest.text));
        Err(Abandoned)
    }

    fn peek(&self) -> Lexeme<'s> {
        self.lexemes[self.next]
    }

    fn peek_after(&self) -> Lexeme<'s> {
        self.lexemes[(self.next + 1).min(self.lexemes.len() - 1)]
    }

    fn take(&mut self) -> Lexeme<'s> {
        let lexeme = self.peek();
        self.next = (self.next + 1).min(self.lexemes.len() - 1);
        lexeme
    }

    fn take_sign(&mut self, sign: &str) -> Option<usize> {
        let lexeme = self.peek();
        matches!(lexeme.token, Token::Sign(found) if found == sign).then(|| self.take().at)
    }

    fn expect_sign(&mut self, sign: &str) -> Result<(), Abandoned> {
        if self.take_sign(sign).is_some() {
            return Ok(());
        }
        let found = self.peek();
        let message = match sign {
            // Within brackets a comma would do as well.
            "]" | "}" if found.token == Token::End => {
                format!("mismatched input '<EOF>' expecting {{'{sign}', ','}}")
            }
            ":" if found.token != Token::End => format!("missing ':' at '{}'", found.text),
            ")" if found.token == Token::End => "missing ')' at '<EOF>'".to_owned(),
            _ => format!("mismatched input '{}' expecting '{sign}'", found.text),
        };
        self.syntax_error(found.at, &message);
        Err(Abandoned)
    }

    fn syntax_error(&mut self, at: usize, message: &str) {
        self.issues.push(at, format!("Syntax error: {message}"));
    }

    /// Makes a node; refuses trees that are too deep or too large to walk.
    pub(super) fn node(&mut self, at: usize, kind: ExprKind) -> Parsed {
        let id: NodeId = self.places.len();
        let expr = Expr { id, kind };
        let depth = 1 + expr.children().iter().map(|c| self.depths[c.id]).max().unwrap_or(0);
        if depth > MAX_DEPTH || id >= MAX_NODES {
            self.issues.push_general("max recursion depth exceeded");
            return Err(Abandoned);
        }
        self.places.push(at);
        self.depths.push(depth);
        Ok(expr)
    }

    pub(super) fn call(
        &mut self,
        at: usize,
        function: &str,
        target: Option<Expr>,
        args: Vec<Expr>,
    ) -> Parsed {
        let target = target.map(Box::new);
        self.node(at, ExprKind::Call(Call { function: function.to_owned(), target, args }))
    }

    /// The same expression with ids of its own.
    pub(super) fn copy(&mut self, expr: &Expr) -> Parsed {
        let mut copy = expr.clone();
        self.renumber(&mut copy)?;
        Ok(copy)
    }

    fn renumber(&mut self, expr: &mut Expr) -> Result<(), Abandoned> {
        match &mut expr.kind {
            ExprKind::Literal(_) | ExprKind::Ident(_) | ExprKind::Broken => {}
            ExprKind::Select { operand, .. } => self.renumber(operand)?,
            ExprKind::Call(call) => {
                for child in call.target.iter_mut().map(|t| &mut **t).chain(&mut call.args) {
                    self.renumber(child)?;
                }
            }
            ExprKind::List(elements) => {
                for element in elements {
                    self.renumber(&mut element.value)?;
                }
            }
            ExprKind::Map(entries) => {
                for entry in entries {
                    self.renumber(&mut entry.key)?;
                    self.renumber(&mut entry.value)?;
                }
            }
            ExprKind::Struct { values, .. } => {
                for value in values {
                    self.renumber(value)?;
                }
            }
            ExprKind::Fold(fold) => {
                for child in [
                    &mut fold.range,
                    &mut fold.init,
                    &mut fold.condition,
                    &mut fold.step,
                    &mut fold.result,
                ] {
                    self.renumber(child)?;
                }
            }
        }
        if self.places.len() >= MAX_NODES {
            self.issues.push_general("max recursion depth exceeded");
            return Err(Abandoned);
        }
        let (place, depth) = (self.places[expr.id], self.depths[expr.id]);
        expr.id = self.places.len();
        self.places.push(place);
        self.depths.push(depth);
        Ok(())
    }

    /// `a ? b : c` and everything that binds tighter.
    fn expr(&mut self) -> Parsed {
        self.nesting += 1;
        if self.nesting > MAX_NESTING {
            self.issues.push_general(format!("expression recursion limit exceeded: {MAX_NESTING}"));
            return Err(Abandoned);
        }
        let condition = self.binary(0)?;
        let whole = match self.take_sign("?") {
            None => condition,
            Some(at) => {
                let yes = self.binary(0)?;
                self.expect_sign(":")?;
                let no = self.expr()?;
                self.call(at, "_?_:_", None, vec![condition, yes, no])?
            }
        };
        self.nesting -= 1;
        Ok(whole)
    }

    /// Operators of at least the given strength, left to right.
    fn binary(&mut self, weakest: u8) -> Parsed {
        let mut left = self.unary()?;
        while let Some((function, strength)) = operator(self.peek()) {
            if strength < weakest {
                break;
            }
            let at = self.take().at;
            let right = self.binary(strength + 1)?;
            // A chain of `&&` is one node: its length costs no depth.
            if strength <= LOGICAL
                && let ExprKind::Call(chain) = &mut left.kind
                && chain.function == function
            {
                let depth = self.depths[left.id].max(self.depths[right.id] + 1);
                self.depths[left.id] = depth;
                chain.args.push(right);
            } else {
                left = self.call(at, function, None, vec![left, right])?;
            }
        }
        Ok(left)
    }

    fn unary(&mut self) -> Parsed {
        for (sign, function) in [("!", "!_"), ("-", "-_")] {
            let negative_number = sign == "-"
                && matches!(self.peek_after().token, Token::Int | Token::Float)
                && matches!(self.peek().token, Token::Sign("-"));
            if negative_number {
                continue;
            }
            let Some(at) = self.take_sign(sign) else { continue };
            let mut count = 1;
            while self.take_sign(sign).is_some() {
                count += 1;
            }
            let operand = self.member()?;
            if count % 2 == 0 {
                return Ok(operand);
            }
            return self.call(at, function, None, vec![operand]);
        }
        self.member()
    }

    /// A primary followed by any number of selections, calls and indexes.
    fn member(&mut self) -> Parsed {
        let mut operand = self.primary()?;
        loop {
            if let Some(at) = self.take_sign(".") {
                operand = self.selection(operand, at)?;
            } else if let Some(at) = self.take_sign("[") {
                let function = if self.take_sign("?").is_some() { "_[?_]" } else { "_[_]" };
                let index = self.expr()?;
                self.expect_sign("]")?;
                operand = self.call(at, function, None, vec![operand, index])?;
            } else {
                return Ok(operand);
            }
        }
    }

    fn selection(&mut self, operand: Expr, at: usize) -> Parsed {
        let optional = self.take_sign("?").is_some();
        let name = self.take();
        match name.token {
            Token::Ident => {}
            Token::QuotedIdent => self.issues.push(name.at, "unsupported syntax: '`'"),
            Token::End => {
                self.syntax_error(name.at, "no viable alternative at input '.'");
                return Err(Abandoned);
            }
            Token::True | Token::False | Token::Null => {
                let message = format!("mismatched input '{}' expecting IDENTIFIER", name.text);
                self.syntax_error(name.at, &message);
                return Err(Abandoned);
            }
            _ => {
                let message = format!("no viable alternative at input '.{}'", name.text);
                self.syntax_error(name.at, &message);
                return Err(Abandoned);
            }
        }
        if optional {
            let field = ExprKind::Literal(Literal::Text(name.text.to_owned()));
            let field = self.node(name.at, field)?;
            return self.call(at, "_?._", None, vec![operand, field]);
        }
        if name.token == Token::Ident
            && let Some(open) = self.take_sign("(")
        {
            let args = self.arguments()?;
            return self.call_or_macro(open, name.text, Some(operand), args);
        }
        let field = name.text.to_owned();
        self.node(at, ExprKind::Select { operand: Box::new(operand), field, test_only: false })
    }

    fn arguments(&mut self) -> Result<Vec<Expr>, Abandoned> {
        let mut args = Vec::new();
        if self.take_sign(")").is_some() {
            return Ok(args);
        }
        loop {
            args.push(self.expr()?);
            if self.take_sign(",").is_none() {
                break;
            }
        }
        self.expect_sign(")")?;
        Ok(args)
    }

    fn call_or_macro(
        &mut self,
        at: usize,
        function: &str,
        target: Option<Expr>,
        args: Vec<Expr>,
    ) -> Parsed {
        match macros::expand(self, at, function, target, args)? {
            Expansion::Expanded(expr) => Ok(expr),
            Expansion::NotAMacro { target, args } => self.call(at, function, target, args),
            Expansion::Misused { node, message } => {
                self.issues.push(self.places[node], message);
                self.node(at, ExprKind::Broken)
            }
        }
    }

    fn primary(&mut self) -> Parsed {
        let lexeme = self.peek();
        match lexeme.token {
            Token::Ident => self.named(String::new()),
            Token::Sign(".") if self.peek_after().token == Token::Ident => {
                self.take();
                self.named(".".to_owned())
            }
            Token::Sign("(") => {
                self.take();
                let inner = self.expr()?;
                self.expect_sign(")")?;
                Ok(inner)
            }
            Token::Sign("[") => {
                self.take();
                self.list(lexeme.at)
            }
            Token::Sign("{") => {
                self.take();
                self.map(lexeme.at)
            }
            Token::Sign("-") | Token::Int | Token::Float | Token::Uint => self.number(),
            Token::Text | Token::Bytes => {
                self.take();
                self.text(lexeme)
            }
            Token::True => self.constant(Literal::Bool(true)),
            Token::False => self.constant(Literal::Bool(false)),
            Token::Null => self.constant(Literal::Null),
            _ => self.no_operand(lexeme),
        }
    }

    /// Skips one token that does not belong, if an operand follows it; else gives up.
    fn no_operand(&mut self, found: Lexeme<'s>) -> Parsed {
        let starts_operand = matches!(
            self.peek_after().token,
            Token::Ident
                | Token::True
                | Token::False
                | Token::Null
                | Token::Int
                | Token::Uint
                | Token::Float
                | Token::Text
                | Token::Bytes
                | Token::Sign("(" | "[" | "{" | "." | "-" | "!")
        );
        if starts_operand && found.token != Token::End {
            let message = format!("extraneous input '{}' expecting {OPERAND}", found.text);
            self.syntax_error(found.at, &message);
            self.take();
            return self.unary();
        }
        let message = format!("mismatched input '{}' expecting {OPERAND}", found.text);
        self.syntax_error(found.at, &message);
        Err(Abandoned)
    }

    fn constant(&mut self, literal: Literal) -> Parsed {
        let at = self.take().at;
        self.node(at, ExprKind::Literal(literal))
    }

    /// An identifier, a call of a global function, or the name of a message to build.
    fn named(&mut self, dot: String) -> Parsed {
        let name = self.take();
        if let Some(path) = self.message_name(&dot, name) {
            return self.message(path);
        }
        if escape::KEPT.contains(&name.text) {
            self.issues.push(name.at, format!("reserved identifier: {}", name.text));
            return self.node(name.at, ExprKind::Broken);
        }
        let full = dot + name.text;
        match self.take_sign("(") {
            Some(open) => {
                let args = self.arguments()?;
                self.call_or_macro(open, &full, None, args)
            }
            None => self.node(name.at, ExprKind::Ident(full)),
        }
    }

    /// Looks ahead for `a.b.c{`, and steps to the brace if it is there.
    fn message_name(&mut self, dot: &str, first: Lexeme<'s>) -> Option<String> {
        let mut path = format!("{dot}{}", first.text);
        let mut at = self.next;
        while self.lexemes[at].token == Token::Sign(".")
            && self.lexemes.get(at + 1).is_some_and(|l| l.token == Token::Ident)
        {
            path.push('.');
            path.push_str(self.lexemes[at + 1].text);
            at += 2;
        }
        if self.lexemes[at].token != Token::Sign("{") {
            return None;
        }
        self.next = at;
        Some(path)
    }

    fn message(&mut self, name: String) -> Parsed {
        let at = self.take().at;
        let mut values = Vec::new();
        while self.take_sign("}").is_none() {
            self.take_sign("?");
            let field = self.take();
            if !matches!(field.token, Token::Ident | Token::QuotedIdent) {
                let message = format!("mismatched input '{}' expecting '}}'", field.text);
                self.syntax_error(field.at, &message);
                return Err(Abandoned);
            }
            self.expect_sign(":")?;
            values.push(self.expr()?);
            if self.take_sign(",").is_none() {
                self.expect_sign("}")?;
                break;
            }
        }
        self.node(at, ExprKind::Struct { name, values })
    }

    /// `[,]` is an empty list.
    fn skip_lone_comma(&mut self, close: &str) {
        let closes = matches!(self.peek_after().token, Token::Sign(sign) if sign == close);
        if closes {
            self.take_sign(",");
        }
    }

    fn list(&mut self, at: usize) -> Parsed {
        let mut elements = Vec::new();
        self.skip_lone_comma("]");
        while self.take_sign("]").is_none() {
            let optional = self.take_sign("?").is_some();
            elements.push(Element { value: self.expr()?, optional });
            if self.take_sign(",").is_none() {
                self.expect_sign("]")?;
                break;
            }
        }
        self.node(at, ExprKind::List(elements))
    }

    fn map(&mut self, at: usize) -> Parsed {
        let mut entries = Vec::new();
        self.skip_lone_comma("}");
        while self.take_sign("}").is_none() {
            let optional = self.take_sign("?").is_some();
            let key = self.expr()?;
            self.expect_sign(":")?;
            let value = self.expr()?;
            entries.push(Entry { key, value, optional });
            if self.take_sign(",").is_none() {
                self.expect_sign("}")?;
                break;
            }
        }
        self.node(at, ExprKind::Map(entries))
    }

    fn number(&mut self) -> Parsed {
        let first = self.take();
        let negative = first.token == Token::Sign("-");
        let digits = if negative { self.take() } else { first };
        let sign = if negative { "-" } else { "" };
        let (literal, wrong) = match digits.token {
            Token::Int => (integer(sign, digits.text).map(Literal::Int), "invalid int literal"),
            Token::Uint => {
                let text = digits.text.trim_end_matches(['u', 'U']);
                let value = match text.strip_prefix("0x") {
                    Some(hex) => u64::from_str_radix(hex, 16),
                    None => text.parse(),
                };
                (value.ok().map(Literal::Uint), "invalid uint literal")
            }
            Token::Float => {
                let value = format!("{sign}{}", digits.text).parse::<f64>().ok();
                (value.filter(|v| v.is_finite()).map(Literal::Double), "invalid double literal")
            }
            _ => return self.no_operand(digits),
        };
        match literal {
            Some(literal) => self.node(first.at, ExprKind::Literal(literal)),
            None => {
                self.issues.push(first.at, wrong);
                self.node(first.at, ExprKind::Broken)
            }
        }
    }

    fn text(&mut self, lexeme: Lexeme<'s>) -> Parsed {
        let is_bytes = lexeme.token == Token::Bytes;
        let quoted = if is_bytes { &lexeme.text[1..] } else { lexeme.text };
        let literal = lexer::unquote(quoted, is_bytes).and_then(|bytes| {
            if is_bytes {
                return Ok(Literal::Bytes(bytes));
            }
            let text = String::from_utf8(bytes).map_err(|_| "unable to unescape string")?;
            Ok(Literal::Text(text))
        });
        match literal {
            Ok(literal) => self.node(lexeme.at, ExprKind::Literal(literal)),
            Err(message) => {
                self.issues.push(lexeme.at, message);
                self.node(lexeme.at, ExprKind::Broken)
            }
        }
    }
}

fn integer(sign: &str, text: &str) -> Option<i64> {
    match text.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(&format!("{sign}{hex}"), 16).ok(),
        None => format!("{sign}{text}").parse().ok(),
    }
}

/// The strength of `&&`; `||` is weaker still.
const LOGICAL: u8 = 1;

fn operator(lexeme: Lexeme<'_>) -> Option<(&'static str, u8)> {
    match lexeme.token {
        Token::In => Some(("@in", 2)),
        Token::Sign(sign) => Some(match sign {
            "||" => ("_||_", 0),
            "&&" => ("_&&_", LOGICAL),
            "==" => ("_==_", 2),
            "!=" => ("_!=_", 2),
            "<" => ("_<_", 2),
            "<=" => ("_<=_", 2),
            ">" => ("_>_", 2),
            ">=" => ("_>=_", 2),
            "+" => ("_+_", 3),
            "-" => ("_-_", 3),
            "*" => ("_*_", 4),
            "/" => ("_/_", 4),
            "%" => ("_%_", 4),
            _ => return None,
        }),
        _ => None,
    }
}
