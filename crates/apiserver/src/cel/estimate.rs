//! How much an expression can cost at most, judged from the bounds that the schema sets.
//!
//! The figures follow the reference estimator closely, oddities included: they decide which rules
//! a server accepts.

use super::ast::{Call, Expr, ExprKind, Fold, Literal};
use super::charge::{LIST, MAP, PER_CHARACTER, PER_PATTERN_CHARACTER};
use super::check::Checked;
use super::schema::{Node, Shape};
use super::typing::Type;

/// Pattern length that checks of named formats are charged for.
const FORMAT_PATTERN: f64 = 128.0;

/// At least and at most: a size or a cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    min: u64,
    max: u64,
}

impl Range {
    const ZERO: Self = Self::exactly(0);
    const ONE: Self = Self::exactly(1);
    const UNKNOWN: Self = Self { min: 0, max: u64::MAX };

    const fn exactly(value: u64) -> Self {
        Self { min: value, max: value }
    }

    const fn plus(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    const fn times(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    fn scaled(self, factor: f64) -> Self {
        Self { min: scale(self.min, factor), max: scale(self.max, factor) }
    }

    fn or(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}

#[expect(clippy::cast_precision_loss, reason = "an estimate")]
#[expect(clippy::cast_possible_truncation, reason = "saturates")]
#[expect(clippy::cast_sign_loss, reason = "neither sizes nor factors are negative")]
fn scale(value: u64, factor: f64) -> u64 {
    (value as f64 * factor).ceil() as u64
}

/// The sizes of keys and of values of a list or map that the expression makes itself.
#[derive(Debug, Clone, Copy)]
struct EntrySize {
    is_list: bool,
    key: Range,
    value: Range,
}

/// Which position of the schema an expression reads, if it reads one.
#[derive(Debug, Clone, Copy)]
enum SchemaPosition<'s> {
    /// No path leads here. One step further the reference takes it for the root.
    Pathless,
    At(&'s Node),
    /// The key of a map.
    Key,
    /// A path that leads nowhere.
    Nowhere,
}

#[derive(Debug, Clone, Copy)]
enum PathStep<'e> {
    Element,
    Key,
    Index,
    Field(&'e str),
}

struct Local<'s> {
    name: String,
    position: SchemaPosition<'s>,
    size: Option<Range>,
    entry: Option<EntrySize>,
}

/// The highest cost of the expression where `self` is at `root`.
pub(super) fn highest_cost(expr: &Expr, checked: &Checked<'_>, root: &Node) -> u64 {
    let count = checked.types.len();
    let mut estimator = Estimator {
        checked,
        root,
        positions: vec![SchemaPosition::Pathless; count],
        sizes: vec![None; count],
        entries: vec![None; count],
        locals: Vec::new(),
    };
    estimator.cost(expr).max
}

struct Estimator<'e, 's> {
    checked: &'e Checked<'e>,
    root: &'s Node,
    positions: Vec<SchemaPosition<'s>>,
    sizes: Vec<Option<Range>>,
    entries: Vec<Option<EntrySize>>,
    locals: Vec<Local<'s>>,
}

impl<'s> Estimator<'_, 's> {
    fn local(&self, name: &str) -> Option<&Local<'s>> {
        self.locals.iter().rev().find(|local| local.name == name)
    }

    fn step(&self, position: SchemaPosition<'s>, step: PathStep<'_>) -> SchemaPosition<'s> {
        let node = match position {
            SchemaPosition::Pathless => return SchemaPosition::At(self.root),
            SchemaPosition::Key | SchemaPosition::Nowhere => return SchemaPosition::Nowhere,
            SchemaPosition::At(node) => node,
        };
        match (&node.shape, step) {
            (Shape::List { items, .. }, PathStep::Element) => SchemaPosition::At(items),
            (Shape::Map { values }, PathStep::Element) => SchemaPosition::At(values),
            (Shape::Map { .. }, PathStep::Key) => SchemaPosition::Key,
            (_, PathStep::Field(name)) => {
                node.field(name).map_or(SchemaPosition::Nowhere, SchemaPosition::At)
            }
            _ => SchemaPosition::Nowhere,
        }
    }

    fn position_of(&self, expr: &Expr) -> SchemaPosition<'s> {
        match &expr.kind {
            ExprKind::Ident(name) => match self.local(name) {
                Some(local) => local.position,
                None => self.positions[expr.id],
            },
            _ => self.positions[expr.id],
        }
    }

    fn size_at(position: SchemaPosition<'_>) -> Option<Range> {
        match position {
            SchemaPosition::Pathless | SchemaPosition::Nowhere => None,
            SchemaPosition::At(node) => Some(Range { min: 0, max: node.max_elements }),
            SchemaPosition::Key => Some(Range::ZERO),
        }
    }

    fn size_of(&mut self, expr: &Expr) -> Option<Range> {
        if let Some(known) = self.sizes[expr.id] {
            return Some(known);
        }
        let literal = match &expr.kind {
            ExprKind::Literal(Literal::Text(text)) => Some(text.chars().count()),
            ExprKind::Literal(Literal::Bytes(bytes)) => Some(bytes.len()),
            ExprKind::Literal(_) => Some(1),
            ExprKind::List(elements) => Some(elements.len()),
            ExprKind::Map(entries) => Some(entries.len()),
            _ => None,
        };
        if let Some(size) = literal {
            return Some(Range::exactly(size as u64));
        }
        if let Some(size) = Self::size_at(self.position_of(expr)) {
            self.sizes[expr.id] = Some(size);
            return Some(size);
        }
        if is_scalar(self.checked.of(expr)) {
            return Some(Range::ONE);
        }
        match &expr.kind {
            ExprKind::Ident(name) => self.local(name).and_then(|local| local.size),
            _ => None,
        }
    }

    fn size(&mut self, expr: &Expr) -> Range {
        self.size_of(expr).unwrap_or(Range::UNKNOWN)
    }

    fn entry_of(&self, expr: &Expr) -> Option<EntrySize> {
        self.entries[expr.id].or_else(|| match &expr.kind {
            ExprKind::Ident(name) => self.local(name).and_then(|local| local.entry),
            _ => None,
        })
    }

    fn cost(&mut self, expr: &Expr) -> Range {
        match &expr.kind {
            ExprKind::Literal(_) | ExprKind::Broken | ExprKind::Struct { .. } => Range::ZERO,
            ExprKind::Ident(name) => {
                self.positions[expr.id] = match self.local(name) {
                    Some(local) => local.position,
                    None => SchemaPosition::At(self.root),
                };
                Range::ONE
            }
            ExprKind::Select { operand, field, test_only } => {
                if self.checked.named_types[expr.id].is_some() {
                    self.positions[expr.id] = SchemaPosition::At(self.root);
                    return Range::ONE;
                }
                let mut sum = self.cost(operand);
                if *test_only {
                    return sum;
                }
                let is_member = matches!(
                    self.checked.of(operand),
                    Type::Map(_) | Type::Object(..) | Type::Library(_)
                );
                if is_member {
                    sum = sum.plus(Range::ONE);
                }
                self.positions[expr.id] =
                    self.step(self.position_of(operand), PathStep::Field(field));
                sum
            }
            ExprKind::Call(call) => self.call_cost(expr, call),
            ExprKind::List(elements) => {
                let mut sum = Range::ZERO;
                let mut value = Range { min: u64::MAX, max: 0 };
                if elements.is_empty() {
                    value.min = 0;
                }
                for element in elements {
                    sum = sum.plus(self.cost(&element.value));
                    value = value.or(self.size(&element.value));
                }
                let key = Range::ONE;
                self.entries[expr.id] = Some(EntrySize { is_list: true, key, value });
                sum.plus(Range::exactly(LIST))
            }
            ExprKind::Map(entries) => {
                let mut sum = Range::ZERO;
                let mut key = Range { min: u64::MAX, max: 0 };
                let mut value = key;
                if entries.is_empty() {
                    key.min = 0;
                    value.min = 0;
                }
                for entry in entries {
                    sum = sum.plus(self.cost(&entry.key)).plus(self.cost(&entry.value));
                    key = key.or(self.size(&entry.key));
                    value = value.or(self.size(&entry.value));
                }
                self.entries[expr.id] = Some(EntrySize { is_list: false, key, value });
                sum.plus(Range::exactly(MAP))
            }
            ExprKind::Fold(fold) => self.fold_cost(expr, fold),
        }
    }

    fn push(
        &mut self,
        name: &str,
        position: SchemaPosition<'s>,
        size: Option<Range>,
        entry: Option<EntrySize>,
    ) {
        self.locals.push(Local { name: name.to_owned(), position, size, entry });
    }

    fn fold_cost(&mut self, expr: &Expr, fold: &Fold) -> Range {
        let mut sum = self.cost(&fold.range).plus(self.cost(&fold.init));
        let outer = self.locals.len();
        let position = self.position_of(&fold.init);
        let (size, entry) = (self.size_of(&fold.init), self.entry_of(&fold.init));
        self.push(&fold.accumulator, position, size, entry);
        if fold.is_binding() {
            sum = sum.plus(self.cost(&fold.result));
            self.locals.truncate(outer);
            self.sizes[expr.id] = self.size_of(&fold.result).or(self.sizes[expr.id]);
            self.entries[expr.id] = self.entry_of(&fold.result).or(self.entries[expr.id]);
            return sum;
        }
        self.push_variables(fold);
        let each = self.cost(&fold.condition).plus(self.cost(&fold.step));
        self.locals.truncate(outer + 1);
        sum = sum.plus(self.cost(&fold.result));
        self.locals.truncate(outer);
        let turns = self.size(&fold.range);
        sum = sum.plus(turns.times(each));
        match fold.init.kind {
            ExprKind::Literal(_) => self.sizes[expr.id] = self.size_of(&fold.init),
            ExprKind::List(_) | ExprKind::Map(_) => {
                self.sizes[expr.id] = Some(turns);
                if let Some(entry) = self.entry_of(&fold.step) {
                    self.entries[expr.id] = Some(entry);
                }
            }
            _ => {}
        }
        sum
    }

    fn push_variables(&mut self, fold: &Fold) {
        let entry = self.entry_of(&fold.range);
        let is_list = match entry {
            Some(entry) => entry.is_list,
            None => matches!(self.checked.of(&fold.range), Type::List(_)),
        };
        let position = self.position_of(&fold.range);
        let element = self.step(position, PathStep::Element);
        let key_step = if is_list { PathStep::Index } else { PathStep::Key };
        let key = self.step(position, key_step);
        let key_size = entry.map(|entry| entry.key);
        let value_size = entry.map(|entry| entry.value);
        match &fold.var2 {
            Some(var2) => {
                self.push(&fold.var, key, key_size, None);
                self.push(var2, element, value_size, None);
            }
            None if is_list => self.push(&fold.var, element, value_size, None),
            None => self.push(&fold.var, key, key_size, None),
        }
    }

    fn call_cost(&mut self, expr: &Expr, call: &Call) -> Range {
        if let ("dyn", [arg]) = (&*call.function, &call.args[..]) {
            let cost = self.cost(arg).plus(Range::ONE);
            self.sizes[expr.id] = self.size_of(arg).or(self.sizes[expr.id]);
            self.entries[expr.id] = self.entry_of(arg).or(self.entries[expr.id]);
            return cost;
        }
        let arg_costs: Vec<Range> = call.args.iter().map(|arg| self.cost(arg)).collect();
        let overloads = &self.checked.overloads[expr.id];
        if overloads.is_empty() {
            return Range::ZERO;
        }
        let target_cost = call.target.as_deref().map_or(Range::ZERO, |target| self.cost(target));
        let mut cost = Range { min: u64::MAX, max: 0 };
        let mut result: Option<Range> = None;
        for overload in overloads {
            let (one, size) = self.overload_cost(expr, call, overload, &arg_costs);
            cost = cost.or(one);
            result = match (result, size) {
                (Some(known), Some(size)) => Some(known.or(size)),
                (known, size) => known.or(size),
            };
            if let ("index_list" | "index_map", Some(container)) = (*overload, call.args.first()) {
                result = self.entry_of(container).map(|entry| entry.value);
                self.positions[expr.id] = self.step(self.position_of(container), PathStep::Element);
            }
            if result.is_none() {
                result = self.size_of(expr);
            }
        }
        if result.is_some() {
            self.sizes[expr.id] = result;
        }
        target_cost.plus(cost)
    }

    /// The cost of one overload including its arguments, and the size of its result.
    fn overload_cost(
        &mut self,
        expr: &Expr,
        call: &Call,
        overload: &str,
        arg_costs: &[Range],
    ) -> (Range, Option<Range>) {
        let args_sum = arg_costs.iter().fold(Range::ZERO, |sum, cost| sum.plus(*cost));
        let own = self
            .list_extension_cost(call, overload)
            .or_else(|| self.library_cost(call, overload))
            .or_else(|| self.standard_cost(expr, call, overload));
        if let Some((cost, size)) = own {
            return (cost.plus(args_sum), size);
        }
        match (overload, arg_costs) {
            ("logical_and" | "logical_or", costs) => {
                let first = costs.first().map_or(0, |cost| cost.min);
                (Range { min: first, max: args_sum.max }, None)
            }
            ("conditional", [condition, yes, no]) => {
                let size = self.size(&call.args[1]).or(self.size(&call.args[2]));
                let (a, b) = (self.entry_of(&call.args[1]), self.entry_of(&call.args[2]));
                if let Some(entry) = joint(a, b) {
                    self.entries[expr.id] = Some(entry);
                }
                (condition.plus(yes.or(*no)), Some(size))
            }
            _ => (Range::ONE.plus(args_sum), None),
        }
    }

    /// Lists and sets: the extensions that bring figures of their own.
    fn list_extension_cost(
        &mut self,
        call: &Call,
        overload: &str,
    ) -> Option<(Range, Option<Range>)> {
        let allocating = |factor: f64, size: Range| {
            (size.scaled(factor).plus(Range::exactly(1 + LIST)), Some(size))
        };
        let target = call.target.as_deref();
        let pairs_factor = |overload: &str| {
            if overload.starts_with("list_string") || overload.starts_with("list_bytes") {
                2.0 + PER_CHARACTER
            } else {
                2.0
            }
        };
        match (overload, &call.args[..]) {
            ("list_sets_contains_list" | "list_sets_intersects_list", [a, b]) => {
                Some((self.size(a).times(self.size(b)).plus(Range::ONE), None))
            }
            ("list_sets_equivalent_list", [a, b]) => {
                Some((self.size(a).times(self.size(b)).scaled(2.0).plus(Range::ONE), None))
            }
            ("list_slice", [start, end]) => {
                let size = self.size(target?);
                let start = whole(start).unwrap_or(0);
                let end = whole(end).unwrap_or(size.max);
                Some(allocating(1.0, Range::exactly(end.wrapping_sub(start))))
            }
            ("lists_range", [count]) => {
                Some(allocating(1.0, Range::exactly(whole(count).unwrap_or(u64::MAX))))
            }
            ("list_reverse", []) => Some(allocating(1.0, self.size(target?))),
            ("list_flatten" | "list_flatten_int", args) => {
                let depth = match args {
                    [] => 1,
                    [depth, ..] => whole(depth).unwrap_or(u64::MAX),
                };
                #[expect(clippy::cast_precision_loss, reason = "an estimate")]
                let factor = depth as f64;
                Some(allocating(factor, self.size(target?)))
            }
            ("list_distinct", []) => {
                let size = self.size(target?);
                Some(allocating(2.0, size.times(size)))
            }
            (_, [keys]) if overload.ends_with("_sortByAssociatedKeys") => {
                let size = self.size(keys);
                Some(allocating(pairs_factor(overload), size.times(size)))
            }
            (_, []) if overload.ends_with("_sort") => {
                let size = self.size(target?);
                Some(allocating(pairs_factor(overload), size.times(size)))
            }
            _ => None,
        }
    }

    /// The Kubernetes libraries, by name of the function.
    #[expect(clippy::too_many_lines, reason = "a table: one arm for each function")]
    fn library_cost(&mut self, call: &Call, overload: &str) -> Option<(Range, Option<Range>)> {
        let target = call.target.as_deref();
        let first = call.args.first();
        let per_character = |size: Range| size.scaled(PER_CHARACTER);
        Some(match &*call.function {
            "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => {
                let target = target?;
                match self.element_size(target) {
                    Some(element) => {
                        let each =
                            element.map_or(Range::ONE, |size| Range::ONE.plus(per_character(size)));
                        (self.size(target).times(each), None)
                    }
                    None => (per_character(self.size(target)), None),
                }
            }
            "url" => {
                let size = self.size(first?);
                (per_character(size), Some(size))
            }
            "lowerAscii" | "upperAscii" | "substring" | "trim" => {
                let size = self.size(target?);
                (per_character(size), Some(size))
            }
            "replace" => {
                let [old, new, ..] = &call.args[..] else { return None };
                let (text, old, new) = (self.size(target?), self.size(old), self.size(new));
                let size = replaced_size(text, old, new);
                (text.scaled(2.0 * PER_CHARACTER), Some(size))
            }
            "split" => {
                let size = self.size(target?);
                let most = call.args.get(1).and_then(literal_int).unwrap_or(size.max);
                let parts = Range { min: 0, max: most };
                (size.scaled(2.0 * PER_CHARACTER), Some(parts))
            }
            "join" => {
                let target = target?;
                let count = self.size(target);
                let mut size = match self.element_any_size(target) {
                    Some(element) => count.times(element),
                    None => Range::ZERO,
                };
                if let Some(separator) = first {
                    let between = Range {
                        min: count.min.saturating_sub(1),
                        max: count.max.saturating_sub(1),
                    };
                    size = size.plus(self.size(separator).times(between));
                }
                (per_character(size), Some(size))
            }
            "find" | "findAll" => {
                let text = self.size(target?);
                let pattern = self.size(first?).scaled(PER_PATTERN_CHARACTER);
                let cost = per_character(text.plus(Range::ONE)).times(pattern);
                (cost, Some(Range { min: 0, max: text.max }))
            }
            "ip" if overload == "cidr_ip" => (Range::ONE, None),
            "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver"
            | "isSemver" => (per_character(self.size(first?)), None),
            "ip.isCanonical" => (self.size(first?).scaled(2.0 * PER_CHARACTER), None),
            "containsIP" | "containsCIDR" => {
                let address = Range { min: 4, max: 16 };
                let mut cost = per_character(address.plus(address));
                if call.function == "containsCIDR" {
                    cost = cost.plus(per_character(address)).plus(Range::ONE);
                }
                if overload.ends_with("_string") {
                    cost = cost.plus(per_character(self.size(first?)));
                }
                (cost, None)
            }
            "validate" => {
                let text = per_character(self.size(first?));
                (text.scaled(FORMAT_PATTERN * PER_PATTERN_CHARACTER), None)
            }
            "masked"
            | "prefixLength"
            | "family"
            | "isUnspecified"
            | "isLoopback"
            | "isLinkLocalMulticast"
            | "isLinkLocalUnicast"
            | "isGlobalUnicast"
            | "format.named"
            | "sign"
            | "asInteger"
            | "isInteger"
            | "asApproximateFloat"
            | "isGreaterThan"
            | "isLessThan"
            | "compareTo"
            | "add"
            | "sub"
            | "major"
            | "minor"
            | "patch"
            | "getScheme"
            | "getHostname"
            | "getHost"
            | "getPort"
            | "getEscapedPath"
            | "getQuery" => (Range::ONE, None),
            "_==_" => return self.library_equality(call),
            _ => return None,
        })
    }

    fn library_equality(&mut self, call: &Call) -> Option<(Range, Option<Range>)> {
        let [left, right] = &call.args[..] else { return None };
        let (Type::Library(a), Type::Library(b)) = (self.checked.of(left), self.checked.of(right))
        else {
            return None;
        };
        if a != b {
            return None;
        }
        let cost = match *a {
            "kubernetes.NamedFormat" => Range { min: 1, max: 64 }.scaled(PER_CHARACTER),
            "kubernetes.URL" => {
                let size = self.size_of(right).unwrap_or(Range::ONE);
                Range { min: 1, max: size.max }.scaled(PER_CHARACTER)
            }
            _ => Range::ONE,
        };
        Some((cost, None))
    }

    /// The size of elements of a list if they are text; `None` if it is no list at all.
    #[expect(clippy::option_option, reason = "not a list, or a list of something without length")]
    fn element_size(&mut self, list: &Expr) -> Option<Option<Range>> {
        let element = parameter(self.checked.of(list))?;
        if matches!(element, Type::Text | Type::Bytes) {
            return Some(Some(self.sized_element(list)));
        }
        Some(None)
    }

    fn element_any_size(&mut self, list: &Expr) -> Option<Range> {
        parameter(self.checked.of(list))?;
        Some(self.sized_element(list))
    }

    fn sized_element(&self, list: &Expr) -> Range {
        match self.position_of(list) {
            SchemaPosition::Pathless => Range::UNKNOWN,
            position => {
                Self::size_at(self.step(position, PathStep::Element)).unwrap_or(Range::UNKNOWN)
            }
        }
    }

    /// The standard library, by overload.
    fn standard_cost(
        &mut self,
        expr: &Expr,
        call: &Call,
        overload: &str,
    ) -> Option<(Range, Option<Range>)> {
        let target = call.target.as_deref();
        let per_character = |size: Range| size.scaled(PER_CHARACTER);
        Some(match (overload, &call.args[..]) {
            ("string_format", _) => (per_character(self.size(target?)), None),
            ("string_to_bytes", [text]) => {
                let size = self.size(text);
                let result = Range { min: size.min, max: size.max.wrapping_mul(4) };
                (per_character(size), Some(result))
            }
            ("bytes_to_string", [bytes]) => {
                let size = self.size(bytes);
                (per_character(size), Some(Range { min: size.min / 4, max: size.max }))
            }
            ("strings_quote", [text]) => {
                let size = self.size(text);
                let max = size.max.wrapping_mul(2).wrapping_add(2);
                (per_character(size), Some(Range { min: size.min.wrapping_add(2), max }))
            }
            ("starts_with_string" | "ends_with_string", [part]) => {
                (per_character(self.size(part)), None)
            }
            ("in_list", [_, list]) => (self.size(list), None),
            ("matches_string", [pattern]) => {
                let text = per_character(self.size(target?).plus(Range::ONE));
                (text.times(self.size(pattern).scaled(PER_PATTERN_CHARACTER)), None)
            }
            ("contains_string", [part]) => {
                let text = per_character(self.size(target?));
                (text.times(per_character(self.size(part))), None)
            }
            ("add_string" | "add_bytes" | "add_list", [left, right]) => {
                let size = self.size(left).plus(self.size(right));
                if let Some(entry) = joint(self.entry_of(left), self.entry_of(right)) {
                    self.entries[expr.id] = Some(entry);
                }
                let cost = if overload == "add_list" { Range::ONE } else { per_character(size) };
                (cost, Some(size))
            }
            (
                "less_string"
                | "greater_string"
                | "less_equals_string"
                | "greater_equals_string"
                | "less_bytes"
                | "greater_bytes"
                | "less_equals_bytes"
                | "greater_equals_bytes"
                | "equals"
                | "not_equals",
                [left, right],
            ) => {
                let shorter = self.size(left).max.min(self.size(right).max);
                let range = Range { min: u64::from(shorter > 0), max: shorter };
                (per_character(range), None)
            }
            _ => return None,
        })
    }
}

fn joint(a: Option<EntrySize>, b: Option<EntrySize>) -> Option<EntrySize> {
    let (a, b) = (a?, b?);
    Some(EntrySize { is_list: a.is_list, key: a.key.or(b.key), value: a.value.or(b.value) })
}

/// The first type parameter of a list, map or optional.
fn parameter<'t, 's>(t: &'t Type<'s>) -> Option<&'t Type<'s>> {
    match t {
        Type::List(inner) | Type::Optional(inner) | Type::Kind(inner) => Some(inner),
        Type::Map(map) => Some(&map.0),
        _ => None,
    }
}

fn is_scalar(t: &Type<'_>) -> bool {
    match t {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => {
            true
        }
        Type::Optional(inner) => is_scalar(inner),
        _ => false,
    }
}

fn literal_int(expr: &Expr) -> Option<u64> {
    match expr.kind {
        // A negative count reads as a huge one, as the reference has it.
        ExprKind::Literal(Literal::Int(value)) => Some(value.cast_unsigned()),
        _ => None,
    }
}

fn whole(expr: &Expr) -> Option<u64> {
    match expr.kind {
        ExprKind::Literal(Literal::Int(value)) => Some(u64::try_from(value).unwrap_or(0)),
        _ => None,
    }
}

/// How long text can be after replacing, from the sizes of the text, the old and the new part.
#[expect(clippy::cast_precision_loss, reason = "an estimate")]
#[expect(clippy::cast_possible_truncation, reason = "saturates")]
#[expect(clippy::cast_sign_loss, reason = "sizes are not negative")]
fn replaced_size(text: Range, old: Range, new: Range) -> Range {
    let ratio = |a: u64, b: u64| (a as f64 / b as f64).ceil() as u64;
    let (count_max, kept_max) = if old.min == 0 {
        (text.max.saturating_add(1), text.max)
    } else if new.max <= old.min {
        (0, text.max)
    } else {
        (ratio(text.max, old.min), 0)
    };
    let (count_min, kept_min) = if old.max == 0 {
        (text.min.saturating_add(1), text.min)
    } else if old.max <= new.min {
        (0, text.min)
    } else {
        (ratio(text.min, old.max), 0)
    };
    let count = Range { min: count_min, max: count_max };
    count.times(new).plus(Range { min: kept_min, max: kept_max })
}
