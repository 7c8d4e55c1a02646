//! The syntax tree of an expression, after macros are expanded.

/// Identifies a node within its tree; ids are dense, so side tables are vectors.
pub(super) type NodeId = usize;

/// The name of the accumulator of every expanded macro; no source can spell it.
pub(super) const ACCUMULATOR: &str = "@result";

#[derive(Debug, Clone)]
pub(super) struct Expr {
    pub(super) id: NodeId,
    pub(super) kind: ExprKind,
}

#[derive(Debug, Clone)]
pub(super) enum ExprKind {
    Literal(Literal),
    Ident(String),
    Select {
        operand: Box<Expr>,
        field: String,
        test_only: bool,
    },
    Call(Call),
    List(Vec<Element>),
    Map(Vec<Entry>),
    /// `Name{field: value}`: no type of ours can be made this way, so it never checks.
    Struct {
        name: String,
        values: Vec<Expr>,
    },
    Fold(Box<Fold>),
    /// Stands where the source was wrong; a report goes with it.
    Broken,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(String),
    Bytes(Vec<u8>),
}

/// A function or operator (`_+_`) applied to arguments, perhaps on a receiver.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) function: String,
    pub(super) target: Option<Box<Expr>>,
    pub(super) args: Vec<Expr>,
}

#[derive(Debug, Clone)]
pub(super) struct Element {
    pub(super) value: Expr,
    pub(super) optional: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) key: Expr,
    pub(super) value: Expr,
    pub(super) optional: bool,
}

/// A loop over a list or map: what all comprehension macros become.
#[derive(Debug, Clone)]
pub(super) struct Fold {
    pub(super) range: Expr,
    pub(super) var: String,
    pub(super) var2: Option<String>,
    pub(super) accumulator: String,
    pub(super) init: Expr,
    pub(super) condition: Expr,
    pub(super) step: Expr,
    pub(super) result: Expr,
}

impl Fold {
    /// Whether this loop runs over nothing and so merely names a value.
    pub(super) fn is_binding(&self) -> bool {
        matches!(&self.range.kind, ExprKind::List(elements) if elements.is_empty())
            && matches!(self.condition.kind, ExprKind::Literal(Literal::Bool(false)))
    }
}

impl Expr {
    /// The children, in the order in which they appear in the tree.
    pub(super) fn children(&self) -> Vec<&Self> {
        match &self.kind {
            ExprKind::Literal(_) | ExprKind::Ident(_) | ExprKind::Broken => Vec::new(),
            ExprKind::Select { operand, .. } => vec![operand],
            ExprKind::Call(call) => call.target.iter().map(|t| &**t).chain(&call.args).collect(),
            ExprKind::List(elements) => elements.iter().map(|e| &e.value).collect(),
            ExprKind::Map(entries) => entries.iter().flat_map(|e| [&e.key, &e.value]).collect(),
            ExprKind::Struct { values, .. } => values.iter().collect(),
            ExprKind::Fold(fold) => {
                vec![&fold.range, &fold.init, &fold.condition, &fold.step, &fold.result]
            }
        }
    }

    /// `a.b.c` as a dotted name, if the expression is one.
    pub(super) fn qualified_name(&self) -> Option<String> {
        match &self.kind {
            ExprKind::Ident(name) => Some(name.clone()),
            ExprKind::Select { operand, field, test_only: false } => {
                let mut name = operand.qualified_name()?;
                name.push('.');
                name.push_str(field);
                Some(name)
            }
            _ => None,
        }
    }
}

/// A tree together with where each node stands in the source.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) root: Expr,
    /// Byte offsets, by node id.
    pub(super) places: Vec<usize>,
}
