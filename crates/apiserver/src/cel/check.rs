//! Type checking: which types the parts of an expression have, and which overloads are meant.

use std::rc::Rc;

use super::ast::{Call, Element, Entry, Expr, ExprKind, Fold, Literal, NodeId, Tree};
use super::functions::{self, Overload};
use super::source::Issues;
use super::typing::{Type, Unknowns};

/// What checking found out about a tree; vectors are indexed by node id.
#[derive(Debug)]
pub(super) struct Checked<'s> {
    pub(super) types: Vec<Type<'s>>,
    pub(super) overloads: Vec<Vec<&'static str>>,
    /// Identifiers that name a type rather than a variable.
    pub(super) named_types: Vec<Option<String>>,
    pub(super) uses_old_self: bool,
}

impl<'s> Checked<'s> {
    pub(super) fn of(&self, expr: &Expr) -> &Type<'s> {
        &self.types[expr.id]
    }
}

pub(super) const SELF: &str = "self";
pub(super) const OLD_SELF: &str = "oldSelf";

/// Checks a tree where `self` and `oldSelf` have the given types. Calls of functions with dotted
/// names lose the receiver that they only seemed to have.
pub(super) fn check<'s>(
    tree: &mut Tree,
    self_type: Type<'s>,
    old_self_type: Type<'s>,
) -> Result<Checked<'s>, Issues> {
    let count = tree.places.len();
    let mut checker = Checker {
        places: &tree.places,
        issues: Issues::default(),
        unknowns: Unknowns::default(),
        scope: vec![(SELF.to_owned(), self_type), (OLD_SELF.to_owned(), old_self_type)],
        types: vec![Type::Error; count],
        overloads: vec![Vec::new(); count],
        named_types: vec![None; count],
        uses_old_self: false,
    };
    checker.check(&mut tree.root);
    if !checker.issues.is_empty() {
        return Err(checker.issues);
    }
    let types = checker.types.iter().map(|t| checker.unknowns.resolve_to_dyn(t)).collect();
    Ok(Checked {
        types,
        overloads: checker.overloads,
        named_types: checker.named_types,
        uses_old_self: checker.uses_old_self,
    })
}

struct Checker<'t, 's> {
    places: &'t [usize],
    issues: Issues,
    unknowns: Unknowns<'s>,
    scope: Vec<(String, Type<'s>)>,
    types: Vec<Type<'s>>,
    overloads: Vec<Vec<&'static str>>,
    named_types: Vec<Option<String>>,
    uses_old_self: bool,
}

impl<'s> Checker<'_, 's> {
    fn report(&mut self, node: NodeId, message: impl Into<String>) {
        self.issues.push(self.places[node], message);
    }

    fn undeclared(&mut self, node: NodeId, name: &str) {
        self.report(node, format!("undeclared reference to '{name}' (in container '')"));
    }

    fn mismatch(&mut self, node: NodeId, wanted: &Type<'s>, found: &Type<'s>) {
        self.report(node, format!("expected type '{wanted}' but found '{found}'"));
    }

    fn check(&mut self, expr: &mut Expr) {
        let id = expr.id;
        let found = match &mut expr.kind {
            ExprKind::Literal(literal) => type_of_literal(literal),
            ExprKind::Ident(name) => match self.lookup(id, name) {
                Some(found) => found,
                None => {
                    let name = name.clone();
                    self.undeclared(id, &name);
                    Type::Error
                }
            },
            ExprKind::Select { .. } => self.check_select(expr),
            ExprKind::Call(call) => self.check_call(id, call),
            ExprKind::List(elements) => self.check_list(elements),
            ExprKind::Map(entries) => self.check_map(entries),
            ExprKind::Struct { name, .. } => {
                let name = name.clone();
                match functions::named_type(&name) {
                    Some(_) => self.report(id, format!("'{name}' is not a message type")),
                    None => self.undeclared(id, &name),
                }
                Type::Error
            }
            ExprKind::Fold(fold) => self.check_fold(fold),
            ExprKind::Broken => Type::Error,
        };
        self.types[id] = if found.is_too_large() {
            self.report(id, "the type of the expression is too large");
            Type::Error
        } else {
            found
        };
    }

    fn lookup(&mut self, id: NodeId, name: &str) -> Option<Type<'s>> {
        // A leading dot means the global of that name.
        let (name, scope) = match name.strip_prefix('.') {
            Some(global) => (global, &self.scope[..2]),
            None => (name, &self.scope[..]),
        };
        if let Some(position) = scope.iter().rposition(|(known, _)| known == name) {
            self.uses_old_self |= position == 1;
            return Some(scope[position].1.clone());
        }
        let named = functions::named_type(name)?;
        self.named_types[id] = Some(name.to_owned());
        Some(Type::Kind(Rc::new(named)))
    }

    fn check_select(&mut self, expr: &mut Expr) -> Type<'s> {
        // `net.IP` is one name, not the field of a variable.
        if let Some(name) = expr.qualified_name()
            && let Some(found) = self.lookup_dotted(expr.id, &name)
        {
            return found;
        }
        let id = expr.id;
        let ExprKind::Select { operand, field, test_only } = &mut expr.kind else {
            return Type::Error;
        };
        self.check(operand);
        let found = self.field_type(id, operand.id, field, false);
        if *test_only { Type::Bool } else { self.unknowns.resolve(&found) }
    }

    fn lookup_dotted(&mut self, id: NodeId, name: &str) -> Option<Type<'s>> {
        let first = name.split('.').next().unwrap_or_default();
        let is_shadowed = self.scope.iter().any(|(known, _)| known == first);
        if is_shadowed { None } else { self.lookup(id, name) }
    }

    fn field_type(
        &mut self,
        id: NodeId,
        operand: NodeId,
        field: &str,
        is_optional: bool,
    ) -> Type<'s> {
        let operand = self.unknowns.resolve(&self.types[operand]);
        let (target, was_optional) = match operand {
            Type::Optional(inner) => ((*inner).clone(), true),
            other => (other, false),
        };
        let found = match &target {
            Type::Map(map) => map.1.clone(),
            Type::Object(name, node) => match node.field(field) {
                Some(node) => node.type_at(&format!("{name}.{field}")),
                None => {
                    self.report(id, format!("undefined field '{field}'"));
                    Type::Error
                }
            },
            Type::Library(_) => {
                self.report(id, format!("undefined field '{field}'"));
                Type::Error
            }
            Type::Var(_) => {
                self.unknowns.fits(&Type::Dyn, &target);
                Type::Dyn
            }
            Type::Dyn | Type::Error => Type::Dyn,
            _ => {
                self.report(id, format!("type '{target}' does not support field selection"));
                Type::Dyn
            }
        };
        if was_optional || is_optional { Type::optional(found) } else { found }
    }

    fn check_call(&mut self, id: NodeId, call: &mut Call) -> Type<'s> {
        if call.function == "_?._" {
            return self.check_optional_select(id, call);
        }
        for arg in &mut call.args {
            self.check(arg);
        }
        let name = call.function.trim_start_matches('.').to_owned();
        if let Some(target) = &mut call.target {
            let dotted = target.qualified_name().map(|prefix| format!("{prefix}.{name}"));
            if let Some(dotted) = dotted
                && let Some(overloads) = functions::overloads(dotted.trim_start_matches('.'))
            {
                call.function = dotted.trim_start_matches('.').to_owned();
                call.target = None;
                return self.resolve(id, call, overloads);
            }
            self.check(target);
        }
        match functions::overloads(&name) {
            Some(overloads) => {
                call.function = name;
                self.resolve(id, call, overloads)
            }
            None => {
                self.undeclared(id, &name);
                Type::Error
            }
        }
    }

    fn check_optional_select(&mut self, id: NodeId, call: &mut Call) -> Type<'s> {
        let [operand, field] = &mut call.args[..] else { return Type::Error };
        self.check(operand);
        let ExprKind::Literal(Literal::Text(name)) = &field.kind else { return Type::Error };
        let found = self.field_type(id, operand.id, name, true);
        self.types[field.id] = Type::Text;
        self.overloads[id] = vec!["select_optional_field"];
        self.unknowns.resolve(&found)
    }

    fn resolve(&mut self, id: NodeId, call: &Call, overloads: &'static [Overload]) -> Type<'s> {
        let is_member = call.target.is_some();
        let given: Vec<Type<'s>> = call
            .target
            .iter()
            .map(|t| &**t)
            .chain(&call.args)
            .map(|arg| self.types[arg.id].clone())
            .collect();
        if matches!(&*call.function, "_&&_" | "_||_") {
            return self.resolve_logical(id, call, &given, overloads);
        }
        let mut found: Option<Type<'s>> = None;
        for overload in overloads.iter().filter(|o| o.is_member == is_member) {
            let (wanted, result) = overload.instantiate(&mut self.unknowns);
            if !self.unknowns.all_fit(&given, &wanted) {
                continue;
            }
            self.overloads[id].push(overload.id);
            let result = self.unknowns.resolve(&result);
            found = Some(match found {
                None => result,
                Some(earlier) if earlier.is_dyn() || result.same(&earlier) => earlier,
                Some(_) => Type::Dyn,
            });
        }
        found.unwrap_or_else(|| {
            let shown: Vec<String> =
                given.iter().map(|t| self.unknowns.resolve_to_dyn(t).to_string()).collect();
            let signature = match (is_member, &shown[..]) {
                (true, [target, args @ ..]) => format!("{target}.({})", args.join(", ")),
                _ => format!("({})", shown.join(", ")),
            };
            let name = &call.function;
            self.report(
                id,
                format!("found no matching overload for '{name}' applied to '{signature}'"),
            );
            Type::Error
        })
    }

    fn resolve_logical(
        &mut self,
        id: NodeId,
        call: &Call,
        given: &[Type<'s>],
        overloads: &'static [Overload],
    ) -> Type<'s> {
        let mut all_bool = true;
        for (arg, found) in call.args.iter().zip(given) {
            if !self.unknowns.fits(found, &Type::Bool) {
                self.mismatch(arg.id, &Type::Bool, found);
                all_bool = false;
            }
        }
        self.overloads[id] = overloads.iter().map(|o| o.id).collect();
        if all_bool { Type::Bool } else { Type::Error }
    }

    /// An element marked with `?` must be optional; the list then holds what is inside.
    fn element_type(&mut self, value: &Expr, is_optional: bool) -> Type<'s> {
        let found = self.types[value.id].clone();
        if !is_optional {
            return found;
        }
        match found {
            Type::Optional(inner) => (*inner).clone(),
            Type::Dyn => Type::Dyn,
            other => {
                self.mismatch(value.id, &Type::optional(other.clone()), &other);
                other
            }
        }
    }

    fn joined(&mut self, so_far: Option<Type<'s>>, next: Type<'s>) -> Type<'s> {
        match so_far {
            None => next,
            Some(so_far) if self.unknowns.fits(&so_far, &next) => so_far.more_general(next),
            // Mixed literals are judged later, once it is known where they stand.
            Some(_) => Type::Dyn,
        }
    }

    fn check_list(&mut self, elements: &mut [Element]) -> Type<'s> {
        let mut common = None;
        for element in elements {
            self.check(&mut element.value);
            let next = self.element_type(&element.value, element.optional);
            common = Some(self.joined(common, next));
        }
        Type::list(common.unwrap_or_else(|| self.unknowns.fresh()))
    }

    fn check_map(&mut self, entries: &mut [Entry]) -> Type<'s> {
        let (mut key_type, mut value_type) = (None, None);
        for entry in entries {
            self.check(&mut entry.key);
            let next = self.types[entry.key.id].clone();
            key_type = Some(self.joined(key_type, next));
            self.check(&mut entry.value);
            let next = self.element_type(&entry.value, entry.optional);
            value_type = Some(self.joined(value_type, next));
        }
        match (key_type, value_type) {
            (Some(key), Some(value)) => Type::map(key, value),
            _ => {
                let key = self.unknowns.fresh();
                let value = self.unknowns.fresh();
                Type::map(key, value)
            }
        }
    }

    fn check_fold(&mut self, fold: &mut Fold) -> Type<'s> {
        self.check(&mut fold.range);
        self.check(&mut fold.init);
        let range = self.unknowns.resolve(&self.types[fold.range.id]);
        let accumulated = self.types[fold.init.id].clone();
        let outer = self.scope.len();
        self.scope.push((fold.accumulator.clone(), accumulated.clone()));
        let (first, second) = match &range {
            Type::List(element) if fold.var2.is_some() => (Type::Int, (**element).clone()),
            Type::List(element) => ((**element).clone(), Type::Error),
            Type::Map(map) => (map.0.clone(), map.1.clone()),
            Type::Dyn | Type::Error | Type::Var(_) => {
                self.unknowns.fits(&Type::Dyn, &range);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be \
                     list, map, or dynamic)"
                );
                self.report(fold.range.id, message);
                (Type::Error, Type::Error)
            }
        };
        self.scope.push((fold.var.clone(), first));
        if let Some(var2) = &fold.var2 {
            self.scope.push((var2.clone(), second));
        }
        self.check(&mut fold.condition);
        self.expect(&fold.condition, &Type::Bool);
        self.check(&mut fold.step);
        self.expect(&fold.step, &accumulated);
        self.scope.truncate(outer + 1);
        self.check(&mut fold.result);
        self.scope.truncate(outer);
        self.unknowns.resolve(&self.types[fold.result.id])
    }

    fn expect(&mut self, expr: &Expr, wanted: &Type<'s>) {
        let found = self.types[expr.id].clone();
        if !self.unknowns.fits(wanted, &found) {
            self.mismatch(expr.id, wanted, &found);
        }
    }
}

fn type_of_literal<'s>(literal: &Literal) -> Type<'s> {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::Text(_) => Type::Text,
        Literal::Bytes(_) => Type::Bytes,
    }
}
