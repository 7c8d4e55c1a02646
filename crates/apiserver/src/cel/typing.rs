//! The types of expressions, and when one fits where another is wanted.

use std::fmt;
use std::rc::Rc;

use super::schema::Node;

/// How many constructors a type may be made of.
const MAX_TYPE_SIZE: usize = 1000;

/// The type of an expression. Objects are told apart by the name of the place in the schema where
/// they are declared, even if their fields agree.
#[derive(Clone, Debug)]
pub(super) enum Type<'s> {
    Dyn,
    /// The type of what has already been reported as wrong; fits everywhere.
    Error,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Timestamp,
    Duration,
    List(Rc<Self>),
    Map(Rc<(Self, Self)>),
    Optional(Rc<Self>),
    /// The type of a type.
    Kind(Rc<Self>),
    Object(Rc<str>, &'s Node),
    /// A value of a library: an address, a quantity, a URL and so on.
    Library(&'static str),
    /// Not known yet.
    Var(usize),
}

impl<'s> Type<'s> {
    pub(super) fn list(element: Self) -> Self {
        Self::List(Rc::new(element))
    }

    pub(super) fn map(key: Self, value: Self) -> Self {
        Self::Map(Rc::new((key, value)))
    }

    pub(super) fn optional(inner: Self) -> Self {
        Self::Optional(Rc::new(inner))
    }

    pub(super) fn is_dyn(&self) -> bool {
        matches!(self, Self::Dyn)
    }

    fn is_dyn_or_error(&self) -> bool {
        matches!(self, Self::Dyn | Self::Error)
    }

    /// Whether `null` may stand where this type is wanted.
    fn is_nullable(&self) -> bool {
        matches!(
            self,
            Self::Null
                | Self::Optional(_)
                | Self::Object(..)
                | Self::Library(_)
                | Self::Duration
                | Self::Timestamp
        )
    }

    /// Exactly the same type, unknowns included.
    pub(super) fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::List(a), Self::List(b))
            | (Self::Optional(a), Self::Optional(b))
            | (Self::Kind(a), Self::Kind(b)) => a.same(b),
            (Self::Map(a), Self::Map(b)) => a.0.same(&b.0) && a.1.same(&b.1),
            (Self::Object(a, _), Self::Object(b, _)) => a == b,
            (Self::Library(a), Self::Library(b)) => a == b,
            (Self::Var(a), Self::Var(b)) => a == b,
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }

    fn is_equal_or_less_specific(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Dyn | Self::Var(_), _) => true,
            (_, Self::Dyn | Self::Var(_)) => false,
            (Self::List(a), Self::List(b)) | (Self::Optional(a), Self::Optional(b)) => {
                a.is_equal_or_less_specific(b)
            }
            (Self::Map(a), Self::Map(b)) => {
                a.0.is_equal_or_less_specific(&b.0) && a.1.is_equal_or_less_specific(&b.1)
            }
            (Self::Kind(_), Self::Kind(_)) => true,
            _ => self.same(other),
        }
    }

    /// The wider of two types that fit each other.
    pub(super) fn more_general(self, other: Self) -> Self {
        if self.is_equal_or_less_specific(&other) { self } else { other }
    }

    /// Whether the type is so large that comparing such types would take long. Types share their
    /// parts, so a short expression can have a type that is exponentially large when written out.
    pub(super) fn is_too_large(&self) -> bool {
        fn count_nodes(t: &Type<'_>, left: &mut usize) {
            if *left == 0 {
                return;
            }
            *left -= 1;
            match t {
                Type::List(inner) | Type::Optional(inner) | Type::Kind(inner) => {
                    count_nodes(inner, left);
                }
                Type::Map(map) => {
                    count_nodes(&map.0, left);
                    count_nodes(&map.1, left);
                }
                _ => {}
            }
        }
        let mut left = MAX_TYPE_SIZE;
        count_nodes(self, &mut left);
        left == 0
    }

    /// The name of the type without its parameters, as formatting errors give it.
    pub(super) fn short_name(&self) -> String {
        match self {
            Self::List(_) => "list".to_owned(),
            Self::Map(_) => "map".to_owned(),
            Self::Optional(_) => "optional_type".to_owned(),
            Self::Kind(_) => "type".to_owned(),
            Self::Null => "null_type".to_owned(),
            Self::Timestamp => "google.protobuf.Timestamp".to_owned(),
            Self::Duration => "google.protobuf.Duration".to_owned(),
            _ => self.to_string(),
        }
    }
}

impl fmt::Display for Type<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn => f.write_str("dyn"),
            Self::Error => f.write_str("!error!"),
            Self::Null => f.write_str("null"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Uint => f.write_str("uint"),
            Self::Double => f.write_str("double"),
            Self::Text => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::Duration => f.write_str("duration"),
            Self::List(element) => write!(f, "list({element})"),
            Self::Map(map) => write!(f, "map({}, {})", map.0, map.1),
            Self::Optional(inner) => write!(f, "optional_type({inner})"),
            Self::Kind(inner) => write!(f, "type({inner})"),
            Self::Object(name, _) => f.write_str(name),
            Self::Library(name) => f.write_str(name),
            Self::Var(index) => write!(f, "_var{index}"),
        }
    }
}

/// What is known so far about the unknown types of one expression.
#[derive(Debug, Default)]
pub(super) struct Unknowns<'s> {
    bound: Vec<Option<Type<'s>>>,
    /// Earlier bindings, so that an attempt that fails leaves no trace.
    trail: Vec<(usize, Option<Type<'s>>)>,
}

impl<'s> Unknowns<'s> {
    pub(super) fn fresh(&mut self) -> Type<'s> {
        self.bound.push(None);
        Type::Var(self.bound.len() - 1)
    }

    fn bind(&mut self, var: usize, to: Type<'s>) {
        self.trail.push((var, self.bound[var].replace(to)));
    }

    /// Whether each of `given` fits where its counterpart is wanted; learns from success only.
    pub(super) fn all_fit(&mut self, given: &[Type<'s>], wanted: &[Type<'s>]) -> bool {
        self.trail.clear();
        let fit = given.len() == wanted.len()
            && given.iter().zip(wanted).all(|(given, wanted)| self.assignable(given, wanted));
        if !fit {
            while let Some((var, before)) = self.trail.pop() {
                self.bound[var] = before;
            }
        }
        fit
    }

    pub(super) fn fits(&mut self, given: &Type<'s>, wanted: &Type<'s>) -> bool {
        self.all_fit(std::slice::from_ref(given), std::slice::from_ref(wanted))
    }

    fn assignable(&mut self, t1: &Type<'s>, t2: &Type<'s>) -> bool {
        if let Type::Var(var) = t2 {
            let (valid, known) = self.substitutes(t1, *var);
            if valid || known {
                return valid;
            }
        }
        if let Type::Var(var) = t1 {
            return self.substitutes(t2, *var).0;
        }
        if t1.is_dyn_or_error() || t2.is_dyn_or_error() {
            return true;
        }
        match (t1, t2) {
            (Type::Null, other) | (other, Type::Null) => other.is_nullable(),
            (Type::Kind(_), Type::Kind(_)) => true,
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => {
                self.assignable(a, b)
            }
            (Type::Map(a), Type::Map(b)) => {
                self.assignable(&a.0, &b.0) && self.assignable(&a.1, &b.1)
            }
            _ => t1.same(t2),
        }
    }

    /// Whether `var` can be `to`, and whether something was known about it before.
    fn substitutes(&mut self, to: &Type<'s>, var: usize) -> (bool, bool) {
        if matches!(to, Type::Var(other) if *other == var) {
            return (true, true);
        }
        if let Some(known) = self.bound[var].clone() {
            if to.same(&known) {
                return (true, true);
            }
            if self.assignable(to, &known) {
                let general = to.clone().more_general(known);
                if !self.mentions(&general, var) {
                    self.bind(var, general);
                }
                return (true, true);
            }
            return (false, true);
        }
        if self.mentions(to, var) {
            return (false, false);
        }
        self.bind(var, to.clone());
        (true, false)
    }

    fn mentions(&self, within: &Type<'s>, var: usize) -> bool {
        match within {
            Type::Var(other) => {
                *other == var
                    || self.bound[*other].as_ref().is_some_and(|bound| self.mentions(bound, var))
            }
            Type::List(inner) | Type::Optional(inner) | Type::Kind(inner) => {
                self.mentions(inner, var)
            }
            Type::Map(map) => self.mentions(&map.0, var) || self.mentions(&map.1, var),
            _ => false,
        }
    }

    /// The type with everything known filled in.
    pub(super) fn resolve(&self, t: &Type<'s>) -> Type<'s> {
        self.filled(t, false)
    }

    /// The type with everything known filled in, and `dyn` for the rest.
    pub(super) fn resolve_to_dyn(&self, t: &Type<'s>) -> Type<'s> {
        self.filled(t, true)
    }

    fn filled(&self, t: &Type<'s>, to_dyn: bool) -> Type<'s> {
        match t {
            Type::Var(var) => match &self.bound[*var] {
                Some(bound) => self.filled(bound, to_dyn),
                None if to_dyn => Type::Dyn,
                None => t.clone(),
            },
            Type::List(inner) => Type::list(self.filled(inner, to_dyn)),
            Type::Optional(inner) => Type::optional(self.filled(inner, to_dyn)),
            Type::Kind(inner) => Type::Kind(Rc::new(self.filled(inner, to_dyn))),
            Type::Map(map) => Type::map(self.filled(&map.0, to_dyn), self.filled(&map.1, to_dyn)),
            _ => t.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_attempt_leaves_no_trace() {
        let mut unknowns = Unknowns::default();
        let var = unknowns.fresh();
        assert!(!unknowns.all_fit(&[Type::Int, Type::Text], &[var.clone(), var.clone()]));
        assert_eq!(unknowns.resolve_to_dyn(&var).to_string(), "dyn");
        assert!(unknowns.all_fit(&[Type::Int, Type::Int], &[var.clone(), var.clone()]));
        assert_eq!(unknowns.resolve_to_dyn(&Type::list(var)).to_string(), "list(int)");
    }

    #[test]
    fn an_unknown_cannot_contain_itself() {
        let mut unknowns = Unknowns::default();
        let var = unknowns.fresh();
        assert!(!unknowns.fits(&Type::list(var.clone()), &var));
    }

    #[test]
    fn null_fits_objects_but_not_scalars() {
        let mut unknowns = Unknowns::default();
        assert!(unknowns.fits(&Type::Null, &Type::Timestamp));
        assert!(!unknowns.fits(&Type::Null, &Type::Int));
    }
}
